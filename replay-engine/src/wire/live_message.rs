//! The messages about live programs. Variants are never reordered: a new one is added at the end.

use serde::{Deserialize, Serialize};
use std::fmt;

/// First protocol version with these messages and with frames of calls.
pub const LIVE_VERSION: u16 = 7;

/// Maximum number of devices of a program.
pub const MAX_DEVICES: usize = 8;
/// Maximum size of the name of a program, bytes.
pub const MAX_PROGRAM_BYTES: usize = 256;
/// Maximum size of the runner's bytes for the client's relay, bytes.
pub const MAX_PREFACE_BYTES: usize = 256 << 10;

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRequest {
    /// Devices of the agent, such as `cuda0`, in the order in which the program sees them: 1 to [`MAX_DEVICES`], each
    /// once.
    pub devices: Vec<String>,
    /// Name of the program, for lists and logs, at most [`MAX_PROGRAM_BYTES`].
    pub program: String,
    /// Process id of the program on the client's machine, for lists and logs.
    pub process: u32,
    /// How the worker records the program, if it does.
    pub recording: Option<LiveRecording>,
    /// Whether the client asks for a worker on its own machine, which it reaches by shared memory.
    pub is_local: bool,
}

/// How a worker records a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRecording {
    /// Maximum size of the recording, bytes.
    pub limit_bytes: u64,
}

/// Limits of each program of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveLimits {
    /// Maximum size of pinned, mapped and managed memory at the agent's machine, bytes, or `None` for no limit.
    pub host_bytes: Option<u64>,
    /// Maximum memory of all its devices together, bytes, or `None` for no limit.
    pub device_bytes: Option<u64>,
    /// Maximum time from the start of the worker, milliseconds, or `None` for no limit.
    pub time_ms: Option<u64>,
}

/// What a client gets when its worker runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveGrant {
    /// The secret with which further connections of the same client join.
    pub token: [u8; 32],
    /// Maximum number of further connections that may join.
    pub max_lanes: u32,
    /// Limits of the program.
    pub limits: LiveLimits,
    /// How the client reaches its worker on the same machine, if it asked for that and is there.
    pub local: Option<LocalWorker>,
    /// Bytes of the runner for the client's relay, at most [`MAX_PREFACE_BYTES`].
    pub preface: Vec<u8>,
}

/// The way to a worker on the client's own machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalWorker {
    /// Path of its Unix socket.
    pub path: Vec<u8>,
    /// The secret that admits the client.
    pub token: [u8; 32],
}

/// Client to agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LiveCommand {
    /// Start the worker of a program. From then on, the connection is for this program only.
    Start(Box<LiveRequest>),
    /// Make this connection a further one of a program of the same client.
    Join {
        /// The token of the program.
        token: [u8; 32],
    },
    /// The program has ended. The client sends nothing more.
    Finish,
    /// Describe what programs can use. Nothing is started.
    Describe,
}

/// Agent to client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LiveReply {
    /// The worker runs, and the client has a share of the devices.
    Started(Box<LiveGrant>),
    /// The connection belongs to the program.
    Joined {
        /// Number of the connection, from 1.
        lane: u32,
    },
    /// Nothing was started or joined.
    Refused(LiveRefusal),
    /// The program has ended. The recordings follow as bulk, one after the other.
    Ended {
        /// Why it did not end well, for the user.
        error: Option<String>,
        /// Bytes for the client's relay.
        report: Vec<u8>,
        /// Name and size in bytes of each recording.
        recordings: Vec<(String, u64)>,
    },
    /// What programs can use.
    Offer {
        /// The devices.
        devices: Vec<String>,
        /// Limits of each program.
        limits: LiveLimits,
    },
}

/// Why a program does not start, or a connection does not join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LiveRefusal {
    /// The agent runs no live programs.
    NotOffered,
    /// Programs cannot use one of the devices.
    NoDevice {
        /// The devices that they can use.
        known: Vec<String>,
    },
    /// Another client has a device for itself.
    Busy {
        /// The device.
        device: String,
        /// Name of that client.
        holder: String,
        /// How long the client has had it, seconds.
        since_s: u64,
    },
    /// A device cannot be used.
    OutOfOrder {
        /// The device.
        device: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// The request exceeds a limit of the agent.
    Limit(String),
    /// The worker did not start, or did not take the connection.
    Failed(String),
    /// No program of this client has the token.
    UnknownToken,
}

impl fmt::Display for LiveRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOffered => f.write_str("this agent runs no live programs"),
            Self::NoDevice { known } if known.is_empty() => f.write_str("programs can use no device"),
            Self::NoDevice { known } => {
                write!(f, "programs cannot use the device; they can use {}", known.join(", "))
            }
            Self::Busy {
                device,
                holder,
                since_s,
            } => write!(f, "{holder} has had {device} for {since_s} s"),
            Self::OutOfOrder { device, reason } => write!(f, "{device} cannot be used: {reason}"),
            Self::Limit(why) | Self::Failed(why) => f.write_str(why),
            Self::UnknownToken => f.write_str("no program of this client has the token"),
        }
    }
}
