//! Tests with folders of job chains that the tests build. They distinguish the CPU's changes between submits from the
//! jobs' results, add and remove objects, and check the reports of chains that cannot run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use driver_mali::chains::{RecordedChains, record, record_folder};
use driver_mali::{ChainBuilder, DriverError, JobSpec};
use replay_engine::device::RegisterTarget;
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::run::{self, Outcome, Verdict};
use replay_engine::verify;
use std::path::Path;
use tempfile::TempDir;
use trace_core::families::mali_jm::WriteKind;
use trace_core::finding::FindingKind;
use trace_core::mmu;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, HostWriteRow};
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, Recording, timeline};
use trace_import::chains;

const DATA: u64 = 0x10_0000;
const CHAIN: u64 = 0x20_0000;
const LATE: u64 = 0x30_0000;

fn open_device() -> Box<dyn RegisterTarget> {
    device_mali::factory("mali-g71").unwrap()
}

/// A buffer object: handle, address and image.
type Object = (u64, u64, Vec<u8>);

/// Writes a folder with these submits of the chain at [`CHAIN`] and these buffers: name, address, bytes.
fn folder(gpu: &str, submits: &[Vec<Object>], buffers: &[(&str, u64, u64)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    let mut submit_list = Vec::new();
    for (n, objects) in submits.iter().enumerate() {
        let mut bos = Vec::new();
        for (handle, va, image) in objects {
            let file = format!("submit{n:03}_bo_{va:08x}.bin");
            write(&file, image);
            bos.push(format!(
                r#"{{"handle": {handle}, "va": "{va:#x}", "size": {}, "noexec": true, "heap": false, "in_submit": true,
                    "file": "{file}"}}"#,
                image.len()
            ));
        }
        let text = format!(
            r#"{{"jc": "{CHAIN:#x}", "requirements": 0, "bos": [{}]}}"#,
            bos.join(",")
        );
        write(&format!("submit{n:03}.json"), text.as_bytes());
        submit_list.push(format!(r#"{{"submit": "submit{n:03}.json"}}"#));
    }
    let buffers = buffers.iter().map(|(name, va, bytes)| {
        format!(r#"{{"name": "{name}", "bytes": {bytes}, "type": "u64", "gpu_va": "{va:#x}", "expected": null}}"#)
    });
    let text = format!(
        r#"{{"program": "made here", "gpu_id": "{gpu}", "buffers": [{}], "submits": [{}]}}"#,
        buffers.collect::<Vec<_>>().join(","),
        submit_list.join(",")
    );
    write("spec.json", text.as_bytes());
    dir
}

/// Pages that begin with these words.
fn pages(count: usize, words: &[u64]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.resize(count * 0x1000, 0);
    bytes
}

/// Returns the object with the chain. Each job writes eight bytes, by address and value.
fn chain(jobs: &[(u64, u64)]) -> Object {
    let put = |(to, value): &(u64, u64)| JobSpec::WriteValue {
        to: GpuVa::new(*to),
        kind: WriteKind::Immediate { bytes: 8 },
        value: *value,
    };
    let chain = jobs.iter().fold(ChainBuilder::new(), |c, j| c.job(put(j)));
    let mut bytes = chain.build(GpuVa::new(CHAIN));
    bytes.resize(0x1000, 0);
    (2, CHAIN, bytes)
}

fn record_chains(folder: &Path) -> RecordedChains {
    record_folder(folder, &mut *open_device()).unwrap()
}

fn words(r: &Recording, event: u64, va: u64, count: usize) -> Vec<u64> {
    let (space, view) = (&r.metadata.address_spaces[0], r.memory.at(event));
    let word = |n: usize| {
        let va = GpuVa::new(va + 8 * n as u64);
        let pa = mmu::translate(space.format, space.root, va, &view)
            .unwrap()
            .target(va)
            .unwrap();
        let page = view.frame(pa.frame()).unwrap();
        u64::from_le_bytes(page[pa.in_page()..][..8].try_into().unwrap())
    };
    (0..count).map(word).collect()
}

/// Returns the events that submit a chain.
fn submits(r: &Recording) -> Vec<u64> {
    let map = RegisterMap::for_gpu(r.metadata.identity.gpu_id).unwrap();
    let t = timeline::derive(r, map, &Progress::new()).unwrap();
    t.jobs.iter().map(|j| j.submit_event).collect()
}

fn host_writes(r: &Recording) -> Vec<HostWriteRow> {
    (0..r.events.len()).filter_map(|e| r.events.host_write(e)).collect()
}

/// Replays with these inputs and returns all named buffers as outputs.
fn replay(r: &Recording, inputs: &[(&str, Vec<u8>)]) -> Outcome {
    let mut device = open_device();
    let target = device.info();
    let mut edits = Edits::default();
    edits
        .inputs
        .extend(inputs.iter().map(|(n, b)| ((*n).to_owned(), b.clone())));
    let options = CompileOptions {
        outputs: r.metadata.buffers.iter().map(|b| b.name.clone()).collect(),
        ..CompileOptions::default()
    };
    let compiled = replay_engine::compile::compile(r, &edits, &target, &options, &Progress::new()).unwrap();
    verify::verify(&compiled.plan, &compiled.pages, &target).unwrap();
    let o = run::run(&compiled.plan, &compiled.pages, &mut *device, &Progress::new());
    assert_eq!(
        (o.verdict, &o.failure, &o.divergences),
        (Verdict::Match, &None, &vec![])
    );
    o
}

fn output(o: &Outcome, name: &str, count: usize) -> Vec<u64> {
    let data = &o.outputs.iter().find(|b| b.name == name).unwrap().data;
    let all = data.chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap()));
    all.take(count).collect()
}

