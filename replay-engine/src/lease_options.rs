//! Options of a lease: its priority, and whether a request of higher priority preempts it.

use serde::{Deserialize, Serialize};

/// First protocol version with priorities of leases.
pub const PREEMPTION_VERSION: u16 = 8;

/// How a client wants to have a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseOptions {
    /// A request takes the device from a preemptible lease of lower priority.
    pub priority: u8,
    /// Whether the client gives the device to a request of higher priority: between two runs at once, in a run with stops
    /// ([`crate::target::TargetRequest::ReplayWithStops`]) at the next stop.
    pub is_preemptible: bool,
}

/// The lease of another client that ended for this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// Name of that client.
    pub holder: String,
    /// Time from the request to the grant, nanoseconds.
    pub waited_ns: u64,
}
