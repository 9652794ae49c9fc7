//! The messages: one small enum per topic and direction. Variants are never reordered: a new one is added at the end.

use crate::device::DeviceInfo;
use crate::lease_options::{LeaseOptions, Preemption};
use crate::memory_trace::MemoryTraceReport;
use crate::run::{ArtifactsHeader, Outcome};
use crate::target::TargetRequest;
use crate::tune::TuneReport;
use crate::verify::{Refusal, VerificationReport};
use crate::wire::delta::{Outline, Step};
use serde::{Deserialize, Serialize};
use trace_core::recording::Digest;

/// Agent to client: the first message of a session, and the last one if a session ends for a reason that the client
/// should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionReply {
    /// The client is known.
    Welcome {
        /// Program and version, for the user.
        program: String,
        /// Name under which the agent knows the client.
        you: String,
        /// The devices.
        devices: Vec<DeviceState>,
    },
    /// The client is unknown, or cannot be served.
    Refused(SessionRefusal),
}

/// Instructions for pairing on the agent's machine, used in every message about it.
pub const HOW_TO_PAIR: &str = "on the agent's machine run `kinescope-agent serve --listen ADDRESS:PORT --pair` (if \
                               an agent already serves there: `kinescope-agent pair --listen ADDRESS:0 --serve-port \
                               PORT`, with its port)";

/// The reason why a session is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SessionRefusal {
    /// The client's key is not pinned.
    #[error(
        "this client's key ({fingerprint}) is not paired with the agent; {HOW_TO_PAIR}, then pair from the client \
         and compare the code that both sides show"
    )]
    NotPaired {
        /// Fingerprint of the client's key.
        fingerprint: String,
    },
    /// The agent cannot read its keys.
    #[error("the agent cannot read its key store; see its log")]
    KeysUnreadable,
    /// Other clients took the last places during this client's handshake.
    #[error("it has too many connections; try again later")]
    Full,
    /// This client has the maximum number of connections of one key.
    #[error("this client already has {max} connections to it, which is the maximum; close one, then try again")]
    Share {
        /// Maximum number of connections of one key.
        max: u32,
    },
    /// The client's key was removed during the connection, which ends.
    #[error("it has forgotten this client's key and ends the connection; {HOW_TO_PAIR}, then pair again")]
    Forgotten,
}

/// A device and its availability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceState {
    /// Its description.
    pub info: DeviceInfo,
    /// Name of the client that holds it, if any.
    pub holder: Option<String>,
    /// Why it cannot be used, if it cannot.
    pub out_of_order: Option<String>,
}

/// Pairing messages, in order: `Commit` from the client, `Nonce` from the agent, `Reveal` from the client, `Confirm`
/// from both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PairMessage {
    /// Client: the digest of its nonce and of the handshake.
    Commit {
        /// The commitment.
        digest: [u8; 32],
        /// Name that the client proposes for itself.
        name: String,
    },
    /// Agent: its nonce.
    Nonce([u8; 32]),
    /// Client: the nonce that it committed to.
    Reveal([u8; 32]),
    /// Both: the user's answer. The agent adds the TCP port of its service, if it differs from the pairing port.
    Confirm {
        /// Whether the codes are equal.
        accepted: bool,
        /// Port to store with the key, agent to client.
        service_port: Option<u16>,
    },
    /// Agent, instead of `Confirm`: its user is being asked about another client.
    Busy,
}

/// Client to agent: requests about a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseRequest {
    /// Lease the device of this name.
    Take(String),
    /// The user accepts runs on the leased device although nothing prevents accesses to memory that is not the agent's
    /// ([`crate::device::Containment::None`]). It is valid until the connection ends.
    WithoutContainment,
    /// Lease the device of this name, with options. Since version 8.
    TakeAs {
        /// The device.
        device: String,
        /// The options.
        options: LeaseOptions,
    },
}

