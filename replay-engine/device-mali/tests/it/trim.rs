//! Tests that trimmed recordings replay and that their jobs write the same values as in the full recording.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::common;

use common::{published, sample};
use device_mali::debug::{DependencyPolicy, FlowReport, KeepReason, Producers, model_for_recording, trace_flows};
use device_mali::{Model, SoftwareMali};
use proptest::prelude::*;
use replay_engine::compile::compile_placed;
use replay_engine::device::Target as _;
use replay_engine::plan::{CompileOptions, Edits, PlacedPlan};
use replay_engine::run::Verdict;
use replay_engine::verify::verify;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::diff::diff;
use trace_core::finding::Severity;
use trace_core::progress::Progress;
use trace_core::recording::Page;
use trace_core::registers::RegisterMap;
use trace_core::trim::{JobParts, Part, TrimRequest, TrimResult, trim};
use trace_core::{PhysAddr, Recording};

/// Samples with more than one job, for tests on the model of the recording.
const SEVERAL: [&str; 6] = [
    "chain2.kine",
    "twopass.kine",
    "digits.kine",
    "changes.kine",
    "write-value.kine",
    "write-value-lpae.kine",
];

fn parts(r: &Recording) -> JobParts {
    JobParts::new(r, RegisterMap::for_recording(r).unwrap(), &Progress::new()).unwrap()
}

fn producers(r: &Recording) -> Producers {
    Producers::from_recording(r, parts(r), &Progress::new()).unwrap()
}

fn compile_plan(r: &Recording, model: Model) -> PlacedPlan {
    let info = SoftwareMali::new(model).info();
    let p = compile_placed(
        r,
        &Edits::default(),
        &info,
        &CompileOptions::default(),
        &Progress::new(),
    );
    let p = p.unwrap_or_else(|e| panic!("no plan: {e}"));
    verify(&p.compiled.plan, &p.compiled.pages, &info).unwrap_or_else(|e| panic!("not verified: {e:?}"));
    p
}

/// Words that each job wrote, by recorded frame and word.
type WrittenValues = Vec<BTreeMap<(u64, usize), u32>>;

/// Replays a recording and returns the values that its jobs wrote.
fn replay(r: &Recording) -> (FlowReport, WrittenValues) {
    let model = model_for_recording(r).unwrap();
    let p = compile_plan(r, model);
    let first = trace_flows(&p.compiled, model, BTreeSet::new(), &Progress::new()).unwrap();
    let keep = (0u32..)
        .zip(&first.page_usage)
        .flat_map(|(chain, pages)| pages.iter().map(move |t| (chain, t.frame)))
        .collect();
    let flowed = trace_flows(&p.compiled, model, keep, &Progress::new()).unwrap();
    let mut wrote: WrittenValues = vec![BTreeMap::new(); flowed.page_usage.len()];
    let saved: BTreeMap<(u32, u64), &Page> = flowed
        .saved_pages
        .iter()
        .map(|h| ((h.chain, h.frame), &*h.page))
        .collect();
    for (chain, pages) in flowed.page_usage.iter().enumerate() {
        for t in pages {
            // Page tables have no recorded frame here, and jobs write none.
            let Some(frame) = p.frames.get(&t.frame) else { continue };
            let page = saved[&(chain as u32, t.frame)];
            for word in (0..1024).filter(|w| t.written[w / 64] >> (w % 64) & 1 == 1) {
                let bytes = page[word * 4..word * 4 + 4].try_into().unwrap();
                wrote[chain].insert((*frame, word), u32::from_le_bytes(bytes));
            }
        }
    }
    (flowed, wrote)
}

/// Trims a recording to jobs and their dependencies, as `kinescope trim` does.
fn cut(r: &Recording, p: &Producers, chosen: &BTreeSet<u32>, fill: bool, touched: bool) -> (TrimResult, BTreeSet<u32>) {
    let needs = if fill {
        DependencyPolicy::Bytes
    } else {
        DependencyPolicy::Jobs
    };
    let part_jobs = p.closure(chosen, needs).jobs;
    let mut request = TrimRequest::new(Part::Jobs(part_jobs.clone()), "whole.kine");
    if fill {
        request.supplied = p.compute_supplied(&part_jobs, &Progress::new()).unwrap();
    }
    if touched {
        request.frames = p.used_frames(&part_jobs);
    }
    (trim(r, &request, &Progress::new()).unwrap(), part_jobs)
}

