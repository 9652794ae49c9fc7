//! Encodes actions into a growing body.

use replay_core::{Action, Encoder, MAX_ACTION_BYTES};

/// An action cannot be part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("action {index}, of event {event}, cannot be encoded")]
pub struct BodyError {
    /// Which action.
    pub index: u64,
    /// Its event.
    pub event: u32,
    /// Why.
    #[source]
    pub reason: replay_core::EncodeError,
}

/// A plan's body as it grows.
#[derive(Clone, Debug, Default)]
pub struct BodyBuilder {
    bytes: Vec<u8>,
    actions: u64,
    event: u32,
}

impl BodyBuilder {
    /// No actions yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an action.
    ///
    /// # Errors
    /// When its event is before that of the action before it, or a field is out of its range.
    pub fn push(&mut self, action: &Action) -> Result<(), BodyError> {
        let mut room = [0u8; MAX_ACTION_BYTES];
        let mut encoder = Encoder::after(&mut room, self.event);
        let used = encoder.push(action).map_err(|reason| BodyError {
            index: self.actions,
            event: action.event(),
            reason,
        })?;
        self.bytes.extend(room.iter().take(used));
        self.event = action.event();
        self.actions += 1;
        Ok(())
    }

    /// Number of actions so far.
    #[must_use]
    pub fn actions(&self) -> u64 {
        self.actions
    }

    /// The encoded actions and their number.
    #[must_use]
    pub fn finish(self) -> (Vec<u8>, u64) {
        (self.bytes, self.actions)
    }
}
