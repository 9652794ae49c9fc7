//! Fuzz targets for plans: the body, both forms of a whole plan, and what verification accepts.

use crate::bus;
use crate::plan_changes::apply_changes;
use device_mali::{Model, SoftwareMali};
use replay_core::{Action, Actions, Budget, Device, DeviceError, Encoder, MAX_ACTION_BYTES, WaitResult};
use replay_engine::device::{Arena, Containment, DeviceInfo, DeviceInterface, Target};
use replay_engine::plan::{self, AccessPlan, Compiled, PageImages, Plan, PlanMemory};
use replay_engine::run::{Outcome, Timing, run};
use replay_engine::verify::{Refusal, VerificationReport, verify};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use trace_core::progress::Progress;
use trace_core::{PAGE_SIZE, PhysAddr, mmu};

/// Fuzzes a plan's body: it decodes in place, encodes to the same bytes, and runs within its budget on any device.
pub fn actions(data: &[u8]) -> bool {
    let mut out = vec![0; data.len() + MAX_ACTION_BYTES];
    let mut encoder = Encoder::new(&mut out);
    let mut sound = true;
    for action in Actions::new(data) {
        match action {
            Ok(action) => {
                assert!(
                    encoder.push(&action).is_ok(),
                    "a decoded action does not encode: {action:?}"
                );
            }
            Err(_) => {
                sound = false;
                break;
            }
        }
    }
    if sound {
        let used = encoder.len();
        assert_eq!(out.get(..used), Some(data), "the actions have another encoding");
    }
    let budget = Budget {
        actions: 10_000,
        time_ns: 10_000_000,
        ..Budget::default()
    };
    let _ = replay_core::execute(
        &mut Registers {
            values: [0; 64],
            now: 0,
            waits: 0,
        },
        Actions::new(data),
        &budget,
        &mut (),
    );
    sound
}

/// A device of 64 registers with an interrupt at every other wait.
struct Registers {
    values: [u64; 64],
    now: u64,
    waits: u32,
}

impl Device for Registers {
    fn read(&mut self, space: u8, offset: u64, _width: u8) -> Result<u64, DeviceError> {
        if space != 0 {
            return Err(DeviceError::NoSpace);
        }
        usize::try_from(offset / 8)
            .ok()
            .and_then(|i| self.values.get(i))
            .copied()
            .ok_or(DeviceError::OutOfRange)
    }

    fn write(&mut self, space: u8, offset: u64, _width: u8, value: u64) -> Result<(), DeviceError> {
        if space != 0 {
            return Err(DeviceError::NoSpace);
        }
        let slot = usize::try_from(offset / 8).ok().and_then(|i| self.values.get_mut(i));
        *slot.ok_or(DeviceError::OutOfRange)? = value;
        Ok(())
    }

    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        self.waits = self.waits.wrapping_add(1);
        self.now = self.now.saturating_add(limit_ns.min(1_000));
        Ok(if self.waits.is_multiple_of(2) {
            WaitResult::Raised { lines }
        } else {
            WaitResult::TimedOut
        })
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        self.now = self.now.saturating_add(ns);
        Ok(())
    }

    fn now_ns(&mut self) -> u64 {
        self.now
    }
}

/// Fuzzes a plan in its wire format: a decoded plan is verified or refused, and its text reads back the same.
pub fn plan_bytes(data: &[u8]) -> bool {
    // The input may have page images.
    let Ok(Compiled { plan, pages }) = Compiled::from_bytes(data) else {
        return false;
    };
    check_text_round_trip(&plan);
    let _ = verify(&plan, &pages, &device());
    true
}

/// Fuzzes a plan as text.
pub fn plan_text(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let Ok(plan) = plan::text::parse(text) else {
        return false;
    };
    check_text_round_trip(&plan);
    if let Ok(compiled) = plan::text::assemble(text, &plan::text::NoFiles) {
        assert_eq!(compiled.plan, plan, "a plan with its images differs");
        let text = plan::text::print_with_pages(&compiled.plan, &compiled.pages);
        if let Ok(reread) = plan::text::assemble(&text, &plan::text::NoFiles) {
            let named = |c: &Compiled| c.plan.digests().into_iter().all(|d| c.pages.contains_key(&d));
            assert!(
                reread.plan == plan && named(&reread),
                "a printed plan reads back without its images"
            );
        }
        bus::check_moved(&compiled);
    }
    true
}

fn check_text_round_trip(plan: &Plan) {
    let text = plan::text::print(plan);
    // A body that does not decode cannot be printed as actions, so its text does not have to read back.
    if Actions::new(plan.body.bytes()).all(|a| a.is_ok())
        && let Ok(reread) = plan::text::parse(&text)
    {
        assert_eq!(&reread, plan, "a printed plan reads back differently");
    }
}

/// Returns the device that plans are verified for: as large as a plan can require.
pub(crate) fn device() -> DeviceInfo {
    DeviceInfo {
        name: "fuzz".into(),
        description: String::new(),
        gpu_id: 0x60a0_0002,
        gpu_name: "Mali-G71".into(),
        register_map: "mali-jm".into(),
        containment: Containment::Software,
        hardware: None,
        windows: replay_engine::device::Window::registers(0x4000),
        arena: Arena {
            base: PhysAddr::new(0x1_0000_0000),
            pages: 1 << 20,
        },
        interface: DeviceInterface::Registers,
        virtual_time: true,
        computes: false,
    }
}