fn errors(r: &Recording) -> usize {
    let found = trace_core::check::check(r);
    found.iter().filter(|f| f.severity == Severity::Error).count()
}

/// Checks that the part is sound and replays with every read as recorded. Its jobs write the same values as in the full
/// recording.
fn check_part(whole: &Recording, of_whole: &WrittenValues, t: &TrimResult, part_jobs: &BTreeSet<u32>, case: &str) {
    assert!(errors(&t.recording) <= errors(whole), "{case}");
    let (flowed, wrote) = replay(&t.recording);
    let o = &flowed.outcome;
    assert_eq!(o.verdict, Verdict::Match, "{case}: {:?} {:?}", o.failure, o.divergences);
    assert_eq!(o.reads.compared, o.reads.matched, "{case}");
    assert_eq!(wrote.len(), part_jobs.len(), "{case}");
    for (new, old) in part_jobs.iter().enumerate() {
        // The third job of these samples stores the cycle counter and the time, which differ in a shorter run.
        if case.starts_with("write-value") && *old == 2 {
            assert!(wrote[new].keys().eq(of_whole[2].keys()), "{case}");
            continue;
        }
        assert!(
            wrote[new] == of_whole[*old as usize],
            "{case}: job {old} wrote different values"
        );
    }
    // The part can be written and verified as a file.
    let folder = tempfile();
    let path = folder.join("part.kine");
    trace_core::container::write(&t.recording, &path, &Progress::new()).unwrap();
    assert!(trace_core::container::verify(&path).unwrap().is_sound(), "{case}");
    std::fs::remove_dir_all(folder).unwrap();
}

