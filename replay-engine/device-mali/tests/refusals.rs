//! Every rule that a plan must keep, broken once: refused with its rule, its place and its reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::single_range_in_vec_init
)]

mod common;

use common::{compiled, play, published, sample, steps, target, with_accesses, with_actions, with_entry, with_page};
use replay_core::{Action, ReadClass};
use replay_engine::plan::{Budgets, CompileError, CompileOptions, Compiled, Edits, Patch, Plan, compile};
use replay_engine::verify::{Reason, Refusal, Work, verify, verify_within};
use trace_core::GpuVa;
use trace_core::check::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{FrameRole, Recording};

const SAMPLE: &str = "write-value.kine";

fn refused(c: &Compiled) -> Refusal {
    verify(&c.plan, &c.pages, &target()).expect_err("the plan is to be refused")
}

fn reason(c: &Compiled, rule: u8) -> Reason {
    let r = refused(c);
    assert_eq!(r.rule, rule, "{r}");
    assert!(!r.place.is_empty());
    r.reason
}

fn first(c: &Compiled) -> Compiled {
    c.clone()
}

fn write(event: u32, offset: u64, value: u64) -> Action {
    Action::Write {
        event,
        space: 0,
        offset,
        width: 4,
        value,
    }
}

fn fails(r: &Recording, edits: &Edits, options: &CompileOptions) -> CompileError {
    compile(r, edits, &target(), options, &Progress::new()).expect_err("the recording is not to compile")
}