/// A sound plan of a small recording with three job chains.
static SOUND: LazyLock<Option<Compiled>> =
    LazyLock::new(|| sound(include_bytes!("../../sample-traces/write-value.kine")));

/// A sound plan of a recording whose CPU changes memory and mappings between the chains.
static CHANGING: LazyLock<Option<Compiled>> =
    LazyLock::new(|| sound(include_bytes!("../../sample-traces/changes.kine")));

/// First byte of an input that starts from [`CHANGING`].
pub(crate) const CHANGING_FIRST: u8 = 0xff;

fn sound(file: &[u8]) -> Option<Compiled> {
    let recording = trace_core::container::from_bytes(file.to_vec()).ok()?;
    let target = SoftwareMali::new(Model::G71).info();
    replay_engine::compile::compile(
        &recording,
        &plan::Edits::default(),
        &target,
        &plan::CompileOptions::default(),
        &Progress::new(),
    )
    .ok()
}

/// Returns the verification results of the sound plan and of a refused one, and the sound plan's outcome. They are in
/// their wire format, without the bytes of the outcome's recording.
pub(crate) fn outcomes() -> Option<(VerificationReport, Refusal, Outcome)> {
    let Compiled { mut plan, pages } = SOUND.clone()?;
    let mut device = SoftwareMali::new(Model::G71);
    let verified = verify(&plan, &pages, &device.info()).ok()?.into_report();
    let mut outcome = run(&plan, &pages, &mut device, &Progress::new());
    outcome.recording.clear();
    outcome.timing = Timing::default();
    plan.budgets.actions = 1;
    let refusal = verify(&plan, &pages, &device.info()).err()?;
    Some((verified, refusal, outcome))
}

/// Fuzzes a sound plan with changes from the input, 12 bytes a change. After [`CHANGING_FIRST`] and [`bus::FIRST`] the
/// input starts from other plans. An independent check reads what verification accepts, then the plan runs. The device
/// must not have accessed a page outside the plan.
pub fn plan_verified(data: &[u8]) -> bool {
    let (from, data) = match data.split_first() {
        Some((&bus::FIRST, rest)) => return bus::verify_changed(rest),
        Some((&CHANGING_FIRST, rest)) => (&CHANGING, rest),
        _ => (&SOUND, data),
    };
    let compiled = from.as_ref().cloned();
    let mut compiled = compiled.unwrap_or_else(|| panic!("the sample does not compile"));
    apply_changes(&mut compiled, data);
    let Compiled { mut plan, pages } = compiled;
    plan.budgets.actions = plan.budgets.actions.min(20_000);
    let mut device = SoftwareMali::new(Model::G71);
    if verify(&plan, &pages, &device.info()).is_err() {
        return false;
    }
    check_only_own_pages(&plan, &pages);
    let accesses = accesses(&plan);
    let first = accesses.arena.base.frame();
    let own = first..first.saturating_add(accesses.used_pages);
    let outcome = run(&plan, &pages, &mut device, &Progress::new());
    let touched = device.memory().backed_frames();
    assert!(
        touched.iter().all(|f| own.contains(f)),
        "a verified plan touched a page outside its own: {touched:x?}, {own:x?}"
    );
    assert!(outcome.reads.matched <= outcome.reads.compared);
    assert!(outcome.actions <= plan.actions);
    true
}

/// Returns the accesses of a verified plan.
fn accesses(plan: &Plan) -> &AccessPlan {
    plan.accesses()
        .unwrap_or_else(|| panic!("a verified plan has no accesses"))
}

/// Walks the tables of a verified plan again, at its start and after each memory change.
fn check_only_own_pages(plan: &Plan, pages: &PageImages) {
    let (Ok(mut memory), Ok(images)) = (PlanMemory::from_plan(accesses(plan), pages), plan.change_images(pages)) else {
        panic!("a verified plan lacks a page")
    };
    check_own_tables(plan, &memory);
    let mut changed = false;
    for action in Actions::new(plan.body.bytes()).map_while(Result::ok) {
        match action {
            Action::Put { .. } | Action::Copy { .. } => {
                assert!(memory.apply(&action, &images), "a verified change fails");
                changed = true;
            }
            _ if std::mem::take(&mut changed) => check_own_tables(plan, &memory),
            _ => {}
        }
    }
}

/// Checks the tables with the traversal that continues after errors.
fn check_own_tables(plan: &Plan, memory: &PlanMemory<'_>) {
    let first = accesses(plan).arena.base.get();
    let end = first + accesses(plan).used_pages * PAGE_SIZE as u64;
    let scans: Vec<mmu::Scan> = plan
        .spaces()
        .iter()
        .map(|s| mmu::scan(s.format, s.root, memory))
        .collect();
    let tables: BTreeSet<u64> = scans
        .iter()
        .flat_map(|s| s.tables.iter().map(|t| t.at.frame()))
        .collect();
    for leaf in scans.iter().flat_map(|s| &s.leaves) {
        assert!(
            leaf.pa.get() >= first && leaf.pa.get() + leaf.bytes <= end,
            "a verified plan maps {leaf:?}"
        );
        if leaf.rights.write {
            let frames = leaf.pa.frame()..(leaf.pa.get() + leaf.bytes).div_ceil(PAGE_SIZE as u64);
            assert!(
                tables.range(frames).next().is_none(),
                "a verified plan maps a table writable: {leaf:?}"
            );
        }
    }
}
