//! Tests of all known numbers of the published recordings of mnist and alexnet. Without the recordings, the tests are
//! skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::path::PathBuf;
use trace_core::check;
use trace_core::container;
use trace_core::families::{self, mali_jm};
use trace_core::finding::{FindingKind, Severity};
use trace_core::memory::GpuMemoryView;
use trace_core::mmu;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, Clock, EventKind, InterruptLine, Recording, zero_digest};
use trace_core::registers::RegisterMap;
use trace_core::timeline::{self, PhaseName, Timeline};
use trace_import::gpureplay;

fn folder(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/recordings")),
        PathBuf::from,
    );
    let folder = root.join("gpureplay").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is missing", folder.display());
    None
}

struct ExpectedRecording {
    name: &'static str,
    events: usize,
    reads: usize,
    jobs: usize,
    setup_jobs: usize,
    interrupts: usize,
    pages: u64,
    distinct: usize,
    mapped: u64,
    regions: usize,
    buffers: usize,
    moved: u64,
}

const EXPECTED: [ExpectedRecording; 2] = [
    ExpectedRecording {
        name: "mnist",
        events: 2977,
        reads: 2603,
        jobs: 23,
        setup_jobs: 5,
        interrupts: 26,
        pages: 539,
        distinct: 28,
        mapped: 1185,
        regions: 26,
        buffers: 11,
        moved: 0,
    },
    ExpectedRecording {
        name: "alexnet",
        events: 8542,
        reads: 7652,
        jobs: 60,
        setup_jobs: 15,
        interrupts: 63,
        pages: 571,
        distinct: 57,
        mapped: 137_698,
        regions: 64,
        buffers: 19,
        moved: 10,
    },
];

fn each(test: impl Fn(&ExpectedRecording, &PathBuf, &Recording)) {
    for expected in &EXPECTED {
        if let Some(folder) = folder(expected.name) {
            test(expected, &folder, &crate::open(&folder));
        }
    }
}

fn map(r: &Recording) -> &'static RegisterMap {
    RegisterMap::for_gpu(r.metadata.identity.gpu_id).unwrap()
}

fn derive(r: &Recording) -> Timeline {
    timeline::derive(r, map(r), &Progress::new()).unwrap()
}

#[test]
fn every_byte_of_the_published_files_is_used() {
    each(|expected, folder, _| {
        let (_, tallies) =
            gpureplay::import_with_tally(folder, &gpureplay::Options::default(), &Progress::new()).unwrap();
        assert_eq!(tallies.len(), 5, "{}", expected.name);
        for t in tallies {
            let bytes = std::fs::metadata(folder.join(&t.name)).unwrap().len();
            assert_eq!((t.bytes, t.used), (bytes, bytes), "{} {}", expected.name, t.name);
        }
    });
}

