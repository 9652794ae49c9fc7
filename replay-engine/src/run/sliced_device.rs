//! A target with cancellable waits: long waits are split into short ones.

use super::effects::{EffectContext, EffectReading, check_effect};
use crate::device::{RegisterTarget, ReplayDeviceError, space};
use crate::plan::PlannedAccesses;
use replay_core::{Device, DeviceError, WaitResult};
use std::collections::HashMap;
use trace_core::PhysAddr;
use trace_core::progress::Progress;
use trace_core::recording::{MemoryBuilder, Page, PageId, ZERO_PAGE};

/// Wait time between two checks of the progress, nanoseconds.
const SLICE_NS: u64 = 20_000_000;

/// Maximum number of distinct pages that are kept after memory changes: 256 MiB.
const MAX_KEPT: usize = 1 << 16;

/// A target during a run. If its time is real, no wait is longer than a slice; virtual time advances at once. It
/// applies the memory changes of the recording's CPU, and keeps the resulting pages.
pub(super) struct SlicedDevice<'a> {
    device: &'a mut dyn RegisterTarget,
    progress: &'a Progress,
    slice_ns: u64,
    /// Images that changes take bytes from.
    images: Vec<&'a Page>,
    base: PhysAddr,
    plan: PlannedAccesses<'a>,
    /// Number of interrupts.
    interrupts: u64,
    /// Results of checks, by expectation number.
    pub checked: HashMap<u32, EffectReading>,
    /// Frames of changes whose pages were not read yet.
    pending: Vec<u64>,
    /// Pages after changes, one per change. The page of zeros stands for pages that were not kept.
    pub changed_pages: Vec<PageId>,
    /// Maximum number of kept pages.
    max: usize,
    /// Number of changes whose pages were not kept.
    pub lost_changes: u64,
    pub memory: MemoryBuilder,
}

fn refused(e: &ReplayDeviceError) -> DeviceError {
    match e {
        ReplayDeviceError::OutsideArena { .. } => DeviceError::OutOfRange,
        ReplayDeviceError::Failed(_) => DeviceError::Gone,
    }
}

impl<'a> SlicedDevice<'a> {
    pub fn new(
        plan: PlannedAccesses<'a>,
        device: &'a mut dyn RegisterTarget,
        progress: &'a Progress,
        images: Vec<&'a Page>,
    ) -> Self {
        let info = device.info();
        let slice_ns = if info.virtual_time { u64::MAX } else { SLICE_NS };
        Self {
            device,
            progress,
            slice_ns,
            images,
            base: info.arena.base,
            plan,
            interrupts: 0,
            checked: HashMap::new(),
            pending: Vec::new(),
            changed_pages: Vec::new(),
            max: MAX_KEPT,
            lost_changes: 0,
            memory: MemoryBuilder::new(),
        }
    }

    /// Keeps the pages after the changes since the last call.
    pub fn keep_changed_pages(&mut self) {
        let mut seen: HashMap<u64, PageId> = HashMap::new();
        let mut page = ZERO_PAGE;
        for frame in std::mem::take(&mut self.pending) {
            let id = seen
                .entry(frame)
                .or_insert_with(|| match self.device.load_page(frame, &mut page) {
                    Ok(()) if self.memory.pages() < self.max => self.memory.add_page(&page),
                    Ok(()) => {
                        self.lost_changes += 1;
                        PageId::ZERO
                    }
                    // The run soon ends with the same error.
                    Err(_) => PageId::ZERO,
                });
            self.changed_pages.push(*id);
        }
    }
}

