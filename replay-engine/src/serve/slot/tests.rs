//! Leases of a device: preemption, shares, lost targets.

use super::*;
use crate::device::{JobReport, RegisterFactory, RegisterTarget, Target, Window};
use crate::lease_options::LeaseOptions;
use replay_core::{Device, DeviceError, WaitResult};
use std::sync::atomic::{AtomicBool, AtomicU64};
use trace_core::PhysAddr;
use trace_core::recording::Page;

/// A target that does nothing, with memory at a selected address.
struct Idle(u64, Containment);

impl Device for Idle {
    fn read(&mut self, _: u8, _: u64, _: u8) -> Result<u64, DeviceError> {
        Ok(0)
    }
    fn write(&mut self, _: u8, _: u64, _: u8, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn wait_interrupt(&mut self, _: u32, _: u64) -> Result<WaitResult, DeviceError> {
        Ok(WaitResult::TimedOut)
    }
    fn pause(&mut self, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn now_ns(&mut self) -> u64 {
        0
    }
}

impl Target for Idle {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: "idle".into(),
            description: String::new(),
            gpu_id: 0,
            gpu_name: String::new(),
            register_map: String::new(),
            containment: self.1,
            hardware: None,
            windows: Window::registers(0),
            arena: Arena {
                base: PhysAddr::new(self.0),
                pages: 1,
            },
            interface: DeviceInterface::Registers,
            virtual_time: true,
            computes: false,
        }
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        Ok(())
    }
}

impl RegisterTarget for Idle {
    fn store_page(&mut self, _: u64, _: &Page) -> Result<(), ReplayDeviceError> {
        Ok(())
    }
    fn load_page(&mut self, _: u64, _: &mut Page) -> Result<(), ReplayDeviceError> {
        Ok(())
    }
    fn take_job_reports(&mut self) -> Vec<JobReport> {
        Vec::new()
    }
}

/// Creates a slot with several targets. Each target has its memory `step` bytes after that of the previous one.
fn slot(containment: Containment, step: u64) -> Arc<Slot> {
    let count = AtomicU64::new(0);
    let factory = move || {
        let n = count.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Idle(0x1000 + n * step, containment)) as Box<dyn RegisterTarget>)
    };
    let factory: RegisterFactory = Arc::new(factory);
    Arc::new(Slot::new(factory.into()).unwrap())
}

/// Requests a device for a session of its own.
fn take(slot: &Arc<Slot>, name: &str, options: LeaseOptions) -> Result<Hold, Box<LeaseReply>> {
    take_for(slot, name, options, &Arc::new(AtomicBool::new(true)))
}

fn take_for(
    slot: &Arc<Slot>,
    name: &str,
    options: LeaseOptions,
    session: &Arc<AtomicBool>,
) -> Result<Hold, Box<LeaseReply>> {
    slot.take(&LeaseClient {
        name,
        session,
        options,
        wake: Arc::new(|| ()),
    })
}

fn options(priority: u8, is_preemptible: bool) -> LeaseOptions {
    LeaseOptions {
        priority,
        is_preemptible,
    }
}

#[test]
fn request_of_higher_priority_gets_the_device_of_a_preemptible_lease() {
    let slot = slot(Containment::None, 0);
    let hold = take(&slot, "nightly", options(1, true)).unwrap_or_else(|r| panic!("{r:?}"));
    for equal_or_lower in [0, 1] {
        let refused = take(&slot, "another", options(equal_or_lower, false)).map(drop);
        assert!(matches!(refused, Err(r) if matches!(&*r, LeaseReply::Busy { holder, .. } if holder == "nightly")));
    }
    assert!(!hold.is_to_yield());
    let session = Arc::new(AtomicBool::new(true));
    let asked = take_for(&slot, "urgent", options(2, false), &session).map(drop);
    assert!(matches!(asked, Err(r) if matches!(&*r, LeaseReply::Yielding { holder, .. } if holder == "nightly")));
    assert!(hold.is_to_yield());
    let ended = slot.count_ended_leases();
    drop(hold);
    slot.wait_for_end(ended, Duration::from_secs(60));
    // The device is kept for the client that waits.
    let early = take(&slot, "another", options(2, false)).map(drop);
    assert!(matches!(early, Err(r) if matches!(&*r, LeaseReply::Busy { holder, .. } if holder == "urgent")));
    let granted = take_for(&slot, "urgent", options(2, false), &session).unwrap_or_else(|r| panic!("{r:?}"));
    assert_eq!(granted.preempted().map(|p| p.holder.as_str()), Some("nightly"));
    assert!(granted.yield_flag().is_none());
    let refused = take(&slot, "third", options(255, false)).map(drop);
    assert!(matches!(refused, Err(r) if matches!(&*r, LeaseReply::Busy { holder, .. } if holder == "urgent")));
}

