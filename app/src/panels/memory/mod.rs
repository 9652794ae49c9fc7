//! Memory: GPU memory by address, as hex and ASCII or as elements, at the moment.

mod copy;
mod pane;
mod rows;
mod search;

pub use pane::touch;
pub use search::pattern;

use crate::document::moment::Selection;
use crate::document::touches::Touch;
use crate::document::{Document, facts, touches};
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{body, icons, mono, palette, small, text};
use crate::window::Asks;
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::ElementType;

/// What touches a byte, found or being looked for.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// Index of the address space.
    pub space: u32,
    /// The byte.
    pub va: u64,
    /// What was found; `None` while it is looked for.
    pub list: Option<Arc<Vec<Touch>>>,
    /// The person stopped it.
    pub stopped: bool,
}

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Index of the address space.
    pub space: u32,
    /// First byte in view, a multiple of 16.
    pub top: u64,
    /// Whether `top` was chosen yet.
    pub placed: bool,
    /// Type of the elements; `None`: hex and ASCII.
    pub element: Option<ElementType>,
    /// Text of the address field.
    pub go_to: String,
    /// Text of the search field.
    pub search: String,
    /// Places that hold what was searched for.
    pub hits: Option<Arc<Vec<u64>>>,
    /// Bytes that were searched for.
    hit_bytes: u64,
    /// The search that is going on, and its number.
    pub searching: Option<(u64, Progress)>,
    searches: u64,
    /// What is wrong with a field's text.
    pub wrong: Option<String>,
    /// The address field wants the keyboard.
    pub focus: bool,
    /// What touches the byte that was asked about.
    pub touched: Option<Touched>,
    /// The selected values are plotted.
    pub plot: bool,
    plotted: Option<pane::Plotted>,
    list: Rows,
    /// Bytes between which the pointer selects: where it began, where it is.
    drag: Option<(u64, u64)>,
    seen_jump: u64,
    scroll: f32,
    shown_rows: u64,
}

impl Document {
    /// Shows an address in the Memory panel and selects `bytes` bytes there.
    pub fn show_memory(&mut self, space: u32, va: u64, bytes: u64) {
        self.memory.space = space;
        self.select(Selection::Memory { space, va, bytes });
        self.memory.reveal(va);
    }
}

impl View {
    fn reveal(&mut self, va: u64) {
        self.placed = true;
        let row = va & !15;
        let fits = self.shown_rows.max(6);
        if row < self.top || row >= self.top.saturating_add(16 * (fits - 1)) {
            self.top = row.saturating_sub(16 * (fits / 4));
        }
    }
}

/// Draws the panel.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    if doc.facts.spaces.is_empty() {
        if !doc.facts.knows(facts::Stage::Spaces) {
            widgets::empty(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Walking the page tables …", None);
            return;
        }
        let told = "This recording holds no address space, so there is no memory to show by GPU address.";
        if widgets::empty(ui, icons::SQUARES_FOUR, told, Some("Show events")) {
            asks.command("show-events");
        }
        return;
    }
    follow(doc);
    if !doc.memory.placed {
        begin(doc);
    }
    bar(doc, asks, ui);
    head(doc, ui);
    let full = ui.available_rect_before_wrap();
    let below = doc.memory.touched.is_some() || (doc.memory.plot && doc.memory.element.is_some());
    let height = if below {
        (full.height() * 0.5).clamp(90.0, 320.0)
    } else {
        0.0
    };
    let top = Rect::from_min_max(full.min, full.max - vec2(0.0, height));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(top));
    child.shrink_clip_rect(top);
    rows::ui(doc, asks, &mut child);
    if below {
        let area = Rect::from_min_max(pos2(full.left(), top.bottom()), full.max);
        ui.painter()
            .hline(area.x_range(), area.top(), Stroke::new(1.0, palette(ui).line));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(area));
        child.shrink_clip_rect(area);
        if doc.memory.touched.is_some() {
            pane::touches(doc, asks, &mut child);
        } else {
            pane::plot(doc, &mut child);
        }
    }
    ui.advance_cursor_after_rect(full);
}

/// Where the panel begins: at the input, else at the first page with data.
fn begin(doc: &mut Document) {
    let input = doc
        .recording
        .facts
        .buffers
        .iter()
        .find(|b| b.role == trace_core::recording::BufferRole::Input)
        .map(|b| (b.address_space, b.va.0));
    let first = input.or_else(|| {
        let runs = &doc.facts.spaces.first()?.runs;
        let data = runs.iter().find(|r| r.content == facts::Content::Data);
        Some((0, data.or(runs.first())?.va))
    });
    let (space, va) = first.unwrap_or((0, 0));
    doc.memory.space = space;
    doc.memory.top = va & !15;
    doc.memory.placed = true;
}

fn follow(doc: &mut Document) {
    if doc.memory.seen_jump == doc.jumps {
        return;
    }
    doc.memory.seen_jump = doc.jumps;
    match doc.selection().clone() {
        Selection::Memory { space, va, .. } => {
            doc.memory.space = space;
            doc.memory.reveal(va);
        }
        Selection::Buffer(name) => {
            if let Some(b) = doc.recording.buffer(&name) {
                let (space, va) = (b.address_space, b.va.0);
                doc.memory.space = space;
                doc.memory.reveal(va);
            }
        }
        Selection::Job(j) => {
            if let Some(va) = doc.facts.jobs.get(j as usize).map(|j| j.head_va) {
                doc.memory.reveal(va);
            }
        }
        _ => {}
    }
}

