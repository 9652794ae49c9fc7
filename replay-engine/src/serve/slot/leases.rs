//! Leases of a device: the hold of one client, and the share of a live program. Both end when they are dropped.

use super::{CHANGED, LostDevice, Slot, State, YieldFlag};
use crate::device::DeviceInfo;
use crate::lease_options::Preemption;
use crate::target::{ApiSupport, OpenTarget, ReplayPreparation};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A device held by one client. Dropping it resets the device to its power-on state and frees it.
pub(crate) struct Hold {
    pub(super) slot: Arc<Slot>,
    pub(super) device: Option<OpenTarget>,
    pub(super) yield_flag: Option<Arc<YieldFlag>>,
    pub(super) preempted: Option<Preemption>,
}

impl Hold {
    /// Returns the flag that asks this client to yield, if the lease is preemptible.
    pub fn yield_flag(&self) -> Option<&Arc<YieldFlag>> {
        self.yield_flag.as_ref()
    }

    /// Whether a request of higher priority waits for the device.
    pub fn is_to_yield(&self) -> bool {
        let flag = self.yield_flag.as_ref();
        flag.is_some_and(|flag| flag.requested().load(Ordering::SeqCst))
    }

    /// Returns the lease that was preempted for this one.
    pub fn preempted(&self) -> Option<&Preemption> {
        self.preempted.as_ref()
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.slot.info
    }

    /// Returns the API of the device's traces, or `None` if it takes register accesses.
    pub fn api(&self) -> Option<&Arc<dyn ApiSupport>> {
        self.slot.api.as_ref()
    }

    /// Starts the slow preparations for a replay, if the device has any.
    pub fn prestart(&mut self) {
        if let Some(OpenTarget::Channel(device)) = &mut self.device {
            device.prestart();
        }
    }

    /// Returns what prepares a replay while its plan is verified, if the device has it.
    pub fn preparation(&self) -> Option<Arc<dyn ReplayPreparation>> {
        match &self.device {
            Some(OpenTarget::Channel(device)) => device.preparation(),
            _ => None,
        }
    }

    /// Whether the target is there, takes register accesses and has no work.
    pub fn is_idle(&self) -> bool {
        matches!(&self.device, Some(OpenTarget::Registers(device)) if device.is_idle())
    }

    /// Borrows the target. It must be returned with [`Hold::give_back`] or reported lost with [`Hold::lose`].
    pub fn borrow(&mut self) -> Option<OpenTarget> {
        self.device.take()
    }

    pub fn give_back(&mut self, device: OpenTarget) {
        self.device = Some(device);
    }

    /// Tells clients that request the device that its client is gone.
    pub fn mark_ending(&self) {
        self.slot.is_ending.store(true, Ordering::SeqCst);
    }

    /// Reports the target as lost, and replaces it if that is safe.
    pub fn lose(&mut self, lost: LostDevice) {
        match self.slot.replace(lost) {
            Ok(device) => self.device = Some(device),
            Err(why) => {
                tracing::error!(device = self.slot.info.name, "out of order: {why}");
                self.slot.end_lease(State::OutOfOrder(why));
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // It was borrowed and never reported lost, for example after a panic of the monitoring code. Its thread may
        // still hold it.
        if self.device.is_none() && matches!(*self.slot.state(), State::Held { .. }) {
            self.lose(LostDevice::Hangs);
        }
        let Some(mut device) = self.device.take() else { return };
        self.mark_ending();
        let reset = catch_unwind(AssertUnwindSafe(move || device.reset().map(|()| device)));
        let next = match reset {
            Ok(Ok(device)) => Ok(device),
            Ok(Err(e)) => Err(format!(
                "it could not be reset: {e}; check the device, and restart the agent"
            )),
            Err(_) => self.slot.replace(LostDevice::Panicked),
        };
        self.slot.end_lease(match next {
            Ok(device) => State::Free(device),
            Err(why) => {
                tracing::error!(device = self.slot.info.name, "out of order: {why}");
                State::OutOfOrder(why)
            }
        });
    }
}

/// A share of a device. Dropping it gives the share back; the device is free with the last one.
pub(crate) struct Share {
    pub(super) slot: Arc<Slot>,
    /// The description of the holder, which tells its share from others.
    pub(super) describe: Arc<dyn Fn() -> String + Send + Sync>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.slot.state();
        let State::Shared { holders, .. } = &mut *state else {
            return;
        };
        if let Some(at) = holders.iter().position(|h| Arc::ptr_eq(&h.describe, &self.describe)) {
            holders.remove(at);
        }
        if !holders.is_empty() {
            return;
        }
        let changing = State::OutOfOrder(CHANGED.to_owned());
        // The target was not used meanwhile, so it needs no reset.
        if let State::Shared { target, .. } = std::mem::replace(&mut *state, changing) {
            *state = State::Free(target);
        }
    }
}