#[test]
fn device_is_not_kept_for_a_client_that_is_gone() {
    let slot = slot(Containment::None, 0);
    let hold = take(&slot, "nightly", options(0, true)).unwrap_or_else(|r| panic!("{r:?}"));
    let session = Arc::new(AtomicBool::new(true));
    assert!(take_for(&slot, "urgent", options(1, false), &session).is_err());
    drop(hold);
    session.store(false, Ordering::Relaxed);
    let hold = take(&slot, "another", options(0, true)).unwrap_or_else(|r| panic!("{r:?}"));
    assert_eq!(hold.preempted(), None);
}

#[test]
fn replacement_device_needs_the_same_memory() {
    for (step, free) in [(0, true), (0x1000, false)] {
        let slot = slot(Containment::None, step);
        let mut hold = take(&slot, "somebody", LeaseOptions::default()).unwrap_or_else(|r| panic!("{r:?}"));
        drop(hold.borrow());
        hold.lose(LostDevice::Panicked);
        drop(hold);
        let state = slot.describe();
        assert_eq!((state.holder, state.out_of_order.is_none()), (None, free));
        let is_reported = state.out_of_order.is_none_or(|why| why.contains("restart the agent"));
        assert!(is_reported && take(&slot, "another", LeaseOptions::default()).is_ok() == free);
    }
}

#[test]
fn device_is_free_with_the_last_share() {
    let slot = slot(Containment::None, 0);
    let share = |client: &str| {
        let program = format!("program of {client}");
        let holder = ShareHolder {
            client: client.to_owned(),
            describe: Arc::new(move || program.clone()),
        };
        slot.share(holder).unwrap_or_else(|r| panic!("{r:?}"))
    };
    let holder = || slot.describe().holder;
    let (first, second) = (share("alice"), share("bob"));
    let both = "live: alice (program of alice), bob (program of bob)";
    assert_eq!(holder().as_deref(), Some(both));
    assert!(
        matches!(take(&slot, "carol", LeaseOptions::default()).map(drop), Err(r) if matches!(&*r, LeaseReply::Busy { holder, .. } if holder == both))
    );
    drop(first);
    assert_eq!(holder().as_deref(), Some("live: bob (program of bob)"));
    assert!(slot.is_held());
    drop(second);
    assert!(!slot.is_held());
    let hold = take(&slot, "carol", LeaseOptions::default()).unwrap_or_else(|r| panic!("{r:?}"));
    let refused = slot.share(ShareHolder {
        client: "alice".to_owned(),
        describe: Arc::new(String::new),
    });
    assert!(matches!(refused.map(drop), Err(r) if matches!(&*r, LeaseReply::Busy { holder, .. } if holder == "carol")));
    drop(hold);
    drop(share("alice"));
    assert_eq!(holder(), None);
}

#[test]
fn lease_of_a_lost_device_is_released() {
    for (containment, free) in [(Containment::Software, true), (Containment::None, false)] {
        let slot = slot(containment, 0);
        let mut hold = take(&slot, "somebody", LeaseOptions::default()).unwrap_or_else(|r| panic!("{r:?}"));
        drop(hold.borrow());
        drop(hold);
        let state = slot.describe();
        assert_eq!((state.holder, state.out_of_order.is_none()), (None, free));
    }
}
