//! Chains of jobs, the slots that run them, and the limits of a plan.

use super::*;
use trace_core::RegOffset;

#[test]
fn rule_3_chains() {
    let r = sample(SAMPLE);
    let whole = compiled(&r);
    let head = whole.plan.jobs()[0].head_va;
    // A user's edit makes the head's next-job pointer point to the head.
    let edits = Edits {
        patches: vec![Patch {
            address_space: 0,
            va: head + 24,
            bytes: head.get().to_le_bytes().to_vec(),
        }],
        ..Edits::default()
    };
    let c = common::edited(&r, &edits);
    assert_eq!(reason(&c, 3), Reason::ChainLoops { head, va: head });
    // The slot's head address is an unmapped address.
    let c = set(&whole, find(&whole, 0x18c4), 0x7000);
    assert!(matches!(reason(&c, 3), Reason::ChainUnmapped { .. }));
    // The page of the header is unmapped.
    let c = with_entry(whole.clone(), steps(&whole, head)[3].entry_at, |_| 2);
    assert_eq!(reason(&c, 3), Reason::ChainUnmapped { head, va: head });
    // These plans write to the arena.
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
    let end = whole.plan.accesses().unwrap().used_pages * 4096;
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
        reason(&spend(|p| p.budgets.pages = p.accesses().unwrap().used_pages - 1), 4),
        Reason::Budget { .. }
    ));
    assert!(matches!(
        reason(&spend(|p| p.budgets.time_ns = u64::MAX), 4),
        Reason::Budget { .. }
    ));
    // The plan declares a false number of actions.
    let false_count = spend(|p| {
        p.actions = 1;
        p.budgets.actions = 1;
    });
    assert!(matches!(reason(&false_count, 4), Reason::Budget { .. }));
    // The compiler's options have the same limit.
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
        c.plan.registers_mut().unwrap().jobs[0].slot = slot;
        assert!(matches!(reason(&c, 4), Reason::Budget { budget: 16, .. }));
        // A run that ignores the refusal reports the job as not done.
        let outcome = play(&c);
        assert_eq!(outcome.jobs().len(), c.plan.jobs().len());
        assert!(!outcome.jobs()[0].done);
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
    // The next pointer and the payload are on the same page but are not status words.
    for field_offset in [24u64, 32, 40] {
        let r = reason(&put(clear, status + field_offset, 8, 0), 3);
        assert!(
            matches!(r, Reason::NotAStatus { offset, .. } if offset == status + field_offset)
                || matches!(r, Reason::ChainUnmapped { .. }),
            "{field_offset}: {r}"
        );
    }
    // A clear after the submit, or before an action other than the submit, is refused.
    for at in [submit(&whole) + 1, submit(&whole) - 2] {
        let r = reason(&put(at, status, 8, 0), 3);
        assert!(matches!(r, Reason::ClearedForNothing), "{r}");
    }
    let end = whole.plan.actions as usize;
    assert!(matches!(reason(&put(end, status, 8, 0), 3), Reason::ClearedForNothing));
}

