//! Tests of dumps against Mesa's reader, and of damaged dumps.

use super::*;
use crate::test_recordings::recordings;
use flate2::Crc;
use trace_core::memory::GpuMemoryView;
use trace_core::registers::RegisterMap;

fn crc(parts: &[&[u8]]) -> u32 {
    let mut crc = Crc::new();
    parts.iter().for_each(|p| crc.update(p));
    crc.sum()
}

/// Returns a header of this type, with the words that depend on it.
fn header(kind: u32, bytes: u32, offset: u32, rest: &[u32]) -> Vec<u8> {
    let words = [MAGIC, kind, bytes, offset];
    let mut out: Vec<u8> = words.iter().chain(rest).flat_map(|w| w.to_le_bytes()).collect();
    out.resize(HEADER_BYTES as usize, 0);
    out
}

/// Returns a dump of one object of two pages at 0x10000, its pages at 0x80000000 and 0x70000000; the root is at 0x5000.
fn dump() -> Vec<u8> {
    let at = 4 * HEADER_BYTES as u32;
    let mut out = header(TYPE_REGISTERS, 32, at, &[0x10040, 0, 0x6000, 1, 0, 0, 1, 0]);
    out.extend(header(TYPE_PAGES, 24, at + 32, &[]));
    out.extend(header(TYPE_OBJECT, 8192, at + 56, &[1, 0, 0x10000, 0, 1, 0]));
    out.extend(header(TYPE_TRAILER, 0, 0, &[]));
    for (register, value) in [(0x1884u32, 0u32), (0x2440, 0x5007), (0x2444, 0), (0x2448, 0x88)] {
        out.extend(register.to_le_bytes().into_iter().chain(value.to_le_bytes()));
    }
    for page in [0x1234_5000u64, 0x8000_0000, 0x7000_0000] {
        out.extend(page.to_le_bytes());
    }
    out.extend([[1; 4096], [2; 4096]].concat());
    out
}

fn read(bytes: &[u8]) -> Result<Recording, ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.panfrostdump");
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(fits(&path), bytes.starts_with(b"PANF"));
    import(&path, &Progress::new())
}

fn kinds(r: &Recording) -> Vec<FindingKind> {
    r.metadata.findings.iter().map(|f| f.kind).collect()
}

#[test]
fn dump_memory_is_at_its_recorded_addresses() {
    let r = read(&dump()).unwrap();
    assert_eq!(kinds(&r), [FindingKind::Assumed]);
    assert_eq!(r.metadata.identity.gpu_id, 0x6000_0000);
    let [space] = &r.metadata.address_spaces[..] else {
        panic!("{:?}", r.metadata)
    };
    assert_eq!(
        (space.number, space.root, space.memattr),
        (1, PhysAddr::new(0x5000), 0x88)
    );
    let row = r.events.submits.get(0).unwrap();
    assert_eq!((row.head_va, row.slot), (GpuVa::new(0x10040), 1));
    let view = GpuMemoryView::new(r.memory.at(0), space);
    assert_eq!(view.read_range(GpuVa::new(0x10ffe), 4).bytes, [1, 1, 2, 2]);
    let memory = r.memory.at(0);
    let leaf = trace_core::mmu::translate(space.format, space.root, GpuVa::new(0x11000), &memory).unwrap();
    assert_eq!((leaf.pa, leaf.rights), (PhysAddr::new(0x7000_0000), EVERY_RIGHT));
    assert_eq!((r.metadata.source_pages, r.metadata.buffers.len()), (2, 1));
    assert_eq!(r.source_distinct_pages(), 2);
}

