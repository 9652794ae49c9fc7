//! A layout of the register map as an overlay on memory: its fields by name with value, meaning and bytes, one element
//! after another, addresses as links.

use super::view::View;
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{body, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, EventFilter, Key, Modifiers, Rect, Response, RichText, Sense, Ui, WidgetInfo, pos2};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, lookup, text};
use std::collections::BTreeSet;
use trace_core::GpuVa;
use trace_core::registers::{Field, FieldKind, Layout};

/// Maximum number of elements of an array.
const MAX_ELEMENTS: u64 = 1 << 20;

/// The overlay and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Name of the layout.
    pub layout: String,
    /// Index of the address space.
    pub space: u32,
    /// Address of the first element.
    pub at: GpuVa,
    /// Number of elements.
    pub count: u64,
    /// Bytes from one element to the next; 0: the size of an element.
    pub stride: u64,
    /// Elements whose fields are shown.
    pub open: BTreeSet<u64>,
    /// The row that keys move from.
    pub row: u64,
    /// Where pointers were followed from: layout, address, elements, stride.
    pub trail: Vec<(String, GpuVa, u64, u64)>,
}

impl Structure {
    /// Returns a single element at an address.
    #[must_use]
    pub fn new(layout: &str, space: u32, at: GpuVa) -> Self {
        Self {
            layout: layout.to_owned(),
            space,
            at,
            count: 1,
            stride: 0,
            open: BTreeSet::from([0]),
            row: 0,
            trail: Vec::new(),
        }
    }

    /// Returns the bytes from one element to the next.
    #[must_use]
    pub fn step(&self, layout: &Layout) -> u64 {
        match self.stride {
            0 => u64::from(layout.bits.div_ceil(8)).max(1),
            n => n,
        }
    }

    /// Returns the address of an element.
    #[must_use]
    pub fn address(&self, layout: &Layout, element: u64) -> GpuVa {
        self.at.saturating_add(element.saturating_mul(self.step(layout)))
    }

    /// Goes to the target of a pointer; the layout stays until another one is chosen.
    pub fn follow(&mut self, va: GpuVa) {
        self.trail.push((self.layout.clone(), self.at, self.count, self.stride));
        (self.at, self.count, self.row) = (va, 1, 0);
        self.open = BTreeSet::from([0]);
    }

    /// Goes back to where the last pointer was followed from.
    pub fn back(&mut self) {
        if let Some((layout, at, count, stride)) = self.trail.pop() {
            (self.layout, self.at, self.count, self.stride) = (layout, at, count, stride);
            (self.row, self.open) = (0, BTreeSet::from([0]));
        }
    }

    /// Returns the number of rows if an element has this many fields.
    fn rows(&self, fields: u64) -> u64 {
        self.count + self.open.iter().filter(|e| **e < self.count).count() as u64 * fields
    }

    /// Returns the content of a row: an element, and which of its fields.
    fn at_row(&self, row: u64, fields: u64) -> (u64, Option<u64>) {
        let (mut rest, mut next) = (row, 0);
        for open in self.open.iter().filter(|e| **e < self.count) {
            let heads = open - next + 1;
            if rest < heads {
                return (next + rest, None);
            }
            rest -= heads;
            if rest < fields {
                return (*open, Some(rest));
            }
            rest -= fields;
            next = open + 1;
        }
        (next + rest, None)
    }

    fn turn(&mut self, element: u64) {
        if !self.open.remove(&element) {
            self.open.insert(element);
        }
    }
}

/// A row of an element: a field, or bits that no field describes.
enum Part<'a> {
    Field(&'a Field),
    Bits(u32, u32),
}

impl Part<'_> {
    fn bits(&self) -> (u32, u32) {
        match self {
            Self::Field(f) => (f.lo, f.hi),
            Self::Bits(lo, hi) => (*lo, *hi),
        }
    }
}

/// Returns the rows of an element, in ascending bit order.
fn parts(layout: &Layout) -> Vec<Part<'_>> {
    let mut out = Vec::with_capacity(layout.fields.len());
    let mut next = 0;
    for f in layout.fields.iter() {
        if f.lo > next {
            out.push(Part::Bits(next, f.lo - 1));
        }
        out.push(Part::Field(f));
        next = f.hi + 1;
    }
    if next < layout.bits {
        out.push(Part::Bits(next, layout.bits - 1));
    }
    out
}

