//! A line of the list: a method, the work that methods start, or a line below either.

use super::view::PushLine;
use crate::panels::common::actions::UiActions;
use crate::panels::driver_trace::links;
use crate::theme::columns::Table;
use crate::theme::widgets::{self, paint_text, paint_truncated};
use crate::theme::{Palette, body, focus, icons, mono, palette, small, strong};
use egui::accesskit::Role;
use egui::{Align2, Color32, CursorIcon, FontId, Rect, Response, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::driver_data::{CALL, DriverData, KERNEL, LineDetail, PROGRAM, PointedBuffer, PushItem};
use kinescope_session::{Document, text};
use trace_core::GpuVa;
use trace_core::driver_trace::DecodedMethod;
use trace_core::families::find_family;

/// Indentation of the lines below an item, points.
const INDENT: f32 = 18.0;
/// Width of the names of values below an item, points.
const KEYS: f32 = 112.0;

/// A line in this frame.
pub(super) struct LineRow<'a> {
    pub item: &'a PushItem,
    pub line: PushLine,
    pub is_selected: bool,
    pub is_open: bool,
}

impl LineRow<'_> {
    /// Draws the line. Returns what the user asks for.
    pub(super) fn ui(
        &self,
        doc: &Document,
        actions: &mut UiActions,
        ui: &mut Ui,
        data: &DriverData,
        table: &Table,
        rect: Rect,
    ) -> Option<LineAction> {
        let p = palette(ui);
        let id = ui.scope_id().with(("line", self.line.item, self.line.detail));
        let r = focus::row_response(ui, rect, id);
        let detail = self.line.detail.and_then(|n| self.item.line(n as usize));
        let label = match &detail {
            Some(d) => format!("{} {}", d.key, d.value),
            None => describe_item(self.item),
        };
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, self.is_selected, &label));
        if self.is_selected {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        } else if self.item.is_work() && self.line.detail.is_none() {
            ui.painter().rect_filled(rect, 0.0, p.raised.gamma_multiply(0.7));
        }
        let painter = Painting { doc, data, table, rect };
        let (mut hover, mut action) = (None, None);
        match (&detail, self.item) {
            (Some(detail), item) => {
                let button = find_button(item, detail);
                let asked = painter.detail(actions, ui, detail, item.is_work(), button.as_ref().map(|b| b.0));
                action = button.filter(|_| asked).map(|b| b.1);
            }
            (None, PushItem::Method(method, target)) => hover = painter.method(actions, ui, method, target.as_ref()),
            (None, PushItem::Words { first, name, values }) => {
                painter.words(ui, first, name, values.len(), self.is_open);
            }
            (None, item) => painter.work(actions, ui, item, self.is_open),
        }
        menu(&r, &label, self.item, detail.as_ref());
        let r = match hover {
            Some(text) => r.on_hover_text(text),
            None => r,
        };
        action.or_else(|| r.clicked().then_some(LineAction::Select))
    }
}

/// What the user asks for with a click on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineAction {
    /// To select the line, and to show or hide those below it.
    Select,
    /// To show the code of a launch: its address and the class of the engine.
    ShowCode(GpuVa, Option<u16>),
    /// To show the function that an API trace launched.
    ShowKernel(u32),
    /// To go to the event of the call.
    GoToCall(u64),
}

/// Returns the button at the end of a line below a launch, and what it does.
fn find_button(item: &PushItem, detail: &LineDetail) -> Option<(&'static str, LineAction)> {
    match (item, detail.key.as_str()) {
        (PushItem::Launch { program, class, .. }, PROGRAM) => {
            Some(("Show code", LineAction::ShowCode(*program, *class)))
        }
        (PushItem::Launch { function, .. }, KERNEL) => {
            function.map(|function| ("Show kernel", LineAction::ShowKernel(function)))
        }
        (PushItem::Launch { call, .. }, CALL) => call.map(|event| ("Go to call", LineAction::GoToCall(event))),
        _ => None,
    }
}

/// Returns the accessible name of an item.
fn describe_item(item: &PushItem) -> String {
    match item {
        PushItem::Method(m, _) => format!("word {} {} = {:#x}", m.word, method_name(m), m.value),
        PushItem::Words { first, name, values } => {
            let count = text::count_noun(values.len() as u64, "word", "words");
            format!("word {} {name}, {count}", first.word)
        }
        PushItem::Launch { title, .. } => title.clone(),
        PushItem::Upload { bytes, to, .. } => format!("upload {} to {}", text::bytes(*bytes), to.va),
        PushItem::Copy { bytes, from, to, .. } => match from {
            Some(from) => format!("copy {} from {} to {}", text::bytes(*bytes), from.va, to.va),
            None => format!("fill {} at {}", text::bytes(*bytes), to.va),
        },
        PushItem::Other { text, target, .. } => match target {
            Some(target) => format!("{text} at {}", target.va),
            None => text.clone(),
        },
    }
}

