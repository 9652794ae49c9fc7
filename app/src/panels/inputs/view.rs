//! Which buffer the panel shows, how, and what of it the person edits.

use super::shape::{self, Layout, Shape};
use super::summary::{Key, Summary};
use super::tensor;
use crate::document::Document;
use crate::document::moment::Selection;
use crate::theme::rows::Rows;
use std::collections::BTreeSet;
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, BufferRole, ElementType};

/// What stands beside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewMode {
    /// The values as pixels.
    Picture,
    /// The values by index.
    Plot,
    /// How often each value occurs.
    Histogram,
    /// A slice of two axes as a heat map.
    Tensor,
}

/// What paints on the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Brush {
    /// Value that a painted element of a grey picture gets.
    pub value: f64,
    /// Colour that a painted pixel of a coloured picture gets, over the range of the values.
    pub colour: [u8; 3],
    /// Pixels along each side.
    pub size: u32,
}

impl Brush {
    /// A brush of one pixel: this value, white.
    #[must_use]
    pub fn for_value(value: f64) -> Self {
        Self {
            value,
            colour: [255; 3],
            size: 1,
        }
    }
}

/// Longest side of a picture that is painted on without asking, pixels.
const PAINTED: u64 = 16;

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Name of the buffer that is shown.
    pub buffer: String,
    /// Index of the element that is edited.
    pub editing: Option<u64>,
    /// Text of the element's field.
    pub field: String,
    /// The element as it stands, as the field would show it.
    pub(super) was: String,
    /// What is wrong with it.
    pub wrong: Option<String>,
    /// Elements are shown as hex.
    pub hex: bool,
    /// What stands beside the table; `None`: what suits the buffer.
    pub show: Option<ViewMode>,
    /// The shape that the person chose, and for which buffer.
    pub shape: Option<(String, Shape)>,
    /// The tensor that the buffer is shown as.
    pub tensor: Option<tensor::Form>,
    pub(super) slice: Option<Arc<tensor::Values>>,
    pub(super) slicing: Option<(tensor::TensorKey, Progress)>,
    /// What paints; `None`: clicking the picture selects.
    pub brush: Option<Brush>,
    /// The person said whether to paint on this buffer; else a small picture of an input is painted on.
    pub(super) chosen: bool,
    /// Pixels that the stroke under way went over.
    pub(super) stroke: BTreeSet<[u64; 2]>,
    pub(super) last: Option<egui::Pos2>,
    /// The stroke under way takes away.
    pub(super) erases: bool,
    /// Element that is selected.
    pub(super) seen: Option<u64>,
    pub(super) reveal: Option<u64>,
    pub(super) grid: Rows,
    pub(super) summary: Option<Arc<Summary>>,
    pub(super) working: Option<(Key, Progress)>,
    pub(super) stopped: Option<Key>,
    pub(super) focus: bool,
    /// What the names of listed buffers contain.
    pub find: String,
    pub(super) listing: Option<super::list::Listing>,
    pub(super) seen_jump: u64,
}

impl View {
    /// The shape that a buffer's picture has: the one that the person chose, or the one that the recording tells, or
    /// the likeliest.
    #[must_use]
    pub fn shape_of(&self, doc: &Document, buffer: &Buffer, element: ElementType) -> Option<Shape> {
        let count = buffer.bytes / element.bytes() as u64;
        let chosen = self.shape.as_ref().filter(|(n, _)| *n == buffer.name).map(|(_, s)| *s);
        let describe = || {
            let sides = doc.facts.shapes.get(&buffer.name)?;
            Shape::from_dimensions(sides).filter(|_| element.bytes() == buffer.element.bytes())
        };
        let chosen = chosen.or_else(describe);
        chosen.or_else(|| shape::candidates(count).into_iter().next())
    }

    /// Takes a brush up for a small picture of an input, which is there to be painted on, unless the person said
    /// otherwise.
    pub(super) fn offer_brush(&mut self, buffer: &Buffer, shape: &Shape, most: f64) {
        let small = shape.layout == Layout::Tiles && shape.tiles == 1 && shape.width.max(shape.height) <= PAINTED;
        if !self.chosen && self.brush.is_none() && buffer.role == BufferRole::Input && small {
            self.brush = Some(Brush::for_value(most));
        }
    }

    /// The summary of the buffer that is shown, once it was made.
    #[must_use]
    pub fn summary(&self) -> Option<&Arc<Summary>> {
        self.summary.as_ref()
    }

    /// The buffer that is meant.
    #[must_use]
    pub fn current_buffer(&self, doc: &Document) -> Option<Buffer> {
        let name = match doc.selection() {
            Selection::Buffer(n) => n,
            _ => &self.buffer,
        };
        let all = &doc.buffers;
        all.get(name).or_else(|| all.list().first()).cloned()
    }

    /// Selecting bytes anywhere selects their element here.
    pub(super) fn follow(&mut self, doc: &Document) {
        if self.seen_jump == doc.jumps {
            return;
        }
        self.seen_jump = doc.jumps;
        let Selection::Memory { space, va, .. } = *doc.selection() else {
            return;
        };
        let Some((buffer, at)) = doc.buffer_at(space, va, &self.buffer) else {
            return;
        };
        let element = doc.element(buffer);
        self.change_to(&buffer.name);
        let index = at / element.bytes() as u64;
        self.seen = Some(index);
        self.reveal = Some(index);
        if self.editing != Some(index) {
            self.editing = None;
        }
    }

    /// Shows another buffer.
    pub(super) fn change_to(&mut self, name: &str) {
        if self.buffer == name {
            return;
        }
        if let Some((_, p)) = self.working.take() {
            p.cancel();
        }
        name.clone_into(&mut self.buffer);
        self.editing = None;
        self.wrong = None;
        self.seen = None;
        self.summary = None;
        self.stopped = None;
        self.stroke.clear();
        self.last = None;
        self.brush = None;
        self.chosen = false;
        self.grid = Rows::default();
    }
}
