//! The panfrost render node in user space: what Linux's driver of that name answers to a program, over a software Mali
//! that a driver of the project's own programs through registers.
//!
//! It holds open files, buffer objects, their GPU addresses, sync objects; a submit runs on the device before the call
//! returns, and all that the device was told becomes a recording. Nothing here knows how a program's calls get here:
//! the library for `LD_PRELOAD` hands them on, and tests make them directly.
//!
//! Buffer objects lie in one sparse memory file for each open file of the node, at the offsets that the program maps
//! them by, so that mappings are the kernel's own and outlive the handle as on a real node. Before a chain runs, the
//! bytes that changed there go into the device's memory; after it, the bytes that the device changed come back.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod error;
mod file;
mod gpu;
mod journal;
mod memory;
mod metadata;
mod node;
mod object;
mod params;
mod save;
mod sync;
pub mod uapi;
mod user;
mod va;

pub use error::NodeError;
pub use file::FileId;
pub use memory::Inode;
pub use metadata::BufferName;
pub use node::{IoctlReply, Node, OpenedNode, Settings};
pub use save::{SaveOutcome, save};
pub use user::{ProcessMemory, UserMemory};

/// Error codes that a program sees.
pub use rustix::io::Errno;
