//! Errors of plans and replays for the window: their kind, and what the user can do about them.

use super::request::RequestError;
use replay_engine::client::ClientError;
use replay_engine::plan::CompileError;
use std::ops::Range;
use trace_core::RegOffset;

/// Why a plan or a replay failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayError {
    /// Kind of error, which decides what can be done about it.
    pub kind: ReplayErrorKind,
    /// What failed, where, and what to do, in one or two sentences.
    pub text: String,
    /// Whether the target did not answer or stopped answering.
    pub is_unresponsive: bool,
    /// The unknown register that caused the error, as byte offsets. The user may allow it.
    pub allow: Option<Range<RegOffset>>,
    /// Whether the target is a different device from the recorded one.
    pub unfit: bool,
}

/// The kind of a [`ReplayError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayErrorKind {
    /// The user stopped the replay.
    Stopped,
    /// The target cannot be leased, or was lost during the replay.
    Target,
    /// The target is hardware or has no containment, and the user has not confirmed that. The window asks.
    Unconfirmed,
    /// The recording cannot be compiled, or the plan is refused.
    Plan,
}

impl ReplayError {
    /// Creates an error that only its kind and text describe.
    #[must_use]
    pub fn new(kind: ReplayErrorKind, text: String) -> Self {
        Self {
            kind,
            text,
            is_unresponsive: false,
            allow: None,
            unfit: false,
        }
    }
}

impl From<ClientError> for ReplayError {
    fn from(e: ClientError) -> Self {
        let silent = matches!(e, ClientError::Unreachable { .. } | ClientError::Lost { .. });
        let unfit = matches!(e, ClientError::OtherGpu { .. } | ClientError::OtherDevice { .. });
        let kind = match e {
            ClientError::Cancelled => ReplayErrorKind::Stopped,
            ClientError::PlanRefused(_)
            | ClientError::AgentRefusedPlan(_)
            | ClientError::OtherGpu { .. }
            | ClientError::OtherDevice { .. }
            | ClientError::PageMissing { .. }
            | ClientError::TooLarge(_) => ReplayErrorKind::Plan,
            _ => ReplayErrorKind::Target,
        };
        Self {
            is_unresponsive: silent,
            unfit,
            ..Self::new(kind, e.to_string())
        }
    }
}

impl From<CompileError> for ReplayError {
    fn from(e: CompileError) -> Self {
        let allow = match e {
            CompileError::UnknownRegister { offset, .. } => offset.checked_add(4).map(|end| offset..end),
            _ => None,
        };
        let kind = match e {
            CompileError::Cancelled(_) => ReplayErrorKind::Stopped,
            _ => ReplayErrorKind::Plan,
        };
        let unfit = matches!(e, CompileError::OtherHardware { .. });
        Self {
            allow,
            unfit,
            ..Self::new(kind, e.to_string())
        }
    }
}

impl From<RequestError> for ReplayError {
    fn from(e: RequestError) -> Self {
        match e {
            RequestError::Client(e) => e.into(),
            RequestError::Compile(e) => e.into(),
            e => Self::new(ReplayErrorKind::Plan, e.to_string()),
        }
    }
}
