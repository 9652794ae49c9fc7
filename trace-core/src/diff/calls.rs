//! Comparison of matching driver calls (CUDA): contents and destinations of copies, fill values, arguments, and the
//! code that was launched.
//!
//! Calls are aligned by what they are and by digests of their contents; here each pair is compared. Pages are stored
//! by their digests, so pages with equal digests are never read.

mod buffers;
mod call_index;
mod call_side;
mod code;
mod content;
mod differences;
mod launches;

pub(super) use call_index::{CallIndex, index_calls, is_piece, mix};
pub use code::CodeDifference;
pub use differences::{CallDiff, CallDifference, CallPart, ContentDiff, TypeFrom};

use super::elements::Tolerance;
use super::event_diff::MAX_LISTED_DIFFERENCES;
use super::rules::{IgnoredMemory, Rules};
use crate::GpuVa;
use crate::api_trace::BufferLocation;
use crate::progress::{Cancelled, Progress};
use crate::recording::{CallEvent, CopyKind, CopyRow, FillRow, LaunchRow, Recording};
use buffers::BufferPairs;
use call_side::{CallSide, Field, SnapshotPieces};
use code::LaunchedCode;
use content::ContentComparison;

/// Maximum number of fields of one difference.
const MAX_FIELDS: usize = 64;

/// Compares the calls of two recordings pair by pair: the first pass matches buffers in every pair, the second pass
/// compares every pair.
pub(super) struct CallComparer<'r> {
    a: CallSide<'r>,
    b: CallSide<'r>,
    rules: &'r Rules,
    ignored: IgnoredMemory,
    together: BufferPairs,
    pieces: (SnapshotPieces, SnapshotPieces),
    launched: LaunchedCode,
    out: CallDiff,
}

impl<'r> CallComparer<'r> {
    pub fn new(a: (&'r Recording, &'r CallIndex), b: (&'r Recording, &'r CallIndex), rules: &'r Rules) -> Self {
        let of = |(recording, known)| CallSide { recording, known };
        let (ignored, a, b) = (rules.memory(a.0), of(a), of(b));
        Self {
            a,
            b,
            rules,
            ignored,
            pieces: (SnapshotPieces::from_side(&a), SnapshotPieces::from_side(&b)),
            together: BufferPairs::default(),
            launched: LaunchedCode::default(),
            out: CallDiff::default(),
        }
    }

    /// Counts the buffers that a pair has at the same positions.
    pub fn match_calls(&mut self, x: u64, y: u64) {
        let (Some(one), Some(two)) = (self.a.call(x), self.b.call(y)) else {
            return;
        };
        match (&one, &two) {
            (CallEvent::Launch(l), CallEvent::Launch(m)) => {
                launches::match_arguments((&self.a, x, l), (&self.b, y, m), &mut self.together);
                self.launched.take((l.function, m.function), (x, y));
            }
            (CallEvent::Copy(c), CallEvent::Copy(d)) if is_piece(c) && is_piece(d) => {
                let (p, q) = (self.a.place(GpuVa::new(c.from), x), self.b.place(GpuVa::new(d.from), y));
                if let (Some(p), Some(q), true) = (p, q, c.total() == d.total()) {
                    self.together.count_snapshot_match(p, q);
                }
            }
            (CallEvent::Copy(c), CallEvent::Copy(d)) => {
                for (p, q) in ends(c).into_iter().zip(ends(d)) {
                    self.match_locations(
                        p.and_then(|p| self.a.place(GpuVa::new(p), x)),
                        q.and_then(|q| self.b.place(GpuVa::new(q), y)),
                    );
                }
            }
            (CallEvent::Fill(f), CallEvent::Fill(g)) => {
                self.match_locations(self.a.place(f.to, x), self.b.place(g.to, y))
            }
            _ => {}
        }
    }

    fn match_locations(&mut self, p: Option<BufferLocation>, q: Option<BufferLocation>) {
        if let (Some(p), Some(q)) = (p, q) {
            self.together.count_match(p, q);
        }
    }

    /// Pairs the buffers, after all pairs of calls were counted.
    pub fn pair_buffers(&mut self) {
        self.together
            .pair_buffers(self.a.calls().buffers(), self.b.calls().buffers());
    }

