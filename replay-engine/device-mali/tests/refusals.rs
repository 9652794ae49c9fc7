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

use common::{compiled, published, sample, steps, target, with_accesses, with_actions, with_entry, with_page};
use replay_core::{Action, ReadClass};
use replay_engine::plan::{Budgets, CompileError, CompileOptions, Compiled, Edits, Patch, Plan, compile};
use replay_engine::verify::{Reason, Refusal, verify};
use trace_core::GpuVa;
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
    let all = CompileOptions {
        allow_unknown: vec![0..0x4000],
        ..CompileOptions::default()
    };
    assert!(matches!(
        fails(&r, &Edits::default(), &all),
        CompileError::AllowedTooMuch { .. }
    ));
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
        let outcome = common::play(&c);
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
    let c = with_actions(whole, |l| {
        for a in l {
            if let Action::Read { class, .. } = a {
                *class = ReadClass::Any;
            }
        }
    });
    assert!(matches!(reason(&c, 5), Reason::Unnamed { what, .. } if what == "equal reads"));
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
