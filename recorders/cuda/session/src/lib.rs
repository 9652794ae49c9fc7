//! A recording of a CUDA program's calls while it grows. Whoever sees the calls hands them over; a thread of its own
//! stores what they carried, page by page, and writes the file.
//!
//! Nothing here knows the driver or how calls are seen: tests hand calls over by themselves.

mod content;
mod entry;
mod error;
mod file;
mod held;
mod pick;
mod places;
mod session;
mod tables;
mod window;
mod writing;

pub use entry::{Entry, With};
pub use error::SessionError;
pub use held::{HASH_FIRST, HASH_PLACE, HASH_SECOND, Held, PageHash, hashes_of, page_hash, pages_of};
pub use pick::{Launched, Pick};
pub use places::{Places, Relation};
pub use session::{Begun, Session, Settings, Slot};
pub use tables::Tables;
pub use window::{Backing, GRANULE, Window, WindowError};
