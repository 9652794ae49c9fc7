//! A pixel of the picture of a buffer: selected by a click or by arrows, its bytes selected everywhere.

use super::shape::{Layout, Shape};
use super::view::{View, ViewMode};
use egui::{EventFilter, Key, Response, Ui};
use kinescope_files::contents::BufferContents;
use kinescope_files::scene::Selection;
use kinescope_session::Document;
use trace_core::GpuVa;
use trace_core::recording::ElementType;

/// Channels of a coloured pixel, in the order of its elements.
const CHANNELS: [&str; 3] = ["red", "green", "blue"];

/// A pixel whose bytes are selected.
pub struct Pixel {
    /// Column and row in the picture.
    pub at: [u64; 2],
    /// Name of the buffer.
    pub buffer: String,
    /// The picture's shape in words.
    pub shape: String,
    /// The channel of the first selected byte; `None`: the picture is grey.
    pub channel: Option<&'static str>,
    /// Contiguous bytes: of the full pixel, or of one channel if each has a plane of its own.
    pub bytes: u64,
    /// Where the other channels start, if they lie in planes of their own.
    pub others: Option<[(&'static str, u64); 2]>,
}

/// Selects the bytes of a pixel: all of its channels if they are contiguous, otherwise those of red.
pub fn choose(
    doc: &mut Document,
    view: &mut View,
    contents: &BufferContents,
    element: ElementType,
    shape: &Shape,
    [x, y]: [u64; 2],
) {
    let Some([first, ..]) = shape.elements(x, y) else {
        return;
    };
    let (size, buffer) = (element.bytes() as u64, contents.buffer());
    let channels = if shape.layout == Layout::Interleaved { 3 } else { 1 };
    let (offset, bytes) = (first.saturating_mul(size), size * channels);
    if offset.saturating_add(bytes) > buffer.bytes {
        return;
    }
    select(doc, view, contents, first, (offset, bytes));
}

/// Selects the bytes of one element.
pub fn choose_element(
    doc: &mut Document,
    view: &mut View,
    contents: &BufferContents,
    element: ElementType,
    index: u64,
) {
    let (size, buffer) = (element.bytes() as u64, contents.buffer());
    let offset = index.saturating_mul(size);
    if offset.saturating_add(size) <= buffer.bytes {
        select(doc, view, contents, index, (offset, size));
    }
}

fn select(doc: &mut Document, view: &mut View, contents: &BufferContents, index: u64, (offset, bytes): (u64, u64)) {
    let buffer = contents.buffer();
    view.seen = Some(index);
    view.reveal = Some(index);
    view.editing = None;
    view.wrong = None;
    doc.select(Selection::Memory {
        space: buffer.address_space,
        va: contents.address_of(offset).unwrap_or(buffer.va),
        bytes,
    });
    view.seen_jump = doc.jumps;
}

/// A keyboard command on a picture that has the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelCommand {
    /// Select the pixel here.
    Pixel([u64; 2]),
    /// Edit the value of the selected pixel.
    Edit,
}

/// Handles keys: arrows move to the next existing pixel, past the lines between pictures; Enter edits.
pub fn keys(ui: &Ui, response: &Response, shape: &Shape, now: Option<[u64; 2]>) -> Option<PixelCommand> {
    let filter = EventFilter {
        horizontal_arrows: true,
        vertical_arrows: true,
        ..EventFilter::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(response.id, filter));
    let pressed = |k: Key| ui.input(|i| i.key_pressed(k) && i.modifiers.is_none());
    if pressed(Key::Enter) {
        return now.map(|_| PixelCommand::Edit);
    }
    let by = if pressed(Key::ArrowLeft) {
        [-1, 0]
    } else if pressed(Key::ArrowRight) {
        [1, 0]
    } else if pressed(Key::ArrowUp) {
        [0, -1]
    } else if pressed(Key::ArrowDown) {
        [0, 1]
    } else {
        return None;
    };
    let Some(mut at) = now else {
        return Some(PixelCommand::Pixel([0, 0]));
    };
    // The line between two pictures is a pixel wide.
    for _ in 0..2 {
        at = [at[0].checked_add_signed(by[0])?, at[1].checked_add_signed(by[1])?];
        if shape.elements(at[0], at[1]).is_some() {
            return Some(PixelCommand::Pixel(at));
        }
    }
    None
}

impl View {
    /// Returns the pixel that a byte belongs to, while its buffer is shown as a picture.
    #[must_use]
    pub fn pixel_of(&self, doc: &Document, space: u32, va: GpuVa) -> Option<Pixel> {
        if !matches!(self.show, None | Some(ViewMode::Picture)) {
            return None;
        }
        let key = &self.summary()?.key;
        let shape = key.shape?;
        let (buffer, at) = doc
            .buffer_at(space, va, &key.name)
            .filter(|(b, _)| b.name == key.name)?;
        let size = key.element.bytes() as u64;
        let index = at / size;
        let [x, y] = shape.pixel(index)?;
        let elements = shape.elements(x, y)?;
        let which = elements.iter().position(|e| *e == index).filter(|_| shape.is_colour());
        let place = |n: usize| {
            let e = elements.get(n).copied().unwrap_or_default();
            let channel = CHANNELS.get(n).copied().unwrap_or_default();
            let place = doc.buffers.address_of(&key.name, e.saturating_mul(size));
            (channel, place.unwrap_or(buffer.va).get())
        };
        let others = which.filter(|_| shape.layout == Layout::Planes).map(|w| match w {
            0 => [place(1), place(2)],
            1 => [place(0), place(2)],
            _ => [place(0), place(1)],
        });
        Some(Pixel {
            at: [x, y],
            buffer: key.name.clone(),
            shape: shape.name(),
            channel: which.and_then(|w| CHANNELS.get(w).copied()),
            bytes: if shape.layout == Layout::Interleaved {
                3 * size
            } else {
                size
            },
            others,
        })
    }
}