/// Agent to client: replies about a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseReply {
    /// The client holds it until the connection ends.
    Granted(Box<DeviceInfo>),
    /// There is no device of that name.
    NoDevice {
        /// Existing names.
        known: Vec<String>,
    },
    /// Another client holds it.
    Busy {
        /// Name of that client.
        holder: String,
        /// How long the client has held it, seconds.
        since_s: u64,
    },
    /// It cannot be used.
    OutOfOrder(String),
    /// Runs without containment are accepted from now on.
    Accepted,
    /// The client holds it until the connection ends or the lease is preempted. The lease of another client ended for it.
    GrantedByPreemption {
        /// The device.
        info: Box<DeviceInfo>,
        /// The other lease.
        preempted: Preemption,
    },
    /// The client that holds it was asked for it. The request is to be repeated.
    Yielding {
        /// Name of that client.
        holder: String,
        /// How long the client has held it, seconds.
        since_s: u64,
    },
}

/// One of the two byte strings of a plan in transit: its head (the record with an empty body), or its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanPart {
    /// Its length, bytes.
    pub bytes: u64,
    /// Its BLAKE3 digest.
    pub digest: Digest,
}

/// Client to agent: the plan to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PagesRequest {
    /// A plan, by the digests of its two parts.
    Offer {
        /// The head.
        head: PlanPart,
        /// The body.
        body: PlanPart,
    },
    /// How to reconstruct the missing parts from the pieces that the agent listed. The new bytes follow as bulk, those
    /// of the head first. Empty for a part that is not missing.
    Parts {
        /// The head.
        head: Vec<Step>,
        /// The body.
        body: Vec<Step>,
    },
    /// The client withdraws the offer, in any state. The agent answers [`PagesReply::GivenUp`].
    GiveUp,
}

/// First index and count of missing items in a list.
pub type IndexRange = (u32, u32);

/// Agent to client: what it lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PagesReply {
    /// Missing parts of the plan, each with the pieces of the most similar existing part. `None`: that part exists.
    LackParts {
        /// The head.
        head: Option<Outline>,
        /// The body.
        body: Option<Outline>,
    },
    /// Page images to send as bulk, by index into the plan's distinct digests in ascending order.
    LackPages(Vec<IndexRange>),
    /// The plan is complete and keeps the rules.
    Ready(VerificationReport),
    /// The plan breaks a rule.
    Refused(Refusal),
    /// The offer exceeds the agent's limits, or its bytes do not match their digests.
    Unacceptable(String),
    /// The offer is dropped, as [`PagesRequest::GiveUp`] asked. Earlier replies of the agent may cross that request.
    GivenUp,
    /// The lease was preempted. The client takes the device again, and repeats the offer.
    Preempted,
}

/// Client to agent: run requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RunRequest {
    /// Do this with the prepared plan.
    Start(TargetRequest),
    /// Stop as soon as possible.
    Cancel,
}

/// Agent to client: run replies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RunReply {
    /// Progress, millionths.
    Progress(u32),
    /// The replay is complete. Bulk frames follow, with the lengths in `bulk`: the packed events, the page images and
    /// the screen's pixels for the recording, then each output in order.
    Replayed {
        /// The outcome, without its recording.
        outcome: Box<Outcome>,
        /// The small part of the recording's artifacts, or `None` for a run that did not start.
        left: Option<Box<ArtifactsHeader>>,
        /// Lengths of the bulk data that follows.
        bulk: Vec<u64>,
    },
    /// The result of a tuning.
    Tuned(Box<TuneReport>),
    /// The result of a memory trace. The trace follows as bulk frames.
    TracedMemory {
        /// The report.
        report: Box<MemoryTraceReport>,
        /// Length of the trace, bytes.
        bytes: u64,
    },
    /// The tuning or the memory trace has no result, for this reason.
    Failed(String),
    /// It was cancelled.
    Cancelled,
    /// The device panicked or hung.
    DeviceFailed(String),
    /// There is no plan to run, or the repeat count exceeds the limit.
    NotReady(String),
    /// The request breaks a rule.
    Refused(Refusal),
    /// The device has no containment, and the client has not sent its user's acceptance.
    Uncontained {
        /// The device.
        device: String,
    },
    /// The replay stopped at one of the stops of its request, because the lease is preempted. The results up to there
    /// follow, as after [`Self::Replayed`].
    Stopped {
        /// The stop.
        event: u32,
        /// The outcome up to there, without its recording.
        outcome: Box<Outcome>,
        /// The small part of the recording's artifacts.
        left: Option<Box<ArtifactsHeader>>,
        /// Lengths of the bulk data that follows.
        bulk: Vec<u64>,
    },
    /// The lease was preempted before the run. The client takes the device again, and repeats the request.
    Preempted,
}
