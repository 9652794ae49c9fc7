//! Compares imported logs of requests to NVIDIA's kernel driver with the listings of another reader.
//!
//! `nvidia/h100-rm-client.klog.gz` is from a program that opens an H100 without NVIDIA's libraries and runs kernels.
//! `nvidia/h100-cuda-vadd.klog.gz` is from a program of CUDA's driver API; bytes of NVIDIA's own code are zeros in it.
//! The listings next to them have one line for each record. The reader that made them shares no code with the importer.

use super::open;
use flate2::read::GzDecoder;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::container;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{
    CallRow, EventKind, ObjectAction, ObjectKind, ObjectRow, Recording, RingEntryRow, SaveReason,
};
use trace_import::nvidia_log;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvidia").join(name)
}

fn rm_client() -> (Recording, String) {
    let listing = std::fs::read_to_string(fixture("h100-rm-client.txt")).unwrap();
    (open(&fixture("h100-rm-client.klog.gz")), listing)
}

fn cuda_vadd() -> (Recording, String) {
    let mut listing = String::new();
    let packed = std::fs::File::open(fixture("h100-cuda-vadd.txt.gz")).unwrap();
    GzDecoder::new(packed).read_to_string(&mut listing).unwrap();
    (open(&fixture("h100-cuda-vadd.klog.gz")), listing)
}

/// Returns the number after `NAME=` in a line of a listing.
fn field(line: &str, name: &str) -> u64 {
    let start = line.find(&format!(" {name}=")).unwrap() + name.len() + 2;
    let word = line[start..].split([' ', '}']).next().unwrap();
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => word.parse().unwrap(),
    }
}

/// Returns the lines of a listing that have a word after their time.
fn lines<'a>(listing: &'a str, word: &str) -> Vec<&'a str> {
    let of_word = |line: &&str| line.split_ascii_whitespace().nth(1) == Some(word);
    listing.lines().filter(of_word).collect()
}

/// Returns the ioctls of a listing that have a name.
fn ioctls<'a>(listing: &'a str, name: &str) -> Vec<&'a str> {
    let of_name = |line: &&str| line.split_ascii_whitespace().nth(4) == Some(name);
    lines(listing, "ioctl").into_iter().filter(of_name).collect()
}

fn calls(r: &Recording) -> Vec<(String, CallRow)> {
    let name = |c: &CallRow| r.driver_trace().unwrap().name(c.name).unwrap().to_owned();
    r.events.calls.iter().map(|c| (name(&c), c)).collect()
}

/// Returns the ioctls of a recording: the calls with a request.
fn recorded_ioctls(r: &Recording) -> Vec<(String, CallRow)> {
    let is_ioctl = |(name, _): &(String, CallRow)| {
        !["open ", "close", "mmap ", "munmap"]
            .iter()
            .any(|other| name.starts_with(other))
    };
    calls(r).into_iter().filter(is_ioctl).collect()
}

fn objects(r: &Recording, action: ObjectAction) -> Vec<ObjectRow> {
    r.events.objects.iter().filter(|o| o.action == action as u32).collect()
}

fn count(r: &Recording, kind: EventKind) -> usize {
    r.events.kind.iter().filter(|k| *k == kind as u8).count()
}

fn of_kind(rows: &[ObjectRow], kind: ObjectKind) -> Vec<ObjectRow> {
    rows.iter().filter(|o| o.kind == kind as u32).copied().collect()
}

/// Returns the words of a ring entry.
fn words(r: &Recording, row: &RingEntryRow) -> Vec<u32> {
    let stored = row.stored();
    let rows = stored.rows().unwrap();
    let mut bytes = Vec::new();
    for at in rows {
        let id = r.events.call_pages.get(at as usize).unwrap();
        bytes.extend_from_slice(&r.memory.pages.page(trace_core::recording::PageId(id)).unwrap()[..]);
    }
    let from = row.va.in_page();
    let bytes = &bytes[from..from + row.bytes as usize];
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|w| u32::from_le_bytes(*w))
        .collect()
}

