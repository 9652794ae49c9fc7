//! The state of a device on the agent: free, held by one client, shared by live programs, or out of order.

use super::preemption::{LeaseClient, Reservation, YieldFlag};
use crate::device::{Arena, Containment, DeviceInfo, DeviceInterface, ReplayDeviceError};
use crate::lease_options::Preemption;
use crate::target::{ApiSupport, Factory, OpenTarget, ReplayPreparation};
use crate::wire::message::{DeviceState, LeaseReply};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trace_core::PhysAddr;

/// One device.
pub(crate) struct Slot {
    info: DeviceInfo,
    /// The API of its traces, if it takes API traces.
    api: Option<Arc<dyn ApiSupport>>,
    /// `None` for a device that could not be created.
    factory: Option<Factory>,
    state: Mutex<State>,
    /// Kept for a client that preempted a lease. Locked after `state`.
    reservation: Mutex<Option<Reservation>>,
    /// Whether the client of the lease is gone: the device is free after the end of its run and a reset.
    is_ending: AtomicBool,
    /// Number of leases that ended, to wait for the next.
    ended_leases: Mutex<u64>,
    lease_ended: Condvar,
}

enum State {
    Free(OpenTarget),
    Held {
        holder: String,
        since: Instant,
        /// Asks the holder to yield, if its lease is preemptible.
        yield_flag: Option<Arc<YieldFlag>>,
    },
    /// Live programs use it. The target waits here: their worker processes open the device themselves.
    Shared {
        target: OpenTarget,
        holders: Vec<ShareHolder>,
        since: Instant,
    },
    OutOfOrder(String),
}

/// A live program that uses a device.
#[derive(Clone)]
pub(crate) struct ShareHolder {
    /// Name of the client.
    pub client: String,
    /// Describes the program, for lists.
    pub describe: Arc<dyn Fn() -> String + Send + Sync>,
}

/// Describes the programs that share a device.
fn describe_holders(holders: &[ShareHolder]) -> String {
    let holders = holders.iter().map(|h| format!("{} ({})", h.client, (h.describe)()));
    format!("live: {}", holders.collect::<Vec<_>>().join(", "))
}

/// The reason for a state that cannot be.
const CHANGED: &str = "its state changed under a lock";

/// Who holds a device.
enum Holder {
    One(String),
    Programs(Vec<ShareHolder>),
}

impl Holder {
    fn describe(self) -> String {
        match self {
            Self::One(name) => name,
            Self::Programs(holders) => describe_holders(&holders),
        }
    }
}

/// How a target was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostDevice {
    /// It panicked: its thread has ended.
    Panicked,
    /// It hangs: its thread still holds it.
    Hangs,
}

impl Slot {
    /// Creates the device.
    pub fn new(factory: Factory) -> Result<Self, ReplayDeviceError> {
        let device = open_guarded(&factory)?;
        Ok(Self {
            info: device.info(),
            api: device.api(),
            factory: Some(factory),
            state: Mutex::new(State::Free(device)),
            reservation: Mutex::default(),
            is_ending: AtomicBool::new(false),
            ended_leases: Mutex::default(),
            lease_ended: Condvar::new(),
        })
    }