/// Bytes that are selected, in the address space that is shown: first byte and how many.
fn selected(doc: &Document) -> Option<(u64, u64)> {
    match doc.selection() {
        Selection::Memory { va, bytes, space } if *space == doc.memory.space => Some((*va, (*bytes).max(1))),
        Selection::Buffer(name) => doc.recording.buffer(name).map(|b| (b.va.0, b.bytes)),
        Selection::Job(j) => doc.facts.jobs.get(*j as usize).map(|j| (j.head_va, 32)),
        _ => None,
    }
}

/// The place that a text names: an address, a buffer, `NAME + OFFSET`, `job N`.
///
/// # Errors
/// What is wrong with it, in words.
pub fn place(doc: &Document, wanted: &str) -> Result<(u32, u64), String> {
    let wanted = wanted.trim();
    let space = doc.memory.space;
    let named = |name: &str| doc.recording.buffer(name.trim()).map(|b| (b.address_space, b.va.0));
    if let Some(found) = named(wanted) {
        return Ok(found);
    }
    if let Some(va) = text::parse_number(wanted) {
        if va >> 48 != 0 {
            return Err(format!("{wanted} has more than the 48 bits of a GPU address"));
        }
        return Ok((space, va));
    }
    if let Some((name, offset)) = wanted.split_once('+')
        && let (Some((space, va)), Some(by)) = (named(name), text::parse_number(offset))
    {
        return Ok((space, va.saturating_add(by)));
    }
    let job = wanted.strip_prefix("job").and_then(text::parse_number);
    if let Some(j) = job.and_then(|n| doc.facts.jobs.get(usize::try_from(n).ok()?)) {
        return Ok((space, j.head_va));
    }
    Err(format!("{wanted:?} is neither an address, a buffer nor a job"))
}

fn bar(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let facts = Arc::clone(&doc.facts);
        if facts.spaces.len() > 1 {
            let now = facts.spaces.get(doc.memory.space as usize).map_or(0, |s| s.number);
            egui::ComboBox::from_id_salt("memory-space")
                .selected_text(format!("AS {now}"))
                .width(48.0)
                .show_ui(ui, |ui| {
                    for (i, s) in facts.spaces.iter().enumerate() {
                        let name = format!("AS {} · root {:#x}", s.number, s.root);
                        ui.selectable_value(&mut doc.memory.space, i as u32, name);
                    }
                });
        }
        let r = ui
            .add(
                egui::TextEdit::singleline(&mut doc.memory.go_to)
                    .id(egui::Id::unique("memory-address"))
                    .font(mono())
                    .desired_width(140.0)
                    .hint_text(RichText::new("address or buffer").font(body()).color(p.quiet)),
            )
            .accessible_name("Go to address");
        if std::mem::take(&mut doc.memory.focus) {
            r.request_focus();
        }
        if r.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter)) {
            match place(doc, &doc.memory.go_to) {
                Ok((space, va)) => {
                    doc.memory.wrong = None;
                    doc.show_memory(space, va, 1);
                    doc.memory.top = va & !15;
                }
                Err(e) => doc.memory.wrong = Some(e),
            }
        }
        let chosen = doc.memory.element.map_or("hex", ElementType::name);
        let combo = egui::ComboBox::from_id_salt("memory-type")
            .selected_text(chosen)
            .width(48.0)
            .height(360.0)
            .show_ui(ui, |ui| {
                ui.selectable_value(&mut doc.memory.element, None, "hex and ASCII");
                for e in ElementType::ALL {
                    ui.selectable_value(&mut doc.memory.element, Some(e), e.name());
                }
            });
        combo
            .response
            .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "View as"));
        if doc.memory.element.is_some() {
            let on = doc.memory.plot;
            let r = ui.selectable_label(on, RichText::new(icons::CHART_BAR).size(14.0));
            r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, "Plot the values"));
            if r.on_hover_text("plots the selected values, or those in view").clicked() {
                doc.memory.plot = !on;
            }
        }
        search::ui(doc, asks, ui);
    });
}

fn head(doc: &Document, ui: &mut Ui) {
    let p = palette(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
    let va = match doc.selection() {
        Selection::Memory { va, .. } => *va,
        _ => doc.memory.top,
    };
    let space = doc.memory.space;
    let fact = doc.facts.spaces.get(space as usize);
    let mut parts = Vec::new();
    if let Some(s) = fact {
        parts.push(format!("AS {}", s.number));
    }
    parts.push(format!("{va:#x}"));
    if let Some((name, at)) = facts::buffer_at(&doc.recording, space, va) {
        parts.push(format!("{name} + {at:#x}"));
    }
    match fact.and_then(|s| s.mapping_at(va)) {
        Some(m) => {
            let pages = text::count(m.pages);
            parts.push(format!(
                "{} · {pages} pages from {:#x}",
                facts::rights_text(m.rights),
                m.va
            ));
            let uses = touches::page_words(&doc.recording, &doc.facts, space, va, doc.moment());
            parts.push(format!("page: {uses}"));
        }
        None => parts.push("nothing is mapped here".into()),
    }
    if !doc.is_empty() {
        parts.push(format!("at event {}", text::count(doc.moment())));
    }
    let what = parts.join(" · ");
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("place {what}")));
    let inner = rect.shrink2(vec2(12.0, 0.0));
    paint_text(ui, inner, Align2::LEFT_CENTER, &what, small(), p.quiet);
    ui.painter()
        .hline(rect.x_range(), rect.bottom(), Stroke::new(1.0, p.line));
    response.on_hover_text(what);
}
