//! Writable registers, the comparison of reads, and invalid user requests.

use super::*;
use device_mali::{Model, SoftwareMali};
use replay_engine::device::Target as _;
use trace_core::RegOffset;

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
    // GPU_ID is read-only. PWR_KEY unlocks registers that a replay must not change.
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
    let body = cut.plan.body.bytes();
    let body = body[..body.len() - 1].to_vec();
    cut.plan.body.set_bytes(body.into());
    assert!(matches!(reason(&cut, 1), Reason::Body { .. }));
    let mut all = first(&whole);
    all.plan.accesses_mut().unwrap().allowed = vec![(RegOffset::ZERO, RegOffset::new(0x4000))];
    assert_eq!(
        reason(&all, 1),
        Reason::AllowedTooMuch {
            start: RegOffset::ZERO,
            end: RegOffset::new(0x4000)
        }
    );
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
    let e = fails(&moved(RegOffset::new(0x3ff8), 4), &Edits::default(), &options);
    assert!(
        matches!(
            e,
            CompileError::UnknownRegister { event: 0, offset } if offset == RegOffset::new(0x3ff8)
        ),
        "{e}"
    );
    let e = fails(&moved(RegOffset::new(0x4000), 4), &Edits::default(), &options);
    assert!(
        matches!(
            e,
            CompileError::BadAccess { event: 0, offset, .. } if offset == RegOffset::new(0x4000)
        ),
        "{e}"
    );
    let e = fails(&moved(RegOffset::new(0x30), 2), &Edits::default(), &options);
    assert!(matches!(e, CompileError::BadAccess { event: 0, width: 2, .. }), "{e}");
    let e = fails(&moved(RegOffset::ZERO, 4), &Edits::default(), &options);
    assert!(matches!(e, CompileError::NotReplayable { event: 0, .. }), "{e}");
    // An unknown register compiles if the user allows it. The verification names it.
    let allow = CompileOptions {
        allow_unknown: vec![RegOffset::new(0x3ff0)..RegOffset::new(0x4000)],
        ..CompileOptions::default()
    };
    let c = compile(
        &moved(RegOffset::new(0x3ff8), 4),
        &Edits::default(),
        &target(),
        &allow,
        &Progress::new(),
    )
    .unwrap();
    let v = verify(&c.plan, &c.pages, &target()).unwrap();
    assert!(
        v.report().unproved.iter().any(|u| u.contains("0x3ff0..0x4000")),
        "{v:?}"
    );
    // The outcome names the register and reports how often it was used.
    let o = play(&c);
    let finding = o
        .findings()
        .iter()
        .find(|f| f.kind == FindingKind::UnknownRegister)
        .unwrap();
    assert!(
        finding.place == "registers 0x3ff0..0x4000" && finding.message.ends_with("allowed them: 0 reads, 1 write"),
        "{finding:?}"
    );
    let with = |ranges: &[std::ops::Range<u32>]| {
        let options = CompileOptions {
            allow_unknown: ranges.iter().cloned().map(RegOffset::new_range).collect(),
            ..CompileOptions::default()
        };
        fails(&r, &Edits::default(), &options)
    };
    assert!(matches!(with(&[0..0x4000]), CompileError::AllowedTooMuch { .. }));
    // Many small ranges count together.
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
    // A range must not allow a known register that is not replayable.
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
        let expected = format!("{kind} rewrites");
        let r = without(kind);
        assert!(
            matches!(&r, Reason::Unnamed { what: w, .. } if *w == expected),
            "{kind}: {r}"
        );
    }
    let change = |change: fn(&mut Plan)| {
        let mut c = whole.clone();
        change(&mut c.plan);
        reason(&c, 5)
    };
    let change_jobs = |change: fn(&mut Vec<PlanJob>)| {
        let mut c = whole.clone();
        change(&mut c.plan.registers_mut().unwrap().jobs);
        reason(&c, 5)
    };
    let r = change(|p| p.accesses_mut().unwrap().reads.equal += 1);
    assert!(matches!(r, Reason::Unnamed { what, .. } if what == "equal reads"));
    // The user approved the plan with this list of jobs.
    for r in [
        change_jobs(|jobs| jobs[0].slot += 1),
        change_jobs(|jobs| jobs[0].submit_event += 1),
        change_jobs(|jobs| jobs[0].head_va += 64),
        change_jobs(|jobs| jobs[0].done_event = Some(jobs[0].submit_event)),
        change_jobs(Vec::clear),
    ] {
        assert!(matches!(r, Reason::OtherJob { index: 0, .. }), "{r}");
    }
    let r = change_jobs(|jobs| jobs.push(jobs[0]));
    assert!(matches!(r, Reason::Unnamed { what, .. } if what == "jobs"));
    let r = change(|p| p.outputs.clear());
    assert!(matches!(r, Reason::Unnamed { what, said: 1, found: 0 } if what == "output rewrites"));
}

