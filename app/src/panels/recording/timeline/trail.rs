//! The marks of the references to the selection, at most one for the width of a mark.

use kinescope_session::Document;
use trace_core::timeline::Pixels;
use trace_core::xref::{Reference, XrefTarget};

/// Width of a mark, points.
pub const MARK: f32 = 4.0;

/// Meaning of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The event writes it.
    Write,
    /// The event reads it.
    Read,
    /// The event names it, but neither reads nor writes it.
    Name,
}

/// Events of the trail that share a position, drawn as one.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// The first of them.
    pub event: u64,
    /// Its meaning.
    pub sign: Sign,
}

/// Key that distinguishes the marks of one trail from another's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key(Option<XrefTarget>, usize);

/// Returns the key of the current trail.
pub fn key(doc: &Document) -> Key {
    Key(doc.xref_target(), doc.xrefs.event_xrefs().len())
}

/// Returns the marks of the trail in these pixels: at most one for the width of a mark.
pub fn list_marks(doc: &Document, pixels: &Pixels) -> Vec<Mark> {
    let mut edges: Vec<u64> = pixels.edges.iter().step_by(MARK as usize).copied().collect();
    edges.extend(pixels.edges.last());
    let cells = edges.windows(2).filter_map(|w| match w {
        [a, b] if a < b => Some((*a, *b)),
        _ => None,
    });
    match doc.xref_target() {
        Some(XrefTarget::Register { register, .. }) => {
            let Some(fact) = doc.derived.registers.get(&register) else {
                return Vec::new();
            };
            let mark = |(a, b)| match fact.accesses.writes().first_in(a..b) {
                Some(event) => Some(Mark {
                    event,
                    sign: Sign::Write,
                }),
                None => fact.accesses.all().first_in(a..b).map(|event| Mark {
                    event,
                    sign: Sign::Read,
                }),
            };
            cells.filter_map(mark).collect()
        }
        Some(_) => {
            let list = doc.xrefs.event_xrefs();
            let mark = |(a, b): (u64, u64)| {
                let from = list.partition_point(|t| t.event < Some(a));
                let end = list.partition_point(|t| t.event < Some(b));
                let here = list.get(from..end)?;
                let one = |t: &Reference, sign| Some(Mark { event: t.event?, sign });
                let written = here.iter().find(|t| t.access.may_write());
                let read = here.iter().find(|t| t.access.may_read());
                match (written, read) {
                    (Some(t), _) => one(t, Sign::Write),
                    (None, Some(t)) => one(t, Sign::Read),
                    (None, None) => one(here.first()?, Sign::Name),
                }
            };
            cells.filter_map(mark).collect()
        }
        None => Vec::new(),
    }
}