/// Compares what both listings have: allocations, ring entries, times and threads.
fn compare(r: &Recording, listing: &str) {
    let listed = lines(listing, "ioctl");
    let recorded = recorded_ioctls(r);
    assert_eq!(recorded.len(), listed.len());
    for ((name, row), line) in recorded.iter().zip(&listed) {
        assert_eq!(u64::from(row.about), field(line, "fd"), "{line}");
        let took = line.rsplit_once('(').unwrap().1.strip_suffix(" us)").unwrap();
        assert_eq!(u64::from(row.took) / 1000, took.parse::<u64>().unwrap(), "{line}");
        let request = line.split_ascii_whitespace().nth(4).unwrap();
        if let Some((class, _)) = line.split_once("RM_ALLOC ").and_then(|(_, rest)| rest.split_once('(')) {
            let expected = if class == "?" { "class 0x2081" } else { class };
            assert_eq!(*name, format!("RM_ALLOC {expected}"));
        } else if request.starts_with("UVM_") && !request.contains("(0x") {
            assert_eq!(name, request);
        }
    }
    let allocations: Vec<[u64; 3]> = ioctls(listing, "RM_ALLOC")
        .iter()
        .map(|line| ["parent", "new", "status"].map(|name| field(line, name)))
        .collect();
    let created = objects(r, ObjectAction::Create);
    let created = created.iter().filter(|o| !of_user_memory(o));
    let created: Vec<[u64; 3]> = created
        .map(|o| [u64::from(o.parent), u64::from(o.handle), u64::from(o.result)])
        .collect();
    assert_eq!(created, allocations);
    let entries = lines(listing, "gpfifo");
    assert_eq!(r.events.ring_entries.len(), entries.len());
    for (row, line) in r.events.ring_entries.iter().zip(entries) {
        let expected = ["channel", "index", "entry", "va", "dwords"].map(|name| field(line, name));
        let [channel, index, words] = [row.channel, row.index, (row.bytes / 4) as u32].map(u64::from);
        assert_eq!([channel, index, row.entry, row.va.get(), words], expected);
        let client = objects(r, ObjectAction::Create)
            .iter()
            .rfind(|o| o.handle == row.channel)
            .unwrap()
            .client;
        assert_eq!(row.client, client);
        assert!(row.stored().rows().is_some(), "{line}");
    }
    assert_eq!(
        r.events.marks.len() as u64,
        lines(listing, "#").len() as u64 + ranges(r)
    );
    assert_eq!(
        count(r, EventKind::Call),
        listed.len()
            + ["open", "close", "mmap", "munmap"]
                .map(|w| lines(listing, w).len())
                .iter()
                .sum::<usize>()
    );
}

/// Whether an object is memory of the program: another request than an allocation makes it.
fn of_user_memory(o: &ObjectRow) -> bool {
    o.class == 0x71
}

/// Returns the number of notes about mapped ranges, which the listings leave out.
fn ranges(r: &Recording) -> u64 {
    r.events.marks.iter().filter(|m| m.contains(" mapped ranges: ")).count() as u64
}

