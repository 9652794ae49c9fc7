//! Encoder of actions into a growing body.

use replay_core::{Action, Encoder, MAX_ACTION_BYTES};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The error for an action that cannot be part of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("action {index}, of event {event}, cannot be encoded")]
pub struct BodyError {
    /// Index of the action.
    pub index: u64,
    /// Its event.
    pub event: u32,
    /// The reason.
    #[source]
    pub reason: replay_core::EncodeError,
}

/// Encoded actions. Clones share them: on a target with little memory they are the largest data before a run. A copy
/// that is kept for the next plan uses the same memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Body(Arc<Vec<u8>>);

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.0.len())
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }
}

impl From<Arc<Vec<u8>>> for Body {
    fn from(bytes: Arc<Vec<u8>>) -> Self {
        Self(bytes)
    }
}

impl Body {
    /// Returns the bytes, which are shared.
    #[must_use]
    pub(crate) fn shared(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.0)
    }
}

/// Serializes as one byte string.
impl Serialize for Body {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self)
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl de::Visitor<'_> for Bytes {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }
            fn visit_byte_buf<E: de::Error>(self, v: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(v)
            }
            fn visit_bytes<E: de::Error>(self, v: &[u8]) -> Result<Vec<u8>, E> {
                Ok(v.to_vec())
            }
        }
        from.deserialize_byte_buf(Bytes).map(Self::from)
    }
}

/// A plan's body under construction.
#[derive(Clone, Debug, Default)]
pub struct BodyBuilder {
    bytes: Vec<u8>,
    actions: u64,
    event: u32,
}

impl BodyBuilder {
    /// Creates an empty body.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an action.
    ///
    /// # Errors
    /// If its event is before that of the previous action, or a field is out of range.
    pub fn push(&mut self, action: &Action) -> Result<(), BodyError> {
        let mut room = [0u8; MAX_ACTION_BYTES];
        let mut encoder = Encoder::with_last_event(&mut room, self.event);
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

    /// Returns the number of actions so far.
    #[must_use]
    pub fn actions(&self) -> u64 {
        self.actions
    }

    /// Returns the encoded actions and their number.
    #[must_use]
    pub fn finish(self) -> (Body, u64) {
        (self.bytes.into(), self.actions)
    }
}
