//! Marks of an address space: pages that are mapped twice, executable and writable, or without content; and the
//! locations of its page tables.

use crate::lookup::find_register_map;
use crate::page_runs::{MappedRun, PageContent};
use trace_core::GpuVa;
use trace_core::families;
use trace_core::mmu::{self, EntryKind, Leaf, TableRef, WalkStep};
use trace_core::recording::{MmuFormat, Recording};
use trace_core::registers::Layout;

/// A conspicuous property of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Two addresses map the same memory.
    MappedTwice,
    /// The GPU may write the page and fetch code from it.
    Open,
    /// The page is mapped, but not in the recording.
    Missing,
}

impl Mark {
    /// All marks, in display order.
    pub const ALL: [Self; 3] = [Self::MappedTwice, Self::Open, Self::Missing];

    /// Returns the display name.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::MappedTwice => "mapped twice",
            Self::Open => "executable and writable",
            Self::Missing => "not recorded",
        }
    }

    /// Returns a sentence that says why the mark matters.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::MappedTwice => "Two addresses reach the same memory, so a write through one changes the other.",
            Self::Open => "The GPU may write there and execute what it wrote.",
            Self::Missing => "Mapped, and the recording does not hold its content; a replay starts it as zero.",
        }
    }
}

/// A range of pages with a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub va: GpuVa,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// Another address of the same memory, if the pages are mapped twice.
    pub other: Option<GpuVa>,
}

impl Span {
    /// Returns the address one past the last byte.
    #[must_use]
    pub fn end(&self) -> GpuVa {
        self.va.saturating_add(self.pages.saturating_mul(4096))
    }
}

/// A page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Physical frame number.
    pub frame: u64,
    /// Level, 0 is the top.
    pub level: u8,
    /// First address that it translates.
    pub va: GpuVa,
}

/// The marks and page tables of an address space.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    twice: Vec<Span>,
    open: Vec<Span>,
    missing: Vec<Span>,
    /// Number of pages of each mark, in the order of [`Mark::ALL`]. Every frame reads it.
    pages: [u64; Mark::ALL.len()],
    /// Page tables, by frame.
    pub tables: Vec<Table>,
    /// Whether there were too many pages to find those that are mapped twice.
    pub not_compared: bool,
}

impl Marks {
    /// Computes the marks from the mappings, the same split by content, and the page tables of an address space.
    /// `leaves` are its pages and blocks; `None` if there are too many to compare.
    #[must_use]
    pub fn new(mappings: &[MappedRun], runs: &[MappedRun], leaves: Option<&[Leaf]>, tables: &[TableRef]) -> Self {
        let span = |va: u64, pages: u64| Span {
            va: GpuVa::new(va),
            pages,
            other: None,
        };
        let mut out = Self {
            not_compared: leaves.is_none(),
            ..Default::default()
        };
        for d in leaves.map(mmu::find_double_mappings).unwrap_or_default() {
            for (a, b) in [(d.first.get(), d.second.get()), (d.second.get(), d.first.get())] {
                out.twice.push(Span {
                    other: Some(GpuVa::new(b)),
                    ..span(a, d.pages)
                });
            }
        }
        out.twice.sort_by_key(|s| (s.va, s.other));
        let open = mappings.iter().filter(|m| m.rights & 6 == 6);
        out.open = open.map(|m| span(m.va.get(), m.pages)).collect();
        for r in runs.iter().filter(|r| r.content == PageContent::None) {
            match out.missing.last_mut() {
                Some(last) if last.end() == r.va => last.pages += r.pages,
                _ => out.missing.push(span(r.va.get(), r.pages)),
            }
        }
        out.tables = tables
            .iter()
            .map(|t| Table {
                frame: t.at.frame(),
                level: t.level,
                va: t.va,
            })
            .collect();
        out.tables.sort_by_key(|t| (t.frame, t.level, t.va));
        out.counted()
    }

    /// Returns the same with its pages counted.
    fn counted(mut self) -> Self {
        self.pages = Mark::ALL.map(|mark| self.spans(mark).iter().map(|s| s.pages).fold(0, u64::saturating_add));
        self
    }

    /// Returns the pages of a mark, by address.
    #[must_use]
    pub fn spans(&self, mark: Mark) -> &[Span] {
        match mark {
            Mark::MappedTwice => &self.twice,
            Mark::Open => &self.open,
            Mark::Missing => &self.missing,
        }
    }

