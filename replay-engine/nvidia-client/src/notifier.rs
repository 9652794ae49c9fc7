//! Error notifiers: the memory in which the driver reports that a channel ended.

use crate::argument::{u32_at, u64_at};

/// An error of a channel: the driver's robust-channel code, also called Xid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorNotifier {
    /// Time in nanoseconds, on the GPU's clock.
    pub time_ns: u64,
    /// The code: 13 exception of the graphics engine, 31 MMU fault, 32 invalid push buffer, 43 reset, 69 class error.
    pub code: u32,
    /// The engine: 1 is graphics and compute.
    pub engine: u16,
}

impl ErrorNotifier {
    /// Parses a notifier, or returns `None` while there is no error.
    #[must_use]
    pub fn parse(bytes: &[u8; 16]) -> Option<Self> {
        let status = u32_at(bytes, 12) >> 16;
        (status == 0xffff).then(|| Self {
            time_ns: u64_at(bytes, 0),
            code: u32_at(bytes, 8),
            engine: (u32_at(bytes, 12) & 0xffff) as u16,
        })
    }
}

/// Returns the meaning of a robust-channel code, in a few words.
#[must_use]
pub fn robust_channel_name(code: u32) -> &'static str {
    match code {
        13 => "exception of the compute engine",
        31 => "MMU fault",
        32 => "invalid push buffer",
        39..=41 => "error of a copy engine",
        43 => "the channel was reset",
        45 => "the channel was removed",
        69 => "error of a method or class",
        94 => "contained memory error",
        95 => "uncontained memory error",
        _ => "error of the channel",
    }
}