    /// Returns whether a pair differs. `equal_tokens` says that its alignment tokens are equal, including the content.
    ///
    /// # Errors
    /// If the work was cancelled.
    pub fn differs(&mut self, x: u64, y: u64, equal_tokens: bool, progress: &Progress) -> Result<bool, Cancelled> {
        let (Some(one), Some(two)) = (self.a.call(x), self.b.call(y)) else {
            return Ok(false);
        };
        let mut found = match (&one, &two) {
            (CallEvent::Launch(l), CallEvent::Launch(m)) => self.launch((x, y), (l, m)),
            (CallEvent::Fill(f), CallEvent::Fill(g)) => self.fill((x, y), (f, g)),
            (CallEvent::Copy(c), CallEvent::Copy(d)) if is_piece(c) && is_piece(d) => {
                self.piece((x, y), (c, d), progress)?
            }
            (CallEvent::Copy(c), CallEvent::Copy(d)) => self.copy((x, y), (c, d), equal_tokens, progress)?,
            _ => return Ok(false),
        };
        self.out.compared += 1;
        if one.result() != two.result() {
            let field = ("result".to_owned(), one.result().to_string(), two.result().to_string());
            found.fields.insert(0, field);
        }
        found.fields.truncate(MAX_FIELDS);
        found.differs = !found.fields.is_empty() || found.content.as_ref().is_some_and(ContentDiff::differs);
        let differs = found.differs;
        if differs {
            *self.out.count(found.part) += 1;
        } else if found.content.is_some() {
            self.out.within += 1;
        } else {
            return Ok(false);
        }
        if self.out.list.len() < MAX_LISTED_DIFFERENCES {
            self.out.list.push(found);
        }
        Ok(differs)
    }

    fn launch(&mut self, events: (u64, u64), (l, m): (&LaunchRow, &LaunchRow)) -> CallDifference {
        let name = |side: &CallSide<'_>, row: &LaunchRow| side.calls().function_name(row.function).to_owned();
        CallDifference {
            names: (name(&self.a, l), name(&self.b, m)),
            fields: launches::differing_fields((&self.a, events.0, l), (&self.b, events.1, m), &self.together),
            ..CallDifference::new(CallPart::Launch, events)
        }
    }

    fn fill(&mut self, events: (u64, u64), (f, g): (&FillRow, &FillRow)) -> CallDifference {
        let mut fields = Vec::new();
        let bytes = |row: &FillRow| row.row_bytes().and_then(|n| n.checked_mul(row.rows));
        let mut field = |name: &str, a: String, b: String| {
            if a != b {
                fields.push((name.to_owned(), a, b));
            }
        };
        let value = |row: &FillRow| format!("{:#x}", row.value);
        field("value", value(f), value(g));
        field("element", f.element.to_string(), g.element.to_string());
        let count = |row: &FillRow| bytes(row).map_or_else(|| "too many".to_owned(), |n| n.to_string());
        field("bytes", count(f), count(g));
        self.push_address_difference("to", (f.to.get(), g.to.get()), events, &mut fields);
        CallDifference {
            names: (
                self.a.format_address(f.to, events.0),
                self.b.format_address(g.to, events.1),
            ),
            at: (f.to, g.to),
            fields,
            ..CallDifference::new(CallPart::Fill, events)
        }
    }

    /// Adds a field if two calls use different locations.
    fn push_address_difference(&self, name: &str, at: (u64, u64), events: (u64, u64), fields: &mut Vec<Field>) {
        let (p, q) = (
            self.a.place(GpuVa::new(at.0), events.0),
            self.b.place(GpuVa::new(at.1), events.1),
        );
        if !self.together.is_same_location(p, q) {
            let words = (
                self.a.format_address(GpuVa::new(at.0), events.0),
                self.b.format_address(GpuVa::new(at.1), events.1),
            );
            fields.push((name.to_owned(), words.0, words.1));
        }
    }

    /// Compares a snapshot piece. Pieces are in address order, so a piece is compared with the piece of the other
    /// side that holds the matching memory.
    fn piece(
        &mut self,
        (x, y): (u64, u64),
        (c, d): (&CopyRow, &CopyRow),
        progress: &Progress,
    ) -> Result<CallDifference, Cancelled> {
        let (own, other) = (self.a.place(GpuVa::new(c.from), x), self.b.place(GpuVa::new(d.from), y));
        if self.together.is_same_location(own, other) {
            return self.copy((x, y), (c, d), false, progress);
        }
        let there = own.and_then(|p| self.pieces.1.at(&self.b, y, self.together.map_to_second(p)?));
        if let Some(there) = there
            && let Some(CallEvent::Copy(row)) = self.b.call(there)
        {
            return self.copy((x, there), (c, &row), false, progress);
        }
        let back = other.and_then(|q| self.pieces.0.at(&self.a, x, self.together.map_to_first(q)?));
        if back.is_none() {
            // Neither piece has a counterpart in the other snapshot, so they are compared with each other.
            return self.copy((x, y), (c, d), false, progress);
        }
        let names = (self.a.format_address(GpuVa::new(c.from), x), String::new());
        Ok(CallDifference {
            fields: vec![(
                "snapshot".to_owned(),
                names.0.clone(),
                "not in this snapshot".to_owned(),
            )],
            names,
            at: (GpuVa::new(c.from), GpuVa::new(d.from)),
            ..CallDifference::new(CallPart::Snapshot, (x, y))
        })
    }

