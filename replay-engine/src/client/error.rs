//! Errors between a client and an agent, with advice.

use crate::device::qemu::QemuError;
use crate::verify::Refusal;
use crate::wire::{HOW_TO_PAIR, KeyStoreError};

/// The stage, from target name to outcome, at which an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Parsing the target name.
    Name,
    /// Connecting to the agent.
    Reach,
    /// Agreeing on a protocol version.
    Version,
    /// Proving identities.
    Pair,
    /// Leasing the device.
    Lease,
    /// Checking the plan before it is sent.
    Check,
    /// Sending the plan and its pages.
    Upload,
    /// Running the plan.
    Run,
    /// Fetching the outcome.
    Download,
    /// Sending a WebAssembly program and its inputs.
    SendProgram,
    /// Running a WebAssembly program or a live program.
    RunProgram,
    /// Starting the worker of a live program.
    StartWorker,
    /// Fetching the recordings of a live program.
    FetchRecordings,
}

impl Stage {
    /// Returns the stage in words that continue "the connection was lost while …".
    #[must_use]
    pub fn activity(self) -> &'static str {
        match self {
            Self::Name => "reading the target's name",
            Self::Reach => "connecting",
            Self::Version => "negotiating the protocol version",
            Self::Pair => "checking the keys",
            Self::Lease => "leasing the device",
            Self::Check => "checking the plan",
            Self::Upload => "sending the plan and its pages",
            Self::Run => "the plan was running",
            Self::Download => "fetching the outcome",
            Self::SendProgram => "sending the program and its inputs",
            Self::RunProgram => "the program was running",
            Self::StartWorker => "starting the program's worker",
            Self::FetchRecordings => "fetching the recordings of the program",
        }
    }

    /// Returns advice for a connection that was lost at this stage.
    fn after_loss(self) -> &'static str {
        match self {
            // An agent that is flooded by unknown clients drops connections that are not authenticated yet.
            Self::Reach | Self::Version | Self::Pair => {
                "check that kinescope-agent still runs and, in its log, that unknown clients do not use up its \
                 connections; then try again"
            }
            Self::SendProgram | Self::RunProgram | Self::StartWorker | Self::FetchRecordings => {
                "check that kinescope-agent still runs, then run the program again"
            }
            _ => "check that kinescope-agent still runs, then replay again (the results of this run are lost)",
        }
    }
}

