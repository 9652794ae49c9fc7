//! Tests that a frame touches memory for what it shows, not for what the recording holds. It touches as little memory
//! for millions of events as for thousands.
//!
//! The kernel reports which pages of memory a process touched since the last reset (`/proc/self/clear_refs`,
//! `Referenced` in `/proc/self/smaps`). A walk over a list of a million items touches all of its pages. A search in the
//! list touches a few. This file holds one test, so that nothing else runs at the same time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

#[path = "it/common/mod.rs"]
mod common;

use common::{Window, long};
use kinescope::panels::gpu::shader::thread::Run;
use kinescope_files::changes::PlotLine;
use kinescope_files::scene::Selection;
use kinescope_session::axis::AxisKind;
use kinescope_session::code::Listing;
use kinescope_session::comparison::ComparisonSource;
use kinescope_session::jobs::{Chain, JobFact};
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::mmu::{self, Rights};
use trace_core::progress::Progress;
use trace_core::recording::{AddressSpace, EventsBuilder, FrameRole, MemoryBuilder, MmuFormat, Recording};
use trace_core::{GpuVa, PhysAddr, RegOffset};

/// Returns the KiB of memory that `work` touches, or `None` if the kernel does not report touched pages.
fn measure_touched_kib(work: impl FnOnce()) -> Option<u64> {
    // The processor caches recent page lookups and does not mark those pages again. It drops the whole cache when a
    // large mapping is removed. An allocation of this size always has a mapping of its own.
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

/// KiB of memory that a frame touched, by the name of what it showed.
type Costs = BTreeMap<String, u64>;

/// Returns the smallest cost of several frames, because the allocator and the kernel sometimes touch memory of their
/// own. With the costs of a small recording, the search ends at the first frame within the allowance of `shown`.
fn min_cost(small: Option<&Costs>, shown: &str, mut frame: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
    let enough = small.map(|s| s[shown] + allowance(shown));
    let frames = if small.is_some() { 10 } else { 4 };
    let mut min = None;
    for i in 1..frames {
        let cost = frame(i)?;
        min = Some(min.map_or(cost, |m: u64| m.min(cost)));
        if enough.is_some_and(|e| cost <= e) {
            break;
        }
    }
    min
}

/// Returns how many more KiB a frame of a large recording may touch than a frame of a small one. A search touches one
/// page per step. On a time axis a frame draws more, because every pixel holds something. A walk over the jobs, polls,
/// times or values of the large recording touches many MiB. On a busy machine the kernel reports more pages, up to 3.2
/// MiB on the axis of event order.
fn allowance(shown: &str) -> u64 {
    if shown.starts_with("show-") && shown.matches(", ").count() == 2 && !shown.contains(", order, ") {
        6144
    } else {
        4608
    }
}

/// A function that changes the view by one step per frame.
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

/// Returns the KiB that one frame touches, by panel, axis and movement.
fn costs(events: u64, small: Option<&Costs>) -> Costs {
    let mut w = Window::empty();
    let path = w.folder.path().join("long.kine");
    trace_core::timeline::write(&long::busy(events), &path, &Progress::new()).unwrap();
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    w.settle();
    assert_eq!(w.doc().derived.pending, []);
    assert!(w.doc().len() >= events);
    for e in 0..64 {
        assert!(w.doc().note(e * 5, Some("a note".into())));
    }
    // The register with the most accesses has the longest list.
    let busy = w
        .doc()
        .derived
        .registers
        .iter()
        .max_by_key(|r| r.1.accesses.len())
        .map(|r| *r.0)
        .unwrap();
    w.doc().pin(busy);
    // The first three registers and the busiest one are plotted.
    let plotted: Vec<RegOffset> = w.doc().derived.registers.keys().copied().take(3).collect();
    for register in plotted
        .into_iter()
        .chain([busy])
        .collect::<std::collections::BTreeSet<_>>()
    {
        assert!(w.doc().plot(&PlotLine { register, field: None }));
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
                // The timeline is visible with every panel, so one panel is enough to test all axes.
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
                let shown = format!("{panel}, {}, {name}", axis.name());
                let cost = min_cost(small, &shown, |i| {
                    step(&mut w, i);
                    measure_touched_kib(|| w.harness.step())
                });
                out.extend(cost.map(|kib| (shown, kib)));
            }
        }
    }
    out
}

