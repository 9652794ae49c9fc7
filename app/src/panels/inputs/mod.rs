//! Inputs: the buffers of a recording, what is in them, and what the person makes of them.

mod grid;
mod load;
pub mod shape;
pub mod summary;
pub mod views;

pub use grid::parse_field;

use crate::document::changes::Change;
use crate::document::contents::{CHUNK, Contents};
use crate::document::moment::Selection;
use crate::document::{Document, facts, words};
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, Part};
use crate::theme::{icons, palette, small, text};
use crate::window::Asks;
use egui::accesskit::Role;
use egui::{Rect, RichText, Stroke, Ui, WidgetInfo, pos2, vec2};
use shape::Shape;
use std::collections::BTreeSet;
use std::sync::Arc;
use summary::{Key, Summary};
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, BufferRole, ElementType};

/// What stands beside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The values as pixels.
    Picture,
    /// The values by index.
    Plot,
    /// How often each value occurs.
    Histogram,
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

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Name of the buffer that is shown.
    pub buffer: String,
    /// Index of the element that is edited.
    pub editing: Option<u64>,
    /// Text of the element's field.
    pub field: String,
    /// What is wrong with it.
    pub wrong: Option<String>,
    /// Elements are shown as hex.
    pub hex: bool,
    /// What stands beside the table; `None`: what suits the buffer.
    pub show: Option<Show>,
    /// The shape that the person chose, and for which buffer.
    pub shape: Option<(String, Shape)>,
    /// What paints; `None`: clicking the picture selects.
    pub brush: Option<Brush>,
    /// Pixels that the stroke under way went over.
    stroke: BTreeSet<[u64; 2]>,
    last: Option<egui::Pos2>,
    /// Element that is selected.
    seen: Option<u64>,
    reveal: Option<u64>,
    grid: Rows,
    summary: Option<Arc<Summary>>,
    working: Option<(Key, Progress)>,
    stopped: Option<Key>,
    focus: bool,
    seen_jump: u64,
}

impl View {
    /// The shape that a buffer's picture has.
    #[must_use]
    pub fn shape_of(&self, buffer: &Buffer, element: ElementType) -> Option<Shape> {
        let count = buffer.bytes / element.bytes() as u64;
        let chosen = self.shape.as_ref().filter(|(n, _)| *n == buffer.name).map(|(_, s)| *s);
        chosen.or_else(|| shape::candidates(count).into_iter().next())
    }

    /// The summary of the buffer that is shown, once it was made.
    #[must_use]
    pub fn summary(&self) -> Option<&Arc<Summary>> {
        self.summary.as_ref()
    }
}

/// The buffers in the order in which they are listed: inputs, outputs, the others.
fn ordered(doc: &Document) -> Vec<Buffer> {
    let mut list = doc.recording.facts.buffers.clone();
    list.sort_by_key(|b| match b.role {
        BufferRole::Input => 0,
        BufferRole::Output => 1,
        _ => 2,
    });
    list
}

/// The buffer that is meant.
#[must_use]
pub fn meant(doc: &Document) -> Option<Buffer> {
    let name = match doc.selection() {
        Selection::Buffer(n) => n,
        _ => &doc.inputs.buffer,
    };
    doc.recording
        .buffer(name)
        .cloned()
        .or_else(|| ordered(doc).into_iter().next())
}

/// Begins to edit an element of the buffer that is meant, as a click on it does.
pub fn edit_element(doc: &mut Document, index: u64) {
    let Some(buffer) = meant(doc) else { return };
    change_to(doc, &buffer.name);
    let element = doc.element(&buffer);
    if let Some(contents) = doc.contents(&buffer.name) {
        grid::start_editing(doc, &contents, element, index);
    }
}

/// Selecting bytes anywhere selects their element here.
fn follow(doc: &mut Document) {
    if doc.inputs.seen_jump == doc.jumps {
        return;
    }
    doc.inputs.seen_jump = doc.jumps;
    let Selection::Memory { space, va, .. } = *doc.selection() else {
        return;
    };
    let Some((name, at)) = facts::buffer_at(&doc.recording, space, va).map(|(n, a)| (n.to_owned(), a)) else {
        return;
    };
    let Some(element) = doc.recording.buffer(&name).map(|b| doc.element(b)) else {
        return;
    };
    change_to(doc, &name);
    let index = at / element.bytes() as u64;
    doc.inputs.seen = Some(index);
    doc.inputs.reveal = Some(index);
    if doc.inputs.editing != Some(index) {
        doc.inputs.editing = None;
    }
}

fn change_to(doc: &mut Document, name: &str) {
    if doc.inputs.buffer == name {
        return;
    }
    if let Some((_, p)) = doc.inputs.working.take() {
        p.cancel();
    }
    let v = &mut doc.inputs;
    name.clone_into(&mut v.buffer);
    v.editing = None;
    v.wrong = None;
    v.seen = None;
    v.summary = None;
    v.stopped = None;
    v.stroke.clear();
    v.last = None;
    v.brush = None;
    v.grid = Rows::default();
}

