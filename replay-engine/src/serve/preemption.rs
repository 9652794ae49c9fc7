//! Preemption of a lease: what a request says about itself, how it asks the holder to yield, and its reservation.

use crate::lease_options::LeaseOptions;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for which a device is reserved after the last request of the client that it was preempted for.
const RESERVATION: Duration = Duration::from_secs(2);

/// Wakes the session that holds a device.
pub(crate) type WakeHolder = Arc<dyn Fn() + Send + Sync>;

/// A client that requests a device.
pub(crate) struct LeaseClient<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether its session is open. It identifies the session: a client may have several.
    pub session: &'a Arc<AtomicBool>,
    /// How it wants the device.
    pub options: LeaseOptions,
    /// Wakes its session when another request preempts the lease.
    pub wake: WakeHolder,
}

/// Asks the holder of a preemptible lease to yield.
pub(crate) struct YieldFlag {
    priority: u8,
    requested: AtomicBool,
    wake: WakeHolder,
}

impl fmt::Debug for YieldFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("YieldFlag")
            .field("priority", &self.priority)
            .field("requested", &self.requested)
            .finish_non_exhaustive()
    }
}

impl YieldFlag {
    /// Creates the flag of a client's lease, if it is preemptible.
    pub fn of_client(client: &LeaseClient<'_>) -> Option<Arc<Self>> {
        client.options.is_preemptible.then(|| {
            Arc::new(Self {
                priority: client.options.priority,
                requested: AtomicBool::new(false),
                wake: Arc::clone(&client.wake),
            })
        })
    }

    /// Whether a request of this priority preempts the lease.
    pub fn yields_to(&self, priority: u8) -> bool {
        priority > self.priority
    }

    /// Asks the holder to yield.
    pub fn request(&self) {
        if !self.requested.swap(true, Ordering::SeqCst) {
            (self.wake)();
        }
    }

    /// Whether the holder was asked to yield.
    pub fn requested(&self) -> &AtomicBool {
        &self.requested
    }
}

/// A device that is kept for the client whose request preempted its lease.
pub(crate) struct Reservation {
    /// Name of the client.
    pub client: String,
    session: Arc<AtomicBool>,
    priority: u8,
    /// Name of the client whose lease is preempted.
    pub holder: String,
    /// Time of the first request.
    pub since: Instant,
    until: Instant,
}

impl Reservation {
    /// Creates the reservation of a client for a device of `holder`.
    pub fn new(client: &LeaseClient<'_>, holder: &str) -> Self {
        let now = Instant::now();
        Self {
            client: client.name.to_owned(),
            session: Arc::clone(client.session),
            priority: client.options.priority,
            holder: holder.to_owned(),
            since: now,
            until: now + RESERVATION,
        }
    }

    /// Whether the client still waits.
    pub fn is_current(&self) -> bool {
        self.session.load(Ordering::Relaxed) && Instant::now() < self.until
    }

    /// Whether it is the reservation of this client's session.
    pub fn is_of(&self, client: &LeaseClient<'_>) -> bool {
        Arc::ptr_eq(&self.session, client.session)
    }

    /// Whether the client has to wait for the reserved device.
    pub fn precedes(&self, client: &LeaseClient<'_>) -> bool {
        self.is_current() && !self.is_of(client) && client.options.priority <= self.priority
    }

    /// Extends the reservation: its client has asked again.
    pub fn renew(&mut self) {
        self.until = Instant::now() + RESERVATION;
    }
}
