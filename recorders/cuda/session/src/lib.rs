//! A recording of a CUDA program's calls while it grows. Whoever sees the calls hands them over; a thread of its own
//! stores what they carried, page by page, and writes the file.
//!
//! Nothing here knows the driver or how calls are seen: tests hand calls over by themselves.

mod content;
mod entry;
mod error;
mod file;
mod page_hashes;
mod physical_mappings;
mod pick;
mod session;
mod tables;
mod window;
mod writer;

pub use entry::{Entry, EntryPayload};
pub use error::SessionError;
pub use page_hashes::{HASH_FIRST, HASH_PLACE, HASH_SECOND, PageHash, PageHashes, count_pages, hash_page, hash_pages};
pub use physical_mappings::{PhysicalMappings, Relation};
pub use pick::{LaunchCounter, Pick};
pub use session::{CallStart, Session, Settings, Slot};
pub use tables::Tables;
pub use window::{Backing, GRANULE, Window, WindowError};
