//! Expected effects of a replay other than matching reads, at the end or at a given event. Examples are the screen's
//! picture, the number of interrupts, and the contents of a window, of memory or of an output.

use serde::{Deserialize, Serialize};
use trace_core::recording::Digest;
use trace_core::screen::Picture;

/// An effect that a replay must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// The picture on the device's screen at the end.
    Screen {
        /// Width, pixels.
        width: u32,
        /// Height, pixels.
        height: u32,
        /// BLAKE3 of the pixels: three bytes each, red, green and blue, rows from the top.
        rgb: Digest,
    },
    /// Number of interrupts that were waited for and occurred.
    Interrupts {
        /// How many.
        count: u64,
    },
    /// Bytes of a window at the end.
    Window {
        /// Number of the window.
        number: u8,
        /// First byte.
        offset: u64,
        /// Length, bytes; at most [`MAX_WINDOW_BYTES`].
        bytes: u64,
        /// BLAKE3 of them.
        digest: Digest,
    },
    /// Bytes of the plan's memory.
    Memory {
        /// First byte, as an offset from the start of the arena.
        offset: u64,
        /// Length, bytes; at most [`MAX_WINDOW_BYTES`].
        bytes: u64,
        /// BLAKE3 of them.
        digest: Digest,
    },
    /// The contents of an output at the end.
    Output {
        /// Its name.
        name: String,
        /// BLAKE3 of its bytes.
        digest: Digest,
    },
}

/// Maximum total size of windows and memory in all expectations, bytes: they are read back from the device.
pub const MAX_WINDOW_BYTES: u64 = 64 << 20;

/// An expected effect with its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expectation {
    /// The expected effect.
    pub effect: Effect,
    /// Its source, for the user: `the picture beside the recording`.
    pub source: String,
}

impl Effect {
    /// Returns the expectation of a picture on the screen at the end.
    #[must_use]
    pub fn screen(picture: &Picture) -> Self {
        Self::Screen {
            width: picture.width(),
            height: picture.height(),
            rgb: *blake3::hash(picture.rgb()).as_bytes(),
        }
    }

    /// Returns the name of its kind in JSON, text and tables.
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

/// Returns the first digits of a digest, for the user.
#[must_use]
pub(crate) fn short_digest(digest: &Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().chars().take(16).collect()
}

/// The result of checking an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectResult {
    /// Kind, as [`Effect::name`] returns it.
    pub kind: String,
    /// The source of the expectation.
    pub source: String,
    /// The expected value, for the user.
    pub expected: String,
    /// The actual value, for the user.
    pub got: String,
    /// Whether they are equal. `None` if this device cannot check it, which says nothing about the run.
    pub matched: Option<bool>,
    /// The event of the recording after which it was checked, or `None` for the end.
    pub event: Option<u64>,
    /// BLAKE3 of the actual contents, for an effect with a digest. `None` if they could not be read.
    pub digest: Option<Digest>,
}