/// The reason why a client's request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The target name has no known form.
    #[error(
        "`{name}` is not a target name ({reason}); targets are `software:MODEL`, `qemu:DEVICE[,PROPERTY=VALUE…]`, \
         `agent:NAME/DEVICE`, `agent://HOST:PORT/DEVICE` and `agent:///PATH.sock/DEVICE`"
    )]
    InvalidTargetName {
        /// The name as given.
        name: String,
        /// Why it is not valid.
        reason: String,
    },
    /// The QEMU device cannot be opened.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// This program has no such simulator.
    #[error("there is no target `{name}`; known targets: {known}")]
    NoTarget {
        /// The requested name.
        name: String,
        /// Known targets, separated by commas.
        known: String,
    },
    /// Nothing answers at the address.
    #[error(
        "no agent answers at {address}: {reason}. Check that kinescope-agent runs there, and that address and port \
         are those of its `serve --listen` (or of `--serve-port`, if you paired with `kinescope-agent pair`)"
    )]
    Unreachable {
        /// The address.
        address: String,
        /// The message of the operating system.
        reason: String,
    },
    /// The peer does not speak this protocol.
    #[error("{address} answers, but not as a kinescope agent: {reason}")]
    NotAnAgent {
        /// The address.
        address: String,
        /// What was unexpected.
        reason: String,
    },
    /// Both ends speak the protocol but share no version.
    #[error("{0}")]
    Version(String),
    /// The agent's key is not paired with this client.
    #[error(
        "the agent at {address} is not paired with this client (its key is {fingerprint}); {HOW_TO_PAIR}, then pair \
         from this client and compare the code that both sides show"
    )]
    NotPaired {
        /// The address.
        address: String,
        /// Fingerprint of the agent's key.
        fingerprint: String,
    },
    /// An agent with a known name answered with another key.
    #[error(
        "the agent at {address} does not have the key that `{name}` was paired with (it has {fingerprint}): it is \
         another machine, or it has new keys. If you expect that, forget `{name}` and pair again"
    )]
    WrongKey {
        /// The agent's name in this key store.
        name: String,
        /// The address.
        address: String,
        /// Fingerprint of the key that the agent presented.
        fingerprint: String,
    },
    /// The agent to pair with has another key than the requested one.
    #[error(
        "the agent at {address} has the key {fingerprint}, not {expected}: nothing was paired. `kinescope-agent keys list` \
         there shows its key"
    )]
    OtherKey {
        /// The address.
        address: String,
        /// Fingerprint of the requested key.
        expected: String,
        /// Fingerprint of the key that the agent presented.
        fingerprint: String,
    },
    /// The agent removed this client's key during the connection.
    #[error(
        "the agent has forgotten this client's key and ended the connection while {}; {HOW_TO_PAIR}, then pair again",
        stage.activity()
    )]
    Forgotten {
        /// The stage.
        stage: Stage,
    },
    /// The agent refuses this client, with the reason.
    #[error("the agent refused: {0}")]
    Refused(String),
    /// There is no peer of this name.
    #[error(
        "no agent called `{name}` is paired with this client; paired: {known}; {HOW_TO_PAIR}, and \
         `kinescope pair ADDRESS {name}` here"
    )]
    UnknownAgent {
        /// The requested name.
        name: String,
        /// Known names, separated by commas, or a note that there are none.
        known: String,
    },
    /// One of the two users did not confirm the pairing code.
    #[error("pairing was not confirmed {by}; no key was saved")]
    PairingDeclined {
        /// `on this end` or `by the agent`.
        by: String,
    },
    /// The agent has no such device.
    #[error("the agent has no device `{device}`; it has: {known}")]
    NoDevice {
        /// The requested device.
        device: String,
        /// Devices of the agent, separated by commas.
        known: String,
    },
    /// A request of higher priority took the device.
    #[error("a request of higher priority took the device `{device}`; replay again when it is free")]
    Preempted {
        /// The device.
        device: String,
    },
    /// Another client holds the device.
    #[error("the device `{device}` is in use by {holder} since {since_s} s; try again when it is free")]
    Busy {
        /// The device.
        device: String,
        /// Name of the client that holds it.
        holder: String,
        /// How long the client has held it, seconds.
        since_s: u64,
    },
    /// The device cannot be used.
    #[error("the device `{device}` is out of order: {reason}")]
    OutOfOrder {
        /// The device.
        device: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// The device has no containment and no user has accepted that.
    #[error(
        "nothing contains the device `{device}`: with a wrong plan or a wrong register map, it can read and \
         overwrite any memory of its machine. Nothing was run. To accept this, use --without-containment or confirm in \
         the window"
    )]
    Uncontained {
        /// The device.
        device: String,
    },
    /// The recording was made on another GPU than the target's.
    #[error("the recording was made on {recorded}, {target} is {device}{mismatch}: {fits}")]
    OtherGpu {
        /// The recording's GPU, with its id.
        recorded: String,
        /// The target name as the user writes it.
        target: String,
        /// The target's GPU, with its id.
        device: String,
        /// Why a plan cannot be rewritten for this GPU, with a comma before it; empty if there is nothing to say.
        mismatch: String,
        /// The targets that would fit.
        fits: String,
    },
    /// The recorded bus device and the target are different devices.
    #[error("the recording is of {recorded}; the target is {target}, {device}: {fits}")]
    OtherDevice {
        /// The recorded device: its id, and its name if known.
        recorded: String,
        /// The target name as the user writes it.
        target: String,
        /// The target's device.
        device: String,
        /// The targets that would fit.
        fits: String,
    },
    /// The plan is not allowed to run. The client found this before anything was sent.
    #[error("the plan was refused before it was sent, by rule {} at {}: {}", .0.rule, .0.place, .0.reason)]
    PlanRefused(Refusal),
    /// The plan is not allowed to run. The agent found this.
    #[error("the agent refused the plan by rule {} at {}: {}", .0.rule, .0.place, .0.reason)]
    AgentRefusedPlan(Refusal),
    /// The plan lists a page that the client does not have.
    #[error("the plan names a page with digest {digest} that is not among its pages")]
    PageMissing {
        /// Digest of the page, hexadecimal.
        digest: String,
    },
    /// The plan is larger than the protocol allows.
    #[error("the plan is too large to send: {0}")]
    TooLarge(String),
    /// The device panicked or hung. The agent is still running.
    #[error("the device failed while the plan was running: {0}")]
    Device(String),
    /// A tuning or a memory trace has no result.
    #[error("{0}")]
    NoResult(String),
    /// The agent found that the WebAssembly program is not valid, or cannot run with the options.
    #[error("the agent refused the program: {0}")]
    ProgramRefused(String),
    /// A run of a WebAssembly program on the agent failed as a whole.
    #[error("the run on the agent failed: {0}")]
    ProgramFailed(String),
    /// The agent could not start a worker for a live program.
    #[error("the agent could not start the program's worker: {0}; the agent's log may say more")]
    WorkerFailed(String),
    /// A recording of a live program cannot be stored.
    #[error("{path}: the recording cannot be stored: {reason}")]
    NotStored {
        /// Path of the recording.
        path: String,
        /// The message of the operating system.
        reason: String,
    },
    /// The connection ended.
    #[error(
        "the connection to the agent was lost while {}: {reason}; {}", stage.activity(), stage.after_loss()
    )]
    Lost {
        /// The stage.
        stage: Stage,
        /// The observed reason.
        reason: String,
    },
    /// The agent sent a message that the protocol does not allow here.
    #[error("the agent broke the protocol while {}: {reason}", stage.activity())]
    Protocol {
        /// The stage.
        stage: Stage,
        /// What was wrong with the message.
        reason: String,
    },
    /// The user cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The keys could not be read or stored.
    #[error(transparent)]
    Keys(#[from] KeyStoreError),
}

