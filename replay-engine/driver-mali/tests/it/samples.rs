//! Tests of the samples: their jobs' results, valid plans, and reproducible files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::sample_table::{FILL, LIVE, RESULT_WORDS, RESULTS, SAMPLES, Sample, Source, write_value};
use driver_mali::{ChainBuilder, Driver, JobSpec, Recorder};
use replay_engine::device::RegisterTarget;
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::run::{self, Verdict};
use replay_engine::verify;
use std::path::{Path, PathBuf};
use trace_core::families::mali_jm::WriteKind;
use trace_core::mmu::{self, Rights};
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, EventKind, FrameRole, MemoryView, MmuFormat};
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, Recording, container, timeline};

const FORMATS: [MmuFormat; 2] = [MmuFormat::Aarch64_4k, MmuFormat::MaliLpae];

fn open_device(name: &str) -> Box<dyn RegisterTarget> {
    device_mali::factory(name).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn recordings() -> Option<PathBuf> {
    let path =
        std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(|| root().join("../shared/recordings"), PathBuf::from);
    if !path.join("panfrost").is_dir() {
        println!("skipped: no recordings at {}", path.display());
        return None;
    }
    Some(path)
}

/// Records the samples that can be recorded here.
fn record_samples() -> Vec<(Sample, Recording)> {
    let recordings = recordings();
    let make = |s: &Sample| match (&recordings, s.source) {
        (Some(r), _) => Some((*s, s.make(r, &mut *open_device(s.device)).unwrap())),
        (None, Source::WriteValue(_) | Source::Changes(_)) => {
            Some((*s, s.make(Path::new(""), &mut *open_device(s.device)).unwrap()))
        }
        (None, Source::Folder(_)) => None,
    };
    SAMPLES.iter().filter_map(make).collect()
}

fn bytes_of(r: &Recording, view: &MemoryView<'_>, b: &Buffer) -> Vec<u8> {
    let space = &r.metadata.address_spaces[b.address_space as usize];
    let byte = |at: u64| {
        let va = b.va + at;
        let pa = mmu::translate(space.format, space.root, va, view)
            .unwrap()
            .target(va)
            .unwrap();
        view.frame(pa.frame()).unwrap()[pa.in_page()]
    };
    (0..b.bytes).map(byte).collect()
}

#[test]
fn write_value_jobs_write_their_values() {
    for format in FORMATS {
        let r = write_value(&mut *open_device("mali-g71"), format).unwrap();
        let results = r.buffer("results").unwrap();
        assert_eq!(bytes_of(&r, &r.memory.at(0), results), [FILL; RESULT_WORDS * 8]);
        let after = bytes_of(&r, &r.memory.last(), results);
        let words: Vec<u64> = after
            .chunks(8)
            .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
            .collect();
        assert_eq!(words, RESULTS);
        let counters = bytes_of(&r, &r.memory.last(), r.buffer("counters").unwrap());
        assert!(counters[..8] != [0; 8] && counters[8..] != [0; 8]);
        // Every header of the three chains has the status done.
        let chains = bytes_of(&r, &r.memory.last(), r.buffer("chains").unwrap());
        assert_eq!(chains.len(), 64 * 11);
        assert!(chains.chunks(64).all(|c| c[0] == 1));
    }
}

#[test]
fn driver_recording_begins_with_gpu_id_and_ends_powered_off() {
    let r = write_value(&mut *open_device("mali-g71"), MmuFormat::Aarch64_4k).unwrap();
    let map = RegisterMap::for_gpu(r.metadata.identity.gpu_id).unwrap();
    let events = &r.events;
    assert!((0..events.len()).all(|e| matches!(events.kind(e), Some(EventKind::Read | EventKind::Write))));
    assert!((0..events.len()).all(|e| map.at(events.access(e).unwrap().offset).is_some()));
    let last_read = |offset| {
        let mut reads = (0..events.len())
            .filter_map(|e| events.access(e))
            .filter(|a| !a.write && a.offset == offset);
        reads.next_back().map(|a| a.value)
    };
    for (name, value) in [("L2_READY_LO", 0), ("SHADER_READY_LO", 0), ("AS0_STATUS", 0)] {
        assert_eq!(last_read(map.find_by_name(name).unwrap().offset), Some(value), "{name}");
    }
    let times: Vec<u64> = events.time.iter().collect();
    assert!(times.windows(2).all(|w| w[0] <= w[1]));
    assert_eq!(r.memory.snapshots.len(), 2);
    let runs = r.memory.at(0).runs();
    let pages = |role| {
        runs.iter()
            .filter(|x| x.role == role)
            .map(|x| u64::from(x.count))
            .sum::<u64>()
    };
    assert_eq!(pages(FrameRole::Data), r.metadata.source_pages);
    assert!(pages(FrameRole::Table) >= 4);
}

#[test]
fn every_sample_has_its_jobs_and_each_job_ends() {
    for (sample, r) in record_samples() {
        let map = RegisterMap::for_gpu(r.metadata.identity.gpu_id).unwrap();
        let t = timeline::derive(&r, map, &Progress::new()).unwrap();
        let jobs = match sample.source {
            Source::WriteValue(_) | Source::Changes(_) => 3,
            Source::Folder(f) if ["twopass", "chain2", "triangle", "tri3"].iter().any(|n| f.ends_with(n)) => 2,
            Source::Folder(_) => 1,
        };
        assert_eq!(t.jobs.len(), jobs, "{}", sample.file);
        assert!(
            t.jobs.iter().all(|j| j.done_event.is_some() && !j.failed),
            "{}",
            sample.file
        );
        let found = trace_core::check::check(&r);
        let bad = |f: &&trace_core::finding::Finding| f.severity != trace_core::finding::Severity::Note;
        assert_eq!(found.iter().find(bad), None, "{}", sample.file);
    }
}

/// Samples whose shaders do not run, because they draw.
const NOT_RUN: [&str; 2] = ["triangle.kine", "tri3.kine"];

#[test]
fn every_sample_replays_with_a_match() {
    for (sample, r) in record_samples() {
        let mut device = open_device(sample.device);
        let target = device.info();
        let outputs = r.metadata.buffers.iter().map(|b| b.name.clone()).collect();
        let options = CompileOptions {
            outputs,
            ..CompileOptions::default()
        };
        let compiled = replay_engine::compile::compile(&r, &Edits::default(), &target, &options, &Progress::new())
            .unwrap_or_else(|e| panic!("{}: {e}", sample.file));
        let verified =
            verify::verify(&compiled.plan, &compiled.pages, &target).unwrap_or_else(|e| panic!("{}: {e}", sample.file));
        assert_eq!(
            verified.report().jobs as usize,
            compiled.plan.jobs().len(),
            "{}",
            sample.file
        );
        let o = run::run(&compiled.plan, &compiled.pages, &mut *device, &Progress::new());
        assert_eq!(
            (o.verdict, &o.failure, &o.divergences),
            (Verdict::Match, &None, &vec![]),
            "{}",
            sample.file
        );
        assert_eq!(o.reads.matched, o.reads.compared, "{}", sample.file);
        let shaders = matches!(sample.source, Source::Folder(_));
        let run = !NOT_RUN.contains(&sample.file);
        assert_eq!(o.computed, run, "{}", sample.file);
        assert!(
            o.jobs()
                .iter()
                .all(|j| j.status == Some(1) && j.computed == shaders.then_some(run))
        );
        // The replay leaves the recorded results, except for the clocks of its waits.
        for out in o.outputs.iter().filter(|b| b.name != "counters") {
            let b = r.buffer(&out.name).unwrap();
            assert!(
                out.data == bytes_of(&r, &r.memory.last(), b),
                "{}: {}",
                sample.file,
                out.name
            );
        }
    }
}

#[test]
fn edited_job_immediate_changes_its_result() {
    let r = write_value(&mut *open_device("mali-g71"), MmuFormat::Aarch64_4k).unwrap();
    let mut device = open_device("mali-g71");
    let target = device.info();
    // The first job's immediate, 16 bytes into its payload.
    let chains = r.buffer("chains").unwrap();
    let mut bytes = bytes_of(&r, &r.memory.at(0), chains);
    bytes[32 + 16..][..8].copy_from_slice(&0xdead_beef_u64.to_le_bytes());
    let mut edits = Edits::default();
    edits.inputs.insert("chains".to_owned(), bytes);
    let compiled =
        replay_engine::compile::compile(&r, &edits, &target, &CompileOptions::default(), &Progress::new()).unwrap();
    verify::verify(&compiled.plan, &compiled.pages, &target).unwrap();
    let o = run::run(&compiled.plan, &compiled.pages, &mut *device, &Progress::new());
    assert_eq!((o.verdict, o.outputs.len()), (Verdict::Match, 1));
    let mut expected = RESULTS;
    expected[5] = 0xdead_beef;
    let words: Vec<u64> = o.outputs[0]
        .data
        .chunks(8)
        .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
        .collect();
    assert_eq!(words, expected);
}

#[test]
fn sample_files_are_reproducible() {
    let folder = root().join("sample-traces");
    let mut total = 0;
    for (sample, r) in record_samples() {
        let bytes = container::to_bytes(&r).unwrap();
        let stored = std::fs::read(folder.join(sample.file)).unwrap();
        assert!(
            bytes == stored,
            "{} differs from the current recording; run sample-traces/make.sh",
            sample.file
        );
        total += bytes.len();
    }
    assert!(total < 3 << 20, "{total} bytes");
}

#[test]
fn sample_traces_are_all_listed_and_documented() {
    let folder = root().join("sample-traces");
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.ends_with(".kine"))
        .collect();
    files.sort();
    let mut names: Vec<&str> = SAMPLES.iter().map(|s| s.file).chain(LIVE.iter().copied()).collect();
    names.sort_unstable();
    assert_eq!(files, names);
    assert!(names.iter().all(|n| readme.contains(&format!("`{n}`"))));
}