#[test]
fn published_recordings_match_source_counts() {
    each(|expected, _, r| {
        assert_eq!(r.events.len(), expected.events);
        let reads = r.events.accesses(0..r.events.len()).filter(|(_, a)| !a.write).count();
        assert_eq!(reads, expected.reads);
        assert_eq!(
            (r.metadata.source_pages, r.metadata.source_zero_pages),
            (expected.pages, 512)
        );
        assert_eq!(
            (r.metadata.regions.len(), r.metadata.buffers.len()),
            (expected.regions, expected.buffers)
        );
        assert_eq!(r.metadata.identity.gpu_id, 0x60a0_0002);
        assert_eq!(r.metadata.identity.gpu_name, "Mali-G71");
        assert_eq!(r.metadata.identity.clock, Clock::Monotonic);
        let view = r.memory.at(0);
        let mut data: Vec<_> = view
            .runs()
            .iter()
            .filter(|r| r.role == trace_core::recording::FrameRole::Data)
            .flat_map(|run| {
                (run.first_frame..run.end_frame())
                    .map(|f| run.page(f).unwrap())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(data.len() as u64, expected.pages, "a dumped page has no frame");
        data.sort_unstable();
        data.dedup();
        assert_eq!(data.len(), expected.distinct);
        assert!(data.iter().any(|d| r.memory.pages.digest(*d) == Some(zero_digest())));
        let space = &r.metadata.address_spaces[0];
        let mut leaves = 0;
        mmu::for_each_leaf(space.format, space.root, &view, &mut |l| {
            leaves += l.bytes / 4096;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(leaves, expected.mapped);
        let n = r.metadata.buffers.len();
        assert_eq!(
            (r.metadata.buffers[n - 2].role, r.metadata.buffers[n - 1].role),
            (BufferRole::Input, BufferRole::Output)
        );
        let sizes = if expected.name == "mnist" {
            (6272, 64)
        } else {
            (618_348, 4032)
        };
        assert_eq!(
            (r.buffer("input").unwrap().bytes, r.buffer("output").unwrap().bytes),
            sizes
        );
    });
}

/// Returns the register name in a line of the authors' timeline: `BLOCK | NAME (RO)`, or
/// `BLOCK | MMU_AS0 | AS_NAME (RW) | value`.
fn timeline_name(text: &str) -> String {
    let parts: Vec<&str> = text
        .split('|')
        .map(|p| p.split(" (").next().unwrap_or(p).trim())
        .collect();
    for (unit, short) in [("MMU_AS", "AS"), ("JOB_SLOT", "JS")] {
        if let Some(number) = parts[1].strip_prefix(unit) {
            return format!("{short}{number}{}", parts[2].strip_prefix(short).unwrap());
        }
    }
    parts[1].to_owned()
}

#[test]
fn imported_times_and_threads_match_the_timeline() {
    each(|expected, folder, r| {
        let path = folder.join(format!("{}_integrated", expected.name));
        let lines = gpureplay::timeline_accesses(&path, &Progress::new()).unwrap();
        assert_eq!(lines.len(), r.events.len());
        let mut moved_accesses = 0;
        for (event, a) in r.events.accesses(0..r.events.len()) {
            let same = |l: &gpureplay::TimelineAccess| {
                l.write == a.write && l.offset == a.offset.get() && u64::from(l.value) == a.value
            };
            // If the order differs, an adjacent line has the access, with the same time.
            let stamp = (r.events.time.get(event), r.events.thread.get(event));
            let line = [event, event.saturating_sub(1), event + 1]
                .iter()
                .filter_map(|at| lines.get(*at))
                .find(|l| same(l) && (Some(l.time), Some(l.thread)) == stamp)
                .unwrap_or_else(|| panic!("event {event} is not in the timeline"));
            moved_accesses += u64::from(!same(&lines[event]));
            let register = map(r)
                .at(a.offset)
                .unwrap_or_else(|| panic!("{:#x} is unknown", a.offset));
            assert_eq!(register.name, timeline_name(&line.text), "{:?}", line.text);
        }
        assert_eq!(moved_accesses, expected.moved);
        let moved: Vec<_> = r
            .metadata
            .findings
            .iter()
            .filter(|f| f.kind == FindingKind::OrderDiffers)
            .collect();
        assert_eq!(moved.len(), usize::from(expected.moved > 0));
        if let Some(f) = moved.first() {
            assert!(
                f.message.starts_with("10 lines") && f.message.contains("5 pairs"),
                "{}",
                f.message
            );
        }
    });
}

/// If a history lost events, at least 39 of 40 remaining accesses have the times and threads of the complete history.
#[test]
fn history_with_lost_events_keeps_times_and_threads() {
    each(|expected, folder, r| {
        let history = std::fs::read_to_string(folder.join("gr_io_history")).unwrap();
        for lost in [1000..1101, 0..500, 300..2500, 1200..1230] {
            let dir = tempfile::tempdir().unwrap();
            let timeline = format!("{}_integrated", expected.name);
            std::fs::copy(folder.join(&timeline), dir.path().join(&timeline)).unwrap();
            let mut lines: Vec<&str> = history.split_inclusive('\n').collect();
            lines.drain(lost.clone());
            std::fs::write(dir.path().join("gr_io_history"), lines.concat()).unwrap();
            let cut = gpureplay::import(dir.path(), &gpureplay::Options::default(), &Progress::new()).unwrap();
            let counts: Vec<_> = cut.metadata.lost.iter().map(|l| l.count).collect();
            assert_eq!(counts, [Some(lost.len() as u64)], "{} {lost:?}", expected.name);
            let all = r.events.time.iter().zip(r.events.thread.iter()).enumerate();
            let remaining = all.filter(|(e, _)| !lost.contains(e)).map(|(_, both)| both);
            let matching = remaining
                .zip(cut.events.time.iter().zip(cut.events.thread.iter()))
                .filter(|(a, b)| a == b)
                .count();
            // All reads of a poll are equal, so it is unknown which of them were lost.
            let all = expected.events - lost.len();
            assert!(
                all - matching <= all / 40,
                "{} {lost:?}: {matching} of {all}",
                expected.name
            );
        }
    });
}

#[test]
fn without_the_timeline_times_are_relative_and_agree() {
    each(|_, folder, r| {
        let options = gpureplay::Options { timeline: false };
        let plain = gpureplay::import(folder, &options, &Progress::new()).unwrap();
        assert_eq!(plain.metadata.identity.clock, Clock::SinceStart);
        let base = r.events.time.get(0).unwrap();
        assert!(plain.events.time.iter().map(|t| t + base).eq(r.events.time.iter()));
    });
}

#[test]
fn jobs_interrupts_and_phases_are_found() {
    each(|expected, _, r| {
        let t = derive(r);
        assert_eq!(t.jobs.len(), expected.jobs);
        let of = |line| t.interrupts.iter().filter(|i| i.line == line).count();
        assert_eq!(t.interrupts.len(), expected.interrupts);
        assert_eq!((of(InterruptLine::Job), of(InterruptLine::Gpu)), (expected.jobs, 3));
        let space = &r.metadata.address_spaces[0];
        let mut longer = 0;
        for (i, job) in t.jobs.iter().enumerate() {
            assert_eq!((job.index as usize, job.slot, job.failed), (i, 1, false));
            let done = job.done_event.unwrap();
            assert!(done > job.submit_event && t.interrupts.iter().any(|i| i.event == done));
            let view = GpuMemoryView::new(r.memory.at(job.submit_event), space);
            let chain = mali_jm::read_chain(&view, job.head_va);
            assert_eq!(chain.end, families::ChainEnd::End, "job {i}");
            longer += usize::from(chain.jobs.len() > 1);
            assert!(chain.jobs.iter().all(|j| j.is_decoded()), "job {i}");
        }
        assert_eq!(longer, usize::from(expected.name == "alexnet"));
        let names: Vec<_> = t.phases.iter().map(|p| p.name).collect();
        assert_eq!(
            names,
            [
                PhaseName::Boot,
                PhaseName::Setup,
                PhaseName::Compute,
                PhaseName::Teardown
            ]
        );
        assert_eq!(
            (t.phases[0].first, t.phases[0].last),
            (0, 186),
            "boot does not end at the long gap before the application"
        );
        assert!(t.phases.windows(2).all(|w| w[0].last + 1 == w[1].first));
        assert_eq!(t.phases[3].last as usize + 1, r.events.len());
        let in_phase = |p: usize| {
            let p = t.phases[p];
            t.jobs
                .iter()
                .filter(|j| (p.first..=p.last).contains(&j.submit_event))
                .count()
        };
        assert_eq!(
            (in_phase(1), in_phase(2)),
            (expected.setup_jobs, expected.jobs - expected.setup_jobs)
        );
        assert!(t.gaps.iter().any(|g| g.ns > 8_000_000_000 && g.after_event == 186));
        assert!(t.polls.iter().any(|p| p.group) && t.polls.iter().any(|p| !p.group));
        for p in &t.polls {
            assert!((p.first..=p.last).all(|e| r.events.kind(e as usize) == Some(EventKind::Read)));
        }
    });
}

#[test]
fn check_finds_no_error_in_published_recordings() {
    each(|expected, _, r| {
        let findings = check::check(r);
        let errors: Vec<_> = findings.iter().filter(|f| f.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{errors:?}");
        let of = |kind| findings.iter().filter(|f| f.kind == kind).collect::<Vec<_>>();
        let changed = of(FindingKind::FeatureChanged);
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert!(
            changed[0]
                .message
                .contains("COHERENCY_FEATURES reads 0x2 here, but 0x3"),
            "{changed:?}"
        );
        assert_eq!(of(FindingKind::OverlappingRegions).is_empty(), expected.name == "mnist");
        assert!(!of(FindingKind::MappedWithoutContent).is_empty());
        assert!(
            of(FindingKind::UnknownRegister).is_empty(),
            "{:?}",
            of(FindingKind::UnknownRegister)
        );
        assert!(of(FindingKind::TimeBackwards).is_empty());
    });
}

#[test]
fn a_kine_file_keeps_the_recording_and_its_timeline() {
    each(|_, folder, r| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.kine");
        crate::import_to_kine(folder, &path);
        let file = container::KineFile::open(&path).unwrap();
        assert_eq!(Timeline::read_from(&file).unwrap(), Some(derive(r)));
        let back = crate::open(&path);
        assert_eq!(back.metadata, r.metadata);
        assert!(
            back.events
                .accesses(0..back.events.len())
                .eq(r.events.accesses(0..r.events.len()))
        );
        assert_eq!(back.memory.at(0).runs(), r.memory.at(0).runs());
        assert_eq!(check::check(&back), check::check(r));
    });
}

#[test]
fn accesses_spell_the_io_history_byte_for_byte() {
    each(|_, folder, r| {
        let mut history = String::new();
        let mut before = None;
        for (event, a) in r.events.accesses(0..r.events.len()) {
            let time = r.events.time.get(event).unwrap();
            let delta = time - before.replace(time).unwrap_or(time);
            let kind = if a.write { 'W' } else { 'R' };
            history += &format!("{delta},{kind},0x{:08x},{:08x}\n", a.offset, a.value);
        }
        assert!(history.as_bytes() == std::fs::read(folder.join("gr_io_history")).unwrap());
    });
}

#[test]
fn published_recording_differs_only_from_another_one() {
    each(|expected, folder, r| {
        let again = crate::open(folder);
        assert!(trace_core::diff::diff(r, &again).is_empty());
        if expected.name == "mnist"
            && let Some(other) = self::folder("alexnet")
        {
            let other = crate::open(&other);
            let d = trace_core::diff::diff(r, &other);
            assert_eq!(d.jobs, (23, 60));
            let e = &d.events;
            let both = e.equal + e.changed + e.moved + e.relocated + e.uncompared;
            let of = |only: u64, folded: u64| both + only + folded;
            assert_eq!((of(e.deleted, e.folded.0), of(e.inserted, e.folded.1)), (2977, 8542));
            assert_eq!(trace_core::diff::diff(&other, r), d.swapped());
        }
    });
}
