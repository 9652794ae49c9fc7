//! The messages, one small enum a concern and direction. Variants are never reordered: a new one goes to the end.

use crate::device::DeviceInfo;
use crate::run::{ArtifactsHeader, Outcome};
use crate::verify::{Refusal, Verified};
use crate::wire::delta::{Outline, Step};
use serde::{Deserialize, Serialize};
use trace_core::recording::Digest;

/// Agent to client: the first message of a session, and the last one when a session is ended for a reason that the
/// client should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionReply {
    /// The client is known.
    Welcome {
        /// Program and version, for a person.
        program: String,
        /// Name under which the agent knows the client.
        you: String,
        /// The devices.
        devices: Vec<DeviceState>,
    },
    /// The client is not known, or cannot be served.
    Refused(SessionRefusal),
}

/// What is to be done on the board before a client can pair, the same wherever it is said.
pub const HOW_TO_PAIR: &str = "on the board run `kinescope-agent serve --listen ADDRESS:PORT --pair` (where an agent \
     serves already: `kinescope-agent pair --listen ADDRESS:0 --serve-port PORT`, with its port)";

/// Why a session is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SessionRefusal {
    /// The client's key is not pinned.
    #[error(
        "this client's key ({fingerprint}) is not paired with the agent; {HOW_TO_PAIR}, then pair from the client and \
         compare the code that both show"
    )]
    NotPaired {
        /// Fingerprint of the client's key.
        fingerprint: String,
    },
    /// The agent cannot read its keys.
    #[error("the agent cannot read its key store; see its log")]
    KeysUnreadable,
    /// Others took the last places while this client showed who it is.
    #[error("it has too many connections; try again later")]
    Full,
    /// This client has as many connections as one key may have.
    #[error("this client has {most} connections to it already, which is its share; close one, then try again")]
    Share {
        /// Most connections of one key.
        most: u32,
    },
    /// The client's key was forgotten while it was connected: the connection ends.
    #[error("it has forgotten this client's key and ends the connection; {HOW_TO_PAIR}, then pair again")]
    Forgotten,
}

/// A device and whether it is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceState {
    /// What it is.
    pub info: DeviceInfo,
    /// Who holds it, when somebody does.
    pub holder: Option<String>,
    /// Why it cannot be used, when it cannot.
    pub out_of_order: Option<String>,
}

/// Pairing, in the order in which messages go: `Commit` from the client, `Nonce` from the agent, `Reveal` from the
/// client, `Confirm` from both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PairMessage {
    /// Client: digest of its nonce and of the handshake.
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
    /// Both: what the person said. From the agent with the TCP port of its service, when pairing has another.
    Confirm {
        /// Whether the codes are the same.
        accepted: bool,
        /// Port to keep with the key, agent to client.
        service_port: Option<u16>,
    },
    /// Agent, in the place of `Confirm`: its person is being asked about another client.
    Busy,
}

/// Client to agent: a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseRequest {
    /// Take the device of this name.
    Take(String),
    /// The person has said yes to runs on the device that this connection holds although nothing keeps it from memory
    /// that is not the agent's ([`crate::device::Containment::None`]). It counts until the connection ends.
    WithoutContainment,
}

/// Agent to client: a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseReply {
    /// It is the client's until the connection ends.
    Granted(Box<DeviceInfo>),
    /// There is none of that name.
    NoDevice {
        /// Names there are.
        known: Vec<String>,
    },
    /// Somebody else holds it.
    Busy {
        /// Name of that client.
        holder: String,
        /// For how long, seconds.
        since_s: u64,
    },
    /// It cannot be used.
    OutOfOrder(String),
    /// Runs without containment are taken from now on.
    Accepted,
}

/// One of the two byte strings as which a plan travels: its head (the record with an empty body), or its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanPart {
    /// Its length.
    pub bytes: u64,
    /// Its BLAKE3 digest.
    pub digest: Digest,
}

/// Client to agent: what it wants to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PagesRequest {
    /// A plan by the digests of its two parts.
    Offer {
        /// The head.
        head: PlanPart,
        /// The body.
        body: PlanPart,
    },
    /// How the parts that are lacking come out of the pieces that the agent told; the new bytes follow as bulk, those
    /// of the head first. Empty for a part that is not lacking.
    Parts {
        /// The head.
        head: Vec<Step>,
        /// The body.
        body: Vec<Step>,
    },
    /// The client gives the offer up, at whatever point it is; the agent answers [`PagesReply::GivenUp`].
    GiveUp,
}

/// First and count of things in a list that are lacking.
pub type IndexRange = (u32, u32);

/// Agent to client: what it lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PagesReply {
    /// Parts of the plan that are lacking, each with the pieces of the most alike part that is there. `None`: that
    /// part is there.
    LackParts {
        /// The head.
        head: Option<Outline>,
        /// The body.
        body: Option<Outline>,
    },
    /// Page images to send as bulk, by index into the plan's distinct digests in rising order.
    LackPages(Vec<IndexRange>),
    /// The plan is whole and keeps the rules.
    Ready(Verified),
    /// The plan breaks a rule.
    Refused(Refusal),
    /// The offer is beyond the agent's limits, or its bytes do not have their digests.
    Unacceptable(String),
    /// The offer is forgotten, as [`PagesRequest::GiveUp`] asked. What the agent said before it may cross that.
    GivenUp,
}

/// Client to agent: run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunRequest {
    /// Run the plan that is ready.
    Start {
        /// How often, at least 1.
        repeat: u32,
    },
    /// Stop as soon as possible.
    Cancel,
}

/// Agent to client: the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RunReply {
    /// How far it is, millionths.
    Progress(u32),
    /// It is over. The outcome comes without its bulk: the packed events, the page images and the screen's pixels that
    /// its recording is made of, then each output in order, whose lengths are `bulk`, follow as bulk frames.
    Done {
        /// The outcome, without its recording.
        outcome: Box<Outcome>,
        /// What of the recording is small; `None` for a run that did not begin.
        left: Option<Box<ArtifactsHeader>>,
        /// Lengths of what follows.
        bulk: Vec<u64>,
    },
    /// It was cancelled.
    Cancelled,
    /// The device panicked or hung.
    DeviceFailed(String),
    /// There is no plan to run, or the repeat count is beyond the limit.
    NotReady(String),
    /// Nothing contains the device, and the client has not said that its person accepts that.
    Uncontained {
        /// The device.
        device: String,
    },
}