impl Device for SlicedDevice<'_> {
    fn put(&mut self, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        self.device.write(space::ARENA, offset, width, value)?;
        self.pending.push(self.base.saturating_add(offset).frame());
        Ok(())
    }

    fn copy(&mut self, offset: u64, bytes: u32, image: u32) -> Result<(), DeviceError> {
        let image = *self.images.get(image as usize).ok_or(DeviceError::NoImages)?;
        let at = self.base.saturating_add(offset);
        let range = at.in_page()..at.in_page().saturating_add(bytes as usize);
        let from = image.get(range).ok_or(DeviceError::OutOfRange)?;
        self.device.store_bytes(at, from).map_err(|e| refused(&e))?;
        self.pending.push(at.frame());
        Ok(())
    }

    fn check(&mut self, expectation: u32) -> Result<(), DeviceError> {
        self.keep_changed_pages();
        let of = self.plan.accesses.expectations.get(expectation as usize);
        let effect = &of.ok_or(DeviceError::NoEffects)?.effect;
        let there = EffectContext {
            interrupts: self.interrupts,
            outputs: &[],
        };
        let look = check_effect(self.plan, effect, self.device, &there);
        self.checked.insert(expectation, look);
        Ok(())
    }

    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        self.keep_changed_pages();
        self.device.read(space, offset, width)
    }

    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        self.keep_changed_pages();
        self.device.write(space, offset, width, value)
    }

    /// On cancellation it reports a timeout: the run then ends there as cancelled.
    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        self.keep_changed_pages();
        let mut left = limit_ns;
        loop {
            let now = left.min(self.slice_ns);
            left -= now;
            let result = self.device.wait_interrupt(lines, now)?;
            self.interrupts += u64::from(result != WaitResult::TimedOut);
            if result != WaitResult::TimedOut || left == 0 || self.progress.check().is_err() {
                return Ok(result);
            }
        }
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        let mut left = ns;
        loop {
            let now = left.min(self.slice_ns);
            left -= now;
            self.device.pause(now)?;
            if left == 0 {
                return Ok(());
            }
            // Later actions would run too early.
            if self.progress.check().is_err() {
                return Err(DeviceError::Gone);
            }
        }
    }

    fn now_ns(&mut self) -> u64 {
        self.device.now_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Arena, Containment, DeviceInfo, DeviceInterface, JobReport, Target};
    use crate::plan::{Plan, PlanBody, RegisterPlan};

    /// A target that never interrupts. It counts its wait time and is cancelled during a wait.
    struct Silent {
        virtual_time: bool,
        now: u64,
        waits: u64,
        cancel_after: u64,
        progress: Progress,
        /// Number of pages read, each with different contents.
        loads: u64,
    }

    impl Silent {
        fn pass(&mut self, ns: u64) {
            self.now = self.now.saturating_add(ns);
            self.waits += 1;
            if self.waits == self.cancel_after {
                self.progress.cancel();
            }
        }
    }

    impl Device for Silent {
        fn read(&mut self, _: u8, _: u64, _: u8) -> Result<u64, DeviceError> {
            Ok(0)
        }
        fn write(&mut self, _: u8, _: u64, _: u8, _: u64) -> Result<(), DeviceError> {
            Ok(())
        }
        fn wait_interrupt(&mut self, _: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
            self.pass(limit_ns);
            Ok(WaitResult::TimedOut)
        }
        fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
            self.pass(ns);
            Ok(())
        }
        fn now_ns(&mut self) -> u64 {
            self.now
        }
    }

    impl Target for Silent {
        fn info(&self) -> DeviceInfo {
            DeviceInfo {
                name: "silent".into(),
                description: String::new(),
                gpu_id: 0,
                gpu_name: String::new(),
                register_map: String::new(),
                containment: Containment::None,
                hardware: None,
                windows: crate::device::Window::registers(0),
                arena: Arena {
                    base: PhysAddr::ZERO,
                    pages: 0,
                },
                interface: DeviceInterface::Registers,
                virtual_time: self.virtual_time,
                computes: false,
            }
        }

        fn reset(&mut self) -> Result<(), ReplayDeviceError> {
            Ok(())
        }
    }

    impl RegisterTarget for Silent {
        fn store_page(&mut self, frame: u64, _: &Page) -> Result<(), ReplayDeviceError> {
            Err(ReplayDeviceError::OutsideArena { frame })
        }
        fn load_page(&mut self, _: u64, page: &mut Page) -> Result<(), ReplayDeviceError> {
            self.loads += 1;
            if let Some(first) = page.first_chunk_mut() {
                *first = self.loads.to_le_bytes();
            }
            Ok(())
        }
        fn take_job_reports(&mut self) -> Vec<JobReport> {
            Vec::new()
        }
    }

    fn plan() -> Plan {
        Plan::new(PlanBody::Registers(RegisterPlan::default()))
    }

    fn silent(virtual_time: bool, cancel_after: u64) -> (Silent, Progress) {
        let progress = Progress::new();
        let device = Silent {
            virtual_time,
            now: 0,
            waits: 0,
            cancel_after,
            progress: progress.clone(),
            loads: 0,
        };
        (device, progress)
    }

    #[test]
    fn sliced_wait_is_cancellable_and_has_the_requested_length() {
        let (hour, plan) = (3_600_000_000_000, plan());
        for (cancel_after, waited) in [(3, 3 * SLICE_NS), (u64::MAX, hour + 7)] {
            let (mut device, progress) = silent(false, cancel_after);
            let mut sliced = SlicedDevice::new(plan.planned_accesses().unwrap(), &mut device, &progress, Vec::new());
            assert_eq!(sliced.wait_interrupt(1, hour + 7), Ok(WaitResult::TimedOut));
            assert_eq!(device.now, waited);
            let (mut device, progress) = silent(false, cancel_after);
            let paused =
                SlicedDevice::new(plan.planned_accesses().unwrap(), &mut device, &progress, Vec::new()).pause(hour + 7);
            assert_eq!((paused.is_ok(), device.now), (cancel_after == u64::MAX, waited));
        }
        let (mut device, progress) = silent(true, u64::MAX);
        let waited = SlicedDevice::new(plan.planned_accesses().unwrap(), &mut device, &progress, Vec::new())
            .wait_interrupt(1, hour);
        assert_eq!((waited, device.waits), (Ok(WaitResult::TimedOut), 1));
    }

    #[test]
    fn changed_pages_are_stored_up_to_a_limit_then_counted() {
        let plan = plan();
        let (mut device, progress) = silent(true, u64::MAX);
        let mut sliced = SlicedDevice::new(plan.planned_accesses().unwrap(), &mut device, &progress, Vec::new());
        sliced.max = 2;
        for n in 0..5 {
            sliced.put(8, 8, n).unwrap();
            sliced.write(space::REGISTERS, 0, 4, 0).unwrap();
        }
        let saved: Vec<bool> = sliced.changed_pages.iter().map(|p| *p != PageId::ZERO).collect();
        assert_eq!(saved, [true, true, false, false, false]);
        assert_eq!((sliced.memory.pages(), sliced.lost_changes), (2, 3));
    }
}
