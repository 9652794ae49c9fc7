//! Effects that a replay must have, beside reads that match: what the screen shows at the end, how many interrupts
//! came, what a window, memory or an output holds, at the end or at a given event.

use serde::{Deserialize, Serialize};
use trace_core::recording::Digest;
use trace_core::screen::Picture;

/// Something that a replay must bring about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// What the device's screen shows at the end.
    Screen {
        /// Pixels a row.
        width: u32,
        /// Rows.
        height: u32,
        /// BLAKE3 of the pixels, three bytes each, red, green and blue, rows from the top.
        rgb: Digest,
    },
    /// Interrupts that were waited for and came.
    Interrupts {
        /// How many.
        count: u64,
    },
    /// Bytes of a window at the end.
    Window {
        /// Its number.
        number: u8,
        /// First byte.
        offset: u64,
        /// How many; at most [`MAX_WINDOW_BYTES`].
        bytes: u64,
        /// BLAKE3 of them.
        digest: Digest,
    },
    /// Bytes of the plan's memory.
    Memory {
        /// First byte, from the start of the arena.
        offset: u64,
        /// How many; at most [`MAX_WINDOW_BYTES`].
        bytes: u64,
        /// BLAKE3 of them.
        digest: Digest,
    },
    /// What an output holds at the end.
    Output {
        /// Its name.
        name: String,
        /// BLAKE3 of its bytes.
        digest: Digest,
    },
}

/// Maximum number of bytes of windows and memory that all expectations together cover: each is read back from the
/// device.
pub const MAX_WINDOW_BYTES: u64 = 64 << 20;

/// An effect with where it was learned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// What must be so.
    pub effect: Effect,
    /// Where that comes from, for a person: `the picture beside the recording`.
    pub source: String,
}

impl Effect {
    /// That the screen shows a picture at the end.
    #[must_use]
    pub fn screen(picture: &Picture) -> Self {
        Self::Screen {
            width: picture.width(),
            height: picture.height(),
            rgb: *blake3::hash(picture.rgb()).as_bytes(),
        }
    }

    /// The kind's name in JSON, text and tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Screen { .. } => "screen",
            Self::Interrupts { .. } => "interrupts",
            Self::Window { .. } => "window",
            Self::Memory { .. } => "memory",
            Self::Output { .. } => "output",
        }
    }
}

/// The first digits of a digest, for a person.
#[must_use]
pub(crate) fn short_digest(digest: &Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().chars().take(16).collect()
}

/// What became of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectResult {
    /// Kind, as [`Effect::name`] gives it.
    pub kind: String,
    /// Where it was learned.
    pub source: String,
    /// What was expected, for a person.
    pub expected: String,
    /// What was there, for a person.
    pub got: String,
    /// Whether they are the same; `None` where nothing can look at it on this device, which says nothing of the run.
    pub matched: Option<bool>,
    /// The event of the recording behind which it was looked at; `None` for the end.
    pub event: Option<u64>,
    /// BLAKE3 of what was there, of an effect that is held against one; `None` where it could not be looked at.
    pub digest: Option<Digest>,
}
