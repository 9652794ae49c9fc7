//! Cross references of framebuffer bytes: the accesses that load or store them.

use super::moment::Selection;
use super::xref::{AccessKind, MAX_XREFS, Xref};
use crate::theme::text;
use trace_core::filter::Query;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;

/// Maximum size of an access, bytes.
const WIDEST: u64 = 8;

/// Finds the accesses that load or store bytes of a space, in event order, up to a limit. Takes time proportional to
/// the number of events.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn find(
    recording: &Recording,
    (space, offset, bytes): (u8, u64, u64),
    progress: &Progress,
) -> Result<Vec<Xref>, Cancelled> {
    let mut out = Vec::new();
    let Some(name) = recording.facts.spaces.get(usize::from(space)).map(|s| &s.name) else {
        return Ok(out);
    };
    let end = offset.saturating_add(bytes.max(1));
    let from = offset.saturating_sub(WIDEST - 1);
    let quoted = name.replace('\'', "\\'");
    let text = format!("space = '{quoted}' and offset >= {from:#x} and offset < {end:#x}");
    let query = Query::parse(&text).and_then(|q| q.compile(recording, None));
    let Ok(filter) = query else { return Ok(out) };
    for event in filter.select(&recording.events, progress)?.iter() {
        let access = usize::try_from(event).ok().and_then(|e| recording.events.access(e));
        let Some(a) = access.filter(|a| u64::from(a.offset) + u64::from(a.width) > offset) else {
            continue;
        };
        let (word, deed) = if a.write {
            ("stores", AccessKind::Write)
        } else {
            ("loads", AccessKind::Read)
        };
        let count = text::count_noun(u64::from(a.width), "byte", "bytes");
        out.push(Xref {
            page: false,
            kind: if a.write { "store" } else { "load" },
            description: format!("{word} {:#x}, {count} at {:#x}", a.value, a.offset),
            event: Some(event),
            access: deed,
            go: Selection::Framebuffer { space, offset, bytes },
        });
        if out.len() >= MAX_XREFS {
            break;
        }
    }
    Ok(out)
}