#[test]
fn results_carry_over_and_cpu_changes_are_applied_on_top() {
    // The second image does not contain the job's results. The CPU changed words 1 and 2 of `data`, and a job had
    // written word 1.
    let before = [0xa0, 0xa1, 0xa2, 0xa3, 0xa4];
    let after = [0xa0, 0x91, 0x92, 0xa3, 0xa4];
    let first = vec![(1, DATA, pages(2, &before)), chain(&[(DATA, 1), (DATA + 8, 2)])];
    let second = vec![(1, DATA, pages(2, &after)), chain(&[(DATA + 24, 3)])];
    let dir = folder("0x6000", &[first, second], &[("data", DATA, 0x2000)]);
    let done = record_chains(dir.path());
    assert!(done.has_computed() && done.jobs.len() == 3);
    let r = &done.recording;
    assert_eq!(r.metadata.address_spaces.len(), 1);
    let at = submits(r);
    assert_eq!(at.len(), 2);
    assert_eq!(words(r, at[0], DATA, 5), before);
    assert_eq!(words(r, at[1], DATA, 5), [1, 0x91, 0x92, 0xa3, 0xa4]);
    let last = [1, 0x91, 0x92, 3, 0xa4];
    assert_eq!(words(r, u64::MAX, DATA, 5), last);
    // Only the changed words are host writes.
    let frame = host_writes(r)[0].at.get() / 0x1000;
    let entries: Vec<(u64, u32)> = host_writes(r)
        .iter()
        .filter(|w| w.at.get() / 0x1000 == frame)
        .map(|w| (w.at.get() & 0xfff, w.bytes))
        .collect();
    assert_eq!(entries, [(8, 4), (16, 4)]);
    let data = r.buffer("data").unwrap();
    assert_eq!(
        (data.role, data.va, data.bytes),
        (BufferRole::Output, GpuVa::new(DATA), 0x2000)
    );
    assert_eq!(output(&replay(r, &[]), "data", 5), last);
    // An edit of the input lasts until the CPU writes other contents.
    let edited = replay(r, &[("data", pages(2, &[10, 11, 12, 13, 14]))]);
    assert_eq!(output(&edited, "data", 5), last);
}