#[test]
fn client_of_the_resource_manager() {
    let (r, listing) = rm_client();
    compare(&r, &listing);
    let trace = r.driver_trace().unwrap();
    assert!(trace.has_arguments);
    assert_eq!(trace.driver_version, "");
    assert_eq!(
        (
            r.metadata.identity.gpu_name.as_str(),
            r.metadata.identity.driver.as_str()
        ),
        ("NVIDIA H100 80GB HBM3", "nvidia")
    );
    assert_eq!(recorded_ioctls(&r).len(), 52);

    let created = objects(&r, ObjectAction::Create);
    let channels = of_kind(&created, ObjectKind::Channel);
    let rings: Vec<_> = channels.iter().map(|c| (c.class, c.known_second(), c.space)).collect();
    let space = of_kind(&created, ObjectKind::AddressSpace)[0];
    assert_eq!(
        rings,
        [
            (0xc86f, Some(0x10_0000_0000), space.handle),
            (0xc86f, Some(0x10_0001_0000), space.handle)
        ]
    );
    assert_eq!(
        (space.class, space.address.get(), space.bytes),
        (0x90f1, 0x10_0000, 0x1ff_ffff_fff0_0000)
    );
    let engines: Vec<_> = of_kind(&created, ObjectKind::Engine)
        .iter()
        .map(|e| (e.class, e.parent))
        .collect();
    assert_eq!(engines, [(0xcbc0, channels[0].handle), (0xc8b5, channels[1].handle)]);
    assert_eq!(of_kind(&created, ObjectKind::Registers)[0].class, 0xc661);

    let listed = ioctls(&listing, "RM_MAP_MEMORY_DMA");
    let mapped = objects(&r, ObjectAction::Map);
    assert_eq!((mapped.len(), listed.len()), (8, 8));
    for (row, line) in mapped.iter().zip(listed) {
        let expected = ["hMemory", "offset", "length", "dmaOffset"].map(|name| field(line, name));
        assert_eq!(
            [u64::from(row.handle), row.second, row.bytes, row.address.get()],
            expected
        );
        assert_eq!((row.space, row.kind), (space.handle, ObjectKind::Buffer as u32));
    }
    let buffers = of_kind(&created, ObjectKind::Buffer);
    let sizes: Vec<_> = buffers.iter().map(|b| (b.class, b.bytes, b.flags)).collect();
    let video = |bytes| (0x40, bytes, ObjectRow::VIDEO_MEMORY);
    let host = (0x3e, 0x1_0000, ObjectRow::HOST_MEMORY);
    assert_eq!(sizes[..4], [video(0x20_0000), video(0x20_0000), host, host]);
    assert_eq!(sizes[7], video(0x1200_0000));

    // The first entry releases a semaphore: five words from the host's method 0x5c on.
    let entries: Vec<RingEntryRow> = r.events.ring_entries.iter().collect();
    let first = words(&r, &entries[0]);
    assert_eq!((first.len(), first[0]), (6, 0x2005_0017));
    let saved: Vec<_> = r
        .events
        .saved_memory
        .iter()
        .map(|s| (s.va.get(), s.bytes, s.reason))
        .collect();
    let result = SaveReason::Result as u32;
    assert_eq!(saved, [(0x10_0080_0000, 4096, result), (0x10_00c0_0000, 4096, result)]);
    let findings: Vec<_> = r.metadata.findings.iter().map(|f| (f.kind, f.place.as_str())).collect();
    assert_eq!(findings, [(FindingKind::Assumed, "arguments")]);
}

#[test]
fn arguments_of_an_ioctl_are_stored_before_and_after_it() {
    let (r, _) = rm_client();
    let (name, row) = recorded_ioctls(&r).swap_remove(3);
    assert_eq!(name, "RM_CONTROL NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2");
    let all = r.events.call_arguments(row.arguments_at, row.arguments).unwrap();
    let (head, rest) = all.split_at(16);
    assert_eq!(
        head,
        [
            &0xc020_462au64.to_le_bytes()[..],
            &32u32.to_le_bytes(),
            &32u32.to_le_bytes()
        ]
        .concat()
    );
    let (argument, parameters) = rest.split_at(64);
    assert_eq!(argument[..32], argument[32..]);
    assert_eq!(parameters.len(), 64);
    assert_ne!(parameters[..32], parameters[32..]);
}

