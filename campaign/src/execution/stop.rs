//! Why a run of a campaign has no outcome.

use crate::file_digest::DigestError;
use kinescope_session::replay::request::RequestError;
use replay_engine::client::{ClientError, Stage};
use replay_engine::plan::CompileError;
use trace_core::progress::Cancelled;

/// Why there is no outcome.
#[derive(Debug)]
pub(super) enum Stop {
    /// The run was refused or failed, with the reason. That is a result.
    Refused(String),
    /// The run may have executed, and its end was not observed.
    Lost(String),
    /// The run did not execute: the target cannot be reached or leased.
    NotStarted(String),
    /// The user stopped the campaign.
    Cancelled,
    /// The queue withdrew the run before it began.
    Withdrawn,
}

impl From<ClientError> for Stop {
    fn from(e: ClientError) -> Self {
        let text = e.to_string();
        match &e {
            ClientError::Cancelled => return Self::Cancelled,
            // The device hung or failed: that is a result.
            ClientError::Device(_) => return Self::Refused(text),
            ClientError::Unreachable { .. }
            | ClientError::Busy { .. }
            | ClientError::Preempted { .. }
            | ClientError::Qemu(_) => {
                return Self::NotStarted(text);
            }
            _ => {}
        }
        match (&e, e.stage()) {
            (ClientError::Lost { .. } | ClientError::Protocol { .. } | ClientError::Forgotten { .. }, stage) => {
                match stage {
                    Stage::Upload | Stage::Run | Stage::Download => Self::Lost(text),
                    _ => Self::NotStarted(text),
                }
            }
            _ => Self::Refused(text),
        }
    }
}

impl From<RequestError> for Stop {
    fn from(e: RequestError) -> Self {
        match e {
            RequestError::Client(e) => e.into(),
            RequestError::Compile(CompileError::Cancelled(_)) => Self::Cancelled,
            e => Self::Refused(e.to_string()),
        }
    }
}

impl From<DigestError> for Stop {
    fn from(e: DigestError) -> Self {
        match e {
            DigestError::Cancelled(_) => Self::Cancelled,
            e => Self::Refused(e.to_string()),
        }
    }
}

impl From<Cancelled> for Stop {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}