/// The content of a row.
struct PartRow {
    place: String,
    name: String,
    value: String,
    means: String,
    /// The address that it links to, if it is not 0.
    leads: Option<u64>,
    va: u64,
    bytes: u64,
}

fn describe_part(doc: &Document, s: &Structure, layout: &Layout, part: &Part<'_>, element: u64) -> PartRow {
    let (lo, hi) = part.bits();
    let first = u64::from(lo / 8);
    let va = s.address(layout, element).saturating_add(first);
    let bytes = u64::from(hi / 8) - first + 1;
    let read = lookup::read(&doc.recording, s.space, va, doc.current_event(), bytes.min(16) as usize);
    let known: Option<Vec<u8>> = read.iter().map(|b| b.ok()).collect();
    let whole = lo % 8 == 0 && (hi + 1).is_multiple_of(8);
    let place = match (bytes, whole) {
        (1, true) => format!("+{first:#x}"),
        (_, true) => format!("+{first:#x} to {:#x}", first + bytes - 1),
        _ if lo == hi => format!("+{first:#x} bit {}", lo % 8),
        _ => format!("+{first:#x} bits {}:{}", hi - lo / 8 * 8, lo % 8),
    };
    let field = Field {
        name: String::new(),
        lo: lo % 8,
        hi: (lo % 8) + (hi - lo).min(63),
        kind: FieldKind::Hex,
        written: None,
        doc: String::new(),
        say: String::new(),
        status: false,
    };
    let (mut value, mut means, mut leads) = ("not recorded".to_owned(), String::new(), None);
    if let Some(bytes) = known {
        let n = field.extract_bytes(&bytes);
        value = format!("{n:#x}");
        match part {
            Part::Field(f) => {
                means = f.text(n);
                if let FieldKind::Address { shift } = f.kind {
                    leads = n.checked_shl(shift).filter(|va| *va != 0 && va >> 48 == 0);
                }
            }
            Part::Bits(lo, hi) if hi - lo > 63 => value += " …",
            Part::Bits(..) => {}
        }
    }
    if means == value {
        means.clear();
    }
    let name = match part {
        Part::Field(f) => f.name.clone(),
        Part::Bits(..) => "not named".to_owned(),
    };
    PartRow {
        place,
        name,
        value,
        means,
        leads,
        va: va.get(),
        bytes,
    }
}

/// Puts an overlay on the selection, or removes it.
pub fn toggle(doc: &Document, view: &mut View) {
    if view.structure.take().is_some() {
        return;
    }
    let Some(map) = doc.derived.device.map(trace_core::registers::RecordedRegisters::map) else {
        view.structure = Some(Structure::new("", view.space, view.top));
        return;
    };
    let at = view.selected(doc).map_or(view.top, |s| s.0);
    let named = map
        .memory_at(view.space, at)
        .filter(|(m, _)| map.layout(&m.layout).is_some());
    let head =
        matches!(doc.selection(), Selection::Job(_)) || !doc.derived.headers_in(at..at.saturating_add(1)).is_empty();
    let first = || map.layouts().next().map(|l| l.name.clone()).unwrap_or_default();
    let mut made = match named {
        Some((m, _)) => {
            let layout = map.layout(&m.layout);
            let size = layout.map_or(1, |l| u64::from(l.bits.div_ceil(8))).max(1);
            Structure {
                count: (m.bytes / size).clamp(1, MAX_ELEMENTS),
                ..Structure::new(&m.layout, view.space, m.address)
            }
        }
        None if head && map.layout("job-header").is_some() => Structure::new("job-header", view.space, at),
        None => Structure::new(&first(), view.space, at),
    };
    made.open = BTreeSet::from([0]);
    view.references = None;
    view.structure = Some(made);
    view.fields = Rows::default();
}

/// Draws the overlay.
pub(super) fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let Some(mut s) = view.structure.take() else { return };
    let map = doc.derived.device.map(trace_core::registers::RecordedRegisters::map);
    let names: Vec<&str> = map.map_or_else(Vec::new, |m| m.layouts().map(|l| l.name.as_str()).collect());
    if names.is_empty() {
        let message = "No register map of this recording has a layout. Add a [[layout]] to a register map of your \
                       own; docs/register-map.md describes it.";
        widgets::empty_state(ui, icons::SQUARES_FOUR, message, None);
        view.structure = Some(s);
        return;
    }
    let mut keep = true;
    bar(view, &mut s, &names, ui, &mut keep);
    let layout = map.and_then(|m| m.layouts().find(|l| l.name == s.layout));
    if let Some(layout) = layout {
        list(doc, view, &mut s, layout, ui);
    }
    if keep && view.structure.is_none() {
        view.structure = Some(s);
    }
}

