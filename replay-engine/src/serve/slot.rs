//! The state of a device on the agent: free, held by one client, shared by live programs, or out of order.

mod leases;

pub(crate) use leases::{Hold, Share};

use super::preemption::{LeaseClient, Reservation, YieldFlag};
use crate::device::{Arena, Containment, DeviceInfo, DeviceInterface, ReplayDeviceError};
use crate::lease_options::Preemption;
use crate::target::{ApiSupport, Factory, OpenTarget};
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

#[cfg(test)]
mod tests;
