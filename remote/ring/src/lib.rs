//! Shared memory between a program and its CUDA worker process: two message rings and a staging area.
//!
//! The client creates a [`Region`] and passes it over a Unix socket with [`pass_region`]. The worker takes it with
//! [`receive_region`] and [`Region::open`]. Requests go from the client to the worker, answers go back.
//!
//! Each side treats the other as hostile. What the peer writes is copied once and then checked; each side keeps its own
//! positions in private memory.

mod error;
mod host_window;
mod layout;
mod message_ring;
mod parking;
mod peer;
mod region;
mod region_passing;
mod ring_name;
mod ring_waker;
mod staging_allocator;
#[cfg(test)]
mod tests;
mod window_file;

pub use error::RingError;
pub use host_window::HostWindow;
pub use layout::{MAX_RING_BYTES, MAX_STAGING_BYTES, MIN_RING_BYTES, RegionLayout, STAGING_PAGE_BYTES};
pub use message_ring::{MessageReader, MessageWriter, Wait};
pub use parking::has_spare_processors;
pub use peer::{Peer, SocketPeer};
pub use region::Region;
pub use region_passing::{MAX_GREETING_BYTES, PROGRAM_GREETING, pass_file, pass_region, receive_region};
pub use ring_name::RingName;
pub use ring_waker::{RingWaker, wake_readers_at_end};
pub use staging_allocator::{STAGING_ALIGNMENT, StagingAllocator, StagingRange};
pub use window_file::{WINDOW_PAGE_BYTES, WindowFile};