#[test]
fn what_is_whole_is_accepted() {
    for name in [
        "write-value.kine",
        "write-value-lpae.kine",
        "chain2.kine",
        "matmul.kine",
    ] {
        let c = compiled(&sample(name));
        let v = verify(&c.plan, &c.pages, &target()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(v.jobs > 0 && v.leaves > 0 && v.tables > 0, "{name}: {v:?}");
    }
}

#[test]
fn rule_1_registers() {
    let whole = compiled(&sample(SAMPLE));
    let put = |a: Action| with_actions(first(&whole), |list| list.insert(0, a));
    assert_eq!(
        reason(&put(write(0, 0x3ff8, 1)), 1),
        Reason::UnknownRegister { offset: 0x3ff8 }
    );
    assert_eq!(
        reason(&put(write(0, 0x4000, 1)), 1),
        Reason::OutsideWindow {
            offset: 0x4000,
            window: 0x4000
        }
    );
    let far = u64::MAX - 1;
    assert_eq!(
        reason(&put(write(0, far, 1)), 1),
        Reason::OutsideWindow {
            offset: far,
            window: 0x4000
        }
    );
    assert_eq!(
        reason(&put(write(0, 0x32, 1)), 1),
        Reason::WidthOrAlignment { offset: 0x32, width: 4 }
    );
    let wide = Action::Write {
        event: 0,
        space: 0,
        offset: 0x30,
        width: 8,
        value: 1,
    };
    assert_eq!(
        reason(&put(wide), 1),
        Reason::WidthOrAlignment { offset: 0x30, width: 8 }
    );
    let elsewhere = Action::Write {
        event: 0,
        space: 7,
        offset: 0,
        width: 4,
        value: 1,
    };
    assert_eq!(reason(&put(elsewhere), 1), Reason::UnknownSpace { space: 7 });
    // GPU_ID is read-only; PWR_KEY unlocks what a replay must not touch.
    assert!(matches!(reason(&put(write(0, 0, 1)), 1), Reason::NotReplayable { register, .. } if register == "GPU_ID"));
    assert!(
        matches!(reason(&put(write(0, 0x50, 1)), 1), Reason::NotReplayable { register, .. } if register == "PWR_KEY")
    );
    let live = Action::WriteSlot {
        event: 0,
        space: 0,
        offset: 0x18c0,
        width: 4,
        slot: 0,
    };
    assert!(matches!(reason(&put(live), 1), Reason::LiveValue { register } if register == "JS1_HEAD_NEXT_LO"));
    let mut cut = first(&whole);
    cut.plan.body.pop();
    assert!(matches!(reason(&cut, 1), Reason::Body { .. }));
    let mut all = first(&whole);
    all.plan.allowed = vec![(0, 0x4000)];
    assert_eq!(reason(&all, 1), Reason::AllowedTooMuch { start: 0, end: 0x4000 });
}

#[test]
fn rule_1_at_compile_time() {
    let r = sample(SAMPLE);
    let moved = |offset, width| {
        with_accesses(r.clone(), |event, mut a| {
            if event == 0 {
                (a.offset, a.width, a.write) = (offset, width, true);
            }
            Some(a)
        })
    };
    let options = CompileOptions::default();
    let e = fails(&moved(0x3ff8, 4), &Edits::default(), &options);
    assert!(
        matches!(
            e,
            CompileError::UnknownRegister {
                event: 0,
                offset: 0x3ff8
            }
        ),
        "{e}"
    );
    let e = fails(&moved(0x4000, 4), &Edits::default(), &options);
    assert!(
        matches!(
            e,
            CompileError::BadAccess {
                event: 0,
                offset: 0x4000,
                ..
            }
        ),
        "{e}"
    );
    let e = fails(&moved(0x30, 2), &Edits::default(), &options);
    assert!(matches!(e, CompileError::BadAccess { event: 0, width: 2, .. }), "{e}");
    let e = fails(&moved(0, 4), &Edits::default(), &options);
    assert!(matches!(e, CompileError::NotReplayable { event: 0, .. }), "{e}");
    // An unknown register compiles once a person allows it, and the verification names it.
    let allow = CompileOptions {
        allow_unknown: vec![0x3ff0..0x4000],
        ..CompileOptions::default()
    };
    let c = compile(
        &moved(0x3ff8, 4),
        &Edits::default(),
        &target(),
        &allow,
        &Progress::new(),
    )
    .unwrap();
    let v = verify(&c.plan, &c.pages, &target()).unwrap();
    assert!(v.unproved.iter().any(|u| u.contains("0x3ff0..0x4000")), "{v:?}");
    // The outcome names it and says how often it was used.
    let o = play(&c);
    let told = o
        .findings
        .iter()
        .find(|f| f.kind == FindingKind::UnknownRegister)
        .unwrap();
    assert!(
        told.place == "registers 0x3ff0..0x4000" && told.message.ends_with("allowed it: 0 reads, 1 write"),
        "{told:?}"
    );
    let with = |ranges: &[std::ops::Range<u32>]| {
        let options = CompileOptions {
            allow_unknown: ranges.to_vec(),
            ..CompileOptions::default()
        };
        fails(&r, &Edits::default(), &options)
    };
    assert!(matches!(with(&[0..0x4000]), CompileError::AllowedTooMuch { .. }));
    // Nor in pieces.
    let pieces: Vec<_> = (0..5).map(|n| 0x2800 + n * 0x400..0x2800 + (n + 1) * 0x400).collect();
    assert!(
        matches!(with(&pieces), CompileError::AllowedTooMuch { .. }),
        "{}",
        with(&pieces)
    );
    assert!(matches!(
        with(&vec![0x3ff0..0x3ff4; 65]),
        CompileError::AllowedTooMuch { .. }
    ));
    // What is known not to be replayed is not allowed by its neighbours.
    let e = with(&[0..0x10]);
    assert!(
        matches!(&e, CompileError::AllowedKnown { register, .. } if register == "GPU_ID"),
        "{e}"
    );
    for uneven in [0x3ff1..0x3ff4, 0x3ff0..0x3ff2, 0x3ff4..0x3ff4] {
        assert!(matches!(with(&[uneven]), CompileError::AllowedUneven { .. }));
    }
}

#[test]
fn rule_2_pages() {
    let whole = compiled(&sample(SAMPLE));
    let digest = whole.plan.pages[0].digest;
    let mut missing = first(&whole);
    missing.pages.remove(&digest);
    assert!(matches!(reason(&missing, 2), Reason::PageMissing { .. }));
    let mut damaged = first(&whole);
    damaged.pages.get_mut(&digest).unwrap()[17] ^= 1;
    assert!(matches!(reason(&damaged, 2), Reason::PageDamaged { .. }));
    let mut outside = first(&whole);
    outside.plan.pages.last_mut().unwrap().frame += outside.plan.arena.pages;
    assert!(matches!(reason(&outside, 2), Reason::PageOutside { .. }));
    let mut twice = first(&whole);
    twice.plan.pages.insert(1, twice.plan.pages[0]);
    assert_eq!(reason(&twice, 2), Reason::PagesUnsorted);
    let mut other = first(&whole);
    other.plan.arena.pages -= 1;
    assert_eq!(reason(&other, 0), Reason::OtherArena);
}

/// Every single bit of every level's entry, on both formats: what leaves the plan's pages is refused.
#[test]
fn rule_2_a_table_flipped_in_one_bit() {
    for name in [SAMPLE, "write-value-lpae.kine"] {
        let whole = compiled(&sample(name));
        let used = whole.plan.used_pages;
        let first_frame = whole.plan.arena.base.frame();
        let head = whole.plan.jobs[0].head_va;
        let path = steps(&whole, head);
        assert_eq!(path.len(), 4);
        let (mut left, mut told) = (0, 0);
        for step in path {
            for bit in 12..48 {
                let flipped = with_entry(whole.clone(), step.entry_at, |raw| raw ^ 1 << bit);
                let frame = (step.raw ^ 1 << bit) >> 12 & 0xf_ffff_ffff;
                let inside = (first_frame..first_frame + used).contains(&frame);
                match verify(&flipped.plan, &flipped.pages, &target()) {
                    Ok(_) => assert!(
                        inside,
                        "{name}: bit {bit} of level {} left the pages unseen",
                        step.level
                    ),
                    Err(r) if !inside => {
                        assert_eq!(r.rule, 2, "{r}");
                        let ok = matches!(r.reason, Reason::LeafOutside { .. } | Reason::TableOutside { .. });
                        assert!(ok, "{r}");
                        left += 1;
                    }
                    // Inside, another rule may see that the flip makes no sense: a shared table, a table as data.
                    Err(_) => told += 1,
                }
            }
        }
        println!("{name}: {left} flips leave the pages, {told} more are refused for what they do inside");
        assert!(left > 100);
    }
}

#[test]
fn rule_2_tables_are_not_for_the_gpu_to_write() {
    let whole = compiled(&sample(SAMPLE));
    let table = whole
        .plan
        .pages
        .iter()
        .find(|p| p.role == FrameRole::Table)
        .unwrap()
        .frame;
    let memory = replay_engine::plan::PlanMemory::of(&whole.plan, &whole.pages).unwrap();
    let space = whole.plan.spaces[0];
    let mut leaf = None;
    trace_core::mmu::for_each_leaf(space.format, space.root, &memory, &mut |l| {
        if l.rights.write {
            leaf = Some(l);
        }
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    let at = steps(&whole, leaf.unwrap().va)[3].entry_at;
    let address = ((1u64 << 48) - 1) & !0xfff;
    let c = with_entry(whole, at, |raw| raw & !address | table << 12);
    assert!(matches!(reason(&c, 2), Reason::TableWritable { at, .. } if at == table << 12));
}

fn find(c: &Compiled, offset: u64) -> usize {
    let mut found = None;
    let _ = with_actions(c.clone(), |list| {
        found = list
            .iter()
            .position(|a| matches!(a, Action::Write { space: 0, offset: o, .. } if *o == offset));
    });
    found.unwrap()
}

fn set(c: &Compiled, at: usize, new: u64) -> Compiled {
    with_actions(c.clone(), |list| {
        let Action::Write { value, .. } = &mut list[at] else {
            panic!("not a write")
        };
        *value = new;
    })
}

#[test]
fn rule_2_roots_and_translation_modes() {
    const TRANSTAB_LO: u64 = 0x2400;
    const TRANSTAB_HI: u64 = 0x2404;
    const TRANSCFG_LO: u64 = 0x2430;
    let whole = compiled(&sample(SAMPLE));
    let at = |offset| find(&whole, offset);
    let is_mode = |r: Reason, m| matches!(r, Reason::TranslationMode { mode, .. } if mode == m);
    // Identity, legacy and 64 KiB are refused where they are written.
    for mode in [0u64, 2, 8] {
        let c = set(&whole, at(TRANSCFG_LO), 0x4200_0000 | mode);
        assert!(is_mode(reason(&c, 2), mode), "mode {mode}");
    }
    let c = set(&whole, at(TRANSTAB_LO), 0x8000_0000);
    assert!(matches!(reason(&c, 2), Reason::ForeignRoot { value: 0x8000_0000, .. }));
    let c = set(&whole, at(TRANSTAB_HI), 0x77);
    assert!(matches!(reason(&c, 2), Reason::ForeignRoot { value: 0x77, .. }));
    // A half that would pass by itself: the high one 0 beside a low one of the agent's root.
    let c = set(&whole, at(TRANSTAB_HI), 0);
    assert!(matches!(
        refused(&c).reason,
        Reason::ForeignRoot { .. } | Reason::NoTables { .. }
    ));
    let mut c = first(&whole);
    c.plan.spaces[0].root_register ^= 1 << 20;
    assert!(matches!(reason(&c, 2), Reason::RootValue { .. }));
    // Translation off keeps the job from its memory.
    let c = set(&whole, at(TRANSCFG_LO), 0x4200_0001);
    assert!(matches!(reason(&c, 3), Reason::JobWithoutSpace { number: 0 }));
}

#[test]
fn rule_3_chains() {
    let r = sample(SAMPLE);
    let whole = compiled(&r);
    let head = whole.plan.jobs[0].head_va;
    // The head's next-job pointer is made to point at itself, by an edit that a person could make.
    let edits = Edits {
        patches: vec![Patch {
            address_space: 0,
            va: GpuVa(head.0 + 24),
            bytes: head.0.to_le_bytes().to_vec(),
        }],
        ..Edits::default()
    };
    let c = common::edited(&r, &edits);
    assert_eq!(
        reason(&c, 3),
        Reason::ChainLoops {
            head: head.0,
            va: head.0
        }
    );
    // The head is moved to where nothing is mapped.
    let c = set(&whole, find(&whole, 0x18c4), 0x7000);
    assert!(matches!(reason(&c, 3), Reason::ChainUnmapped { .. }));
    // The page of the header is unmapped.
    let c = with_entry(whole.clone(), steps(&whole, head)[3].entry_at, |_| 2);
    assert_eq!(
        reason(&c, 3),
        Reason::ChainUnmapped {
            head: head.0,
            va: head.0
        }
    );
    // Writes to the arena.
    let put = |offset, width| {
        let a = Action::Write {
            event: 0,
            space: 1,
            offset,
            width,
            value: 0,
        };
        with_actions(whole.clone(), |list| list.insert(0, a))
    };
    let end = whole.plan.used_pages * 4096;
    assert_eq!(reason(&put(end, 8), 3), Reason::WriteOutside { offset: end, width: 8 });
    assert_eq!(
        reason(&put(u64::MAX - 7, 8), 3),
        Reason::WriteOutside {
            offset: u64::MAX - 7,
            width: 8
        }
    );
    assert_eq!(
        reason(&put(end - 4, 8), 3),
        Reason::WriteOutside {
            offset: end - 4,
            width: 8
        }
    );
    assert_eq!(reason(&put(0, 8), 3), Reason::WriteIntoTable { offset: 0 });
}

#[test]
fn rule_4_limits_and_budgets() {
    let whole = compiled(&sample(SAMPLE));
    let with = |change: fn(&mut Action)| with_actions(whole.clone(), |list| list.iter_mut().for_each(change));
    let c = with(|a| {
        if let Action::WaitInterrupt { limit_ns, .. } = a {
            *limit_ns = 0;
        }
    });
    assert!(matches!(reason(&c, 4), Reason::WaitLimit { limit_ns: 0, .. }));
    let c = with(|a| {
        if let Action::Until { limit_ns, .. } = a {
            *limit_ns = u64::MAX;
        }
    });
    assert!(matches!(reason(&c, 4), Reason::WaitLimit { limit_ns: u64::MAX, .. }));
    let c = with(|a| {
        if let Action::WaitInterrupt { lines, .. } = a {
            *lines = 1 << 9;
        }
    });
    assert_eq!(reason(&c, 4), Reason::WaitLines { lines: 1 << 9 });
    let c = with_actions(whole.clone(), |l| l.insert(0, Action::Pause { event: 0, ns: u64::MAX }));
    assert!(matches!(reason(&c, 4), Reason::Budget { .. }));
    let spend = |change: fn(&mut Plan)| {
        let mut c = whole.clone();
        change(&mut c.plan);
        c
    };
    assert!(matches!(
        reason(&spend(|p| p.budgets.actions = p.actions - 1), 4),
        Reason::Budget { .. }
    ));
    assert!(matches!(
        reason(&spend(|p| p.budgets.pages = p.used_pages - 1), 4),
        Reason::Budget { .. }
    ));
    assert!(matches!(
        reason(&spend(|p| p.budgets.time_ns = u64::MAX), 4),
        Reason::Budget { .. }
    ));
    // A plan that lies about its actions.
    let lie = spend(|p| {
        p.actions = 1;
        p.budgets.actions = 1;
    });
    assert!(matches!(reason(&lie, 4), Reason::Budget { .. }));
    // The same through the compiler's options.
    let options = CompileOptions {
        budgets: Budgets {
            actions: 10,
            ..Budgets::default()
        },
        ..CompileOptions::default()
    };
    let c = compile(
        &sample(SAMPLE),
        &Edits::default(),
        &target(),
        &options,
        &Progress::new(),
    )
    .unwrap();
    assert!(matches!(reason(&c, 4), Reason::Budget { budget: 10, .. }));
}

#[test]
fn rule_4_a_job_in_a_slot_that_no_gpu_has() {
    let mut c = compiled(&sample(SAMPLE));
    for slot in [16, 254] {
        c.plan.jobs[0].slot = slot;
        assert!(matches!(reason(&c, 4), Reason::Budget { budget: 16, .. }));
        // Whoever runs it all the same gets a job whose end nobody saw.
        let outcome = play(&c);
        assert_eq!(outcome.jobs.len(), c.plan.jobs.len());
        assert!(!outcome.jobs[0].done);
    }
}

#[test]
fn rule_5_every_difference_is_named() {
    let whole = compiled(&sample(SAMPLE));
    let extra = Action::WaitInterrupt {
        event: 0,
        lines: 1,
        limit_ns: 1,
    };
    let c = with_actions(whole.clone(), |l| l.insert(0, extra));
    assert!(matches!(reason(&c, 5), Reason::Unnamed { .. }));
    let mut c = whole.clone();
    c.plan.rewrites.retain(|r| r.kind.name() != "job-status");
    assert!(matches!(reason(&c, 5), Reason::Unnamed { what, .. } if what == "job-status rewrites"));
    let without = |kind: &str| {
        let mut c = whole.clone();
        c.plan.rewrites.retain(|r| r.kind.name() != kind);
        reason(&c, 5)
    };
    for kind in ["root", "flush-id", "address", "read-to-wait", "wait-added"] {
        let what = format!("{kind} rewrites");
        let r = without(kind);
        assert!(
            matches!(&r, Reason::Unnamed { what: w, .. } if *w == what),
            "{kind}: {r}"
        );
    }
    let change = |change: fn(&mut Plan)| {
        let mut c = whole.clone();
        change(&mut c.plan);
        reason(&c, 5)
    };
    let r = change(|p| p.reads.equal += 1);
    assert!(matches!(r, Reason::Unnamed { what, .. } if what == "equal reads"));
    // The list of jobs is what the person read.
    for r in [
        change(|p| p.jobs[0].slot += 1),
        change(|p| p.jobs[0].submit_event += 1),
        change(|p| p.jobs[0].head_va.0 += 64),
        change(|p| p.jobs[0].done_event = Some(p.jobs[0].submit_event)),
        change(|p| p.jobs.clear()),
    ] {
        assert!(matches!(r, Reason::OtherJob { index: 0, .. }), "{r}");
    }
    let r = change(|p| p.jobs.push(p.jobs[0]));
    assert!(matches!(r, Reason::Unnamed { what, .. } if what == "jobs"));
    let r = change(|p| p.outputs.clear());
    assert!(matches!(r, Reason::Unnamed { what, said: 1, found: 0 } if what == "output rewrites"));
}

#[test]
fn rule_6_outputs_lie_in_mapped_memory() {
    let mut c = compiled(&sample(SAMPLE));
    let mut o = c.plan.buffers[0].clone();
    o.va = GpuVa(0x10);
    c.plan.outputs = vec![o];
    assert!(matches!(reason(&c, 6), Reason::OutputUnmapped { va: 0x10, .. }));
}

#[test]
fn the_published_recordings_refuse_the_same() {
    let Some(r) = published("mnist") else { return };
    let whole = compiled(&r);
    let head = whole.plan.jobs[0].head_va;
    let c = with_entry(whole.clone(), steps(&whole, head)[3].entry_at, |raw| raw ^ 1 << 33);
    assert!(matches!(reason(&c, 2), Reason::LeafOutside { va, .. } if va == head.0 & !0xfff));
    let c = with_page(whole, steps(&compiled(&r), head)[0].entry_at.frame(), |p| p.fill(0xff));
    assert!(!reason(&c, 2).to_string().is_empty());
}

#[test]
fn what_a_person_gives_must_fit() {
    let r = sample(SAMPLE);
    let options = CompileOptions::default();
    let buffer = r.facts.buffers[0].clone();
    let input = |name: &str, n: usize| Edits {
        inputs: [(name.to_owned(), vec![0; n])].into(),
        ..Edits::default()
    };
    let e = fails(&r, &input("nobody", 4), &options);
    assert!(matches!(e, CompileError::UnknownBuffer { .. }), "{e}");
    let e = fails(&r, &input(&buffer.name, buffer.bytes as usize + 1), &options);
    assert!(matches!(e, CompileError::InputSize { .. }), "{e}");
    let far = Patch {
        address_space: 0,
        va: GpuVa(0x1000),
        bytes: vec![1],
    };
    let e = fails(
        &r,
        &Edits {
            patches: vec![far],
            ..Edits::default()
        },
        &options,
    );
    assert!(matches!(e, CompileError::NotMapped { va: GpuVa(0x1000), .. }), "{e}");
    let small = replay_engine::device::Arena {
        pages: 3,
        ..target().arena
    };
    let info = replay_engine::device::DeviceInfo {
        arena: small,
        ..target()
    };
    let e = compile(&r, &Edits::default(), &info, &options, &Progress::new()).unwrap_err();
    assert!(matches!(e, CompileError::ArenaTooSmall { pages: 3 }), "{e}");
}

fn insert(c: &Compiled, at: usize, actions: &[Action]) -> Compiled {
    with_actions(c.clone(), |list| {
        // Beside another action, and so of its event.
        let event = list[at.saturating_sub(1)].event();
        for a in actions.iter().rev() {
            list.insert(at, moved(*a, event));
        }
    })
}

fn moved(a: Action, to: u32) -> Action {
    match a {
        Action::Write {
            space,
            offset,
            width,
            value,
            ..
        } => Action::Write {
            event: to,
            space,
            offset,
            width,
            value,
        },
        Action::Until {
            reads,
            space,
            offset,
            width,
            mask,
            expected,
            limit_ns,
            ..
        } => Action::Until {
            event: to,
            reads,
            space,
            offset,
            width,
            mask,
            expected,
            limit_ns,
        },
        Action::WaitInterrupt { lines, limit_ns, .. } => Action::WaitInterrupt {
            event: to,
            lines,
            limit_ns,
        },
        other => other,
    }
}

fn position(c: &Compiled, wanted: impl Fn(&Action) -> bool) -> usize {
    let mut found = None;
    let _ = with_actions(c.clone(), |list| found = list.iter().position(&wanted));
    found.expect("there is such an action")
}

fn with_action<T>(c: &Compiled, at: usize, take: impl FnOnce(Action) -> T) -> T {
    let mut found = None;
    let _ = with_actions(c.clone(), |list| found = Some(list[at]));
    take(found.expect("there is such an action"))
}

/// Index of the submit, a write of 1 to JS1_COMMAND_NEXT.
fn submit(c: &Compiled) -> usize {
    find(c, 0x18e0)
}

#[test]
fn rule_2_nothing_unknown_beside_the_translation_mode() {
    let whole = compiled(&sample(SAMPLE));
    let lo = find(&whole, 0x2430);
    // Concatenated tables, fewer input bits, fewer output bits, other ways to read tables.
    for value in [
        0x4240_0006u64,
        0x4200_01c6,
        0x4200_4006,
        0x4000_0006,
        0x0200_0006,
        0x6200_0006,
    ] {
        let r = reason(&set(&whole, lo, value), 2);
        assert!(
            matches!(r, Reason::TranslationConfig { value: v, .. } if v == value),
            "{value:#x}: {r}"
        );
    }
    // Bits above 31: access flags, rights of upper tables.
    for value in [1u64, 2, 4, 8] {
        let r = reason(&set(&whole, find(&whole, 0x2434), value), 2);
        assert!(
            matches!(r, Reason::TranslationConfig { known: 0, .. }),
            "{value:#x}: {r}"
        );
    }
    let lpae = compiled(&sample("write-value-lpae.kine"));
    let update = find(&lpae, 0x2418);
    let r = reason(&insert(&lpae, update, &[write(0, 0x2430, 0x40)]), 2);
    assert!(
        matches!(
            r,
            Reason::TranslationConfig {
                value: 0x40,
                known: 0,
                ..
            }
        ),
        "{r}"
    );
}

#[test]
fn rule_2_tables_are_not_for_the_gpu_to_read_either() {
    let whole = compiled(&sample(SAMPLE));
    let table = whole
        .plan
        .pages
        .iter()
        .find(|p| p.role == FrameRole::Table)
        .unwrap()
        .frame;
    let head = whole.plan.jobs[0].head_va;
    let format = whole.plan.spaces[0].format;
    let at = steps(&whole, head)[3].entry_at;
    let c = with_entry(whole, at, |_| {
        trace_core::mmu::encode_leaf(
            format,
            trace_core::PhysAddr(table << 12),
            trace_core::mmu::Rights::RO,
            0,
        )
    });
    assert_eq!(
        reason(&c, 2),
        Reason::TableMapped {
            va: head.0,
            at: table << 12
        }
    );
}

#[test]
fn nothing_is_set_up_before_a_reset_is_over() {
    let whole = compiled(&sample(SAMPLE));
    let wait = position(&whole, |a| matches!(a, Action::WaitInterrupt { lines: 4, .. }));
    let resetting = |c: &Compiled| match reason(c, 3) {
        Reason::Resetting { register } => register,
        other => panic!("{other}"),
    };
    let without = with_actions(whole.clone(), |list| {
        list.remove(wait);
    });
    assert_eq!(resetting(&without), "COHERENCY_ENABLE");
    // Another interrupt than that of the reset could end the wait.
    let mask = position(&whole, |a| {
        matches!(
            a,
            Action::Write {
                offset: 0x28,
                value: 0x100,
                ..
            }
        )
    });
    assert_eq!(resetting(&set(&whole, mask, 0x500)), "COHERENCY_ENABLE");
    let other_lines = with_actions(whole.clone(), |list| {
        let Action::WaitInterrupt { lines, .. } = &mut list[wait] else {
            panic!()
        };
        *lines = 7;
    });
    assert_eq!(resetting(&other_lines), "COHERENCY_ENABLE");
    // A second reset: what the first one's interrupt would end is not waited for again.
    let reset = find(&whole, 0x30);
    let both = with_actions(whole.clone(), |list| {
        let again: Vec<Action> = list[reset..=wait]
            .iter()
            .map(|a| moved(*a, list[wait].event()))
            .collect();
        for a in again.into_iter().rev() {
            list.insert(wait + 1, a);
        }
    });
    assert_eq!(resetting(&both), "COHERENCY_ENABLE");
    // A reset while a job waits: its address space is gone with it.
    let c = insert(&whole, submit(&whole) - 1, &[write(0, 0x30, 1)]);
    assert_eq!(resetting(&c), "JS1_COMMAND_NEXT");
    for offset in [0x2418u64, 0x18c0, 0x180] {
        let c = insert(&whole, reset + 1, &[write(0, offset, 1)]);
        assert!(!resetting(&c).is_empty());
    }
}

#[test]
fn only_the_status_words_of_the_next_chain_are_cleared() {
    let whole = compiled(&sample(SAMPLE));
    let clear = position(&whole, |a| matches!(a, Action::Write { space: 1, .. }));
    let status = with_action(&whole, clear, |a| match a {
        Action::Write { offset, .. } => offset,
        other => panic!("{other:?}"),
    });
    let put = |at: usize, offset: u64, width: u8, value: u64| {
        let a = Action::Write {
            event: 0,
            space: 1,
            offset,
            width,
            value,
        };
        insert(&whole, at, &[a])
    };
    let r = reason(&put(clear, status, 8, 1), 3);
    assert_eq!(
        r,
        Reason::ArenaValue {
            offset: status,
            width: 8,
            value: 1
        }
    );
    assert!(matches!(
        reason(&put(clear, status, 4, 0), 3),
        Reason::ArenaValue { width: 4, .. }
    ));
    // Words of the same page that are no status: the next pointer, the payload.
    for beside in [24u64, 32, 40] {
        let r = reason(&put(clear, status + beside, 8, 0), 3);
        assert!(
            matches!(r, Reason::NotAStatus { offset, .. } if offset == status + beside)
                || matches!(r, Reason::ChainUnmapped { .. }),
            "{beside}: {r}"
        );
    }
    // After the proof, and before anything else than the submit.
    for at in [submit(&whole) + 1, submit(&whole) - 2] {
        let r = reason(&put(at, status, 8, 0), 3);
        assert!(matches!(r, Reason::ClearedForNothing), "{r}");
    }
    let end = whole.plan.actions as usize;
    assert!(matches!(reason(&put(end, status, 8, 0), 3), Reason::ClearedForNothing));
}

#[test]
fn what_a_slot_is_to_run_stays_as_it_was_proved() {
    let whole = compiled(&sample(SAMPLE));
    let after = submit(&whole) + 1;
    for offset in [0x18c0u64, 0x18c4, 0x18d0, 0x18d8, 0x18e0] {
        let r = reason(&insert(&whole, after, &[write(0, offset, 0)]), 3);
        assert!(matches!(r, Reason::SlotAtWork { slot: 1, .. }), "{offset:#x}: {r}");
    }
    // Another slot is free.
    let r = reason(
        &insert(&whole, after, &[write(0, 0x1840, 0x40), write(0, 0x18c0, 0)]),
        3,
    );
    assert!(matches!(r, Reason::SlotAtWork { register, .. } if register == "JS1_HEAD_NEXT_LO"));
    let idle = Action::Until {
        event: 0,
        reads: 1,
        space: 0,
        offset: 0x2428,
        width: 4,
        mask: 0xffff_ffff,
        expected: 0,
        limit_ns: 1000,
    };
    // The same tables again: only the counts are not those of the plan.
    let update = [idle, write(0, 0x2418, 1)];
    let r = reason(&insert(&whole, after, &update), 5);
    assert!(matches!(r, Reason::Unnamed { what, .. } if what == "polled reads"));
    // Others under the chain that was proved with these.
    let other = [idle, write(0, 0x2430, 0x4200_0001), write(0, 0x2418, 1)];
    let r = reason(&insert(&whole, after, &other), 2);
    assert_eq!(r, Reason::SpaceAtWork { number: 0, slot: 1 });
    // A job interrupt that was not cleared ends the next wait at once: the second chain in that slot is not known to
    // have ended when the tables are taken away.
    let clear = position(&whole, |a| {
        matches!(
            a,
            Action::Write {
                offset: 0x1004,
                value: 2,
                ..
            }
        )
    });
    let stale = with_actions(whole, |list| {
        list.remove(clear);
    });
    assert_eq!(reason(&stale, 2), Reason::SpaceAtWork { number: 0, slot: 1 });
}

#[test]
fn an_address_space_takes_a_command_only_when_it_was_seen_idle() {
    let whole = compiled(&sample(SAMPLE));
    let polls = with_actions(whole.clone(), |l| l.retain(|a| !matches!(a, Action::Until { .. })));
    assert_eq!(reason(&polls, 2), Reason::SpaceBusy { number: 0 });
    // Seen active is not seen idle.
    let active = with_actions(whole, |l| {
        for a in l {
            if let Action::Until { expected, .. } = a {
                *expected = 1;
            }
        }
    });
    assert_eq!(reason(&active, 2), Reason::SpaceBusy { number: 0 });
}

#[test]
fn reads_are_compared_as_closely_as_the_map_says() {
    let whole = compiled(&sample(SAMPLE));
    let widen = |wanted: fn(&Action) -> bool, to: ReadClass| {
        with_actions(whole.clone(), |l| {
            let at = l.iter().position(wanted).unwrap();
            if let Action::Read { class, .. } = &mut l[at] {
                *class = to;
            }
        })
    };
    let status: fn(&Action) -> bool = |a| matches!(a, Action::Read { offset: 0x100c, .. });
    let id: fn(&Action) -> bool = |a| matches!(a, Action::Read { offset: 0, .. });
    for (wanted, name) in [(status, "JOB_IRQ_STATUS"), (id, "GPU_ID")] {
        for to in [ReadClass::Any, ReadClass::Feeds(0), ReadClass::Masked(0xffff)] {
            let r = reason(&widen(wanted, to), 1);
            assert!(
                matches!(&r, Reason::ReadWidened { register, .. } if register == name),
                "{r}"
            );
        }
    }
    // All bits of it are no fewer; a flush id may not go uncompared and unused.
    let r = reason(&widen(id, ReadClass::Masked(u64::from(u32::MAX))), 5);
    assert!(matches!(r, Reason::Unnamed { .. }), "{r}");
    let flush: fn(&Action) -> bool = |a| matches!(a, Action::Read { offset: 0x38, .. });
    assert!(matches!(
        reason(&widen(flush, ReadClass::Any), 1),
        Reason::ReadWidened { .. }
    ));
    // Polls compare all bits, and only what drivers poll.
    for (offset, mask) in [(0x2428u64, 0u64), (0x2428, 1), (0x100c, 0xffff_ffff)] {
        let poll = Action::Until {
            event: 0,
            reads: 1,
            space: 0,
            offset,
            width: 4,
            mask,
            expected: 0,
            limit_ns: 1000,
        };
        let r = reason(&insert(&whole, 0, &[poll]), 1);
        assert!(matches!(r, Reason::ReadWidened { .. }), "{r}");
    }
}

#[test]
fn chains_are_followed_as_the_hardware_fetches_them() {
    let r = sample(SAMPLE);
    let whole = compiled(&r);
    let head = whole.plan.jobs[0].head_va;
    let lo = find(&whole, 0x18c0);
    let value = head.0 & 0xffff_ffff;
    let c = set(&whole, lo, value | 8);
    assert_eq!(
        reason(&c, 3),
        Reason::ChainMisaligned {
            head: head.0 | 8,
            va: head.0 | 8
        }
    );
    let patched = |at: u64, bytes: &[u8]| {
        let edits = Edits {
            patches: vec![Patch {
                address_space: 0,
                va: GpuVa(head.0 + at),
                bytes: bytes.to_vec(),
            }],
            ..Edits::default()
        };
        common::edited(&r, &edits)
    };
    // A header that none is: told, and followed nevertheless.
    let odd = patched(16, &[0xff]);
    let told = match verify(&odd.plan, &odd.pages, &target()) {
        Ok(v) => v.unproved.join(" "),
        Err(e) => panic!("{e}"),
    };
    assert!(told.contains("none that a driver writes"), "{told}");
    let mut bytes = [0u8; 16];
    bytes[0] = 0xff;
    bytes[8..].copy_from_slice(&head.0.to_le_bytes());
    let r = reason(&patched(16, &bytes), 3);
    assert!(matches!(r, Reason::ChainLoops { .. }), "{r}");
    bytes[8..].copy_from_slice(&(head.0 + 0x20).to_le_bytes());
    let r = reason(&patched(16, &bytes), 3);
    assert!(
        matches!(r, Reason::ChainMisaligned { va, .. } if va == head.0 + 0x20),
        "{r}"
    );
}

#[test]
fn a_chain_that_something_can_write_under_any_address_is_told_as_unproved() {
    let whole = compiled(&sample(SAMPLE));
    let tell = |c: &Compiled| {
        let v = verify(&c.plan, &c.pages, &target()).unwrap_or_else(|e| panic!("{e}"));
        v.unproved.iter().any(|u| u.contains("can write"))
    };
    assert!(tell(&whole), "the driver maps its chain of several jobs for writing");
    let head = whole.plan.jobs[0].head_va;
    let format = whole.plan.spaces[0].format;
    let step = steps(&whole, head)[3];
    let frame = step.raw & ((1 << 48) - 1) & !0xfff;
    let leaf = |rights| trace_core::mmu::encode_leaf(format, trace_core::PhysAddr(frame), rights, 0);
    let read_only = with_entry(whole, step.entry_at, |_| leaf(trace_core::mmu::Rights::RO));
    assert!(!tell(&read_only), "nothing can write it");
    // The same frame once more, for writing, at an address that was not mapped.
    let free = trace_core::PhysAddr((step.entry_at.0 & !0xfff) | 511 << 3);
    let aliased = with_entry(read_only, free, |raw| {
        assert_eq!(raw & 1, 0, "the entry is free");
        leaf(trace_core::mmu::Rights::RW)
    });
    assert!(tell(&aliased));
}

#[test]
fn a_plan_for_another_product_is_refused_and_a_revision_is_not() {
    let mut c = compiled(&sample("vecadd-g52.kine"));
    let r = reason(&c, 0);
    assert!(matches!(&r, Reason::OtherGpu { plan: 0x7212_0000, .. }), "{r}");
    let text = r.to_string();
    assert!(text.contains("Mali-G52") && text.contains("Mali-G71"), "{text}");
    c = compiled(&sample(SAMPLE));
    c.plan.gpu_id ^= 0x0ff0_0003;
    verify(&c.plan, &c.pages, &target()).unwrap();
    c.plan.gpu_id = 0;
    let v = verify(&c.plan, &c.pages, &target()).unwrap();
    assert!(v.unproved.iter().any(|u| u.contains("which GPU")), "{v:?}");
}

#[test]
fn rule_4_sums_and_numbers() {
    let whole = compiled(&sample(SAMPLE));
    let over = |change: &dyn Fn(&mut Plan)| {
        let mut c = whole.clone();
        change(&mut c.plan);
        match reason(&c, 4) {
            Reason::Budget { what, .. } => what,
            other => panic!("{other}"),
        }
    };
    let buffer = whole.plan.buffers[0].clone();
    assert_eq!(over(&|p| p.outputs = vec![buffer.clone(); 1025]), "outputs");
    let large = replay_engine::plan::PlanBuffer {
        bytes: 1 << 29,
        ..buffer.clone()
    };
    assert_eq!(over(&|p| p.outputs = vec![large.clone(); 3]), "bytes of all outputs");
    assert_eq!(over(&|p| p.spaces = vec![p.spaces[0]; 65]), "translations");
    assert_eq!(over(&|p| p.allowed = vec![(0, 4); 65]), "allowed ranges");
    assert_eq!(over(&|p| p.allowed = vec![(0, 0x800); 3]), "bytes of allowed ranges");
    // The check's own work is counted, whatever it goes into.
    let progress = Progress::new();
    let all = Work::new(u64::MAX, &progress);
    verify_within(&whole.plan, &whole.pages, &target(), &all).unwrap();
    assert!(all.done() > 1000);
    for limit in [0, all.done() / 3, all.done() / 2, all.done() - 1] {
        let e = verify_within(&whole.plan, &whole.pages, &target(), &Work::new(limit, &progress)).unwrap_err();
        assert_eq!(e.rule, 4, "{e}");
        assert!(
            matches!(&e.reason, Reason::Budget { what, .. } if what == "steps of the check"),
            "{e}"
        );
    }
    progress.cancel();
    let e = verify_within(&whole.plan, &whole.pages, &target(), &Work::new(u64::MAX, &progress)).unwrap_err();
    assert_eq!((e.rule, e.reason), (0, Reason::GivenUp));
}
