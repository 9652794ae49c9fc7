//! Plans for the channels of an NVIDIA GPU: their bodies, their rules, and the recording of an outcome.
//!
//! A plan holds memory at its recorded addresses, its contents, and push buffers. A client of the kernel driver plays
//! it ([`nvidia_client`]), so that no library of NVIDIA is needed.

mod body;
mod footprint;
mod last_write;
mod methods;
mod ranges;
mod recording;
mod verify;

pub use body::ChannelBody;
pub use footprint::ChannelFootprint;
pub use methods::{CHANNEL_CLASS, MethodRule, MethodRules, NO_OPERATION, copy_class, initial_bindings};
pub use ranges::{MAX_MAPPED_BYTES, MemoryRanges, RING_REACH, SMALL_PAGE};
pub use recording::build_recording;
pub use verify::{VerifiedMemory, check_memory, check_plan};

#[cfg(test)]
mod tests;
