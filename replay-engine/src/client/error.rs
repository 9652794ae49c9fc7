//! What can go wrong between a client and an agent, with what to do about it.

use crate::device::qemu::QemuError;
use crate::verify::Refusal;
use crate::wire::{HOW_TO_PAIR, KeyStoreError};

/// Where on the way from a board's name to an outcome something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Understanding the board's name.
    Name,
    /// Reaching the agent.
    Reach,
    /// Agreeing on a protocol version.
    Version,
    /// Proving who is who.
    Pair,
    /// Getting the device.
    Lease,
    /// Checking the plan before it is sent.
    Check,
    /// Sending plan and pages.
    Upload,
    /// Running.
    Run,
    /// Fetching the outcome.
    Download,
}

impl Stage {
    /// The stage in words that continue "the connection was lost while …".
    #[must_use]
    pub fn activity(self) -> &'static str {
        match self {
            Self::Name => "reading the board's name",
            Self::Reach => "connecting",
            Self::Version => "agreeing on a protocol version",
            Self::Pair => "proving who is who",
            Self::Lease => "asking for the device",
            Self::Check => "checking the plan",
            Self::Upload => "sending the plan and its pages",
            Self::Run => "the plan was running",
            Self::Download => "fetching the outcome",
        }
    }

    /// What to do when the connection was lost then.
    fn after_loss(self) -> &'static str {
        match self {
            // An agent that strangers flood drops connections whose other end it does not know yet.
            Self::Reach | Self::Version | Self::Pair => {
                "see whether kinescope-agent still runs, and in its log whether strangers take its places, then try again"
            }
            _ => "see whether kinescope-agent still runs, then replay again (nothing was kept of this run)",
        }
    }
}