/// Draws the panel.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    follow(doc);
    let Some(buffer) = meant(doc) else {
        let told = "This recording names no buffers, so there is none to edit. Memory shows what the GPU could reach.";
        if widgets::empty(ui, icons::PENCIL_SIMPLE, told, Some("Show memory")) {
            asks.command("show-memory");
        }
        return;
    };
    change_to(doc, &buffer.name);
    let full = ui.available_rect_before_wrap();
    let list = (full.width() * 0.28).clamp(150.0, 220.0);
    let left = Rect::from_min_max(full.min, pos2(full.left() + list, full.bottom()));
    let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
    ui.painter()
        .vline(right.left(), right.y_range(), Stroke::new(1.0, p.line));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left.shrink2(vec2(12.0, 0.0))));
    egui::ScrollArea::vertical()
        .id_salt("buffers")
        .auto_shrink(false)
        .show(&mut child, |ui| buffers(doc, ui, &buffer));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 6.0))));
    child.shrink_clip_rect(right);
    content(doc, asks, &mut child, &buffer);
    ui.advance_cursor_after_rect(full);
}

fn buffers(doc: &mut Document, ui: &mut Ui, now: &Buffer) {
    let p = palette(ui);
    ui.spacing_mut().item_spacing.y = 0.0;
    let all = ordered(doc);
    for (role, title) in [
        (Some(BufferRole::Input), "Inputs"),
        (Some(BufferRole::Output), "Outputs"),
        (None, "Other buffers"),
    ] {
        let mine = |b: &&Buffer| match role {
            Some(r) => b.role == r,
            None => !matches!(b.role, BufferRole::Input | BufferRole::Output),
        };
        if !all.iter().any(|b| mine(&b)) {
            continue;
        }
        widgets::section(ui, title);
        for b in all.iter().filter(mine) {
            let edited = doc.changes().inputs().contains_key(&b.name);
            let left = if edited {
                Part::words(format!("● {}", b.name)).colour(p.edited)
            } else {
                Part::words(&b.name)
            };
            let right = Part::mono(words::buffer_kind(doc, b));
            let on = now.name == b.name;
            if widgets::list_row(ui, &format!("input {}", b.name), on, 0.0, left, right).clicked() {
                doc.select(Selection::Buffer(b.name.clone()));
            }
        }
    }
    ui.add_space(12.0);
}

/// The summary of a buffer: made at once where that is quick, else apart from the interface thread. An older one is
/// shown until the new one is there.
fn summary(doc: &mut Document, asks: &mut Asks, contents: &Contents, element: ElementType) -> Option<Arc<Summary>> {
    let buffer = contents.buffer();
    let key = Key {
        name: buffer.name.clone(),
        element,
        stamp: doc.changes().stamp(&buffer.name),
        shape: doc.inputs.shape_of(buffer, element),
    };
    let held = doc
        .inputs
        .summary
        .clone()
        .filter(|s| s.key.name == key.name && s.key.element == element);
    if held.as_ref().is_some_and(|s| s.key == key) {
        return held;
    }
    if buffer.bytes <= CHUNK {
        let made = summary::make(key, contents, &Progress::new()).ok().map(Arc::new);
        doc.inputs.summary.clone_from(&made);
        return made;
    }
    let under_way = doc.inputs.working.as_ref().is_some_and(|(k, _)| *k == key);
    if !under_way && doc.inputs.stopped.as_ref() != Some(&key) {
        if let Some((_, old)) = doc.inputs.working.take() {
            old.cancel();
        }
        let progress = Progress::new();
        doc.inputs.working = Some((key.clone(), progress));
        let contents = contents.clone();
        asks.then(move |app, ctx| {
            let title = format!("looking through {}", key.name);
            let for_task = key.clone();
            let progress = app.tasks.spawn(ctx, title, move |progress| {
                let made = summary::make(for_task.clone(), &contents, progress);
                Box::new(move |app| {
                    let Some(doc) = &mut app.doc else { return };
                    if doc.inputs.working.as_ref().is_none_or(|(k, _)| *k != for_task) {
                        return;
                    }
                    doc.inputs.working = None;
                    match made {
                        Ok(s) => doc.inputs.summary = Some(Arc::new(s)),
                        Err(_) => doc.inputs.stopped = Some(for_task),
                    }
                })
            });
            if let Some(doc) = &mut app.doc {
                doc.inputs.working = Some((key, progress));
            }
        });
    }
    held
}

