//! A growing recording of a CUDA program's calls. The caller hands calls over; a thread of the session stores their
//! payloads page by page and writes the file.
//!
//! This crate knows neither the driver nor the hooks: tests hand calls over themselves.

mod content;
mod entry;
mod error;
mod file;
mod page_hashes;
mod physical_mappings;
mod pick;
mod queue;
mod session;
mod tables;
mod window;
mod writer;

pub use entry::{Entry, EntryPayload, Slot};
pub use error::SessionError;
pub use page_hashes::{HASH_FIRST, HASH_PLACE, HASH_SECOND, PageHash, PageHashes, count_pages, hash_page, hash_pages};
pub use physical_mappings::{PhysicalMappings, Relation};
pub use pick::{LaunchCounter, Pick};
pub use session::{CallStart, Session, Settings};
pub use tables::Tables;
pub use window::{Backing, GRANULE, Window, WindowError};