    /// Creates the slot of a device that could not be created. It has no windows and no memory, unlike a device that
    /// went out of order later.
    pub fn missing(name: String, reason: String) -> Self {
        Self {
            info: DeviceInfo {
                description: "a device that could not be opened".into(),
                name,
                gpu_id: 0,
                gpu_name: String::new(),
                register_map: String::new(),
                containment: Containment::None,
                hardware: None,
                windows: Vec::new(),
                arena: Arena {
                    base: PhysAddr::ZERO,
                    pages: 0,
                },
                interface: DeviceInterface::Registers,
                virtual_time: false,
                computes: false,
            },
            api: None,
            factory: None,
            state: Mutex::new(State::OutOfOrder(format!("it could not be opened: {reason}"))),
            reservation: Mutex::default(),
            is_ending: AtomicBool::new(false),
            ended_leases: Mutex::default(),
            lease_ended: Condvar::new(),
        }
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the device and its holder.
    pub fn describe(&self) -> DeviceState {
        let (holder, out_of_order) = match &*self.state() {
            State::Free(_) => (None, None),
            State::Held { holder, .. } => (Some(Holder::One(holder.clone())), None),
            State::Shared { holders, .. } => (Some(Holder::Programs(holders.clone())), None),
            State::OutOfOrder(why) => (None, Some(why.clone())),
        };
        DeviceState {
            info: self.info.clone(),
            holder: holder.map(Holder::describe),
            out_of_order,
        }
    }

    /// Returns whether a client holds the device or a share of it.
    pub fn is_held(&self) -> bool {
        matches!(*self.state(), State::Held { .. } | State::Shared { .. })
    }

    fn reservation(&self) -> MutexGuard<'_, Option<Reservation>> {
        self.reservation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state at the end of a lease.
    fn end_lease(&self, next: State) {
        *self.state() = next;
        self.is_ending.store(false, Ordering::SeqCst);
        let mut ended = self.ended_leases.lock().unwrap_or_else(PoisonError::into_inner);
        *ended = ended.wrapping_add(1);
        self.lease_ended.notify_all();
    }

    /// Returns whether the client of the lease is gone: the device is free after the end of its run and a reset.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Returns the number of leases that ended, for [`Self::wait_for_end`].
    pub fn count_ended_leases(&self) -> u64 {
        *self.ended_leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a lease has ended after the first `known` ones, at most for `limit`.
    pub fn wait_for_end(&self, known: u64, limit: Duration) {
        let ended = self.ended_leases.lock().unwrap_or_else(PoisonError::into_inner);
        // A poisoned lock is no reason to wait longer or shorter: the caller looks at the state next.
        drop(
            self.lease_ended
                .wait_timeout_while(ended, limit, |ended| *ended == known),
        );
    }

    /// Asks the holder to yield, if the request of `client` preempts its lease. Returns whether it does.
    fn preempt(&self, client: &LeaseClient<'_>, holder: &str, yield_flag: Option<&YieldFlag>) -> bool {
        let Some(flag) = yield_flag.filter(|flag| flag.yields_to(client.options.priority)) else {
            return false;
        };
        let mut reservation = self.reservation();
        match &mut *reservation {
            Some(existing) if existing.precedes(client) => return false,
            Some(existing) if existing.is_of(client) => existing.renew(),
            other => *other = Some(Reservation::new(client, holder)),
        }
        flag.request();
        true
    }

    /// Leases the device to one client. If the lease of another client was preempted for it, the hold says so.
    pub fn take(self: &Arc<Self>, client: &LeaseClient<'_>) -> Result<Hold, Box<LeaseReply>> {
        let mut state = self.state();
        match &*state {
            State::Held {
                holder,
                since,
                yield_flag,
            } => {
                let is_preempted = self.preempt(client, holder, yield_flag.as_deref());
                let (holder, since_s) = (holder.clone(), since.elapsed().as_secs());
                return Err(Box::new(match is_preempted {
                    true => LeaseReply::Yielding { holder, since_s },
                    false => LeaseReply::Busy { holder, since_s },
                }));
            }
            State::Shared { holders, since, .. } => {
                let (holders, since_s) = (holders.clone(), since.elapsed().as_secs());
                // A description may wait for its worker: nobody else waits for the state meanwhile.
                drop(state);
                let holder = describe_holders(&holders);
                return Err(Box::new(LeaseReply::Busy { holder, since_s }));
            }
            State::OutOfOrder(why) => return Err(Box::new(LeaseReply::OutOfOrder(why.clone()))),
            State::Free(_) => {}
        }
        let mut reservation = self.reservation();
        if let Some(earlier) = reservation.as_ref().filter(|earlier| earlier.precedes(client)) {
            return Err(Box::new(LeaseReply::Busy {
                holder: earlier.client.clone(),
                since_s: earlier.since.elapsed().as_secs(),
            }));
        }
        let own = reservation.take().filter(|reservation| reservation.is_of(client));
        let yield_flag = YieldFlag::of_client(client);
        let held = State::Held {
            holder: client.name.to_owned(),
            since: Instant::now(),
            yield_flag: yield_flag.clone(),
        };
        let State::Free(device) = std::mem::replace(&mut *state, held) else {
            return Err(Box::new(LeaseReply::OutOfOrder(CHANGED.to_owned())));
        };
        Ok(Hold {
            slot: Arc::clone(self),
            device: Some(device),
            yield_flag,
            preempted: own.map(|reservation| Preemption {
                holder: reservation.holder,
                waited_ns: u64::try_from(reservation.since.elapsed().as_nanos()).unwrap_or(u64::MAX),
            }),
        })
    }

    /// Gives a live program a share of the device.
    pub fn share(self: &Arc<Self>, holder: ShareHolder) -> Result<Share, Box<LeaseReply>> {
        let mut state = self.state();
        let describe = Arc::clone(&holder.describe);
        let out_of_order = |why: &str| Err(Box::new(LeaseReply::OutOfOrder(why.to_owned())));
        match &mut *state {
            State::Held { holder, since, .. } => {
                return Err(Box::new(LeaseReply::Busy {
                    holder: holder.clone(),
                    since_s: since.elapsed().as_secs(),
                }));
            }
            State::OutOfOrder(why) => return out_of_order(why),
            State::Shared { holders, .. } => holders.push(holder),
            State::Free(_) => {
                let changing = State::OutOfOrder(CHANGED.to_owned());
                let State::Free(target) = std::mem::replace(&mut *state, changing) else {
                    return out_of_order(CHANGED);
                };
                *state = State::Shared {
                    target,
                    holders: vec![holder],
                    since: Instant::now(),
                };
            }
        }
        Ok(Share {
            slot: Arc::clone(self),
            describe,
        })
    }

    /// Creates a replacement for a lost target, if that is safe: a simulator has nothing that a hanging thread could
    /// still access.
    fn replace(&self, lost: LostDevice) -> Result<OpenTarget, String> {
        if lost == LostDevice::Hangs && self.info.containment != Containment::Software {
            return Err("it hung in a run and may still be at work; restart the agent".into());
        }
        let factory = self
            .factory
            .as_ref()
            .ok_or("it could not be opened; restart the agent")?;
        let device = open_guarded(factory).map_err(|e| format!("{e}; fix that, and restart the agent"))?;
        // Plans are compiled and proved for the description that clients received.
        if device.info() != self.info {
            return Err(
                "it was lost in a run, and its replacement has its memory at another address; restart the agent".into(),
            );
        }
        Ok(device)
    }
}

/// Calls a factory. A panic in it becomes an error.
fn open_guarded(factory: &Factory) -> Result<OpenTarget, ReplayDeviceError> {
    catch_unwind(AssertUnwindSafe(|| factory.open()))
        .unwrap_or_else(|p| Err(ReplayDeviceError::Failed(panic_text(&*p))))
}

/// Returns the message of a panic.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("no message"))
}

/// A device held by one client. Dropping it resets the device to its power-on state and frees it.
pub(crate) struct Hold {
    slot: Arc<Slot>,
    device: Option<OpenTarget>,
    yield_flag: Option<Arc<YieldFlag>>,
    preempted: Option<Preemption>,
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
    slot: Arc<Slot>,
    /// The description of the holder, which tells its share from others.
    describe: Arc<dyn Fn() -> String + Send + Sync>,
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

#[cfg(test)]
mod tests {
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
        assert!(
            matches!(refused.map(drop), Err(r) if matches!(&*r, LeaseReply::Busy { holder, .. } if holder == "carol"))
        );
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
}