#[test]
fn resubmitted_job_header_has_its_original_bytes() {
    let same = vec![(1, DATA, pages(1, &[])), chain(&[(DATA, 1), (DATA + 8, 2)])];
    let dir = folder("0x6000", &[same.clone(), same], &[("data", DATA, 16)]);
    let r = record_chains(dir.path()).recording;
    let at = submits(&r);
    // The first word of a header is its status: 1 means done.
    assert_eq!(words(&r, at[0], CHAIN, 1), [0]);
    assert_eq!(words(&r, at[1], CHAIN, 1), [0]);
    assert_eq!(words(&r, u64::MAX, CHAIN, 1), [1]);
    assert_eq!(words(&r, u64::MAX, DATA, 2), [1, 2]);
    let entries: Vec<u32> = host_writes(&r).iter().map(|w| w.bytes).collect();
    assert_eq!(entries, [4, 4], "each header has one word");
    replay(&r, &[]);
}

#[test]
fn chains_replay_with_replaced_and_removed_objects() {
    let first = vec![(1, DATA, pages(2, &[5; 1024])), chain(&[(DATA, 1)])];
    // The second submit has a smaller object at the same address and a new object elsewhere.
    let second = vec![
        (7, DATA, pages(1, &[0, 6])),
        (8, LATE, pages(1, &[7])),
        chain(&[(DATA + 16, 2), (LATE + 8, 3)]),
    ];
    let third = vec![(8, LATE, pages(1, &[7])), chain(&[(LATE + 16, 4)])];
    let buffers = [("data", DATA, 24), ("late", LATE, 24), ("gone", DATA + 0x1000, 8)];
    let dir = folder("0x6000", &[first, second, third], &buffers);
    let done = record_chains(dir.path());
    let r = &done.recording;
    assert_eq!(
        words(r, submits(r)[1], DATA, 3),
        [0, 6, 0],
        "the new object has no contents of the old one"
    );
    assert_eq!(words(r, u64::MAX, LATE, 3), [7, 3, 4]);
    let entries: Vec<_> = r
        .metadata
        .findings
        .iter()
        .map(|f| (f.kind, f.message.as_str()))
        .collect();
    let expected_message = "buffer \"gone\" is left out: it is not mapped at the end";
    assert_eq!(entries, [(FindingKind::NotUsed, expected_message)]);
    // An object that is no longer listed keeps its contents, because it can still be read.
    let o = replay(r, &[]);
    assert_eq!(output(&o, "data", 3), [0, 6, 2]);
    assert_eq!(output(&o, "late", 3), [7, 3, 4]);
    // An edit can also replace an object that appears later.
    let o = replay(r, &[("late", pages(1, &[70, 71, 72])[..24].to_vec())]);
    assert_eq!(output(&o, "late", 3), [70, 3, 4]);
}

#[test]
fn failed_chain_is_recorded_and_later_chains_run() {
    let with = |job| vec![(1, DATA, pages(1, &[])), chain(&[job])];
    let dir = folder(
        "0x6000",
        &[with((0x7000_0000, 1)), with((DATA, 2))],
        &[("data", DATA, 8)],
    );
    let done = record_chains(dir.path());
    assert!(!done.has_computed());
    let r = &done.recording;
    let status: Vec<u8> = done.jobs.iter().map(|j| j.status).collect();
    assert_eq!(status.len(), 2);
    assert!(status[0] != 1 && status[1] == 1, "{status:x?}");
    assert_eq!(words(r, u64::MAX, DATA, 1), [2]);
}

#[test]
fn driver_refuses_another_gpu_and_ends_when_cancelled() {
    let one = vec![(1, DATA, pages(1, &[])), chain(&[(DATA, 1)])];
    let dir = folder("0x7212", std::slice::from_ref(&one), &[]);
    let e = record_folder(dir.path(), &mut *open_device()).unwrap_err();
    assert!(matches!(e, DriverError::OtherGpu { .. }));
    for part in [
        dir.path().to_str().unwrap(),
        "a Mali-G52 (0x72120000)",
        "a Mali-G71 (0x60a00002)",
    ] {
        assert!(e.to_string().contains(part), "{e}");
    }
    let dir = folder("0x6000", &[one.clone(), one], &[]);
    let read = chains::read(dir.path()).unwrap();
    let progress = Progress::new();
    progress.cancel();
    let e = record(&read, &mut *open_device(), &progress).unwrap_err();
    assert_eq!(e.to_string(), "cancelled");
    let progress = Progress::new();
    record(&read, &mut *open_device(), &progress).unwrap();
    assert_eq!(progress.fraction(), Some(1.0));
}