impl ClientError {
    /// Returns the stage at which the error occurred.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::InvalidTargetName { .. } | Self::NoTarget { .. } | Self::UnknownAgent { .. } => Stage::Name,
            Self::Unreachable { .. } | Self::NotAnAgent { .. } => Stage::Reach,
            Self::Version(_) => Stage::Version,
            Self::NotPaired { .. }
            | Self::WrongKey { .. }
            | Self::OtherKey { .. }
            | Self::Refused(_)
            | Self::PairingDeclined { .. }
            | Self::Keys(_) => Stage::Pair,
            Self::NoDevice { .. }
            | Self::Busy { .. }
            | Self::Preempted { .. }
            | Self::OutOfOrder { .. }
            | Self::Qemu(_) => Stage::Lease,
            Self::OtherGpu { .. }
            | Self::OtherDevice { .. }
            | Self::Uncontained { .. }
            | Self::PlanRefused(_)
            | Self::PageMissing { .. }
            | Self::TooLarge(_) => Stage::Check,
            Self::AgentRefusedPlan(_) => Stage::Upload,
            Self::ProgramRefused(_) => Stage::SendProgram,
            Self::ProgramFailed(_) => Stage::RunProgram,
            Self::WorkerFailed(_) => Stage::StartWorker,
            Self::NotStored { .. } => Stage::FetchRecordings,
            Self::Device(_) | Self::NoResult(_) | Self::Cancelled => Stage::Run,
            Self::Forgotten { stage } | Self::Lost { stage, .. } | Self::Protocol { stage, .. } => *stage,
        }
    }
}