fn method_name(method: &DecodedMethod) -> String {
    let number = || format!("method {:#06x}", method.method);
    method.name.clone().unwrap_or_else(number)
}

/// Attaches the menu of a line.
fn menu(r: &Response, label: &str, item: &PushItem, detail: Option<&LineDetail>) {
    r.context_menu(|ui| {
        let mut parts = vec![("line", label.to_owned())];
        match (detail, item) {
            (Some(detail), _) => parts.push(("value", detail.value.clone())),
            (None, PushItem::Method(m, _)) => {
                let fields: Vec<String> = m.fields.iter().map(|(n, v)| format!("{n}={v}")).collect();
                parts.push(("value", format!("{:#x}", m.value)));
                parts.push(("fields", fields.join(" ")));
            }
            (None, PushItem::Launch { program, .. }) => parts.push(("program address", program.to_string())),
            (None, PushItem::Upload { to, .. } | PushItem::Copy { to, .. }) => {
                parts.push(("destination", to.va.to_string()));
            }
            _ => {}
        }
        for (what, text) in parts {
            if ui.button(format!("Copy {what}")).clicked() {
                ui.ctx().copy_text(text);
                ui.close();
            }
        }
    });
}

/// Where and with what a line is drawn.
struct Painting<'a> {
    doc: &'a Document,
    data: &'a DriverData,
    table: &'a Table,
    rect: Rect,
}

