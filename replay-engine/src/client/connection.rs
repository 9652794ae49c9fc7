//! A connection with its reading thread: messages to and from an agent, and why it ended.

use super::error::{ClientError, Stage};
use crate::wire::message::{SessionRefusal, SessionReply};
use crate::wire::{CallsRoute, Frame, ReaderMessage, Sender, Topic, WireError};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Maximum time for the agent's final message to pass through this process.
const LAST_WORD: Duration = Duration::from_millis(500);

/// Converts a wire error to a client error with its stage.
pub(super) fn wire_error_at(stage: Stage, e: WireError) -> ClientError {
    let reason = e.to_string();
    match e {
        WireError::Closed | WireError::Silent | WireError::Late { .. } | WireError::Io(_) => {
            ClientError::Lost { stage, reason }
        }
        // This end did not take a frame: the other end may have done nothing wrong.
        WireError::CallsRejected(why) => ClientError::ProgramFailed(why),
        _ => ClientError::Protocol { stage, reason },
    }
}

/// Returns why the agent ends the session, if the frame is such a message. It may arrive instead of any answer.
pub(super) fn last_word(frame: &Frame) -> Option<SessionRefusal> {
    match frame.message() {
        Ok(SessionReply::Refused(why)) if frame.concern == Topic::Session => Some(why),
        _ => None,
    }
}

/// Returns the agent's final message as an error.
fn refusal_error(stage: Stage, why: &SessionRefusal) -> ClientError {
    match why {
        SessionRefusal::Forgotten => ClientError::Forgotten { stage },
        why => ClientError::Refused(why.to_string()),
    }
}

/// A connection with its reading thread.
#[derive(Debug)]
pub(super) struct Connection {
    pub sender: Sender,
    pub arrived: Receiver<ReaderMessage>,
    /// Where frames of calls go.
    pub calls: CallsRoute,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.sender.close();
        self.calls.close();
    }
}

impl Connection {
    /// Sends a message.
    pub fn send<T: serde::Serialize>(&self, stage: Stage, concern: Topic, message: &T) -> Result<(), ClientError> {
        self.sender.send(concern, message).map_err(|e| self.not_sent(stage, e))
    }

    /// Sends bulk data.
    pub fn send_bulk(&self, stage: Stage, bytes: &[u8]) -> Result<(), ClientError> {
        self.sender
            .send_bytes(Topic::Bulk, bytes)
            .map_err(|e| self.not_sent(stage, e))
    }

    fn ended(&self, stage: Stage, e: WireError) -> ClientError {
        self.sender.close();
        wire_error_at(stage, e)
    }

    /// Returns why a connection accepts no more data. The agent may have sent the reason before, in a message that is
    /// still unread.
    fn not_sent(&self, stage: Stage, e: WireError) -> ClientError {
        let by = Instant::now() + LAST_WORD;
        loop {
            match self.arrived.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(ReaderMessage::Frame(frame)) => {
                    if let Some(why) = last_word(&frame) {
                        return refusal_error(stage, &why);
                    }
                }
                Ok(ReaderMessage::Ended(_)) | Err(_) => return self.ended(stage, e),
            }
        }
    }

    /// Returns an error for a protocol violation of the agent, and ends the connection.
    pub fn protocol_error(&self, stage: Stage, reason: impl Into<String>) -> ClientError {
        self.sender.close();
        ClientError::Protocol {
            stage,
            reason: reason.into(),
        }
    }

    /// Returns the next frame, or `None` if none arrives within `limit`.
    pub fn frame(&self, stage: Stage, limit: Duration) -> Result<Option<Frame>, ClientError> {
        match self.arrived.recv_timeout(limit) {
            Ok(ReaderMessage::Frame(frame)) => match last_word(&frame) {
                Some(why) => Err(refusal_error(stage, &why)),
                None => Ok(Some(frame)),
            },
            Ok(ReaderMessage::Ended(e)) => Err(self.ended(stage, e)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended(stage, WireError::Closed)),
        }
    }

    /// Returns the next message, which must be about `concern`. The wait ends if the agent goes silent.
    pub fn message<T: serde::de::DeserializeOwned>(&self, stage: Stage, concern: Topic) -> Result<T, ClientError> {
        let frame = loop {
            if let Some(frame) = self.frame(stage, Duration::from_secs(60))? {
                break frame;
            }
        };
        self.decode(stage, concern, &frame)
    }

    /// Decodes the message in a frame, which must be about `concern`.
    pub fn decode<T: serde::de::DeserializeOwned>(
        &self,
        stage: Stage,
        concern: Topic,
        frame: &Frame,
    ) -> Result<T, ClientError> {
        if frame.concern != concern {
            return Err(self.protocol_error(
                stage,
                format!("a frame about {:?} instead of {concern:?}", frame.concern),
            ));
        }
        frame.message().map_err(|e| self.protocol_error(stage, e.to_string()))
    }
}
