//! Memory that the GPU can access: pages, tables, roots, translation modes and outputs.

use super::*;
use trace_core::PhysAddr;

#[test]
fn rule_2_pages() {
    let whole = compiled(&sample(SAMPLE));
    let digest = whole.plan.accesses().unwrap().pages[0].digest;
    let mut missing = first(&whole);
    missing.pages.remove(&digest);
    assert!(matches!(reason(&missing, 2), Reason::PageMissing { .. }));
    let mut damaged = first(&whole);
    let image = damaged.pages.get_mut(&digest).unwrap();
    let mut changed = **image;
    changed[17] ^= 1;
    *image = changed.into();
    assert!(matches!(reason(&damaged, 2), Reason::PageDamaged { .. }));
    let mut outside = first(&whole);
    let accesses = outside.plan.accesses_mut().unwrap();
    accesses.pages.last_mut().unwrap().frame += accesses.arena.pages;
    assert!(matches!(reason(&outside, 2), Reason::PageOutside { .. }));
    let mut twice = first(&whole);
    let pages = &mut twice.plan.accesses_mut().unwrap().pages;
    pages.insert(1, pages[0]);
    assert_eq!(reason(&twice, 2), Reason::PagesUnsorted);
    let mut other = first(&whole);
    other.plan.accesses_mut().unwrap().arena.pages -= 1;
    assert_eq!(reason(&other, 0), Reason::OtherArena);
}

/// Flips every bit of every level's entry, in both formats. Each flip to a frame outside the plan's pages is refused.
#[test]
fn rule_2_a_table_flipped_in_one_bit() {
    for name in [SAMPLE, "write-value-lpae.kine"] {
        let whole = compiled(&sample(name));
        let used = whole.plan.accesses().unwrap().used_pages;
        let first_frame = whole.plan.accesses().unwrap().arena.base.frame();
        let head = whole.plan.jobs()[0].head_va;
        let path = steps(&whole, head);
        assert_eq!(path.len(), 4);
        let (mut outside_flips, mut reported) = (0, 0);
        for step in path {
            for bit in 12..48 {
                let flipped = with_entry(whole.clone(), step.entry_at, |raw| raw ^ 1 << bit);
                let frame = (step.raw ^ 1 << bit) >> 12 & 0xf_ffff_ffff;
                let inside = (first_frame..first_frame + used).contains(&frame);
                match verify(&flipped.plan, &flipped.pages, &target()) {
                    Ok(_) => assert!(
                        inside,
                        "{name}: bit {bit} of level {} leaves the pages and is not refused",
                        step.level
                    ),
                    Err(r) if !inside => {
                        assert_eq!(r.rule, 2, "{r}");
                        let ok = matches!(r.reason, Reason::LeafOutside { .. } | Reason::TableOutside { .. });
                        assert!(ok, "{r}");
                        outside_flips += 1;
                    }
                    // The target is inside the pages, but another rule refuses a shared table or a table used as data.
                    Err(_) => reported += 1,
                }
            }
        }
        println!("{name}: {outside_flips} flips leave the pages, {reported} more are refused for another reason");
        assert!(outside_flips > 100);
    }
}

#[test]
fn rule_2_tables_are_not_writable_by_the_gpu() {
    let whole = compiled(&sample(SAMPLE));
    let table = whole
        .plan
        .accesses()
        .unwrap()
        .pages
        .iter()
        .find(|p| p.role == FrameRole::Table)
        .unwrap()
        .frame;
    let memory = replay_engine::plan::PlanMemory::from_plan(whole.plan.accesses().unwrap(), &whole.pages).unwrap();
    let space = whole.plan.spaces()[0];
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
    assert!(matches!(reason(&c, 2), Reason::TableWritable { at, .. } if at == PhysAddr::new(table << 12)));
}

