//! Cross references: what reads, writes, executes or names bytes of memory, a register, a page-table entry or a pixel.
//!
//! [`find_references`] returns typed references. It needs more than the recording: accesses by register, job chains,
//! page tables, findings. A caller that has them implements [`XrefData`]; [`XrefIndex`] derives them for any other.

mod accesses;
mod address_registers;
mod api_trace;
mod data;
mod driver_trace;
mod host_writes;
mod index;
mod jobs;
mod memory;
mod operand;
mod page_table_entry;
mod page_usage;
mod pointers;
mod reference;
mod submission_calls;
mod submitted_part;
#[cfg(test)]
mod tests;

pub use api_trace::find_pointing_arguments;
pub use data::{ChainDescriptor, XrefData, XrefJob};
pub use index::{IndexedJob, XrefIndex};
pub use operand::{TargetError, parse_bare_hex, parse_number, parse_target};
pub use page_table_entry::{entry_span, last_level, read_entry};
pub use page_usage::{JobAddresses, PageUsage, PageUse, find_page_uses};
pub use pointers::find_pointers;
pub use reference::{
    AccessKind, AddressMatch, CallReference, ContentChange, EntryReason, EntryValue, EntryWriter, JobPart,
    LaunchReference, MAX_BYTES, MAX_REFERENCES, Reference, ReferenceItem, References, TableLocation, XrefTarget,
};
pub use submission_calls::CallJoin;
pub use submitted_part::SubmittedPart;

pub use crate::families::TableCommand;

use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;

/// Finds at most `max` references of a target, which is usually [`MAX_REFERENCES`]. `event` selects the page tables, and
/// for an API trace the buffer at an address. References with an event come first, in event order; those of only the
/// page of the target come last. Takes time proportional to the number of events and jobs.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn find_references<D: XrefData>(
    recording: &Recording,
    data: &D,
    target: XrefTarget,
    (event, max): (u64, usize),
    progress: &Progress,
) -> Result<References, Cancelled> {
    let mut list = match target {
        XrefTarget::Register { register, bits } => {
            accesses::find_register_accesses(recording, data, (register, bits), max, progress)?
        }
        XrefTarget::Bytes { space, va, bytes } => match data.api_trace() {
            Some(api_trace) => api_trace::find_references(recording, api_trace, (va, bytes), (event, max), progress)?,
            None if recording.driver_trace().is_some() => {
                driver_trace::find_references(recording, data, (va, bytes), max, progress)?
            }
            None => memory::find_references(recording, data, (space, va, bytes), (event, max), progress)?,
        },
        XrefTarget::Physical { at, bytes } => {
            memory::find_physical_references(recording, data, (at, bytes), (event, max), progress)?
        }
        XrefTarget::Entry { space, va, level } => {
            page_table_entry::find_references(recording, data, (space, va, level), max, progress)?
        }
        XrefTarget::Event { event } => submission_calls::find_references(recording, data, event, max, progress)?,
        XrefTarget::Framebuffer { space, offset, bytes } => {
            accesses::find_framebuffer_accesses(recording, (space, offset, bytes), max, progress)?
        }
    };
    list.sort_by_key(|r| (r.is_page_only, r.event.unwrap_or(u64::MAX)));
    let is_complete = list.len() < max;
    list.truncate(max);
    Ok(References { list, is_complete })
}