    /// Returns the number of pages of a mark. Memory that is mapped twice counts at each address.
    #[must_use]
    pub fn pages(&self, mark: Mark) -> u64 {
        self.pages[mark as usize]
    }

    /// Returns a span of a mark that overlaps `from..to`.
    #[must_use]
    pub fn find_span(&self, mark: Mark, from: GpuVa, to: GpuVa) -> Option<&Span> {
        let list = self.spans(mark);
        // Spans of one mark overlap only where memory is mapped three times, so checking a few spans before the range
        // is enough.
        let n = list.partition_point(|s| s.va < to);
        list[..n].iter().rev().take(8).find(|s| s.end() > from)
    }

    /// Returns the page tables in a physical frame.
    #[must_use]
    pub fn tables_in(&self, frame: u64) -> &[Table] {
        let a = self.tables.partition_point(|t| t.frame < frame);
        let b = self.tables.partition_point(|t| t.frame <= frame);
        &self.tables[a..b]
    }
}

/// Returns the layout of a page table entry.
#[must_use]
pub fn find_entry_layout(recording: &Recording, format: MmuFormat) -> Option<&'static Layout> {
    let layout = format.description().entry_layout();
    let own = find_register_map(recording).and_then(|map| map.layout(layout));
    own.or_else(|| families::find_entry_layout(format))
}

/// Describes the kind of an entry and its target: `table`, `→ 0x20d6a1000`.
#[must_use]
pub fn describe_entry_kind(kind: EntryKind) -> (&'static str, String) {
    match kind {
        EntryKind::Invalid => ("invalid", String::new()),
        EntryKind::Table(a) => ("table", format!("→ {a}")),
        EntryKind::Page(a) => ("page", format!("→ {a}")),
        EntryKind::Block(a) => ("block", format!("→ {a}")),
        EntryKind::Reserved => ("reserved", String::new()),
    }
}

/// Describes an entry in a few words: `page → 0x1000 rw-`, `table → 0x2000`, `invalid`.
#[must_use]
pub fn describe_entry(format: MmuFormat, level: u8, raw: u64) -> String {
    let (kind, rights) = mmu::decode_entry(format, level, raw);
    match (rights, describe_entry_kind(kind)) {
        (Some(rights), (word, to)) => format!("{word} {to} {rights}"),
        (None, (word, to)) if to.is_empty() => word.to_owned(),
        (None, (word, to)) => format!("{word} {to}"),
    }
}

/// Returns the bits of an entry as pairs of name and value, without the address and type bits, which are shown
/// elsewhere.
#[must_use]
pub fn format_entry_bits(recording: &Recording, format: MmuFormat, step: &WalkStep) -> Vec<(String, String)> {
    if !matches!(step.kind, EntryKind::Page(_) | EntryKind::Block(_)) {
        return Vec::new();
    }
    let Some(layout) = find_entry_layout(recording, format) else {
        let (fields, unknown) = mmu::entry_fields(format, step.table_kind, step.raw);
        let mut out: Vec<(String, String)> = fields.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        if unknown != 0 {
            out.push(("unknown bits".into(), format!("{unknown:#x}")));
        }
        return out;
    };
    let decoded = layout.decode(step.raw);
    let mut out: Vec<(String, String)> = decoded
        .fields
        .iter()
        .filter(|f| !matches!(f.field.name.as_str(), "type" | "address") && !f.text.is_empty())
        .map(|f| (f.field.name.replace('_', " "), f.text.clone()))
        .collect();
    if decoded.unknown_value() != 0 {
        out.push(("unknown bits".into(), format!("{:#x}", decoded.unknown_value())));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::GpuVa;

    #[test]
    fn spans_are_found_by_address() {
        let span = |va: u64, pages: u64| Span {
            va: GpuVa::new(va),
            pages,
            other: None,
        };
        let m = Marks {
            open: vec![span(0x1000, 2), span(0x8000, 1)],
            ..Default::default()
        }
        .counted();
        assert_eq!(
            m.find_span(Mark::Open, GpuVa::new(0x2000), GpuVa::new(0x3000)),
            Some(&span(0x1000, 2))
        );
        assert_eq!(m.find_span(Mark::Open, GpuVa::new(0x3000), GpuVa::new(0x8000)), None);
        assert_eq!(
            m.find_span(Mark::Open, GpuVa::ZERO, GpuVa::new(0x1_0000)),
            Some(&span(0x8000, 1))
        );
        assert_eq!((m.pages(Mark::Open), m.pages(Mark::MappedTwice)), (3, 0));
    }
}
