//! A frame costs what it shows, not what the recording holds: it touches as little memory for millions of events as
//! for thousands.
//!
//! The kernel tells which pages of memory a process touched since it was asked to forget
//! (`/proc/self/clear_refs`, `Referenced` in `/proc/self/smaps`). A walk over a list of a million things touches all
//! of its pages; a search among them touches a few. This file holds one test, so that nothing else runs beside it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

mod common;

use common::{Window, long};
use kinescope::document::axis::AxisKind;
use kinescope::document::changes::Plotted;
use kinescope::document::code::Listing;
use kinescope::document::jobs::JobFact;
use kinescope::document::moment::Selection;
use kinescope::panels::shader::thread::Run;
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::progress::Progress;

/// KiB of memory touched while `work` runs, or `None` where the kernel does not tell.
fn touched(work: impl FnOnce()) -> Option<u64> {
    // The processor remembers pages that it looked up lately and does not tell of them again. It forgets all of them
    // when a large mapping goes away; an allocation of this size is always a mapping of its own.
    let mapping = std::hint::black_box(vec![1u8; 40 << 20]);
    std::fs::write("/proc/self/clear_refs", "1").ok()?;
    drop(mapping);
    work();
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let kib = |l: &str| {
        l.strip_prefix("Referenced:")?
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()
    };
    Some(maps.lines().filter_map(kib).sum())
}

/// A way to change what is in view, one step a frame.
type Move = fn(&mut Window, u64);

const MOVES: &[(&str, Move)] = &[
    ("still", |_, _| {}),
    ("stepping", |w, i| {
        let n = w.doc().len();
        w.doc().go(n / 2 + i);
    }),
    ("panning, zoomed in", |w, i| {
        let middle = w.doc().len() as f64 / 2.0;
        w.views().timeline.range = Some((middle + i as f64, middle + 500.0 + i as f64));
        w.views().plots.range = w.views().timeline.range;
    }),
];

/// KiB touched by a frame, by what is shown.
fn costs(events: u64) -> BTreeMap<String, u64> {
    let mut w = Window::empty();
    let path = w.folder.path().join("long.kine");
    trace_core::timeline::write(&long::busy(events), &path, &Progress::new()).unwrap();
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    w.settle();
    assert_eq!(w.doc().facts.pending, []);
    assert!(w.doc().len() >= events);
    for e in 0..64 {
        assert!(w.doc().note(e * 5, Some("a note".into())));
    }
    // The register that is read most and the one that is written most have the longest lists.
    let busy = w
        .doc()
        .facts
        .registers
        .iter()
        .max_by_key(|r| r.1.accesses.len())
        .map(|r| *r.0)
        .unwrap();
    w.doc().pin(busy);
    // The register that is read most and the ones beside it are plotted.
    let plotted: Vec<u32> = w.doc().facts.registers.keys().copied().take(3).collect();
    for register in plotted
        .into_iter()
        .chain([busy])
        .collect::<std::collections::BTreeSet<_>>()
    {
        assert!(w.doc().plot(&Plotted { register, field: None }));
    }
    let mut out = BTreeMap::new();
    for panel in [
        "show-events",
        "show-jobs",
        "show-register",
        "show-plots",
        "show-problems",
        "show-page-tables",
        "show-memory",
    ] {
        for axis in AxisKind::ALL {
            for (name, step) in MOVES {
                // The timeline is always there: one panel is enough to see it on every axis.
                if axis != AxisKind::Order && (panel != "show-events" || name.starts_with("panning")) {
                    continue;
                }
                w.run(panel);
                w.timeline_axis(axis);
                w.views().timeline.range = None;
                w.views().plots.range = None;
                let middle = w.doc().len() / 2;
                w.doc().go_with(middle, Selection::Register(busy));
                w.settle();
                // The least of several: the allocator and the kernel touch things of their own now and then.
                let least = (1..10).filter_map(|i| {
                    step(&mut w, i);
                    touched(|| w.harness.step())
                });
                if let Some(kib) = least.min() {
                    out.insert(format!("{panel}, {}, {name}", axis.name()), kib);
                }
            }
        }
    }
    out
}

