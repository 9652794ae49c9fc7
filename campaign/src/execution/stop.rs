//! Why a run of a campaign has no outcome.

use super::is_temporary;
use crate::file_digest::DigestError;
use kinescope_session::replay::request::RequestError;
use replay_engine::client::{ClientError, Stage};
use replay_engine::plan::CompileError;
use trace_core::progress::Cancelled;

/// Why there is no outcome.
#[derive(Debug)]
pub(super) enum Stop {
    /// The run was refused, with the reason. That is a result.
    Refused(String),
    /// The device failed or hung during the run, with the reason. That is a result too.
    Failed(String),
    /// The run may have executed, and its end was not observed.
    Lost(String),
    /// The run did not execute: the target cannot be reached or leased.
    NotStarted(String),
    /// The user stopped the campaign.
    Cancelled,
    /// The queue withdrew the run before it began.
    Withdrawn,
}

impl Stop {
    /// Returns why a target could not be opened. One that may be there later does not end the run.
    pub(super) fn from_open(e: ClientError) -> Self {
        match is_temporary(&e) {
            true => Self::NotStarted(e.to_string()),
            false => e.into(),
        }
    }

    /// Returns the reason for a run of which a part has executed: its attempt counts.
    pub(super) fn after_execution(self) -> Self {
        match self {
            Self::NotStarted(why) => Self::Lost(why),
            stop => stop,
        }
    }
}

impl From<ClientError> for Stop {
    fn from(e: ClientError) -> Self {
        let text = e.to_string();
        match &e {
            ClientError::Cancelled => return Self::Cancelled,
            ClientError::Device(_) => return Self::Failed(text),
            ClientError::Unreachable { .. }
            | ClientError::NotAnAgent { .. }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(stage: Stage) -> ClientError {
        ClientError::Lost {
            stage,
            reason: "the other end closed the connection".to_owned(),
        }
    }

    fn busy() -> ClientError {
        ClientError::Busy {
            device: "mali-g71".to_owned(),
            holder: "somebody".to_owned(),
            since_s: 3,
        }
    }

    #[test]
    fn a_connection_that_is_lost_counts_from_the_upload_on() {
        for stage in [Stage::Upload, Stage::Run, Stage::Download] {
            assert!(matches!(Stop::from(lost(stage)), Stop::Lost(_)), "{stage:?}");
        }
        for stage in [Stage::Reach, Stage::Pair, Stage::Lease] {
            assert!(matches!(Stop::from(lost(stage)), Stop::NotStarted(_)), "{stage:?}");
            assert!(matches!(Stop::from(lost(stage)).after_execution(), Stop::Lost(_)));
        }
        assert!(matches!(Stop::from_open(lost(Stage::Lease)), Stop::NotStarted(_)));
    }

    /// Regression: an agent that was killed between accepting a connection and its first byte made the run a refused one.
    #[test]
    fn an_agent_that_closes_the_connection_at_once_is_waited_for() {
        let closed = || ClientError::NotAnAgent {
            address: "agent:///a.sock".to_owned(),
            reason: "it closed the connection at once".to_owned(),
        };
        assert!(matches!(Stop::from_open(closed()), Stop::NotStarted(_)));
        assert!(matches!(Stop::from(closed()), Stop::NotStarted(_)));
    }

    #[test]
    fn a_busy_target_is_waited_for_and_a_device_that_fails_is_a_result() {
        assert!(matches!(Stop::from_open(busy()), Stop::NotStarted(_)));
        assert!(matches!(Stop::from(busy()), Stop::NotStarted(_)));
        assert!(matches!(Stop::from(busy()).after_execution(), Stop::Lost(_)));
        let failed = Stop::from(ClientError::Device("it hung".to_owned()));
        assert!(matches!(failed.after_execution(), Stop::Failed(why) if why.contains("it hung")));
    }
}
