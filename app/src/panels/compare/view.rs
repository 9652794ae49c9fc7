//! What the Compare panel shows.

use crate::document::Document;
use crate::document::comparison::Cell;
use crate::theme::rows::Rows;
use std::sync::Arc;

/// A part of what was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Section {
    /// Events that differ.
    #[default]
    Events,
    /// Registers, by where their histories part.
    Registers,
    /// What the CPU wrote.
    Writes,
    /// What the page tables map at the end.
    Mappings,
    /// Named buffers and pages at the end.
    Buffers,
}

impl Section {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [
        Self::Events,
        Self::Registers,
        Self::Writes,
        Self::Mappings,
        Self::Buffers,
    ];

    /// Its name for the person.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "Events",
            Self::Registers => "Registers",
            Self::Writes => "CPU writes",
            Self::Mappings => "Mappings",
            Self::Buffers => "Buffers, pages",
        }
    }
}

/// What lay in the pixels of a part of the axis when it was drawn last.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    key: Option<((f64, f64), usize, u64)>,
    pub(super) cells: Arc<Vec<Cell>>,
}

impl Kept {
    pub(super) fn refresh(&mut self, doc: &Document, range: (f64, f64), pixels: usize) {
        let key = Some((range, pixels, doc.comparing.shown));
        if self.key != key
            && let Some(c) = &doc.comparing.done
        {
            self.cells = Arc::new(c.steps.cells(range, pixels));
            self.key = key;
        }
    }
}

/// What the panel shows.
#[derive(Default)]
pub struct View {
    /// The part in front.
    pub section: Section,
    /// Part of the axis in view; `None`: all.
    pub range: Option<(f64, f64)>,
    /// The row that is meant in the lists other than that of events.
    pub selected: Option<u64>,
    pub(super) rows: Rows,
    pub(super) lanes: Kept,
    pub(super) all: Kept,
    pub(super) seen_jump: u64,
    /// Where a drag on the minimap began.
    pub(super) drag: Option<f64>,
}

impl View {
    /// Brings a part to the front, by its name. `false`: there is none.
    pub fn choose(&mut self, name: &str) -> bool {
        let found = Section::ALL.into_iter().find(|s| s.name().eq_ignore_ascii_case(name));
        if let Some(s) = found {
            self.open(s);
        }
        found.is_some()
    }

    pub(super) fn open(&mut self, section: Section) {
        if self.section != section {
            self.section = section;
            self.selected = None;
            self.rows = Rows::default();
        }
    }

    /// The part of the axis that is shown.
    #[must_use]
    pub fn part(&self, end: f64) -> (f64, f64) {
        self.range.unwrap_or((0.0, end))
    }

    /// Shows the part between two positions, as far as the axis goes.
    pub(super) fn between(&mut self, a: f64, b: f64, end: f64) {
        let least = 8.0_f64.min(end);
        let width = (b - a).abs().max(least);
        let start = a.min(b).clamp(0.0, (end - width).max(0.0));
        self.range = (width < end).then_some((start, start + width));
    }
}