/// KiB touched by a frame of the Shader panel, by what is done: of so many clauses, each run by a thread so often, in as
/// many jobs.
fn shader_costs(n: usize) -> BTreeMap<String, u64> {
    let mut w = Window::named("matmul.kine");
    w.doc().go_job(0);
    w.run("run-thread");
    let view = &mut w.views().shader;
    let mut code = view.listing.as_ref().unwrap().code.clone();
    let (own, bytes) = (code.clauses.clone(), code.bytes());
    code.clauses = (0..n)
        .map(|i| {
            let mut c = own[i % own.len()].clone();
            c.clause.address += bytes * (i / own.len()) as u64;
            c
        })
        .collect();
    view.listing = Some(Arc::new(Listing::new(code)));
    let run = view.thread.run.as_ref().unwrap();
    let mut followed = run.followed.clone();
    followed.steps = followed.steps.iter().cycle().take(n).cloned().collect();
    followed.executed = n as u64;
    view.thread.run = Some(Arc::new(Run {
        job: run.job,
        workgroup: run.workgroup,
        thread: run.thread,
        key: run.key.clone(),
        followed,
    }));
    view.thread.stops.toggle(1);
    let facts = Arc::make_mut(&mut w.doc().facts);
    let job = facts.jobs[0].clone();
    // The longest chain that is read.
    let long = n.min(trace_core::jobs::MAX_JOBS);
    let chain: Vec<_> = (0..long).map(|_| job.chain[0].clone()).collect();
    facts.jobs = (0..n)
        .map(|i| JobFact {
            index: i as u32,
            chain: if i == 0 {
                chain.clone().into()
            } else {
                Arc::clone(&job.chain)
            },
            ..job.clone()
        })
        .collect();
    w.settle();
    type Step = fn(&mut Window, usize);
    let steps: [(&str, Step); 4] = [
        ("still", |_, _| {}),
        ("along the code", |w, i| {
            let view = &mut w.views().shader;
            view.clause = view.listing.as_ref().unwrap().begins.len() / 2 + i;
        }),
        ("along the thread", |w, _| {
            w.views().shader.thread.step += 1;
        }),
        ("with hits of a search", |w, _| {
            w.views().shader.search = "load".into();
        }),
    ];
    let mut out = BTreeMap::new();
    for (name, step) in steps {
        step(&mut w, 0);
        w.settle();
        let least = (1..10).filter_map(|i| {
            step(&mut w, i);
            touched(|| w.harness.step())
        });
        if let Some(kib) = least.min() {
            out.insert(name.to_owned(), kib);
        }
    }
    out
}

#[test]
fn a_frame_touches_as_little_memory_for_millions_of_events_as_for_thousands() {
    // That the measure tells a walk: a list of a million numbers is 4 MiB, and all of it is touched.
    let list: Vec<u32> = (0..1 << 20).collect();
    let mut sum = 0u64;
    let Some(walk) = touched(|| sum = list.iter().map(|x| u64::from(*x)).sum()) else {
        println!("skipped: this kernel does not tell which pages a process touches");
        return;
    };
    assert!(walk >= 4096 && sum > 0, "a walk over 4 MiB touched {walk} KiB");
    let (small, large) = (costs(10_000), costs(3_000_000));
    assert_eq!(small.len(), large.len());
    let mut wrong = Vec::new();
    for (what, small) in &small {
        let large = large[what];
        println!("{what}: {small} KiB a frame for 10 000 events, {large} KiB for 3 000 000");
        // A search touches a page a step, and by time there is more to draw where every pixel holds something. A walk
        // over the jobs, polls, times or values of the large one touches many MiB. On a busy machine the kernel tells of
        // more pages, up to 3.2 MiB in the order of events.
        let more = if what.contains(", order, ") { 4608 } else { 6144 };
        if large > small + more {
            wrong.push(format!(
                "{what}: {small} KiB for 10 000 events, {large} KiB for 3 000 000"
            ));
        }
    }
    let (small, large) = (shader_costs(1000), shader_costs(200_000));
    assert_eq!(small.len(), 4);
    for (what, small) in &small {
        let large = large[what];
        println!("shader, {what}: {small} KiB a frame for 1 000 clauses, steps and jobs, {large} KiB for 200 000");
        if large > small + 4608 {
            wrong.push(format!(
                "shader, {what}: {small} KiB for 1 000, {large} KiB for 200 000"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