fn bar(view: &View, s: &mut Structure, names: &[&str], ui: &mut Ui, keep: &mut bool) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        ui.add_space(8.0);
        let back = ui.add_enabled(!s.trail.is_empty(), egui::Button::new(icons::CARET_LEFT).frame(false));
        let name = "Back along pointers";
        back.widget_info(|| WidgetInfo::labeled(Role::Button, !s.trail.is_empty(), name));
        if back.on_hover_text(name).clicked() {
            s.back();
        }
        let combo = egui::ComboBox::from_id_salt("layout")
            .selected_text(if s.layout.is_empty() { "layout" } else { &s.layout })
            .width(150.0)
            .show_ui(ui, |ui| {
                for n in names {
                    ui.selectable_value(&mut s.layout, (*n).to_owned(), *n);
                }
            });
        combo
            .response
            .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Layout over memory"));
        ui.label(RichText::new("at").color(p.quiet));
        ui.label(RichText::new(format!("{:#x}", s.at)).font(mono()));
        if ui
            .button("Move to first line")
            .on_hover_text("apply the layout at the first line in view")
            .clicked()
        {
            (s.at, s.space, s.row) = (view.top, view.space, 0);
            s.open = BTreeSet::from([0]);
        }
        let count = egui::DragValue::new(&mut s.count).range(1..=MAX_ELEMENTS).prefix("× ");
        ui.add(count).accessible_name("How many elements");
        let stride = egui::DragValue::new(&mut s.stride)
            .range(0..=1u64 << 32)
            .custom_formatter(|n, _| {
                if n == 0.0 {
                    "packed".to_owned()
                } else {
                    format!("every {n} bytes")
                }
            });
        ui.add(stride)
            .accessible_name("Bytes from one element to the next, 0: packed");
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(4.0);
            if widgets::icon_button(ui, icons::X, "Close structure").clicked() {
                *keep = false;
            }
        });
    });
}

/// What the user did in the list.
#[derive(Default)]
struct ListInput {
    /// Bytes to select: first address and size.
    go: Option<(u64, u64)>,
    /// Address of the structure to follow.
    follow: Option<u64>,
    /// Whether a row was clicked, which gives the list the keyboard.
    clicked: bool,
}