#[test]
fn busy_slot_registers_must_not_change_after_submit() {
    let whole = compiled(&sample(SAMPLE));
    let after = submit(&whole) + 1;
    for offset in [0x18c0u64, 0x18c4, 0x18d0, 0x18d8, 0x18e0] {
        let r = reason(&insert(&whole, after, &[write(0, offset, 0)]), 3);
        assert!(matches!(r, Reason::SlotAtWork { slot: 1, .. }), "{offset:#x}: {r}");
    }
    // The write to slot 0 is allowed, because that slot is free. The write to slot 1 is refused.
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
    // The tables are unchanged, so only the declared counts are wrong.
    let update = [idle, write(0, 0x2418, 1)];
    let r = reason(&insert(&whole, after, &update), 5);
    assert!(matches!(r, Reason::Unnamed { what, .. } if what == "polled reads"));
    // The tables change under the chain that was verified with the old ones.
    let other = [idle, write(0, 0x2430, 0x4200_0001), write(0, 0x2418, 1)];
    let r = reason(&insert(&whole, after, &other), 2);
    assert_eq!(r, Reason::SpaceAtWork { number: 0, slot: 1 });
    // An interrupt that is not cleared ends the next wait at once. So the second chain in the slot may still run when
    // the tables are removed.
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
fn verification_follows_chains_like_the_hardware() {
    let r = sample(SAMPLE);
    let whole = compiled(&r);
    let head = whole.plan.jobs()[0].head_va;
    let lo = find(&whole, 0x18c0);
    let value = head.get() & 0xffff_ffff;
    let c = set(&whole, lo, value | 8);
    assert_eq!(
        reason(&c, 3),
        Reason::ChainMisaligned {
            head: GpuVa::new(head.get() | 8),
            va: GpuVa::new(head.get() | 8)
        }
    );
    let patched = |at: u64, bytes: &[u8]| {
        let edits = Edits {
            patches: vec![Patch {
                address_space: 0,
                va: head + at,
                bytes: bytes.to_vec(),
            }],
            ..Edits::default()
        };
        common::edited(&r, &edits)
    };
    // A header that does not look like a header is reported but still followed.
    let odd = patched(16, &[0xff]);
    let message = match verify(&odd.plan, &odd.pages, &target()) {
        Ok(v) => v.report().unproved.join(" "),
        Err(e) => panic!("{e}"),
    };
    assert!(message.contains("not headers that a driver writes"), "{message}");
    let mut bytes = [0u8; 16];
    bytes[0] = 0xff;
    bytes[8..].copy_from_slice(&head.get().to_le_bytes());
    let r = reason(&patched(16, &bytes), 3);
    assert!(matches!(r, Reason::ChainLoops { .. }), "{r}");
    bytes[8..].copy_from_slice(&(head.get() + 0x20).to_le_bytes());
    let r = reason(&patched(16, &bytes), 3);
    assert!(
        matches!(r, Reason::ChainMisaligned { va, .. } if va == head + 0x20),
        "{r}"
    );
}

#[test]
fn chain_in_gpu_writable_memory_is_reported_unproved() {
    let whole = compiled(&sample(SAMPLE));
    let describe = |c: &Compiled| {
        let v = verify(&c.plan, &c.pages, &target()).unwrap_or_else(|e| panic!("{e}"));
        v.report().unproved.iter().any(|u| u.contains("can write"))
    };
    assert!(
        describe(&whole),
        "the driver maps its chain of several jobs for writing"
    );
    let head = whole.plan.jobs()[0].head_va;
    let format = whole.plan.spaces()[0].format;
    let step = steps(&whole, head)[3];
    let frame = step.raw & ((1 << 48) - 1) & !0xfff;
    let leaf = |rights| trace_core::mmu::encode_leaf(format, trace_core::PhysAddr::new(frame), rights, 0);
    let read_only = with_entry(whole, step.entry_at, |_| leaf(trace_core::mmu::Rights::RO));
    assert!(!describe(&read_only), "nothing can write the chain");
    // The same frame is mapped again, writable, at an unmapped address.
    let free = trace_core::PhysAddr::new((step.entry_at.get() & !0xfff) | 511 << 3);
    let aliased = with_entry(read_only, free, |raw| {
        assert_eq!(raw & 1, 0, "the entry is free");
        leaf(trace_core::mmu::Rights::RW)
    });
    assert!(describe(&aliased));
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
    let buffer = whole.plan.accesses().unwrap().buffers[0].clone();
    assert_eq!(over(&|p| p.outputs = vec![buffer.clone(); 1025]), "outputs");
    let large = replay_engine::plan::PlanBuffer {
        bytes: 1 << 29,
        ..buffer.clone()
    };
    assert_eq!(over(&|p| p.outputs = vec![large.clone(); 3]), "bytes of all outputs");
    assert_eq!(
        over(&|p| p.registers_mut().unwrap().spaces = vec![p.spaces()[0]; 65]),
        "translations"
    );
    assert_eq!(
        over(&|p| p.accesses_mut().unwrap().allowed = vec![(RegOffset::ZERO, RegOffset::new(4)); 65]),
        "allowed ranges"
    );
    assert_eq!(
        over(&|p| p.accesses_mut().unwrap().allowed = vec![(RegOffset::ZERO, RegOffset::new(0x800)); 3]),
        "bytes of allowed ranges"
    );
    // The work limit counts all of the check's own work.
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
