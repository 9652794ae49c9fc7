//! Tests of dumps of etnaviv. The dumps are made here, in the form of the kernel's `etnaviv_dump.c`.

use super::*;
use crate::core_dumps::test_dumps::list_messages;
use trace_core::PhysAddr;
use trace_core::families::find_family;
use trace_core::memory::GpuMemoryView;
use trace_core::registers::RegisterMap;

const RING: u64 = 0x8000_0000;
const COMMANDS: u64 = 0x8001_0000;
const OBJECT: u64 = 0x8010_0000;

/// Returns a dump of these objects: type, address, first page, content.
fn dump_of(objects: &[(u32, u64, u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut offset = (objects.len() + 1) * HEADER_BYTES;
    let end = (TYPE_END, 0, 0, Vec::new());
    for (kind, iova, first, content) in objects.iter().chain([&end]) {
        out.extend(MAGIC);
        for word in [*kind, offset as u32, content.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend(iova.to_le_bytes());
        out.extend(first.to_le_bytes());
        out.extend([0; 4]);
        offset += content.len();
    }
    out.extend(objects.iter().flat_map(|o| o.3.iter().copied()));
    out
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn dump() -> Vec<u8> {
    let registers = [0x20, 0x2000, 0x24, 0x5108, 0x664, COMMANDS as u32 + 8];
    // A wait and a link to itself, as the driver's ring has them.
    let ring = [0x3800_00c8, 0, 0x4000_0002, RING as u32, 0, 0];
    let commands = [0x0801_0e03, 5, 0x2800_0000, 4, 0, 2, 0x4000_0002, RING as u32];
    let pages: Vec<u8> = [0x1234_5000u64, 0x2234_5000]
        .iter()
        .flat_map(|p| p.to_le_bytes())
        .collect();
    dump_of(&[
        (TYPE_REGISTERS, 0, 0, bytes_of(&registers)),
        (TYPE_TABLES, 0, 0, vec![1; 64]),
        (TYPE_RING, RING, 0, bytes_of(&ring)),
        (TYPE_COMMANDS, COMMANDS, 0, bytes_of(&commands)),
        (TYPE_PAGES, 0, 0, pages),
        (TYPE_OBJECT, OBJECT, 1, vec![7; 4096]),
        (17, 0, 0, vec![0; 8]),
    ])
}

fn read(bytes: &[u8]) -> Result<Recording, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(fits(&path), bytes.starts_with(&MAGIC));
    import(&path, &Progress::new())
}

#[test]
fn complete_dump_opens_with_registers_memory_and_commands() {
    let r = read(&dump()).unwrap();
    assert_eq!(r.metadata.identity.gpu_name, "Vivante GC2000 revision 0x5108");
    assert_eq!(find_family(&r).name(), "vivante");
    assert_eq!(RegisterMap::for_recording(&r).unwrap().name(), "vivante");
    let reads: Vec<_> = r.events.accesses(0..r.events.len()).filter(|(_, a)| !a.write).collect();
    assert_eq!(reads.len(), 3);
    let writes: Vec<_> = r.events.accesses(0..r.events.len()).filter(|(_, a)| a.write).collect();
    assert_eq!(
        writes
            .iter()
            .map(|(_, a)| (a.space, a.offset.get(), a.value))
            .collect::<Vec<_>>(),
        [(1, 0x380c, 5)]
    );
    let heads: Vec<u64> = r.events.submits.iter().map(|s| s.head_va.get()).collect();
    assert_eq!(heads, [RING, COMMANDS]);
    let marks: Vec<&str> = r.events.marks.iter().map(String::as_str).collect();
    assert!(
        marks.contains(&"0x80010008: DRAW_PRIMITIVES: type 4, first 0, 2 primitives"),
        "{marks:?}"
    );
    assert!(
        marks.contains(&"front end: the last command was read at 0x80010008"),
        "{marks:?}"
    );
    let errors = list_messages(&r, FindingKind::DriverError);
    assert_eq!(
        errors,
        ["the GPU hung in the command buffer at 0x80010000; the front end was at 0x80010008"]
    );
    let unused = list_messages(&r, FindingKind::NotUsed);
    assert!(
        unused.iter().any(|m| m.contains("1 × objects of the unknown type 17")),
        "{unused:?}"
    );
    assert!(unused.iter().any(|m| m.contains("page tables")), "{unused:?}");
    // The object is at the physical address of its page, which is the second of the list.
    let space = &r.metadata.address_spaces[0];
    let view = GpuMemoryView::new(r.memory.at(0), space);
    assert_eq!(view.read_range(GpuVa::new(OBJECT), 2).bytes, [7, 7]);
    let leaf = trace_core::mmu::translate(space.format, space.root, GpuVa::new(OBJECT), &r.memory.at(0)).unwrap();
    assert_eq!(leaf.pa, PhysAddr::new(0x2234_5000));
}

#[test]
fn truncated_dump_opens_as_far_as_it_goes() {
    let whole = dump();
    for cut in (32..whole.len()).step_by(13) {
        let r = read(whole.get(..cut).unwrap()).unwrap();
        assert!(!list_messages(&r, FindingKind::TruncatedSection).is_empty(), "{cut}");
        assert!(trace_core::container::to_bytes(&r).is_ok());
    }
    let e = read(b"ETNA\0\0\0").unwrap_err().to_string();
    assert!(e.contains("does not begin with a header"), "{e}");
}

#[test]
fn hostile_headers_take_no_memory() {
    let mut bytes = dump();
    // A size of four gigabytes, and an address beyond those of a recording.
    bytes[5 * 32 + 12..5 * 32 + 16].copy_from_slice(&u32::MAX.to_le_bytes());
    bytes[5 * 32 + 16..5 * 32 + 24].copy_from_slice(&u64::MAX.to_le_bytes());
    let r = read(&bytes).unwrap();
    assert!(
        list_messages(&r, FindingKind::NotUsed)
            .iter()
            .any(|m| m.contains("end beyond addresses"))
    );
    assert!(!list_messages(&r, FindingKind::TruncatedSection).is_empty());
}