#[test]
fn unmapped_job_write_reports_its_address() {
    for format in FORMATS {
        let mut b = open_device("mali-g71");
        let mut d = Driver::boot(&mut *b, Recorder::new("a fault")).unwrap();
        let space = d.new_space(format).unwrap();
        let chain = d.alloc(space, 0x1000, Rights::RW).unwrap();
        let read_only = d.alloc(space, 0x1000, Rights::RO).unwrap();
        let to = |to| JobSpec::WriteValue {
            to,
            kind: WriteKind::Zero,
            value: 0,
        };
        let unmapped = GpuVa::new(0x7000_0000_0008);
        d.write(space, chain, &ChainBuilder::new().job(to(unmapped)).build(chain))
            .unwrap();
        let second = chain + 0x100;
        d.write(space, second, &ChainBuilder::new().job(to(read_only)).build(second))
            .unwrap();
        let submitted = d.submit_chain(space, 1, chain).unwrap();
        let end = d.wait(submitted).unwrap();
        assert_eq!((end.status, end.fault_address), (0xc0, Some(unmapped)));
        let submitted = d.submit_chain(space, 1, second).unwrap();
        let end = d.wait(submitted).unwrap();
        assert_eq!((end.status, end.fault_address), (0xcb, Some(read_only)));
        let mut header = [0; 16];
        d.read(space, second, &mut header).unwrap();
        assert_eq!(header[0], 0xcb);
        assert_eq!(header[8..], read_only.get().to_le_bytes());
        d.finish().unwrap();
    }
}