/// Why a client could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The board's name has no known form.
    #[error(
        "`{name}` is not a board's name ({reason}); boards are `software:MODEL`, `qemu:DEVICE[,PROPERTY=VALUE…]`, \
         `agent:NAME/DEVICE`, `agent://HOST:PORT/DEVICE` and `agent:///PATH.sock/DEVICE`"
    )]
    BoardName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The device in QEMU cannot be had.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// This program has no such software board.
    #[error("there is no board `{name}`; known here: {known}")]
    NoBoard {
        /// What was asked for.
        name: String,
        /// Boards there are, separated by commas.
        known: String,
    },
    /// Nothing answers there.
    #[error(
        "no agent answers at {address}: {reason}; is kinescope-agent running there? Check the address and the port that \
         `serve --listen` has there, and where `kinescope-agent pair` was used the port that `--serve-port` gave it"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// What the operating system said.
        reason: String,
    },
    /// What answers speaks something else.
    #[error("{address} answers, but not as a kinescope agent does: {reason}")]
    NotAnAgent {
        /// Where.
        address: String,
        /// What was odd.
        reason: String,
    },
    /// Both ends speak the protocol, but no common version of it.
    #[error("{0}")]
    Version(String),
    /// The agent's key is not one that this client has paired with.
    #[error(
        "the agent at {address} is not paired with this client (its key is {fingerprint}); {HOW_TO_PAIR}, then pair \
         with it from here and compare the code that both show"
    )]
    NotPaired {
        /// Where.
        address: String,
        /// Fingerprint of its key.
        fingerprint: String,
    },
    /// An agent with a known name answered with another key.
    #[error(
        "the agent at {address} does not have the key that `{name}` was paired with (it has {fingerprint}): either \
         it is another machine, or its keys were made anew. If you know why, forget `{name}` and pair again"
    )]
    WrongKey {
        /// Its name here.
        name: String,
        /// Where.
        address: String,
        /// Fingerprint of the key it showed.
        fingerprint: String,
    },
    /// The agent that was to be paired with has another key than the one that was named.
    #[error(
        "the agent at {address} has the key {fingerprint}, not {expected}: nothing was paired. `kinescope-agent keys list` \
         there shows its key"
    )]
    OtherKey {
        /// Where.
        address: String,
        /// Fingerprint of the key that was named.
        expected: String,
        /// Fingerprint of the key it showed.
        fingerprint: String,
    },
    /// The agent has forgotten this client's key while it was connected.
    #[error(
        "the agent has forgotten this client's key and ended the connection while {}; {HOW_TO_PAIR}, then pair again",
        stage.activity()
    )]
    Forgotten {
        /// When.
        stage: Stage,
    },
    /// The agent refuses this client, and says why.
    #[error("the agent refused: {0}")]
    Refused(String),
    /// There is no peer of this name.
    #[error(
        "no agent called `{name}` is paired with this client; paired: {known}; {HOW_TO_PAIR}, and \
         `kinescope pair ADDRESS {name}` here"
    )]
    UnknownAgent {
        /// What was asked for.
        name: String,
        /// Names there are, separated by commas, or words that there are none.
        known: String,
    },
    /// One of the two persons did not confirm the pairing code.
    #[error("pairing was not confirmed {by}; no key was kept")]
    PairingDeclined {
        /// `on this end` or `by the agent`.
        by: String,
    },
    /// The agent has no such device.
    #[error("the agent has no device `{device}`; it has: {known}")]
    NoDevice {
        /// What was asked for.
        device: String,
        /// Devices it has, separated by commas.
        known: String,
    },
    /// Somebody else holds the device.
    #[error("the device `{device}` is in use by {holder} since {since_s} s; try again when it is free")]
    Busy {
        /// The device.
        device: String,
        /// Name of the client that holds it.
        holder: String,
        /// For how long, seconds.
        since_s: u64,
    },
    /// The device cannot be used.
    #[error("the device `{device}` is out of order: {reason}")]
    OutOfOrder {
        /// The device.
        device: String,
        /// What happened to it.
        reason: String,
    },
    /// Nothing contains the device, and no person has accepted that.
    #[error(
        "nothing contains the device `{device}`: with a plan that is wrong, or a device that does other than its register \
         map says, it can read and overwrite any memory of the machine that it is in. Nothing was run. Say yes to that with \
         --without-containment, or in the window's question"
    )]
    Uncontained {
        /// The device.
        device: String,
    },
    /// The recording was made on another GPU than the board is.
    #[error("the recording was made on {recorded}, {board} is {device}: {fits}")]
    OtherGpu {
        /// The recording's GPU, with its id.
        recorded: String,
        /// The board as a person names it.
        board: String,
        /// Its GPU, with its id.
        device: String,
        /// Which board would fit.
        fits: String,
    },
    /// The recording was made of another device on a bus than the target is.
    #[error("the recording is of {recorded}; the target is {board}, {device}: {fits}")]
    OtherDevice {
        /// The recorded device: its id, and its name where one is known.
        recorded: String,
        /// The target as a person names it.
        board: String,
        /// What the target is.
        device: String,
        /// Which target would fit.
        fits: String,
    },
    /// The plan is not one that may run; found here, before anything was sent.
    #[error("the plan was refused before it was sent, by rule {} at {}: {}", .0.rule, .0.place, .0.reason)]
    PlanRefused(Refusal),
    /// The plan is not one that may run; the agent found it.
    #[error("the agent refused the plan by rule {} at {}: {}", .0.rule, .0.place, .0.reason)]
    AgentRefusedPlan(Refusal),
    /// The plan lists a page that the client does not have.
    #[error("the plan names a page with digest {digest} that is not among its pages")]
    PageMissing {
        /// Digest, hexadecimal.
        digest: String,
    },
    /// The plan is larger than the protocol carries.
    #[error("the plan is too large to send: {0}")]
    TooLarge(String),
    /// The device panicked or hung; the agent lives on.
    #[error("the device failed while the plan was running: {0}")]
    Device(String),
    /// The connection ended.
    #[error(
        "the connection to the agent was lost while {}: {reason}; {}", stage.activity(), stage.after_loss()
    )]
    Lost {
        /// When.
        stage: Stage,
        /// What was seen.
        reason: String,
    },
    /// The agent sent something that the protocol does not allow here.
    #[error("the agent broke the protocol while {}: {reason}", stage.activity())]
    Protocol {
        /// When.
        stage: Stage,
        /// What it was.
        reason: String,
    },
    /// The person cancelled.
    #[error("cancelled")]
    Cancelled,
    /// Keys could not be read or kept.
    #[error(transparent)]
    Keys(#[from] KeyStoreError),
}

impl ClientError {
    /// Where on the way it went wrong.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::BoardName { .. } | Self::NoBoard { .. } | Self::UnknownAgent { .. } => Stage::Name,
            Self::Unreachable { .. } | Self::NotAnAgent { .. } => Stage::Reach,
            Self::Version(_) => Stage::Version,
            Self::NotPaired { .. }
            | Self::WrongKey { .. }
            | Self::OtherKey { .. }
            | Self::Refused(_)
            | Self::PairingDeclined { .. }
            | Self::Keys(_) => Stage::Pair,
            Self::NoDevice { .. } | Self::Busy { .. } | Self::OutOfOrder { .. } | Self::Qemu(_) => Stage::Lease,
            Self::OtherGpu { .. }
            | Self::OtherDevice { .. }
            | Self::Uncontained { .. }
            | Self::PlanRefused(_)
            | Self::PageMissing { .. }
            | Self::TooLarge(_) => Stage::Check,
            Self::AgentRefusedPlan(_) => Stage::Upload,
            Self::Device(_) | Self::Cancelled => Stage::Run,
            Self::Forgotten { stage } | Self::Lost { stage, .. } | Self::Protocol { stage, .. } => *stage,
        }
    }
}
