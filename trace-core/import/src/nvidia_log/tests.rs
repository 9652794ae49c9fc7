//! Tests of small logs, made record by record.

mod faults;

use super::format_check::is_log;
use super::*;
use trace_core::recording::{EventKind, NO_CONTENT, ObjectAction, ObjectRow, RingEntryRow, SaveReason, UndecodedRow};

/// Bytes of fields, each with its own size.
fn fields(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn record(kind: u32, content: &[u8]) -> Vec<u8> {
    let head = fields(&[kind, content.len() as u32, 5, 0, 7, 0]);
    [head, content.to_vec()].concat()
}

fn name(text: &str, bytes: usize) -> Vec<u8> {
    let mut name = text.as_bytes().to_vec();
    name.resize(bytes, 0);
    name
}

fn opened() -> Vec<u8> {
    record(1, &[fields(&[4, 2, 0, 0]), name("/dev/nvidiactl", 48)].concat())
}

/// An ioctl to a file, whose argument is the same before and after it.
fn ioctl(file: &str, request: u32, argument: &[u8], nested: &[u8]) -> Vec<u8> {
    let is_uvm = u32::from(file == "nvidia-uvm");
    let (size, nested_size) = (argument.len() as u32, nested.len() as u32);
    let head = fields(&[4, 0, 0, size, nested_size, is_uvm, request, 0, 900, 0]);
    record(
        3,
        &[&head, &name(file, 24), argument, argument, nested, nested].concat(),
    )
}

/// An allocation of an object of client 1.
fn allocate(parent: u32, handle: u32, class: u32, nested: &[u8], status: u32) -> Vec<u8> {
    let argument = fields(&[1, parent, handle, class, 0, 0, 0, 0, 0, 0, status, 0]);
    ioctl("nvidiactl", 0xc030_462b, &argument, nested)
}

/// A mapping of a buffer of client 1 at 0x1000 bytes in space object 9.
fn map(handle: u32, offset: u32, va: u32) -> Vec<u8> {
    let argument = fields(&[1, 2, 9, handle, offset, 0, 0x1000, 0, 0, 0, 0, 0, va, 0, 0, 0]);
    ioctl("nvidiactl", 0xc040_4657, &argument, &[])
}

/// The record of a recorder whose times start at 0x100000005 ns, in process 77.
fn recorder(version: &str) -> Vec<u8> {
    let head = fields(&[5, 1, 77, 0]);
    record(13, &[head, name(version, 40), b"program\0argument\0".to_vec()].concat())
}

fn ring_entry(entry: u64, has_commands: bool) -> Vec<u8> {
    let words = [3, 0, entry as u32, (entry >> 32) as u32, u32::from(has_commands), 1];
    record(8, &fields(&words))
}

fn push_buffer(va: u64, words: &[u32]) -> Vec<u8> {
    record(9, &[&va.to_le_bytes()[..], &fields(words)].concat())
}

fn doorbell(address: u64, value: u32, kind: u32) -> Vec<u8> {
    let code = [0x0f, 0xb1, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    record(
        10,
        &[&address.to_le_bytes()[..], &[0; 8], &code, &fields(&[value, kind])].concat(),
    )
}

fn import_parts(parts: &[Vec<u8>]) -> Result<Recording, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.klog");
    std::fs::write(&path, parts.concat()).unwrap();
    import(&path, &Progress::new())
}

/// Returns kinds and places of the findings, without that about the version.
fn findings(r: &Recording) -> Vec<(FindingKind, &str)> {
    let all = r.metadata.findings.iter().filter(|f| f.place != "arguments");
    all.map(|f| (f.kind, f.place.as_str())).collect()
}

fn objects(r: &Recording) -> Vec<(u32, u32, u64)> {
    r.events
        .objects
        .iter()
        .map(|o| (o.action, o.handle, o.address.get()))
        .collect()
}

/// Returns the bytes that an event stores.
fn stored(r: &Recording, event: usize) -> Vec<u8> {
    let content = r.events.stored_content(event).unwrap();
    let rows = content.rows().unwrap();
    let mut bytes = Vec::new();
    for row in rows {
        let id = r.events.call_pages.get(row as usize).unwrap();
        bytes.extend_from_slice(&r.memory.pages.page(trace_core::recording::PageId(id)).unwrap()[..]);
    }
    let from = content.va.in_page();
    bytes[from..from + content.bytes as usize].to_vec()
}

#[test]
fn logs_are_recognised_by_their_records() {
    let mark = record(7, b"start");
    assert!(is_log(&[mark.clone(), opened()].concat()));
    let whole = [opened(), mark.clone()].concat();
    assert!(is_log(&whole[..whole.len() - 1]));
    assert!(!is_log(&mark));
    assert!(!is_log(b"open /dev/nvidiactl"));
    assert!(!is_log(&[opened(), vec![1; 24]].concat()));
    // The log of a program that was killed.
    assert!(is_log(&[opened(), vec![0; 24]].concat()));
    assert!(is_log(&recorder("580.159.04")));
    assert!(!is_log(&[opened(), record(13, b"")].concat()));
    assert!(!is_log(&[opened(), record(2, b"")].concat()));
}

#[test]
fn refused_requests_make_no_object() {
    let r = import_parts(&[allocate(1, 2, 0x80, &[], 0x22), allocate(1, 2, 0x80, &[], 0)]).unwrap();
    let results: Vec<u32> = r.events.calls.iter().map(|c| c.result).collect();
    assert_eq!(results, [0x22, 0]);
    assert_eq!(objects(&r), [(ObjectAction::Create as u32, 2, ObjectRow::UNKNOWN)]);
    assert_eq!(r.driver_trace().unwrap().names, ["RM_ALLOC NV01_DEVICE_0"]);
    let kinds: Vec<_> = (0..3).map(|e| r.events.kind(e).unwrap()).collect();
    assert_eq!(kinds, [EventKind::Call, EventKind::Call, EventKind::Object]);
}

#[test]
fn freed_objects_take_those_below_them_along() {
    let free = |handle| ioctl("nvidiactl", 0xc010_4629, &fields(&[1, 1, handle, 0]), &[]);
    let parts = [
        allocate(1, 2, 0x80, &[], 0),
        allocate(2, 3, 0x2080, &[], 0),
        free(2),
        free(3),
    ];
    let r = import_parts(&parts).unwrap();
    let actions: Vec<_> = r.events.objects.iter().map(|o| (o.action, o.handle)).collect();
    let (create, freed) = (ObjectAction::Create as u32, ObjectAction::Free as u32);
    assert_eq!(actions, [(create, 2), (create, 3), (freed, 2)]);
    let at = format!("byte {:#x}", parts[..3].concat().len());
    assert_eq!(findings(&r), [(FindingKind::NotUsed, at.as_str())]);
}

#[test]
fn ranges_of_unified_memory_are_unmapped_by_their_address() {
    let mut argument = vec![0; 9264];
    argument[1] = 0x50;
    argument[9] = 0x10;
    argument[9252] = 1;
    argument[9256] = 6;
    let free = fields(&[0x5000, 0, 0x1000, 0, 0, 0]);
    let parts = [
        ioctl("nvidia-uvm", 0x21, &argument, &[]),
        ioctl("nvidia-uvm", 0x22, &free, &[]),
        ioctl("nvidia-uvm", 0x22, &free, &[]),
    ];
    let r = import_parts(&parts).unwrap();
    let (mapped, unmapped) = (ObjectAction::Map as u32, ObjectAction::Unmap as u32);
    assert_eq!(objects(&r), [(mapped, 6, 0x5000), (unmapped, 6, 0x5000)]);
}

#[test]
fn commands_lie_in_pages_at_the_offset_of_their_address() {
    // Three words at 0x1ff8, in two pages.
    let entry = 0x1ff8 | 3 << 42;
    let r = import_parts(&[ring_entry(entry, true), push_buffer(0x1ff8, &[1, 2, 3])]).unwrap();
    assert_eq!(stored(&r, 0), fields(&[1, 2, 3]));
    assert_eq!(r.events.call_pages.len(), 2);
    assert_eq!(findings(&r), []);
}

#[test]
fn control_entries_set_the_upper_bits_of_addresses() {
    let base = 4 << 32 | 1 << 8;
    let parts = [
        ring_entry(base, false),
        ring_entry(0x1000 | 1 << 42, true),
        push_buffer(0x1000, &[9]),
    ];
    let r = import_parts(&parts).unwrap();
    let entries: Vec<RingEntryRow> = r.events.ring_entries.iter().collect();
    assert_eq!((entries[0].bytes, entries[0].pages_at), (0, NO_CONTENT));
    assert_eq!(entries[1].va.get(), 1 << 40 | 0x1000);
    assert_eq!(stored(&r, 1), fields(&[9]));
}

#[test]
fn missing_cut_and_stray_commands_are_findings() {
    let entry = 0x1000 | 2 << 42;
    let parts = [
        ring_entry(entry, true),
        push_buffer(0x1000, &[1]),
        ring_entry(entry, true),
        push_buffer(0x2000, &[1, 2]),
        ring_entry(entry, false),
    ];
    let r = import_parts(&parts).unwrap();
    let sizes: Vec<_> = r
        .events
        .ring_entries
        .iter()
        .map(|e| (e.bytes, e.pages_at == NO_CONTENT))
        .collect();
    assert_eq!(sizes, [(4, false), (8, true), (8, true)]);
    let kinds: Vec<_> = findings(&r).iter().map(|(kind, _)| *kind).collect();
    let content = FindingKind::MappedWithoutContent;
    assert_eq!(kinds, [content, content, FindingKind::NotUsed]);
}

#[test]
fn saved_pages_get_the_address_of_their_buffer() {
    let page = |offset: u32, handle: u32| {
        let head = fields(&[0, 0, offset, 0, handle, 0]);
        record(6, &[head, vec![1; 4096]].concat())
    };
    let parts = [
        map(6, 0x2000, 0x9000),
        page(0x2000, 6),
        page(0x4000, 6),
        ring_entry(0x1000 | 1 << 42, false),
        page(0x2000, 6),
        record(12, &[&0x7ffcu64.to_le_bytes()[..], &[5; 8]].concat()),
    ];
    let r = import_parts(&parts).unwrap();
    let saved: Vec<_> = r
        .events
        .saved_memory
        .iter()
        .map(|s| (s.va.get(), s.bytes, s.reason))
        .collect();
    let [start, result, source] = [SaveReason::Start, SaveReason::Result, SaveReason::CopySource].map(|r| r as u32);
    assert_eq!(
        saved,
        [(0x9000, 4096, start), (0x9000, 4096, result), (0x7ffc, 8, source)]
    );
    assert_eq!(stored(&r, r.events.len() - 1), [5; 8]);
    let at = format!("byte {:#x}", parts[..2].concat().len());
    assert!(findings(&r).contains(&(FindingKind::NotUsed, at.as_str())));
}

#[test]
fn doorbells_have_offsets_in_their_page() {
    let mapped = |handle: u32| {
        let numbers = [0, 0x1_0000, 0, 0x7f00_0000].map(u64::to_le_bytes).concat();
        record(4, &[numbers, fields(&[3, 1, 4, handle]), name("nvidia0", 24)].concat())
    };
    let parts = [
        allocate(1, 2, 0xc661, &[], 0),
        mapped(2),
        doorbell(0x7f00_0090, 7, 0),
        doorbell(0x7f00_0094, 0, 1),
        doorbell(0x7f00_0090, 0, 2),
        doorbell(0x5554_0090, 8, 0),
    ];
    let r = import_parts(&parts).unwrap();
    let accesses: Vec<_> = r
        .events
        .accesses(0..r.events.len())
        .map(|(_, a)| (a.write, a.offset.get(), a.value))
        .collect();
    assert_eq!(accesses, [(true, 0x90, 7), (true, 0x90, 8)]);
    let undecoded: Vec<UndecodedRow> = r.events.undecoded.iter().collect();
    assert_eq!((undecoded[0].write(), undecoded[0].offset.get()), (Some(false), 0x94));
    assert_eq!((undecoded[1].write(), undecoded[1].code), (None, 0x0f_b108));
    let at = format!("byte {:#x}", parts[..5].concat().len());
    assert_eq!(findings(&r), [(FindingKind::Assumed, at.as_str())]);
    assert_eq!(r.driver_trace().unwrap().names[1], "mmap /dev/nvidia0");
}

#[test]
fn version_and_name_of_the_gpu_are_those_that_the_driver_states() {
    let version = [fields(&[0, 1]), name("580.159.04", 64)].concat();
    let mut cards = vec![0; 144];
    (cards[0], cards[12], cards[13], cards[14], cards[15]) = (1, 0xde, 0x10, 0x30, 0x23);
    let parts = [
        ioctl("nvidiactl", 0xc048_46d2, &version, &[]),
        ioctl("nvidiactl", 0xc090_46c8, &cards, &[]),
    ];
    let r = import_parts(&parts).unwrap();
    assert_eq!(r.driver_trace().unwrap().driver_version, "580.159.04");
    assert_eq!(r.metadata.identity.gpu_name, "PCI 10de:2330");
    assert_eq!(r.metadata.findings, []);
}

#[test]
fn unusable_records_are_findings() {
    let mut long = fields(&[3, 64 << 20, 0, 0, 7, 0]);
    long.extend([0; 100]);
    let parts = [opened(), record(2, b"x"), record(40, b"new"), long];
    let r = import_parts(&parts).unwrap();
    let at = |n: usize| format!("byte {:#x}", parts[..n].concat().len());
    assert_eq!(
        findings(&r),
        [
            (FindingKind::TruncatedSection, at(3).as_str()),
            (FindingKind::NotUsed, at(2).as_str()),
            (FindingKind::NotUsed, at(1).as_str())
        ]
    );
    assert!(r.metadata.findings[0].message.contains("100 of 67108864 bytes"));
    let damaged = import_parts(&[opened(), vec![0xff; 24]]).unwrap();
    assert_eq!(findings(&damaged)[0].0, FindingKind::TruncatedSection);
    let error = import_parts(&[vec![0; 24]]).unwrap_err().to_string();
    assert!(error.contains("no record begins here"), "{error}");
}

#[test]
fn recorder_states_version_process_and_clock() {
    let r = import_parts(&[recorder("595.45.04"), opened()]).unwrap();
    let driver = r.driver_trace().unwrap();
    assert_eq!(driver.driver_version, "595.45.04");
    assert_eq!((driver.clock_start, driver.process), (Some(0x1_0000_0005), Some(77)));
    assert!(r.metadata.findings.iter().all(|f| f.place != "arguments"));
    // The version decides the forms: a mapping of branch 570 has 56 bytes.
    let argument = fields(&[1, 2, 9, 5, 0, 0, 0x1000, 0, 0, 0, 0x7000, 0, 0, 0]);
    let map = ioctl("nvidiactl", 0xc038_4657, &argument, &[]);
    let r = import_parts(&[recorder("570.211.01"), map]).unwrap();
    assert_eq!(objects(&r), [(ObjectAction::Map as u32, 5, 0x7000)]);
}

#[test]
fn a_recording_that_ends_early_says_so() {
    let parts = [
        recorder("580.159.04"),
        opened(),
        record(14, b"the log reached its limit"),
        vec![0; 100],
    ];
    let r = import_parts(&parts).unwrap();
    assert_eq!(r.metadata.lost.len(), 1);
    assert_eq!((r.metadata.lost[0].before_event, r.metadata.lost[0].count), (1, None));
    assert_eq!(r.metadata.lost[0].reason, "the log reached its limit");
    assert_eq!(r.events.marks, ["the recording ends: the log reached its limit"]);
}

#[test]
fn gaps_are_findings() {
    let gap = |kind: u32| record(15, &fields(&[kind, 3, 0x1000, 0, 64, 0]));
    let r = import_parts(&[opened(), gap(1), gap(1), gap(2), gap(3), gap(4), gap(5)]).unwrap();
    let found: Vec<(FindingKind, bool)> = r
        .metadata
        .findings
        .iter()
        .filter(|f| f.place != "arguments")
        .map(|f| (f.kind, f.message.starts_with("2 copies read video memory")))
        .collect();
    let not_recorded = |is_first| (FindingKind::NotRecorded, is_first);
    assert_eq!(found.iter().filter(|f| **f == not_recorded(true)).count(), 1);
    assert_eq!(found.iter().filter(|f| **f == not_recorded(false)).count(), 3);
    // A kind that is not known.
    assert_eq!(found.iter().filter(|f| f.0 == FindingKind::NotUsed).count(), 1);
}