#[test]
fn program_of_the_cuda_driver_api() {
    let (r, listing) = cuda_vadd();
    compare(&r, &listing);
    assert_eq!(recorded_ioctls(&r).len(), 679);
    assert_eq!(r.events.ring_entries.len(), 632);
    assert_eq!(
        (count(&r, EventKind::Write), count(&r, EventKind::Undecoded)),
        (632, 243)
    );
    let doorbells = lines(&listing, "doorbell");
    assert_eq!(doorbells.len(), 875);
    let stores = doorbells.iter().filter(|line| line.ends_with("kind=store"));
    let values: Vec<u64> = stores.map(|line| field(line, "value")).collect();
    let accesses = r.events.accesses(0..r.events.len()).map(|(_, a)| a);
    let recorded: Vec<u64> = accesses.map(|a| a.value).collect();
    assert_eq!(recorded, values);
    let offsets: BTreeSet<_> = r
        .events
        .accesses(0..r.events.len())
        .map(|(_, a)| a.offset.get())
        .collect();
    assert_eq!(offsets, BTreeSet::from([0x90]));
    let space = &r.metadata.spaces[0];
    assert_eq!((space.name.as_str(), space.bytes), ("usermode", 0x1_0000));

    let created = objects(&r, ObjectAction::Create);
    assert_eq!(of_kind(&created, ObjectKind::Channel).len(), 20);
    assert_eq!(created.iter().filter(|o| of_user_memory(o)).count(), 4);
    let freed = objects(&r, ObjectAction::Free);
    let identity = |o: &ObjectRow| (o.client, o.handle, o.class, o.parent);
    for row in &freed {
        assert!(created.iter().any(|c| identity(c) == identity(row)), "{row:?}");
    }
    // One request frees a handle before the log creates it.
    assert_eq!((ioctls(&listing, "RM_FREE").len(), freed.len()), (113, 112));
    let mapped = objects(&r, ObjectAction::Map);
    let listed = ioctls(&listing, "UVM_MAP_EXTERNAL_ALLOCATION");
    assert_eq!(mapped.len(), listed.len());
    for (row, line) in mapped.iter().zip(listed) {
        let expected = ["base", "length", "offset", "hMemory"].map(|name| field(line, name));
        assert_eq!(
            [row.address.get(), row.bytes, row.second, u64::from(row.handle)],
            expected
        );
        assert_eq!(row.space, 0x5c00_0009);
    }
    let at = |o: &ObjectRow| (o.address, o.bytes, o.handle);
    let unmapped: BTreeSet<_> = objects(&r, ObjectAction::Unmap).iter().map(at).collect();
    assert_eq!(unmapped, mapped.iter().map(at).collect());
    let findings: Vec<_> = r
        .metadata
        .findings
        .iter()
        .map(|f| (f.kind, f.message.as_str()))
        .collect();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert_eq!(findings[0].0, FindingKind::NotUsed);
    assert!(findings[0].1.starts_with("1 requests free objects"), "{findings:?}");
    assert_eq!(findings[1].0, FindingKind::Assumed);
}

#[test]
fn imported_logs_survive_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for (r, _) in [rm_client(), cuda_vadd()] {
        let path = folder.path().join("a.kine");
        container::write(&r, &path, &Progress::new()).unwrap();
        let again = open(&path);
        assert!(again.events.objects.iter().eq(r.events.objects.iter()));
        assert!(again.events.ring_entries.iter().eq(r.events.ring_entries.iter()));
        assert_eq!(again.driver_trace(), r.driver_trace());
    }
}

#[test]
fn damaged_logs_make_no_importer_panic() {
    let mut log = Vec::new();
    let packed = std::fs::File::open(fixture("h100-rm-client.klog.gz")).unwrap();
    GzDecoder::new(packed).read_to_end(&mut log).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.klog");
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut accepted = 0;
    for _ in 0..400 {
        let mut damaged = log.clone();
        for _ in 0..=random(8) {
            let at = random(damaged.len());
            damaged[at] = [0, 1, 0x7f, 0xff, random(256) as u8][random(5)];
        }
        damaged.truncate(damaged.len() - random(200));
        std::fs::write(&path, &damaged).unwrap();
        let _ = nvidia_log::fits(&path);
        accepted += usize::from(nvidia_log::import(&path, &Progress::new()).is_ok());
    }
    assert!(accepted > 300, "{accepted}");
}
