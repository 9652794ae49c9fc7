//! State of the Compare panel.

use crate::theme::rows::Rows;
use kinescope_session::Document;
use kinescope_session::comparison::Cell;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::diff::{Cause, Effect, RuleError};
use trace_core::progress::Progress;

/// A section of the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Section {
    /// Events that differ.
    #[default]
    Events,
    /// Driver calls, by the content that they carry.
    Calls,
    /// Registers, by where their histories diverge.
    Registers,
    /// CPU writes.
    Writes,
    /// Job descriptors, by field.
    Descriptors,
    /// Mappings of the page tables at the end.
    Mappings,
    /// Named buffers and pages at the end.
    Buffers,
    /// Memory of both at the current event, side by side.
    Memory,
    /// Rules: what the comparison ignores.
    Rules,
}

impl Section {
    /// The sections of API traces, in order.
    pub const CALLS: [Self; 3] = [Self::Calls, Self::Events, Self::Rules];
    /// The sections of all other recordings, in order.
    pub const ALL: [Self; 8] = [
        Self::Events,
        Self::Registers,
        Self::Writes,
        Self::Descriptors,
        Self::Mappings,
        Self::Buffers,
        Self::Memory,
        Self::Rules,
    ];

    /// Returns the name that the user sees.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "Events",
            Self::Calls => "Calls",
            Self::Registers => "Registers",
            Self::Writes => "CPU writes",
            Self::Descriptors => "Descriptors",
            Self::Mappings => "Mappings",
            Self::Buffers => "Buffers, pages",
            Self::Memory => "Memory",
            Self::Rules => "Rules",
        }
    }
}

/// Content of the pixels of a part of the axis when it was last drawn.
#[derive(Clone, Debug, Default)]
pub(super) struct CellCache {
    key: Option<((f64, f64), usize, u64)>,
    pub(super) cells: Arc<Vec<Cell>>,
}

impl CellCache {
    pub(super) fn refresh(&mut self, doc: &Document, range: (f64, f64), pixels: usize) {
        let key = Some((range, pixels, doc.comparison.shown));
        if self.key != key
            && let Some(c) = &doc.comparison.done
        {
            self.cells = Arc::new(c.steps.cells(range, pixels));
            self.key = key;
        }
    }
}

/// The last cause search, its key and its result.
#[derive(Default)]
pub struct CauseSearch {
    /// Number of the comparison, and the difference.
    pub(super) key: Option<(u64, Effect)>,
    /// The cause of the difference; `None` while the search runs, or if none was requested.
    pub cause: Option<Cause>,
    pub(super) searching: Option<Progress>,
}

/// The content of the rules field.
#[derive(Clone, Debug, Default)]
pub struct RulesText {
    /// The rules as text.
    pub text: String,
    /// The error in the rules when they were last applied.
    pub wrong: Option<RuleError>,
}

/// State of the panel.
#[derive(Default)]
pub struct View {
    /// The visible section.
    pub section: Section,
    /// Whether the user chose it.
    pub(super) chosen: bool,
    /// Part of the axis in view; `None`: all.
    pub range: Option<(f64, f64)>,
    /// The selected row in the lists other than that of events.
    pub selected: Option<u64>,
    pub(super) rows: Rows,
    pub(super) lanes: CellCache,
    pub(super) all: CellCache,
    pub(super) seen_jump: u64,
    /// Where a drag on the minimap started.
    pub(super) drag: Option<f64>,
    /// Address space of the first recording whose memory is shown, by its index in the list.
    pub space: u32,
    /// The selected byte.
    pub byte: Option<GpuVa>,
    /// First address that is shown.
    pub(super) top: GpuVa,
    /// The selected byte must be brought into view.
    pub(super) reveal: bool,
    /// Message about the last search for a byte.
    pub byte_message: String,
    /// Content of the address field.
    pub(super) go_to: String,
    /// The running search for a byte that differs.
    pub(super) searching: Option<Progress>,
    /// The cause of the selected difference.
    pub cause_search: CauseSearch,
    /// The rules as the user writes them.
    pub rules: RulesText,
}

impl View {
    /// Resets the state for another comparison: drops cached results and keeps what the user wrote or chose.
    pub fn reset(&mut self) {
        let old = std::mem::take(self);
        if let Some(search) = old.searching {
            search.cancel();
        }
        self.section = old.section;
        self.chosen = old.chosen;
        self.rules = old.rules;
    }

    /// Shows a section by its name. Returns `false` if there is no such section.
    pub fn select_section(&mut self, name: &str) -> bool {
        let mut all = Section::ALL.into_iter().chain(Section::CALLS);
        let found = all.find(|s| s.name().eq_ignore_ascii_case(name));
        if let Some(s) = found {
            self.open(s);
        }
        found.is_some()
    }

    /// Shows a byte.
    pub(super) fn show_byte(&mut self, va: GpuVa) {
        self.byte = Some(va);
        self.reveal = true;
        self.byte_message.clear();
    }

    pub(super) fn open(&mut self, section: Section) {
        self.chosen = true;
        if self.section != section {
            self.section = section;
            self.selected = None;
            self.rows = Rows::default();
        }
    }

    /// Returns the part of the axis that is shown.
    #[must_use]
    pub fn visible_range(&self, end: f64) -> (f64, f64) {
        self.range.unwrap_or((0.0, end))
    }

    /// Shows the part between two positions, as far as the axis goes.
    pub(super) fn zoom_to_range(&mut self, a: f64, b: f64, end: f64) {
        let min = 8.0_f64.min(end);
        let width = (b - a).abs().max(min);
        let start = a.min(b).clamp(0.0, (end - width).max(0.0));
        self.range = (width < end).then_some((start, start + width));
    }
}