#[test]
fn damaged_rd_file_is_reported_and_the_rest_imported() {
    let valid = dump();
    let e = read(&valid[..1999]).unwrap_err().to_string();
    assert!(e.contains("does not begin with registers"), "{e}");
    // A dump cut anywhere after the first header is read as far as possible, and the damage is reported.
    for cut in (2000..valid.len()).step_by(37) {
        let r = read(&valid[..cut]).unwrap();
        assert!(
            kinds(&r).contains(&FindingKind::TruncatedSection),
            "{cut}: {:?}",
            r.metadata.findings
        );
    }
    let change = |at: usize, to: &[u8]| {
        let mut bytes = valid.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        read(&bytes).unwrap()
    };
    // A length that the file cannot have is refused before memory is taken.
    let r = change(4000 + 8, &u32::MAX.to_le_bytes());
    assert!(
        r.metadata
            .findings
            .iter()
            .any(|f| f.message.contains("more bytes than the file has"))
    );
    // An object that was not mapped, one past the address range, one at an odd address.
    for (at, to, text) in [
        (4000 + 16, 0u64, "was not mapped"),
        (4000 + 24, u64::MAX << 12, "no buffer object has"),
        (4000 + 24, 0x10001, "no buffer object has"),
        (4000 + 32, 7, "have no page address"),
    ] {
        let r = change(at, &to.to_le_bytes());
        assert!(
            r.metadata.findings.iter().any(|f| f.message.contains(text)),
            "{text}: {:?}",
            r.metadata.findings
        );
    }
    // Invalid page addresses.
    for address in [0x8000_0001u64, 1 << 48] {
        let r = change(8000 + 32 + 8, &address.to_le_bytes());
        assert!(kinds(&r).contains(&FindingKind::NotUsed));
    }
    // The root is inside an object: the tables go elsewhere.
    let r = change(8000 + 12, &0x8000_0007u32.to_le_bytes());
    assert_ne!(r.metadata.address_spaces[0].root, PhysAddr::new(0x8000_0000));
    let view = GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[0]);
    assert_eq!(view.read_range(GpuVa::new(0x10000), 2).bytes, [1, 1]);
}

#[test]
fn real_dumps_match_mesas_reader() {
    let Some(folder) = recordings("panfrost") else { return };
    let mut objects = 0;
    let lines = include_str!("mesa-reader.txt").lines().filter(|l| !l.starts_with('#'));
    let mut read = 0;
    for line in lines {
        let messages: Vec<&str> = line.split(' ').collect();
        let [name, head, product, registers, lines, bos @ ..] = &messages[..] else {
            panic!("{line}")
        };
        let hex = |t: &str| u64::from_str_radix(t, 16).unwrap();
        let r = import(&folder.join(name), &Progress::new()).unwrap();
        assert_eq!(kinds(&r), [FindingKind::Assumed], "{name}");
        assert_eq!(
            r.events.submits.get(0).unwrap().head_va,
            GpuVa::new(hex(head)),
            "{name}"
        );
        assert_eq!(u64::from(r.metadata.identity.gpu_id >> 16), hex(product), "{name}");
        assert!(RegisterMap::for_recording(&r).is_some(), "{name}");
        let accesses: Vec<_> = r.events.accesses(0..r.events.len()).map(|(_, a)| a).collect();
        assert_eq!(accesses.len().to_string(), *registers, "{name}");
        let text: String = accesses
            .iter()
            .map(|a| format!("{:04X} {:08X}\n", a.offset, a.value))
            .collect();
        assert_eq!(u64::from(crc(&[text.as_bytes()])), hex(lines), "{name}");
        let view = GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[0]);
        let imported: Vec<String> = r
            .metadata
            .buffers
            .iter()
            .map(|b| {
                let contents = view.read_range(b.va, b.bytes).bytes;
                format!("{:X}:{:X}:{:08x}", b.va.get(), b.bytes, crc(&[&contents]))
            })
            .collect();
        assert_eq!(imported, bos, "{name}");
        (objects, read) = (objects + imported.len(), read + 1);
    }
    assert_eq!((read, objects), (22, 144), "dumps and buffer objects");
}

#[test]
fn the_chain_of_a_real_dump_decodes() {
    let Some(folder) = recordings("panfrost") else { return };
    let r = import(&folder.join("g71/saxpy/submit000.panfrostdump"), &Progress::new()).unwrap();
    let view = GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[0]);
    let chain = trace_core::families::mali_jm::read_chain(&view, r.events.submits.get(0).unwrap().head_va);
    assert!(
        !chain.jobs.is_empty() && chain.jobs.iter().all(|j| j.header.is_ok()),
        "{chain:?}"
    );
    let found = trace_core::check::check(&r);
    assert!(
        found.iter().all(|f| f.severity == trace_core::finding::Severity::Note),
        "{found:?}"
    );
}
