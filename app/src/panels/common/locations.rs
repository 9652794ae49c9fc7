//! Locations in a recording that the user types or selects.

use kinescope_files::scene::Selection;
use kinescope_session::{Document, text};
use trace_core::GpuVa;

/// Returns the current job: the selected one, or the one at the current event.
#[must_use]
pub fn current_job(doc: &Document) -> Option<u32> {
    match doc.selection() {
        Selection::Job(j) => Some(*j),
        _ => doc.derived.job_of(&doc.recording, doc.current_event()).map(|j| j.index),
    }
}

/// Returns the location that a text names: an address, a buffer, `NAME + OFFSET`, `job N`. `space` is the address
/// space if the text does not name one.
///
/// # Errors
/// Returns a message if the text names no location.
pub fn parse_address(doc: &Document, space: u32, search: &str) -> Result<(u32, GpuVa), String> {
    let search = search.trim();
    let named = |name: &str| doc.recording.buffer(name.trim()).map(|b| (b.address_space, b.va));
    if let Some(found) = named(search) {
        return Ok(found);
    }
    if let Some(va) = text::parse_number(search) {
        if va >> 48 != 0 {
            return Err(format!("{search} has more than the 48 bits of a GPU address"));
        }
        return Ok((space, GpuVa::new(va)));
    }
    if let Some((name, offset)) = search.split_once('+')
        && let (Some((space, va)), Some(by)) = (named(name), text::parse_number(offset))
    {
        return Ok((space, va.saturating_add(by)));
    }
    let job = search.strip_prefix("job").and_then(text::parse_number);
    if let Some(j) = job.and_then(|n| doc.derived.jobs.get(usize::try_from(n).ok()?)) {
        return Ok((space, j.head_va));
    }
    Err(format!("{search:?} is neither an address, a buffer nor a job"))
}