#[test]
fn published_recordings_with_invalid_tables_are_refused() {
    let Some(r) = published("mnist") else { return };
    let whole = compiled(&r);
    let head = whole.plan.jobs()[0].head_va;
    let c = with_entry(whole.clone(), steps(&whole, head)[3].entry_at, |raw| raw ^ 1 << 33);
    assert!(matches!(reason(&c, 2), Reason::LeafOutside { va, .. } if va == head.align_down(0x1000)));
    let c = with_page(whole, steps(&compiled(&r), head)[0].entry_at.frame(), |p| p.fill(0xff));
    assert!(!reason(&c, 2).to_string().is_empty());
}

#[test]
fn unfit_inputs_and_unknown_buffers_are_compile_errors() {
    let r = sample(SAMPLE);
    let options = CompileOptions::default();
    let buffer = r.metadata.buffers[0].clone();
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
        va: GpuVa::new(0x1000),
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
    assert!(
        matches!(e, CompileError::NotMapped { va, .. } if va == GpuVa::new(0x1000)),
        "{e}"
    );
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

#[test]
fn setup_before_the_reset_completes_is_refused() {
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
    // An interrupt other than that of the reset could end the wait.
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
    // The second reset has no wait, because the first reset's interrupt could end it.
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
    // A reset before the submit also resets the job's address space.
    let c = insert(&whole, submit(&whole) - 1, &[write(0, 0x30, 1)]);
    assert_eq!(resetting(&c), "JS1_COMMAND_NEXT");
    for offset in [0x2418u64, 0x18c0, 0x180] {
        let c = insert(&whole, reset + 1, &[write(0, offset, 1)]);
        assert!(!resetting(&c).is_empty());
    }
}

#[test]
fn read_classes_looser_than_the_map_are_refused() {
    let whole = compiled(&sample(SAMPLE));
    let widen = |is_match: fn(&Action) -> bool, to: ReadClass| {
        with_actions(whole.clone(), |l| {
            let at = l.iter().position(is_match).unwrap();
            if let Action::Read { class, .. } = &mut l[at] {
                *class = to;
            }
        })
    };
    let status: fn(&Action) -> bool = |a| matches!(a, Action::Read { offset: 0x100c, .. });
    let id: fn(&Action) -> bool = |a| matches!(a, Action::Read { offset: 0, .. });
    for (is_match, name) in [(status, "JOB_IRQ_STATUS"), (id, "GPU_ID")] {
        for to in [ReadClass::Any, ReadClass::Feeds(0), ReadClass::Masked(0xffff)] {
            let r = reason(&widen(is_match, to), 1);
            assert!(
                matches!(&r, Reason::ReadWidened { register, .. } if register == name),
                "{r}"
            );
        }
    }
    // A mask of all bits is not a wider read. The flush id must be compared or used.
    let r = reason(&widen(id, ReadClass::Masked(u64::from(u32::MAX))), 5);
    assert!(matches!(r, Reason::Unnamed { .. }), "{r}");
    let flush: fn(&Action) -> bool = |a| matches!(a, Action::Read { offset: 0x38, .. });
    assert!(matches!(
        reason(&widen(flush, ReadClass::Any), 1),
        Reason::ReadWidened { .. }
    ));
    // Polls compare all bits and only read registers that drivers poll.
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
fn a_plan_for_another_product_is_refused_and_a_revision_is_not() {
    let mut c = compile(
        &sample("vecadd-g52.kine"),
        &Edits::default(),
        &SoftwareMali::new(Model::G52).info(),
        &CompileOptions::default(),
        &Progress::new(),
    )
    .unwrap();
    let r = reason(&c, 0);
    assert!(matches!(&r, Reason::OtherGpu { plan: 0x7212_0000, .. }), "{r}");
    let text = r.to_string();
    assert!(text.contains("Mali-G52") && text.contains("Mali-G71"), "{text}");
    c = compiled(&sample(SAMPLE));
    c.plan.accesses_mut().unwrap().gpu_id ^= 0x0ff0_0003;
    verify(&c.plan, &c.pages, &target()).unwrap();
    c.plan.accesses_mut().unwrap().gpu_id = 0;
    let v = verify(&c.plan, &c.pages, &target()).unwrap();
    assert!(
        v.report().unproved.iter().any(|u| u.contains("does not name its GPU")),
        "{v:?}"
    );
}