fn content(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, buffer: &Buffer) {
    let Some(contents) = doc.contents(&buffer.name) else {
        widgets::empty(
            ui,
            icons::WARNING,
            "This buffer's address space is not in the recording.",
            None,
        );
        return;
    };
    let element = doc.element(buffer);
    let s = summary(doc, asks, &contents, element);
    ui.spacing_mut().item_spacing.y = 2.0;
    head(doc, asks, ui, &contents);
    tools(doc, asks, ui, &contents, element);
    told(doc, ui, &contents, element, s.as_deref());
    grid::field(doc, ui, &contents, element);
    let full = ui.available_rect_before_wrap();
    let wide = (full.width() * 0.5).max(full.width().min(220.0));
    let left = Rect::from_min_size(full.min, vec2(wide, full.height()));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    child.shrink_clip_rect(left);
    match &s {
        Some(s) => views::ui(doc, &mut child, &contents, element, s),
        None if doc.inputs.stopped.is_some() => {
            let what = "Looking through the values was stopped. The table shows them all the same.";
            if widgets::empty(&mut child, icons::CHART_BAR, what, Some("Look again")) {
                doc.inputs.stopped = None;
            }
        }
        None => {
            let what = format!("Looking through {} …", text::bytes(buffer.bytes));
            widgets::empty(&mut child, icons::HOURGLASS_SIMPLE_MEDIUM, &what, None);
        }
    }
    let right = Rect::from_min_max(pos2(left.right() + 12.0, full.top()), full.max);
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right));
    grid::table(doc, &mut child, &contents, element);
}

fn head(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, contents: &Contents) {
    let p = palette(ui);
    let b = contents.buffer();
    let edited = contents.edited().is_some();
    ui.horizontal(|ui| {
        ui.set_height(24.0);
        let ink = if edited { p.edited } else { p.text };
        let name = RichText::new(&b.name)
            .font(crate::theme::strong())
            .size(13.0)
            .color(ink);
        ui.label(name);
        ui.label(RichText::new(b.role.name()).color(p.quiet));
        let at = widgets::link(ui, "address of the buffer", &format!("{:#x}", b.va.0));
        if widgets::copies(&at, &[("address", format!("{:#x}", b.va.0)), ("name", b.name.clone())]).clicked() {
            doc.show_memory(b.address_space, b.va.0, b.bytes.min(16));
            asks.command("show-memory");
        }
        ui.label(RichText::new(text::bytes(b.bytes)).color(p.quiet));
        if edited {
            ui.label(RichText::new("● edited").color(p.edited));
        }
    });
}

fn tools(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, contents: &Contents, element: ElementType) {
    let b = contents.buffer();
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        let what = "a raw, NPY, PNG or CSV file; floating-point values of a picture go from 0 to 1";
        if ui.button("Load…").on_hover_text(what).clicked() {
            load::load(doc, asks, contents);
        }
        if ui.button("Save…").on_hover_text("as raw bytes or NPY").clicked() {
            load::save(asks, contents, element);
        }
        let r = ui.add_enabled(contents.edited().is_some(), egui::Button::new("As recorded"));
        if r.on_hover_text("throw the edits of this buffer away; undo brings them back")
            .clicked()
        {
            asks.command("revert-input");
        }
        if ui.button("Clear").on_hover_text("make every byte zero").clicked() {
            load::clear(asks, contents);
        }
        let mut next = element;
        let combo = egui::ComboBox::from_id_salt("element")
            .selected_text(element.name())
            .width(48.0)
            .height(340.0)
            .show_ui(ui, |ui| {
                for e in ElementType::ALL {
                    ui.selectable_value(&mut next, e, e.name());
                }
            });
        combo
            .response
            .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Element type"));
        if next != element {
            let name = |e: ElementType| (e != b.element).then(|| e.name().to_owned());
            doc.change(Change::Element {
                buffer: b.name.clone(),
                old: name(element),
                new: name(next),
            });
            doc.inputs.editing = None;
            doc.inputs.seen = None;
        }
        if ui.checkbox(&mut doc.inputs.hex, "hex").changed() {
            doc.inputs.editing = None;
        }
    });
}

fn told(doc: &Document, ui: &mut Ui, contents: &Contents, element: ElementType, s: Option<&Summary>) {
    let p = palette(ui);
    let n = contents.buffer().bytes / element.bytes() as u64;
    ui.horizontal(|ui| {
        ui.set_height(18.0);
        let mut parts = vec![(format!("{} values", text::count(n)), p.quiet)];
        if let Some(s) = s {
            let range = s.now.range().map_or_else(
                || "none of them finite".into(),
                |(a, b)| format!("{} … {}", grid::short(a), grid::short(b)),
            );
            parts.push((range, p.quiet));
            if s.odd > 0 {
                parts.push((format!("! {} not finite", text::count(s.odd)), p.warning));
            }
            if let Some(e) = contents.edited() {
                let pages = match e.pages() {
                    1 => "1 page differs".to_owned(),
                    k => format!("{} pages differ", text::count(k as u64)),
                };
                parts.push((
                    format!("● {} of them edited, {pages}", text::count(s.changed)),
                    p.edited,
                ));
            } else if s.unknown > 0 {
                let unknown = text::bytes(s.unknown);
                parts.push((format!("! {unknown} not recorded, counted as zero"), p.warning));
            }
        } else if doc.inputs.working.is_some() {
            parts.push(("looking through them …".into(), p.quiet));
        }
        for (t, ink) in parts {
            ui.add(egui::Label::new(RichText::new(t).font(small()).color(ink)).truncate());
        }
    });
}