/// Returns the KiB that a frame of the Shader panel touches, by action. The code has `n` clauses, the thread `n` steps,
/// and the recording `n` jobs.
fn shader_costs(n: usize, small: Option<&Costs>) -> Costs {
    let mut w = Window::open_sample("matmul.kine");
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
    view.thread.stops.toggle(GpuVa::new(1));
    let derived = Arc::make_mut(&mut w.doc().derived);
    let job = derived.jobs[0].clone();
    // No chain that is read has more than `MAX_JOBS` jobs.
    let long = n.min(trace_core::families::mali_jm::MAX_JOBS);
    let chain: Vec<_> = (0..long).map(|_| job.chain[0].clone()).collect();
    derived.jobs = (0..n)
        .map(|i| JobFact {
            index: i as u32,
            chain: if i == 0 {
                Arc::new(Chain::new(chain.clone()))
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
        let cost = min_cost(small, name, |i| {
            step(&mut w, i as usize);
            measure_touched_kib(|| w.harness.step())
        });
        out.extend(cost.map(|kib| (name.to_owned(), kib)));
    }
    out
}

/// Returns the KiB that a frame of a comparison touches, by action. The second recording reads another value now and
/// then.
fn compare_costs(events: u64, small: Option<&Costs>) -> Costs {
    let mut w = Window::empty();
    let (one, other) = (w.folder.path().join("one.kine"), w.folder.path().join("other.kine"));
    let recording = long::busy(events);
    let mut b = EventsBuilder::new();
    for at in 0..recording.events.len() {
        let mut access = recording.events.access(at).unwrap();
        // The driver polls a status in every fourth job. About one read in some hundred events has another value, and
        // no event moves.
        if at % 128 == 5 && !access.write {
            access.value ^= 2;
        }
        b.access(recording.events.time.get(at).unwrap(), 7, access);
    }
    let changed = Recording {
        events: b.finish(),
        ..recording.clone()
    };
    trace_core::timeline::write(&recording, &one, &Progress::new()).unwrap();
    trace_core::timeline::write(&changed, &other, &Progress::new()).unwrap();
    drop((recording, changed));
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, one);
    w.settle();
    w.app().compare(&ctx, ComparisonSource::File(other));
    w.settle();
    let c = w.doc().comparison.done.clone().expect("the comparison is done");
    assert!(c.diff.events.changed > events / 400, "{}", c.diff.events.changed);
    let mut out = BTreeMap::new();
    for section in ["Events", "Registers"] {
        w.click(&format!("Differences: {section}"));
        for (name, _) in &MOVES[..2] {
            let middle = w.doc().len() / 2;
            w.doc().go(middle);
            w.settle();
            let shown = format!("{section}, {name}");
            let cost = min_cost(small, &shown, |_| {
                if *name == "stepping" {
                    w.run("next-difference");
                }
                measure_touched_kib(|| w.harness.step())
            });
            out.extend(cost.map(|kib| (shown, kib)));
        }
    }
    out
}

/// Returns a recording of an address space with `tables` last-level tables. Every second page of each table is mapped.
fn page_table_recording(tables: u64) -> Recording {
    let format = MmuFormat::Aarch64_4k;
    let entry =
        |page: &mut [u8; 4096], at: usize, raw: u64| page[at * 8..at * 8 + 8].copy_from_slice(&raw.to_le_bytes());
    let mut m = MemoryBuilder::new();
    let mut frames = Vec::new();
    let mut put = |frame: u64, page: &[u8; 4096]| frames.push((frame, m.add_page(page), FrameRole::Table));
    for (frame, next) in [(1u64, 2u64), (2, 3)] {
        let mut page = [0; 4096];
        entry(&mut page, 0, mmu::encode_table(format, PhysAddr::new(next << 12)));
        put(frame, &page);
    }
    let mut middle = [0; 4096];
    for t in 0..tables {
        entry(
            &mut middle,
            t as usize,
            mmu::encode_table(format, PhysAddr::new((4 + t) << 12)),
        );
        let mut page = [0; 4096];
        for at in (0..512u64).step_by(2) {
            let rights = if at % 4 == 0 { Rights::RW } else { Rights::RO };
            let raw = mmu::encode_leaf(format, PhysAddr::new((0x10_0000 + t * 512 + at) << 12), rights, 0);
            entry(&mut page, at as usize, raw);
        }
        put(4 + t, &page);
    }
    put(3, &middle);
    frames.sort_unstable_by_key(|f| f.0);
    m.add_snapshot(0, frames);
    let mut r = Recording {
        memory: m.finish(),
        ..Recording::default()
    };
    r.metadata.address_spaces.push(AddressSpace {
        number: 0,
        format,
        root: PhysAddr::new(1 << 12),
        memattr: 0,
        transcfg: 6,
    });
    r
}

/// Returns the KiB that a frame of Page tables touches: as a list, as a map, and as a zoomed map that pans.
fn table_costs(tables: u64, small: Option<&Costs>) -> Costs {
    let mut w = Window::from_recording(page_table_recording(tables));
    w.run("show-page-tables");
    let mut out = BTreeMap::new();
    for shape in ["list", "map"] {
        if shape == "map" {
            w.click("Page tables as a map");
        }
        w.settle();
        type Step = fn(&mut Window, usize);
        let steps: [(&str, Step); 2] = [
            ("still", |_, _| {}),
            ("panning, zoomed in", |w, i| {
                let square = &mut w.views().tables.atlas.square;
                square.zoom = 1.0;
                square.middle = (100.0 + i as f64, 100.0);
            }),
        ];
        for (name, step) in steps {
            if shape == "list" && name != "still" {
                continue;
            }
            let shown = format!("{shape}, {name}");
            let cost = min_cost(small, &shown, |i| {
                step(&mut w, i as usize);
                measure_touched_kib(|| w.harness.step())
            });
            out.extend(cost.map(|kib| (shown, kib)));
        }
    }
    out
}

/// Returns the KiB that a frame of each panel of an API trace touches, without input and while it steps from launch to
/// launch.
fn call_costs(runs: u64, small: Option<&Costs>) -> Costs {
    let n = common::net::net(runs as u32);
    let mut w = Window::from_recording(n.recording);
    let mut out = BTreeMap::new();
    for panel in ["show-launches", "show-kernel", "show-memory"] {
        w.run(panel);
        for stepping in [false, true] {
            let middle = n.launches[n.launches.len() / 2];
            w.doc().go(middle);
            w.settle();
            let shown = format!("{panel}, {}", if stepping { "stepping" } else { "still" });
            let cost = min_cost(small, &shown, |_| {
                if stepping {
                    w.run("next-launch");
                }
                measure_touched_kib(|| w.harness.step())
            });
            out.extend(cost.map(|kib| (shown, kib)));
        }
    }
    out
}

#[test]
#[ignore = "make test-full: takes a minute and must run alone"]
fn frame_memory_cost_is_independent_of_event_count() {
    // The measurement must detect a walk: a list of a million numbers has 4 MiB, and a walk touches all of it.
    let list: Vec<u32> = (0..1 << 20).collect();
    let mut sum = 0u64;
    let Some(walk) = measure_touched_kib(|| sum = list.iter().map(|x| u64::from(*x)).sum()) else {
        println!("skipped: this kernel does not report which pages a process touches");
        return;
    };
    assert!(walk >= 4096 && sum > 0, "a walk over 4 MiB touched {walk} KiB");
    type MeasureCosts = fn(u64, Option<&Costs>) -> Costs;
    let kinds: [(&str, MeasureCosts, [u64; 2], [&str; 2]); 5] = [
        ("panels", costs, [10_000, 3_000_000], ["10 000 events", "3 000 000"]),
        (
            "shader",
            |n, small| shader_costs(n as usize, small),
            [1000, 200_000],
            ["1 000 clauses, steps and jobs", "200 000"],
        ),
        (
            "comparison",
            compare_costs,
            [10_000, 3_000_000],
            ["10 000 events", "3 000 000"],
        ),
        ("calls", call_costs, [50, 20_000], ["200 launches", "80 000"]),
        ("page tables", table_costs, [125, 500], ["32 000 mappings", "128 000"]),
    ];
    let mut wrong = Vec::new();
    for (kind, measure, sizes, counts) in kinds {
        let begin = std::time::Instant::now();
        let small = measure(sizes[0], None);
        let large = measure(sizes[1], Some(&small));
        assert!(small.len() >= 3 && small.len() == large.len());
        for (shown, small) in &small {
            let large = large[shown];
            let line = format!(
                "{kind}, {shown}: {small} KiB a frame for {}, {large} KiB for {}",
                counts[0], counts[1]
            );
            println!("{line}");
            if large > small + allowance(shown) {
                wrong.push(line);
            }
        }
        println!("{kind}: measured in {:.1} s", begin.elapsed().as_secs_f64());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
