//! State of the Inputs panel: the shown buffer, the view mode, and the edited element.

use super::listing::Listing;
use super::shape::{self, Layout, Shape};
use super::slice::{Form, TensorKey, Values};
use super::summary::{Key, Summary};
use crate::theme::rows::Rows;
use kinescope_files::scene::Selection;
use kinescope_session::Document;
use std::collections::BTreeSet;
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, BufferRole, ElementType};

/// The view next to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewMode {
    /// The values as pixels.
    Picture,
    /// The values by index.
    Plot,
    /// Histogram of the values.
    Histogram,
    /// A slice of two axes as a heat map.
    Tensor,
}

/// The brush that paints on the picture.
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
    /// Returns a brush of one pixel with this value, and white as its colour.
    #[must_use]
    pub fn for_value(value: f64) -> Self {
        Self {
            value,
            colour: [255; 3],
            size: 1,
        }
    }
}

/// Reason why copies from the device cannot be edited.
const COMPUTED_BY_REPLAY: &str = "a replay computes these values";

/// Returns why a buffer cannot be edited, for buttons that are disabled.
pub(super) fn edit_refusal(doc: &Document) -> &'static str {
    doc.edit_obstacle().unwrap_or(COMPUTED_BY_REPLAY)
}
/// Maximum side of a picture that can be painted on by default, pixels.
const PAINTED: u64 = 16;

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// Name of the buffer that is shown.
    pub buffer: String,
    /// Index of the element that is edited.
    pub editing: Option<u64>,
    /// Text of the element's field.
    pub field: String,
    /// The current element, as the field would show it.
    pub(super) was: String,
    /// The error in the field's text.
    pub wrong: Option<String>,
    /// Elements are shown as hex.
    pub hex: bool,
    /// The view next to the table; `None`: the one that suits the buffer.
    pub show: Option<ViewMode>,
    /// The shape that the user chose, and its buffer.
    pub shape: Option<(String, Shape)>,
    /// The tensor that the buffer is shown as.
    pub tensor: Option<Form>,
    pub(super) slice: Option<Arc<Values>>,
    pub(super) slicing: Option<(TensorKey, Progress)>,
    /// The brush; `None`: a click on the picture selects.
    pub brush: Option<Brush>,
    /// The user chose whether to paint on this buffer; else a small picture of an input can be painted on.
    pub(super) chosen: bool,
    /// Pixels of the current stroke.
    pub(super) stroke: BTreeSet<[u64; 2]>,
    pub(super) last: Option<egui::Pos2>,
    /// The current stroke erases.
    pub(super) erases: bool,
    /// Element that is selected.
    pub(super) seen: Option<u64>,
    pub(super) reveal: Option<u64>,
    pub(super) grid: Rows,
    pub(super) summary: Option<Arc<Summary>>,
    pub(super) working: Option<(Key, Progress)>,
    pub(super) stopped: Option<Key>,
    pub(super) focus: bool,
    /// Text that the names of listed buffers contain.
    pub find: String,
    pub(super) listing: Option<Listing>,
    pub(super) seen_jump: u64,
}

impl View {
    /// Lists the buffers again: the recording has grown.
    pub fn forget_results(&mut self) {
        self.listing = None;
    }

    /// Returns the shape of a buffer's picture: the one that the user chose, or the one in the recording, or the
    /// likeliest.
    #[must_use]
    pub fn shape_of(&self, doc: &Document, buffer: &Buffer, element: ElementType) -> Option<Shape> {
        let count = buffer.bytes / element.bytes() as u64;
        let chosen = self.shape.as_ref().filter(|(n, _)| *n == buffer.name).map(|(_, s)| *s);
        let describe = || {
            let sides = doc.derived.shapes.get(&buffer.name)?;
            Shape::from_dimensions(sides).filter(|_| element.bytes() == buffer.element.bytes())
        };
        let chosen = chosen.or_else(describe);
        chosen.or_else(|| shape::candidates(count).into_iter().next())
    }

    /// Selects a brush for a small picture of an input, which is there to be painted on, unless the user chose
    /// otherwise.
    pub(super) fn offer_brush(&mut self, buffer: &Buffer, shape: &Shape, max: f64) {
        let small = shape.layout == Layout::Tiles && shape.tiles == 1 && shape.width.max(shape.height) <= PAINTED;
        if !self.chosen && self.brush.is_none() && buffer.role == BufferRole::Input && small {
            self.brush = Some(Brush::for_value(max));
        }
    }

    /// Returns the summary of the shown buffer, once it is computed.
    #[must_use]
    pub fn summary(&self) -> Option<&Arc<Summary>> {
        self.summary.as_ref()
    }

    /// Returns the current buffer.
    #[must_use]
    pub fn current_buffer(&self, doc: &Document) -> Option<Buffer> {
        let name = match doc.selection() {
            Selection::Buffer(n) => n,
            _ => &self.buffer,
        };
        let all = &doc.buffers;
        all.get(name).or_else(|| all.list().first()).cloned()
    }

    /// Follows the selection: selecting bytes anywhere selects their element here.
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