impl Painting<'_> {
    /// Draws a method. Returns the text of a cell that was cut.
    fn method(
        &self,
        actions: &mut UiActions,
        ui: &Ui,
        m: &DecodedMethod,
        target: Option<&PointedBuffer>,
    ) -> Option<String> {
        let p = palette(ui);
        self.place(ui, m);
        let name = method_name(m);
        let ink = if m.name.is_some() { p.text } else { p.warning };
        self.table.text(ui, "method", self.rect, &name, mono(), ink);
        let value = format!("{:#x}", m.value);
        self.table.text(ui, "value", self.rect, &value, mono(), p.text);
        let fields: Vec<String> = m.fields.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let fields = fields.join("  ");
        let cell = self.table.cell("fields", self.rect)?;
        let used = target.map_or(0.0, |t| {
            let shown = t.va.to_string();
            let used = paint_text(ui, cell, Align2::LEFT_CENTER, &shown, mono(), p.text) + 8.0;
            let rest = cell.with_min_x(cell.left() + used);
            used + links::buffer_link(self.doc, self.data, actions, ui, rest, t)
        });
        if used > 0.0 {
            return None;
        }
        self.table.note(ui, "fields", &fields, &mono(), 0.0);
        let (_, is_cut) = paint_truncated(ui, cell, Align2::LEFT_CENTER, &fields, mono(), p.quiet);
        is_cut.then(|| m.fields.iter().map(|(n, v)| format!("{n} = {v}\n")).collect())
    }

    /// Draws the position of a method: word, subchannel, class.
    fn place(&self, ui: &Ui, m: &DecodedMethod) {
        let p = palette(ui);
        let word = m.word.to_string();
        self.table.text(ui, "word", self.rect, &word, mono(), p.quiet);
        let subchannel = m.subchannel.to_string();
        self.table
            .text(ui, "subchannel", self.rect, &subchannel, mono(), p.quiet);
        let class = m.class.map_or_else(
            || "no class".to_owned(),
            |class| {
                let name = find_family(&self.doc.recording).class_name(u32::from(class));
                name.map_or_else(|| format!("{class:04x}"), str::to_owned)
            },
        );
        self.table.text(ui, "class", self.rect, &class, small(), p.quiet);
    }

    /// Draws words that belong together.
    fn words(&self, ui: &Ui, first: &DecodedMethod, name: &str, count: usize, is_open: bool) {
        let p = palette(ui);
        self.place(ui, first);
        let Some(cell) = self.table.cell("method", self.rect) else {
            return;
        };
        let shown = format!("{name}, {}", text::count_noun(count as u64, "word", "words"));
        let used = self.caret(ui, cell, is_open);
        let rest = cell.with_min_x(cell.left() + used);
        paint_text(ui, rest, Align2::LEFT_CENTER, &shown, mono(), p.text);
    }

    /// Draws the mark that shows whether the lines below are shown. Returns its width.
    fn caret(&self, ui: &Ui, cell: Rect, is_open: bool) -> f32 {
        let icon = if is_open { icons::CARET_DOWN } else { icons::CARET_RIGHT };
        let at = pos2(cell.left() - 14.0, cell.center().y);
        ui.painter()
            .text(at, Align2::LEFT_CENTER, icon, body(), palette(ui).quiet);
        0.0
    }

    /// Draws work of the GPU.
    fn work(&self, actions: &mut UiActions, ui: &Ui, item: &PushItem, is_open: bool) {
        let p = palette(ui);
        let Some(cell) = self.table.cells("method", "fields", self.rect) else {
            return;
        };
        let bar = Rect::from_min_size(self.rect.min, vec2(3.0, self.rect.height()));
        ui.painter().rect_filled(bar, 0.0, work_ink(p, item));
        if item.line_count() > 0 {
            self.caret(ui, cell, is_open);
        }
        let mut at = cell;
        let ink = work_ink(p, item);
        let words = |ui: &Ui, at: &mut Rect, text: &str, font: FontId, ink: Color32| {
            let used = paint_text(ui, *at, Align2::LEFT_CENTER, text, font, ink);
            at.min.x = (at.min.x + used + 8.0).min(at.max.x);
        };
        match item {
            PushItem::Launch { title, .. } => words(ui, &mut at, title, strong(), ink),
            PushItem::Upload { bytes, to, .. } => {
                words(ui, &mut at, &format!("upload {} to", text::bytes(*bytes)), body(), ink);
                self.pointer(actions, ui, &mut at, to);
            }
            PushItem::Copy { bytes, from, to, .. } => {
                let size = text::bytes(*bytes);
                match from {
                    Some(from) => {
                        words(ui, &mut at, &format!("copy {size} from"), strong(), ink);
                        self.pointer(actions, ui, &mut at, from);
                        words(ui, &mut at, "to", body(), ink);
                    }
                    None => words(ui, &mut at, &format!("fill {size} at"), strong(), ink),
                }
                self.pointer(actions, ui, &mut at, to);
            }
            PushItem::Other {
                text, target, is_error, ..
            } => {
                let shown = if *is_error { format!("▲ {text}") } else { text.clone() };
                words(ui, &mut at, &shown, body(), ink);
                if let Some(target) = target {
                    words(ui, &mut at, "at", body(), ink);
                    self.pointer(actions, ui, &mut at, target);
                }
            }
            PushItem::Method(..) | PushItem::Words { .. } => {}
        }
    }

    /// Draws an address and the buffer that it points into.
    fn pointer(&self, actions: &mut UiActions, ui: &Ui, at: &mut Rect, target: &PointedBuffer) {
        let p = palette(ui);
        let used = paint_text(ui, *at, Align2::LEFT_CENTER, &target.va.to_string(), mono(), p.text);
        at.min.x = (at.min.x + used + 8.0).min(at.max.x);
        let used = links::buffer_link(self.doc, self.data, actions, ui, *at, target);
        if used > 0.0 {
            at.min.x = (at.min.x + used + 8.0).min(at.max.x);
        }
    }

    /// Draws a line below an item. Returns whether its button was clicked.
    fn detail(
        &self,
        actions: &mut UiActions,
        ui: &Ui,
        detail: &LineDetail,
        is_work: bool,
        button: Option<&str>,
    ) -> bool {
        let p = palette(ui);
        let Some(cell) = self.table.cells("method", "fields", self.rect) else {
            return false;
        };
        if is_work {
            let bar = Rect::from_min_size(self.rect.min, vec2(3.0, self.rect.height()));
            ui.painter().rect_filled(bar, 0.0, p.job.gamma_multiply(0.45));
        }
        let key = cell.with_min_x(cell.left() + INDENT);
        let key = key.with_max_x((key.left() + KEYS - 6.0).min(cell.right()));
        paint_text(ui, key, Align2::LEFT_CENTER, &detail.key, body(), p.quiet);
        let mut at = cell.with_min_x((cell.left() + INDENT + KEYS).min(cell.right()));
        let used = paint_text(ui, at, Align2::LEFT_CENTER, &detail.value, mono(), p.text);
        at.min.x = (at.min.x + used + 8.0).min(at.max.x);
        if let Some(target) = &detail.target {
            let used = links::buffer_link(self.doc, self.data, actions, ui, at, target);
            at.min.x = (at.min.x + used + 12.0).min(at.max.x);
        }
        let Some(button) = button else { return false };
        let used = paint_text(ui, at, Align2::LEFT_CENTER, button, body(), p.read);
        let place = at.with_max_x(at.left() + used);
        let id = ui.scope_id().with((button, self.rect.top() as i64));
        let r = ui.interact(place, id, focus::part_sense(ui));
        r.widget_info(|| WidgetInfo::labeled(Role::Link, true, button));
        if r.hovered() {
            ui.painter()
                .hline(place.x_range(), place.center().y + 7.0, Stroke::new(1.0, p.read));
        }
        r.on_hover_cursor(CursorIcon::PointingHand).clicked()
    }
}

/// Returns the colour of work.
fn work_ink(p: &Palette, item: &PushItem) -> Color32 {
    match item {
        PushItem::Launch { .. } => p.job,
        PushItem::Copy { .. } | PushItem::Upload { .. } => p.write,
        PushItem::Other { is_error: true, .. } => p.error,
        _ => p.quiet,
    }
}
