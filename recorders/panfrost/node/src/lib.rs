//! The panfrost render node in user space: Linux's driver interface of that name on a simulator of a Mali, which a
//! driver of the project programs through registers.
//!
//! It holds open files, buffer objects, their GPU addresses and sync objects. A submit runs on the device before the
//! call returns, and all device accesses become a recording. This crate does not depend on how a program's calls
//! arrive: the `LD_PRELOAD` library forwards them, and tests make them directly.
//!
//! Buffer objects are in one sparse memory file for each open file of the node, at the offsets that the program maps
//! them by. Mappings are therefore the kernel's own and outlive the handle as on a real node. Before a chain runs,
//! changed bytes are copied into the device's memory; after it, bytes that the device changed are copied back.
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