fn list(doc: &mut Document, view: &mut View, s: &mut Structure, layout: &Layout, ui: &mut Ui) {
    let p = palette(ui);
    let parts = parts(layout);
    let fields = parts.len() as u64;
    s.row = s.row.min(s.rows(fields).saturating_sub(1));
    let area = ui.available_rect_before_wrap();
    let id = ui.scope_id().with("structure keys");
    let mut input = keyed(doc, view, s, layout, &parts, ui, id);
    let keys = ui.interact(area, id, Sense::click());
    let message = format!("Structure {} at {:#x}", s.layout, s.at);
    keys.widget_info(|| WidgetInfo::labeled(Role::Tree, true, &message));
    let mut rows = view.fields;
    let count = s.rows(fields);
    let focused = keys.has_focus();
    input.clicked = keys.clicked();
    rows.show(ui, "Fields", count, |ui, row, rect| {
        let (element, field) = s.at_row(row, fields);
        let r = ui.interact(rect, ui.scope_id().with(("structure", row)), Sense::CLICK);
        if row == s.row {
            let ink = if focused { p.selection } else { p.raised };
            ui.painter().rect_filled(rect, 0.0, ink);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        match field.and_then(|f| parts.get(f as usize)) {
            Some(part) => {
                let described = describe_part(doc, s, layout, part, element);
                field_row(s, ui, r, row, part, &described, &mut input);
            }
            None => element_row(s, layout, ui, &r, (row, element), &mut input),
        }
    });
    view.fields = rows;
    if input.clicked {
        ui.memory_mut(|m| m.request_focus(id));
    }
    if let Some(va) = input.follow {
        s.follow(GpuVa::new(va));
        view.fields = Rows::default();
        view.show_at_top(doc, s.space, GpuVa::new(va), u64::from(layout.bits.div_ceil(8)).max(1));
    } else if let Some((va, bytes)) = input.go {
        view.show(doc, s.space, GpuVa::new(va), bytes);
    }
    let message = format!("{} · {}", text::count_noun(fields, "row", "rows"), layout.doc);
    if !layout.doc.is_empty() {
        ui.painter().text(
            area.right_bottom() - egui::vec2(12.0, 2.0),
            Align2::RIGHT_BOTTOM,
            &message,
            small(),
            p.quiet,
        );
    }
}

/// Handles the keys of the list: arrows move, open and close, Backspace goes back, Enter follows a field or turns an
/// element.
fn keyed(
    doc: &Document,
    view: &mut View,
    s: &mut Structure,
    layout: &Layout,
    parts: &[Part<'_>],
    ui: &Ui,
    id: egui::Id,
) -> ListInput {
    let mut input = ListInput::default();
    if !ui.memory(|m| m.has_focus(id)) {
        return input;
    }
    let filter = EventFilter {
        vertical_arrows: true,
        horizontal_arrows: true,
        ..EventFilter::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(id, filter));
    let key = |k| ui.input_mut(|i| i.consume_key(Modifiers::NONE, k));
    let fields = parts.len() as u64;
    let (before, mut turned) = (s.row, false);
    if key(Key::ArrowDown) {
        s.row = (s.row + 1).min(s.rows(fields).saturating_sub(1));
    }
    if key(Key::ArrowUp) {
        s.row = s.row.saturating_sub(1);
    }
    let (element, field) = s.at_row(s.row, fields);
    if key(Key::ArrowRight) && s.open.insert(element) {
        turned = true;
    }
    if key(Key::ArrowLeft) && s.open.remove(&element) {
        turned = true;
        while s.row > 0 && s.at_row(s.row, fields) != (element, None) {
            s.row -= 1;
        }
    }
    if key(Key::Backspace) {
        s.back();
        turned = true;
    }
    if key(Key::Enter) {
        match field.and_then(|f| parts.get(f as usize)) {
            Some(part) => input.follow = describe_part(doc, s, layout, part, element).leads,
            None => s.turn(element),
        }
    }
    if s.row != before || turned {
        view.fields.reveal(s.row);
    }
    if s.row != before {
        input.go = Some(range(s, layout, parts, s.row));
    }
    input
}

/// Returns the part of a row between two distances from its left edge, points.
fn cell(rect: Rect, from: f32, to: f32) -> Rect {
    let right = (rect.left() + to).min(rect.right() - 4.0);
    Rect::from_min_max(pos2(rect.left() + from, rect.top()), pos2(right, rect.bottom()))
}

/// Draws the row of an element, which opens and closes its fields.
fn element_row(
    s: &mut Structure,
    layout: &Layout,
    ui: &Ui,
    r: &Response,
    (row, element): (u64, u64),
    input: &mut ListInput,
) {
    let (p, rect) = (palette(ui), r.rect);
    let at = s.address(layout, element);
    let open = s.open.contains(&element);
    let icon = if open { icons::CARET_DOWN } else { icons::CARET_RIGHT };
    let name = format!("{}[{element}]", s.layout);
    r.widget_info(|| WidgetInfo::selected(Role::TreeItem, true, open, format!("{name} at {at:#x}")));
    paint_text(ui, cell(rect, 8.0, 24.0), Align2::LEFT_CENTER, icon, body(), p.quiet);
    paint_text(ui, cell(rect, 26.0, 300.0), Align2::LEFT_CENTER, &name, mono(), p.text);
    let place = format!("{at:#x}");
    paint_text(
        ui,
        cell(rect, 300.0, 600.0),
        Align2::LEFT_CENTER,
        &place,
        mono(),
        p.quiet,
    );
    if r.clicked() {
        s.row = row;
        s.turn(element);
        input.clicked = true;
    }
    widgets::add_copy_menu(r, &[("address", place)]);
}

/// Draws the row of a field or of bits between fields: its location, name, value, and meaning or link.
fn field_row(s: &mut Structure, ui: &Ui, r: Response, row: u64, part: &Part<'_>, t: &PartRow, input: &mut ListInput) {
    let (p, rect) = (palette(ui), r.rect);
    let leads = t.leads.map(|va| format!(", leads to {va:#x}")).unwrap_or_default();
    let label = format!("{} {} {} {}{leads}", t.place, t.name, t.value, t.means);
    r.widget_info(|| WidgetInfo::selected(Role::TreeItem, true, row == s.row, &label));
    let named = matches!(part, Part::Field(_));
    let ink = if named { p.text } else { p.quiet };
    paint_text(
        ui,
        cell(rect, 28.0, 150.0),
        Align2::LEFT_CENTER,
        &t.place,
        mono(),
        p.quiet,
    );
    let name = t.name.replace('_', " ").to_lowercase();
    paint_text(ui, cell(rect, 154.0, 330.0), Align2::LEFT_CENTER, &name, body(), ink);
    paint_text(ui, cell(rect, 334.0, 500.0), Align2::LEFT_CENTER, &t.value, mono(), ink);
    let mut clicked_link = false;
    match t.leads {
        Some(va) => {
            let link = cell(rect, 504.0, 700.0);
            let to = ui.interact(link, ui.scope_id().with(("leads", row)), Sense::CLICK);
            to.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("to {va:#x}")));
            let shown = format!("→ {va:#x}");
            let w = paint_text(ui, link, Align2::LEFT_CENTER, &shown, mono(), p.read);
            if to.hovered() {
                let line = link.left()..=link.left() + w;
                ui.painter().hline(line, link.center().y + 7.0, (1.0, p.read));
            }
            if to.on_hover_cursor(egui::CursorIcon::PointingHand).clicked() {
                input.follow = Some(va);
                clicked_link = true;
            }
        }
        None => {
            let means = cell(rect, 504.0, rect.width());
            paint_text(ui, means, Align2::LEFT_CENTER, &t.means, body(), p.quiet);
        }
    }
    if r.clicked() && !clicked_link {
        s.row = row;
        input.go = Some((t.va, t.bytes));
        input.clicked = true;
    }
    let forms = [
        ("value", t.value.clone()),
        ("meaning", t.means.clone()),
        ("address", format!("{:#x}", t.va)),
        ("row", format!("{:#x}\t{}\t{}\t{}", t.va, t.name, t.value, t.means)),
    ];
    let r = widgets::add_copy_menu(&r, &forms);
    if let Part::Field(f) = part
        && !f.doc.is_empty()
    {
        r.on_hover_text(&f.doc);
    }
}