#[test]
fn rule_2_roots_and_translation_modes() {
    const TRANSTAB_LO: u64 = 0x2400;
    const TRANSTAB_HI: u64 = 0x2404;
    const TRANSCFG_LO: u64 = 0x2430;
    let whole = compiled(&sample(SAMPLE));
    let at = |offset| find(&whole, offset);
    let is_mode = |r: Reason, m| matches!(r, Reason::TranslationMode { mode, .. } if mode == m);
    // Identity, legacy and 64 KiB modes are refused at the write.
    for mode in [0u64, 2, 8] {
        let c = set(&whole, at(TRANSCFG_LO), 0x4200_0000 | mode);
        assert!(is_mode(reason(&c, 2), mode), "mode {mode}");
    }
    let c = set(&whole, at(TRANSTAB_LO), 0x8000_0000);
    assert!(matches!(reason(&c, 2), Reason::ForeignRoot { value: 0x8000_0000, .. }));
    let c = set(&whole, at(TRANSTAB_HI), 0x77);
    assert!(matches!(reason(&c, 2), Reason::ForeignRoot { value: 0x77, .. }));
    // The high half 0 is valid by itself but not with the low half of the agent's root.
    let c = set(&whole, at(TRANSTAB_HI), 0);
    assert!(matches!(
        refuse(&c).reason,
        Reason::ForeignRoot { .. } | Reason::NoTables { .. }
    ));
    let mut c = first(&whole);
    c.plan.registers_mut().unwrap().spaces[0].root_register ^= 1 << 20;
    assert!(matches!(reason(&c, 2), Reason::RootValue { .. }));
    // The job cannot access its memory when translation is off.
    let c = set(&whole, at(TRANSCFG_LO), 0x4200_0001);
    assert!(matches!(reason(&c, 3), Reason::JobWithoutSpace { number: 0 }));
}

#[test]
fn rule_6_outputs_are_in_mapped_memory() {
    let mut c = compiled(&sample(SAMPLE));
    let mut o = c.plan.accesses().unwrap().buffers[0].clone();
    o.va = GpuVa::new(0x10);
    c.plan.outputs = vec![o];
    assert!(matches!(reason(&c, 6), Reason::OutputUnmapped { va, .. } if va == GpuVa::new(0x10)));
}

#[test]
fn rule_2_unknown_translation_config_bits() {
    let whole = compiled(&sample(SAMPLE));
    let lo = find(&whole, 0x2430);
    // The values are concatenated tables, fewer input bits, fewer output bits and other ways to read tables.
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
    // Bits above 31 are access flags and rights of upper tables.
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
fn rule_2_tables_are_not_readable_by_the_gpu() {
    let whole = compiled(&sample(SAMPLE));
    let table = whole
        .plan
        .accesses()
        .unwrap()
        .pages
        .iter()
        .find(|p| p.role == FrameRole::Table)
        .unwrap()
        .frame;
    let head = whole.plan.jobs()[0].head_va;
    let format = whole.plan.spaces()[0].format;
    let at = steps(&whole, head)[3].entry_at;
    let c = with_entry(whole, at, |_| {
        trace_core::mmu::encode_leaf(format, PhysAddr::new(table << 12), trace_core::mmu::Rights::RO, 0)
    });
    assert_eq!(
        reason(&c, 2),
        Reason::TableMapped {
            va: head,
            at: PhysAddr::new(table << 12)
        }
    );
}

#[test]
fn address_space_command_needs_an_idle_status_read() {
    let whole = compiled(&sample(SAMPLE));
    let polls = with_actions(whole.clone(), |l| l.retain(|a| !matches!(a, Action::Until { .. })));
    assert_eq!(reason(&polls, 2), Reason::SpaceBusy { number: 0 });
    // A status that was read as active is not idle.
    let active = with_actions(whole, |l| {
        for a in l {
            if let Action::Until { expected, .. } = a {
                *expected = 1;
            }
        }
    });
    assert_eq!(reason(&active, 2), Reason::SpaceBusy { number: 0 });
}