fn tempfile() -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("kinescope-trim-{}-{n}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns every single job and every pair of neighbours.
fn choices(jobs: u32) -> Vec<BTreeSet<u32>> {
    let one = (0..jobs).map(|j| BTreeSet::from([j]));
    let two = (1..jobs).map(|j| BTreeSet::from([j - 1, j]));
    one.chain(two).collect()
}

#[test]
fn every_job_and_job_pair_of_the_samples_replays_alone() {
    for name in SEVERAL {
        let r = sample(name);
        let p = producers(&r);
        assert_eq!(p.unknown_reason(), None, "{name}");
        let (_, whole) = replay(&r);
        for chosen in choices(p.parts().len() as u32) {
            for fill in [false, true] {
                for touched in [false, true] {
                    let (t, part_jobs) = cut(&r, &p, &chosen, fill, touched);
                    let case = format!("{name} {chosen:?} fill {fill} touched {touched}");
                    println!(
                        "{case}: jobs {part_jobs:?}, events {:?}, pages {:?}, frames {:?}, supplied {}",
                        t.summary.events, t.summary.pages, t.summary.frames, t.summary.supplied
                    );
                    check_part(&r, &whole, &t, &part_jobs, &case);
                }
            }
        }
    }
}

#[test]
fn trim_of_a_dependent_job_keeps_the_producer_or_its_bytes() {
    let r = sample("twopass.kine");
    let p = producers(&r);
    let second = BTreeSet::from([1]);
    let c = p.closure(&second, DependencyPolicy::Jobs);
    assert_eq!(c.jobs, BTreeSet::from([0, 1]));
    assert!(
        matches!(c.added[&0], KeepReason::Reads { reader: 1, bytes: 1.. }),
        "{:?}",
        c.added
    );
    let (t, part_jobs) = cut(&r, &p, &second, true, false);
    assert_eq!(part_jobs, second);
    assert!(t.summary.supplied > 0);
    assert_eq!(t.recording.metadata.cuts.len(), 1);
    assert_eq!(t.recording.metadata.cuts[0].kept_jobs, [[1, 1]]);
    assert_eq!(t.recording.metadata.cuts[0].supplied, t.summary.supplied);
    // Without these bytes the job computes different values.
    let bare = trim(&r, &TrimRequest::new(Part::Jobs(second), "x"), &Progress::new()).unwrap();
    let (_, whole) = replay(&r);
    let (_, wrote) = replay(&bare.recording);
    assert_ne!(wrote[0], whole[1]);
}

#[test]
fn trimming_to_all_jobs_changes_nothing_and_is_idempotent() {
    for name in SEVERAL {
        let r = sample(name);
        let p = producers(&r);
        let all: BTreeSet<u32> = (0..p.parts().len() as u32).collect();
        let (t, _) = cut(&r, &p, &all, false, false);
        assert!(diff(&r, &t.recording).is_empty(), "{name}");
        assert_eq!(t.summary.events[0], t.summary.events[1]);
        for job in &all {
            let (once, part_jobs) = cut(&r, &p, &BTreeSet::from([*job]), false, false);
            let again = producers(&once.recording);
            let every = (0..part_jobs.len() as u32).collect();
            let (twice, _) = cut(&once.recording, &again, &every, false, false);
            assert!(diff(&once.recording, &twice.recording).is_empty(), "{name} {job}");
            assert_eq!(
                twice.recording.metadata.cuts, once.recording.metadata.cuts,
                "{name} {job}"
            );
        }
    }
}

#[test]
fn jobs_with_unsupported_shaders_require_all_earlier_jobs() {
    let r = sample("triangle.kine");
    let p = producers(&r);
    let c = p.closure(&BTreeSet::from([1]), DependencyPolicy::Jobs);
    assert_eq!(c.jobs, BTreeSet::from([0, 1]));
    assert!(matches!(c.added[&0], KeepReason::Unknown { .. }), "{:?}", c.added);
    let (t, part_jobs) = cut(&r, &p, &BTreeSet::from([0]), false, false);
    assert_eq!(part_jobs, BTreeSet::from([0]));
    let (flowed, _) = replay(&t.recording);
    assert_eq!(flowed.outcome.verdict, Verdict::Match);
}

#[test]
fn trimmed_published_recordings_replay() {
    for (name, choices) in [("mnist", vec![0..=0u32, 4..=9, 22..=22]), ("alexnet", vec![57..=59u32])] {
        let Some(r) = published(name) else { continue };
        let p = producers(&r);
        let (_, whole) = replay(&r);
        for range in choices {
            let chosen: BTreeSet<u32> = range.clone().collect();
            for (fill, touched) in [(false, false), (true, true)] {
                let (t, part_jobs) = cut(&r, &p, &chosen, fill, touched);
                let case = format!("{name} {range:?} fill {fill} touched {touched}");
                println!(
                    "{case}: {} jobs kept, events {:?}, pages {:?}, supplied {}",
                    part_jobs.len(),
                    t.summary.events,
                    t.summary.pages,
                    t.summary.supplied
                );
                check_part(&r, &whole, &t, &part_jobs, &case);
            }
            // Parts without the needed jobs also replay, because only reads are compared.
            let part_jobs = p.closure(&chosen, DependencyPolicy::Nothing).jobs;
            let t = trim(
                &r,
                &TrimRequest::new(Part::Jobs(part_jobs.clone()), name),
                &Progress::new(),
            )
            .unwrap();
            let (flowed, _) = replay(&t.recording);
            assert_eq!(flowed.outcome.verdict, Verdict::Match, "{name} {range:?} alone");
            assert_eq!(flowed.outcome.jobs().len(), part_jobs.len());
            assert_eq!(part_jobs, chosen);
        }
    }
}

#[test]
fn supplied_bytes_are_aligned_and_within_one_page() {
    let r = sample("digits.kine");
    let p = producers(&r);
    let last = BTreeSet::from([3]);
    for s in p.compute_supplied(&last, &Progress::new()).unwrap() {
        assert!(s.bytes >= 4 && s.at.get().is_multiple_of(4) && s.job < 3);
        assert_eq!(s.at.frame(), PhysAddr::new(s.at.get() + u64::from(s.bytes) - 1).frame());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_job_subset_replays(name in prop::sample::select(&SEVERAL[..]), bits in 1u32..16, fill: bool, touched: bool) {
        let r = sample(name);
        let p = producers(&r);
        let jobs = p.parts().len() as u32;
        let mut chosen: BTreeSet<u32> = (0..jobs).filter(|j| bits >> j & 1 == 1).collect();
        if chosen.is_empty() {
            chosen.insert(jobs - 1);
        }
        let (_, whole) = replay(&r);
        let (t, part_jobs) = cut(&r, &p, &chosen, fill, touched);
        check_part(&r, &whole, &t, &part_jobs, &format!("{name} {chosen:?}"));
    }
}