/// Returns the bytes of a row.
fn range(s: &Structure, layout: &Layout, parts: &[Part<'_>], row: u64) -> (u64, u64) {
    let (element, field) = s.at_row(row, parts.len() as u64);
    let at = s.address(layout, element);
    match field.and_then(|f| parts.get(f as usize)) {
        Some(part) => {
            let (lo, hi) = part.bits();
            let first = u64::from(lo / 8);
            (at.saturating_add(first).get(), u64::from(hi / 8) - first + 1)
        }
        None => (at.get(), u64::from(layout.bits.div_ceil(8)).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_elements_and_fields_of_expanded_elements() {
        let mut s = Structure::new("x", 0, GpuVa::new(0x1000));
        s.count = 5;
        s.open = BTreeSet::from([1, 3, 9]);
        assert_eq!(s.rows(2), 9);
        let all: Vec<_> = (0..9).map(|r| s.at_row(r, 2)).collect();
        let f = Some;
        let expected = [
            (0, None),
            (1, None),
            (1, f(0)),
            (1, f(1)),
            (2, None),
            (3, None),
            (3, f(0)),
            (3, f(1)),
            (4, None),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn bits_without_a_field_are_rows_too() {
        let map = trace_core::registers::RegisterMap::by_name("mali-jm").unwrap();
        for layout in map.layouts() {
            let mut next = 0;
            for part in parts(layout) {
                let (lo, hi) = part.bits();
                assert_eq!(lo, next, "{}", layout.name);
                next = hi + 1;
            }
            assert_eq!(next, layout.bits, "{}", layout.name);
        }
    }

    #[test]
    fn structure_pointer_is_followed_and_back_returns() {
        let mut s = Structure::new("a", 0, GpuVa::new(0x1000));
        (s.count, s.stride) = (4, 64);
        s.follow(GpuVa::new(0x2000));
        assert_eq!((s.at, s.count, s.layout.as_str()), (GpuVa::new(0x2000), 1, "a"));
        s.layout = "b".into();
        s.back();
        assert_eq!(
            (s.at, s.count, s.stride, s.layout.as_str()),
            (GpuVa::new(0x1000), 4, 64, "a")
        );
        s.back();
        assert_eq!(s.at, GpuVa::new(0x1000));
    }
}