    fn copy(
        &mut self,
        events: (u64, u64),
        (c, d): (&CopyRow, &CopyRow),
        equal_tokens: bool,
        progress: &Progress,
    ) -> Result<CallDifference, Cancelled> {
        let part = if is_piece(c) {
            CallPart::Snapshot
        } else {
            CallPart::Copy
        };
        let at = (c.device(), d.device());
        let mut fields = Vec::new();
        for (name, (p, q)) in ["to", "from"].into_iter().zip(ends(c).into_iter().zip(ends(d))) {
            if let (Some(p), Some(q)) = (p, q) {
                self.push_address_difference(name, (p, q), events, &mut fields);
            }
        }
        let bytes = |row: &CopyRow| row.total().map_or_else(|| "too many".to_owned(), |n| n.to_string());
        if c.total() != d.total() {
            fields.push(("bytes".to_owned(), bytes(c), bytes(d)));
        }
        let names = (self.a.known.name(events.0, c), self.b.known.name(events.1, d));
        let mut out = CallDifference {
            way: CopyKind::from_raw(c.kind).map_or("", CopyKind::name).to_owned(),
            at,
            fields,
            ..CallDifference::new(part, events)
        };
        // Equal content is known from its digest.
        if !equal_tokens {
            match self.content(events, (c, d), &names.0, progress)? {
                ContentComparison::Same => {}
                ContentComparison::Unknown => self.out.unknown += 1,
                ContentComparison::Differs(content) => out.content = Some(*content),
            }
        }
        out.names = names;
        Ok(out)
    }

    /// Compares the content of two copies, by the rules for its names.
    fn content(
        &self,
        events: (u64, u64),
        (c, d): (&CopyRow, &CopyRow),
        name: &str,
        progress: &Progress,
    ) -> Result<ContentComparison, Cancelled> {
        let (place, other) = (self.a.place(c.device(), events.0), self.b.place(d.device(), events.1));
        // The content has a name, and so has the device memory that it is copied to or from.
        let buffer = place.and_then(|p| self.a.calls().buffers().get(p.buffer));
        let also = buffer.iter().filter_map(|b| b.alias.as_deref());
        let names = || {
            std::iter::once(name)
                .chain(buffer.iter().map(|b| b.name.as_str()))
                .chain(also.clone())
        };
        if !names().all(|n| self.rules.compares_buffer(n)) {
            return Ok(ContentComparison::Same);
        }
        let tolerance = names().map(|n| self.rules.tolerance(n)).find(Tolerance::is_some);
        let gaps = c.rows > 1 && (c.to_pitch != c.bytes || c.from_pitch != c.bytes);
        let mut mask = Vec::new();
        if let Some(bytes) = c.total().filter(|_| !gaps) {
            // Apply the mask of either side, so that the order of the recordings makes no difference.
            for at in [c.device(), d.device()] {
                mask.extend(self.ignored.ignored_within(0, at, bytes));
            }
        }
        let typed = self.together.element_type(place, other);
        let sides = ((self.a.recording, c), (self.b.recording, d));
        content::compare(sides, typed, tolerance.unwrap_or_default(), &mask, progress)
    }

    /// Returns the result.
    ///
    /// # Errors
    /// If the work was cancelled.
    pub fn finish(mut self, progress: &Progress) -> Result<CallDiff, Cancelled> {
        self.out.code = self.launched.compare(&self.a, &self.b, progress)?;
        Ok(self.out)
    }
}

/// Returns the device addresses that a copy writes and reads.
fn ends(row: &CopyRow) -> [Option<u64>; 2] {
    match CopyKind::from_raw(row.kind) {
        Some(CopyKind::HostToDevice) => [Some(row.to), None],
        Some(CopyKind::DeviceToHost) => [None, Some(row.from)],
        Some(CopyKind::DeviceToDevice) => [Some(row.to), Some(row.from)],
        _ => [None, None],
    }
}
