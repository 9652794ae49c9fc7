//! Tests of dumps of panthor. The dumps are made here, in the form of the patches of 2024.

use super::*;
use crate::core_dumps::test_dumps::{assert_used_whole, list_messages};
use trace_core::families::find_family;
use trace_core::memory::GpuMemoryView;

fn section(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for word in [kind, 16, content.len() as u32] {
        out.extend(word.to_le_bytes());
    }
    out.extend(content);
    out
}

fn mapping(va: u64, words: &[u64]) -> Vec<u8> {
    let mut content = va.to_le_bytes().to_vec();
    content.extend((words.len() as u64 * 8).to_le_bytes());
    content.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    section(TYPE_MAPPING, &content)
}

const RING: u64 = 0x1_0000;
const CALLED: u64 = 0x2_0000;

/// Returns a dump of a Mali-G610 whose queue has three instructions over the end of its ring.
fn dump() -> Vec<u8> {
    let ring = [
        2 << 56 | 4 << 48 | 16,
        32 << 56 | 2 << 40 | 4 << 32,
        0,
        1 << 56 | 2 << 48 | CALLED,
    ];
    let called = [2 << 56 | 9 << 48 | 77, 47 << 56];
    let mut queue = [1u32, 3].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    for word in [RING, 0x130, 0x118, 32] {
        queue.extend(word.to_le_bytes());
    }
    [
        section(TYPE_VERSION, &[1, 0, 0, 0, 0, 0, 0, 0]),
        section(TYPE_GPU, &[0, 0, 0x07, 0xa8, 1, 0, 0, 0]),
        mapping(RING, &ring),
        mapping(CALLED, &called),
        section(TYPE_GROUP, &[1, 0, 0, 0, 8, 0, 0, 0]),
        section(TYPE_QUEUE, &queue),
    ]
    .concat()
}

fn read(bytes: &[u8]) -> Result<Recording, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(fits(&path), bytes.starts_with(&MAGIC));
    import(&path, &Progress::new())
}

#[test]
fn complete_dump_opens_with_memory_and_instructions() {
    let r = read(&dump()).unwrap();
    assert_eq!(r.metadata.identity.tool, "panthor devcoredump 1.0");
    assert_eq!(r.metadata.identity.gpu_name, "Mali-G610");
    assert_eq!(find_family(&r).name(), "mali-csf");
    let heads: Vec<(u64, u32)> = r.events.submits.iter().map(|s| (s.head_va.get(), s.slot)).collect();
    assert_eq!(heads, [(RING + 24, 3)]);
    let writes: Vec<_> = r.events.accesses(0..r.events.len()).filter(|(_, a)| a.write).collect();
    let writes: Vec<_> = writes.iter().map(|(_, a)| (a.offset.get(), a.value)).collect();
    assert_eq!(writes, [(8, CALLED), (12, 0), (16, 16), (36, 77)]);
    let marks: Vec<&str> = r.events.marks.iter().map(String::as_str).collect();
    assert!(marks.contains(&"0x10028: CALL: address d2, length r4"), "{marks:?}");
    assert!(marks.contains(&"0x20008: ERROR_BARRIER"), "{marks:?}");
    assert!(list_messages(&r, FindingKind::DriverError)[0].starts_with("a fault in queue 3"));
    let view = GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[0]);
    assert_eq!(view.read_range(GpuVa::new(CALLED), 1).bytes, [77]);
    assert_used_whole(&r);
}

#[test]
fn truncated_dump_opens_as_far_as_it_goes() {
    let whole = dump();
    let mut ends = Vec::new();
    let mut at = 0;
    while at < whole.len() {
        at += 16 + u32::from_le_bytes(whole[at + 12..at + 16].try_into().unwrap()) as usize;
        ends.push(at);
    }
    for cut in 16..whole.len() {
        let r = read(whole.get(..cut).unwrap()).unwrap();
        let is_reported = !list_messages(&r, FindingKind::TruncatedSection).is_empty();
        assert!(is_reported || ends.contains(&cut), "{cut}: {:?}", r.metadata.findings);
    }
}

#[test]
fn unknown_and_hostile_sections_are_reported() {
    let mut bytes = dump();
    bytes.extend(section(99, &[1, 2, 3]));
    bytes.extend(mapping(u64::MAX - 7, &[1]));
    bytes.extend(b"what follows is no header");
    let r = read(&bytes).unwrap();
    let unused = list_messages(&r, FindingKind::NotUsed);
    assert!(
        unused.contains(&"1 × sections of the unknown type 99: not used"),
        "{unused:?}"
    );
    assert!(unused.iter().any(|m| m.contains("end beyond addresses")), "{unused:?}");
    assert!(list_messages(&r, FindingKind::TruncatedSection)[0].starts_with("no header of a dump is here"));
    let mut endless = section(TYPE_QUEUE, &[0xff; 40]);
    endless.extend(section(TYPE_QUEUE, &[0; 4]));
    assert!(!list_messages(&read(&endless).unwrap(), FindingKind::TruncatedSection).is_empty());
    assert!(read(b"PANT").is_err());
}
