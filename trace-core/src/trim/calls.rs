//! API calls of a part: their arguments, the contents of copies, and the code of modules, with new page numbers.

use super::pages::Pages;
use crate::PAGE_SIZE;
use crate::progress::{Cancelled, Progress};
use crate::recording::{CallEvent, CallModule, EventsBuilder, NO_CONTENT, PageId, Recording, StoredContent};

/// Maximum number of pages of a module that are kept. Larger code cannot be read either.
const MAX_MODULE_PAGES: u64 = (1 << 30) / PAGE_SIZE as u64;

/// Returns a call with its data stored in `to`. Data that the recording does not hold stays missing.
pub(super) fn copy_call(
    recording: &Recording,
    call: CallEvent,
    to: &mut EventsBuilder,
    pages: &mut Pages<'_>,
) -> CallEvent {
    let events = &recording.events;
    let mut copy_arguments = |at: &mut u64, bytes: u32| {
        *at = match events.call_arguments(*at, bytes) {
            Some(arguments) => to.call_bytes(&arguments),
            None => u64::MAX,
        };
    };
    match call {
        CallEvent::Launch(mut row) => {
            copy_arguments(&mut row.arguments_at, row.arguments);
            CallEvent::Launch(row)
        }
        CallEvent::Call(mut row) => {
            copy_arguments(&mut row.arguments_at, row.arguments);
            CallEvent::Call(row)
        }
        CallEvent::Copy(mut row) => {
            let stored = row.stored();
            row.pages_at = stored.map_or(NO_CONTENT, |stored| copy_content(recording, &stored, to, pages));
            CallEvent::Copy(row)
        }
        call @ (CallEvent::Fill(_) | CallEvent::Order(_) | CallEvent::Allocation(_)) => call,
    }
}

/// Stores the pages of stored bytes in `to`. Returns the row of the first one, or [`NO_CONTENT`] if one is missing.
pub(super) fn copy_content(
    recording: &Recording,
    stored: &StoredContent,
    to: &mut EventsBuilder,
    pages: &mut Pages<'_>,
) -> u64 {
    let ids = recording.find_content_pages(stored).and_then(|range| {
        let ids = recording.events.call_pages.iter_range(range);
        let new = ids.map(|id| Some(pages.renumber_stored(PageId(id))?.0));
        new.collect::<Option<Vec<u32>>>()
    });
    ids.map_or(NO_CONTENT, |ids| to.call_pages(&ids))
}

/// Keeps the code of modules. A module whose pages are not all stored has no code, and names no page afterwards.
pub(super) fn renumber_modules(
    modules: &mut [CallModule],
    pages: &mut Pages<'_>,
    progress: &Progress,
) -> Result<(), Cancelled> {
    for module in modules {
        progress.check()?;
        let count: u64 = module.pages.iter().map(|[_, n]| u64::from(*n)).sum();
        let ids = module.pages.iter().flat_map(|[first, n]| {
            let end = first.saturating_add(*n);
            *first..end
        });
        let new: Option<Vec<PageId>> = match count <= MAX_MODULE_PAGES {
            true => ids.map(|id| pages.renumber_stored(PageId(id))).collect(),
            false => None,
        };
        module.pages = join_runs(&new.unwrap_or_default());
    }
    Ok(())
}

/// Joins consecutive pages to runs of first page and number of pages.
fn join_runs(pages: &[PageId]) -> Vec<[u32; 2]> {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some([first, count]) if first.checked_add(*count) == Some(page.0) => *count += 1,
            _ => runs.push([page.0, 1]),
        }
    }
    runs
}
