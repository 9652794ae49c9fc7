//! What differs, row by row, and the value of the row that is meant field by field.

use super::view::{Section, View};
use super::{SIDE, entries, errors, rules, told, walks, why};
use crate::document::Document;
use crate::document::comparison::meant::{Meant, buffers};
use crate::document::comparison::{Comparison, Row, fields};
use crate::panels::desk::Asks;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{Palette, ROW, body, icons, mono, mono_small, palette, small, strong, text};
use egui::accesskit::Role;
use egui::{Align2, Color32, EventFilter, FontId, Key, Modifiers, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use std::sync::Arc;
use trace_core::diff::{Become, JobPair, MappedAs};

/// Narrower than this the fields of the row that is meant stand below the list, points.
const BESIDE: f32 = 640.0;
/// Width of the fields beside the list.
const FIELDS: f32 = 300.0;

/// Draws the list of a section.
pub(super) fn ui(doc: &mut Document, c: &Arc<Comparison>, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    if entries(c, view.section) == 0 {
        // What does differ is a step away.
        let lists = |s: &Section| *s != Section::Rules && entries(c, *s) > 0;
        let other = Section::ALL.into_iter().find(lists);
        let words = other.map(|s| format!("Show what differs in {}", s.name()));
        if widgets::empty(ui, icons::CHECK_CIRCLE, alike(view.section), words.as_deref())
            && let Some(section) = other
        {
            view.open(section);
        }
        return;
    }
    // Rows that have more to tell than fits a line have the width to themselves until one is meant.
    let always = matches!(view.section, Section::Events | Section::Mappings);
    let Some(meant) = meant(doc, c, view).or(always.then_some(Meant::Events(None, None))) else {
        rows(doc, c, view, asks, ui);
        return;
    };
    let full = ui.available_rect_before_wrap();
    let p = palette(ui);
    let (list, detail) = if full.width() >= BESIDE {
        full.split_left_right_at_x(full.right() - FIELDS)
    } else {
        full.split_top_bottom_at_y(full.bottom() - (full.height() * 0.45).min(180.0))
    };
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt("list").max_rect(list));
    child.shrink_clip_rect(list);
    rows(doc, c, view, asks, &mut child);
    if full.width() >= BESIDE {
        ui.painter()
            .vline(detail.left(), detail.y_range(), Stroke::new(1.0, p.line));
    } else {
        ui.painter()
            .hline(detail.x_range(), detail.top(), Stroke::new(1.0, p.line));
    }
    let inner = detail.shrink2(vec2(SIDE, 4.0));
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt("fields").max_rect(inner));
    child.shrink_clip_rect(detail);
    match view.section {
        Section::Mappings => walks::ui(doc, c, view, asks, &mut child),
        _ => detail_ui(doc, c, &meant, view, asks, &mut child),
    }
    ui.advance_cursor_after_rect(full);
}

/// The difference that a person means: that of the row, or of the byte.
#[must_use]
pub fn meant(doc: &Document, c: &Comparison, view: &View) -> Option<Meant> {
    let row = || usize::try_from(view.selected?).ok();
    match view.section {
        Section::Events => {
            let step = doc.step()?;
            c.steps.row_at(step)?;
            let s = c.steps.at(step)?;
            Some(Meant::Events(s.a, s.b))
        }
        Section::Registers => row().map(Meant::Register),
        Section::Writes => row().map(Meant::Write),
        Section::Descriptors => row().map(Meant::Descriptor),
        Section::Mappings => row().map(Meant::Mapping),
        Section::Buffers => row().map(Meant::Memory),
        Section::Memory => Some(Meant::Byte(view.space, view.byte?)),
        Section::Rules => None,
    }
}

fn alike(section: Section) -> &'static str {
    match section {
        Section::Events => "No event differs.",
        Section::Registers => "Every register has the same history on both sides.",
        Section::Writes => "The CPU wrote the same on both sides.",
        Section::Descriptors => "Jobs were told to do the same on both sides.",
        Section::Mappings => "Both map the same pages in the end.",
        Section::Buffers | Section::Memory | Section::Rules => "Memory holds the same in the end.",
    }
}

/// A row as it is drawn, and where it leads.
struct Line {
    sign: &'static str,
    word: String,
    ink: Color32,
    a: Option<u64>,
    b: Option<u64>,
    what: String,
    value: String,
    /// Memory that it is about: address space by number, address, bytes.
    memory: Option<(u8, u64, u64)>,
}

/// The rows of a section, each a line; a click goes there in both recordings, Enter or a second click to its bytes too.
fn rows(doc: &mut Document, c: &Comparison, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    let section = view.section;
    let n = entries(c, section);
    let here = match section {
        Section::Events => doc.step().and_then(|s| c.steps.row_at(s)),
        _ => view.selected,
    };
    let (head, _) = ui.allocate_exact_size(vec2(ui.available_width(), 20.0), Sense::hover());
    let columns = Columns::of(section, head);
    for (cell, name, align) in [
        (columns.word, "what became", Align2::LEFT_CENTER),
        (columns.a, "event A", Align2::RIGHT_CENTER),
        (columns.b, "event B", Align2::RIGHT_CENTER),
        (columns.what, columns.names.0, Align2::LEFT_CENTER),
        (columns.value, columns.names.1, Align2::LEFT_CENTER),
    ] {
        paint_text(ui, cell.on(head), align, name, small(), p.quiet);
    }
    ui.painter()
        .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
    let id = egui::Id::unique("compare-rows");
    let (mut go, enter) = keyed(ui, id, n, here);
    let moved = go.is_some();
    if let Some(row) = go {
        view.rows.reveal(row);
        view.selected = Some(row);
    } else if section == Section::Events
        && let Some(row) = here.filter(|_| view.selected != here)
    {
        view.rows.reveal(row);
        view.selected = Some(row);
    }
    let mut deeper = enter;
    if enter && go.is_none() {
        go = here;
    }
    let mut list = view.rows;
    let mut clicked = None;
    list.show(ui, "Differences", n, |ui, row, rect| {
        let Some(line) = line(doc, c, section, row, p) else {
            return;
        };
        let r = ui.interact(rect, ui.scope_id().with(("difference", row)), Sense::click());
        let on = here == Some(row);
        let name = format!("difference {row} {} {}", line.word, line.what);
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, on, name.clone()));
        if on || r.hovered() {
            ui.painter()
                .rect_filled(rect, 0.0, if on { p.selection } else { p.raised });
        }
        draw(ui, &columns, &line, rect);
        if r.clicked() {
            clicked = Some(row);
        }
        deeper |= r.double_clicked();
        let all = format!(
            "{}\t{}\t{}\t{}\t{}",
            line.word,
            line.a.map_or_else(String::new, |e| e.to_string()),
            line.b.map_or_else(String::new, |e| e.to_string()),
            line.what,
            line.value
        );
        widgets::copies(&r, &[("row", all), ("value", line.value.clone())])
            .on_hover_text(format!("{}\n{}", line.what, line.value));
    });
    view.rows = list;
    if let Some(row) = clicked {
        ui.memory_mut(|m| m.request_focus(id));
        view.selected = Some(row);
        go = Some(row);
    }
    let Some(row) = go else { return };
    // Along the other lists arrows choose, and Enter goes.
    if section == Section::Events {
        doc.go_row(row);
    } else if (!moved || clicked.is_some())
        && let Some(line) = line(doc, c, section, row, p)
    {
        lead(doc, c, view, asks, &line, deeper);
    }
}

/// Goes where a row leads. `deeper`: to its bytes side by side, where it is about memory.
fn lead(doc: &mut Document, c: &Comparison, view: &mut View, asks: &mut Asks, line: &Line, deeper: bool) {
    use trace_core::diff::Which;
    let step = match (line.a, line.b) {
        (Some(a), _) => Some(c.steps.of(Which::A, a)),
        (None, Some(b)) => Some(c.steps.of(Which::B, b)),
        (None, None) => None,
    };
    if let Some(s) = step {
        doc.go_step(s);
    }
    if let Some((number, va, bytes)) = line.memory {
        let spaces = &doc.recording.facts.address_spaces;
        let space = spaces.iter().position(|s| s.number == number).unwrap_or(0);
        let space = u32::try_from(space).ok();
        asks.memory_first(space, va, bytes);
        if deeper && view.section != Section::Mappings {
            view.space = space.unwrap_or(0);
            view.open(Section::Memory);
            view.show_byte(va);
        }
    }
}

/// Where things stand in a row.
struct Columns {
    word: Span,
    a: Span,
    b: Span,
    what: Span,
    value: Span,
    names: (&'static str, &'static str),
}

#[derive(Clone, Copy)]
struct Span(f32, f32);

impl Span {
    fn on(self, rect: Rect) -> Rect {
        let end = (rect.left() + self.1).min(rect.right() - 4.0);
        Rect::from_min_max(pos2(rect.left() + self.0, rect.top()), pos2(end, rect.bottom()))
    }
}

impl Columns {
    fn of(section: Section, head: Rect) -> Self {
        let what = 252.0;
        let value = what + ((head.width() - what) * 0.48).clamp(90.0, 320.0);
        Self {
            word: Span(SIDE, 116.0),
            a: Span(116.0, 174.0),
            b: Span(180.0, 238.0),
            what: Span(what, value - 8.0),
            value: Span(value, head.width() - 4.0),
            names: match section {
                Section::Events => ("access", "A → B"),
                Section::Registers => ("register", "first field that differs: A → B"),
                Section::Writes => ("where", "A → B"),
                Section::Descriptors => ("descriptor", "first field that differs: A → B"),
                Section::Mappings => ("where", "A → B"),
                Section::Buffers | Section::Memory | Section::Rules => ("where", "A → B"),
            },
        }
    }
}

fn draw(ui: &Ui, columns: &Columns, line: &Line, rect: Rect) {
    let p = palette(ui);
    let left = Align2::LEFT_CENTER;
    let word = format!("{} {}", line.sign, line.word);
    paint_text(ui, columns.word.on(rect), left, &word, body(), line.ink);
    let event = |e: Option<u64>| e.map_or_else(|| "–".into(), text::count);
    let ink = |e: Option<u64>| if e.is_some() { p.read } else { p.quiet };
    let put = |cell: Span, e: Option<u64>| {
        paint_text(ui, cell.on(rect), Align2::RIGHT_CENTER, &event(e), mono(), ink(e));
    };
    put(columns.a, line.a);
    put(columns.b, line.b);
    paint_text(ui, columns.what.on(rect), left, &line.what, mono(), p.text);
    let differs = line.value.contains('→');
    let ink = if differs { p.error } else { p.quiet };
    paint_text(ui, columns.value.on(rect), left, &line.value, mono(), ink);
}

/// Keys of the list: up, down, a page, ends. Gives the row that they lead to, and whether Enter was pressed.
fn keyed(ui: &Ui, id: egui::Id, n: u64, here: Option<u64>) -> (Option<u64>, bool) {
    let area = ui.available_rect_before_wrap();
    let r = ui.interact(area, id, Sense::focusable_noninteractive());
    r.widget_info(|| WidgetInfo::labeled(Role::Table, true, "Differences by row"));
    if !ui.memory(|m| m.focused() == Some(id)) || egui::Popup::is_any_open(ui.ctx()) {
        return (None, false);
    }
    ui.painter().rect_stroke(
        area.shrink(1.0),
        0.0,
        Stroke::new(1.0, palette(ui).line),
        egui::StrokeKind::Inside,
    );
    let filter = EventFilter {
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(id, filter));
    let page = ((area.height() / ROW) as i64 - 1).max(1);
    let moves = [
        (Key::ArrowUp, -1),
        (Key::ArrowDown, 1),
        (Key::PageUp, -page),
        (Key::PageDown, page),
    ];
    let (by, enter) = ui.input_mut(|i| {
        let by: i64 = moves
            .iter()
            .map(|(k, by)| by * i64::try_from(i.count_and_consume_key(Modifiers::NONE, *k)).unwrap_or(0))
            .sum();
        (by, i.consume_key(Modifiers::NONE, Key::Enter))
    });
    let to = (by != 0).then(|| match here {
        Some(h) => h.saturating_add_signed(by).min(n.saturating_sub(1)),
        None => 0,
    });
    (to, enter)
}

fn line(doc: &Document, c: &Comparison, section: Section, row: u64, p: &Palette) -> Option<Line> {
    let at = usize::try_from(row).ok()?;
    match section {
        Section::Events => event(doc, c, &c.steps.row(row)?, p),
        Section::Registers => {
            let r = c.diff.registers.get(at)?;
            let field = r.fields.first();
            let (sign, ink) = sides(p, r.first.0.is_some(), r.first.1.is_some());
            Some(Line {
                sign,
                word: text::counted(r.count, "access", "accesses"),
                ink,
                a: r.first.0,
                b: r.first.1,
                what: r.name.clone(),
                value: field.map_or_else(String::new, |(name, a, b)| format!("{name} {} → {}", or(a), or(b))),
                memory: None,
            })
        }
        Section::Writes => {
            let w = c.diff.host_writes.list.get(at)?;
            let (sign, ink) = sides(p, !w.bytes_a.is_empty(), !w.bytes_b.is_empty());
            Some(Line {
                sign,
                word: text::bytes(w.bytes),
                ink,
                a: w.a,
                b: w.b,
                what: format!(
                    "{} {}",
                    place(w.address_space, w.va.0, c.diff.host_writes.physical),
                    job(w.job)
                ),
                value: format!("{} → {}", or(&hex(&w.bytes_a)), or(&hex(&w.bytes_b))),
                memory: (!c.diff.host_writes.physical).then_some((w.address_space, w.va.0, w.bytes)),
            })
        }
        Section::Descriptors => {
            let d = c.diff.descriptors.list.get(at)?;
            let (sign, ink) = sides(p, d.a.is_some(), d.b.is_some());
            let (number, va) = d.a.map(|va| (d.spaces.0, va)).or(d.b.map(|va| (d.spaces.1, va)))?;
            let field = d.fields.first();
            Some(Line {
                sign,
                word: text::counted(d.fields.len() as u64, "field", "fields"),
                ink,
                a: Some(d.events.0),
                b: Some(d.events.1),
                what: format!("{} {:#x} {}", d.layout, va.0, job(d.job)),
                value: field.map_or_else(String::new, |(name, a, b)| format!("{name} {} → {}", or(a), or(b))),
                // Memory is asked for by its place in the first.
                memory: d.a.is_some().then_some((number, va.0, u64::from(d.bytes))),
            })
        }
        Section::Mappings => {
            let m = c.diff.mappings.list.get(at)?;
            let (sign, ink) = sides(p, m.a.is_some(), m.b.is_some());
            let how = |m: Option<MappedAs>| m.map_or_else(|| "not mapped".into(), |m| m.rights.to_string());
            let value = match m.moved_to {
                Some(to) => format!("{:#x} → {:#x}, moved", m.va.0, to.0),
                None => format!("{} → {}", how(m.a), how(m.b)),
            };
            Some(Line {
                sign: if m.moved_to.is_some() { "↗" } else { sign },
                word: text::counted(m.pages, "page", "pages"),
                ink,
                a: None,
                b: None,
                what: place(m.address_space, m.va.0, false),
                value,
                memory: Some((m.address_space, m.va.0, 1)),
            })
        }
        Section::Buffers => buffer(c, at, p),
        Section::Memory | Section::Rules => None,
    }
}

/// A step, or a run of events, of the list.
fn event(doc: &Document, c: &Comparison, row: &Row, p: &Palette) -> Option<Line> {
    let step = c.steps.at(row.step)?;
    let (sign, word, ink) = told(p, step.what);
    let (what, value) = match (step.a, step.b) {
        (Some(a), _) => fields::line(&doc.recording, &doc.facts, doc.numbers, a),
        (None, Some(b)) => fields::line(&c.other.recording, &c.other.facts, doc.numbers, b),
        (None, None) => return None,
    };
    let value = if step.a.is_some() && step.b.is_some() {
        let pairs = fields::pairs(doc, c, step.a, step.b);
        let fields: Vec<String> = pairs
            .iter()
            .skip(1)
            .filter(|f| f.differs())
            .take(2)
            .map(|f| format!("{} {} → {}", f.name, or(&f.a), or(&f.b)))
            .collect();
        match (fields.is_empty(), pairs.first()) {
            (true, Some(whole)) if whole.differs() => format!("{} → {}", or(&whole.a), or(&whole.b)),
            (true, _) => {
                let there = step
                    .b
                    .map(|b| fields::line(&c.other.recording, &c.other.facts, doc.numbers, b).1);
                format!("{value} → {}", there.unwrap_or_default())
            }
            _ => fields.join(", "),
        }
    } else {
        value
    };
    let more = if row.len > 1 {
        format!(" and {} more", text::count(row.len - 1))
    } else {
        String::new()
    };
    Some(Line {
        sign,
        word: word.to_owned(),
        ink,
        a: step.a,
        b: step.b,
        what: format!("{what}{more}"),
        value,
        memory: None,
    })
}

/// A buffer, or behind all of them a page.
fn buffer(c: &Comparison, at: usize, p: &Palette) -> Option<Line> {
    if let Some(b) = buffers(c).nth(at) {
        let (sign, ink) = sides(p, b.a.is_some(), b.b.is_some());
        let value = match (&b.elements, b.a, b.b) {
            (_, Some((_, x)), Some((_, y))) if x != y => format!("{} → {}", text::bytes(x), text::bytes(y)),
            (Some(e), ..) => format!(
                "{} of {} differ",
                text::counted(e.differ, "element", "elements"),
                text::count(e.compared)
            ),
            _ => String::new(),
        };
        let va = b.a.or(b.b).map_or(0, |x| x.0.0);
        return Some(Line {
            sign,
            word: "buffer".into(),
            ink,
            a: None,
            b: None,
            what: b.name.clone(),
            value,
            memory: Some((0, va, 1)),
        });
    }
    let page = c.diff.pages.list.get(at.checked_sub(buffers(c).count())?)?;
    let (sign, ink) = sides(p, page.in_a, page.in_b);
    let value = match (page.in_a, page.in_b, page.first_byte) {
        (true, true, Some(first)) => format!("first at byte {first:#x}"),
        (true, false, _) => "no contents in B".into(),
        _ => "no contents in A".into(),
    };
    let va = page.va.0.saturating_add(u64::from(page.first_byte.unwrap_or(0)));
    Some(Line {
        sign,
        word: "page".into(),
        ink,
        a: None,
        b: None,
        what: place(page.address_space, page.va.0, c.diff.pages.physical),
        value,
        memory: (!c.diff.pages.physical).then_some((page.address_space, va, 1)),
    })
}

/// The sign and colour of what both have, or one alone.
fn sides(p: &Palette, a: bool, b: bool) -> (&'static str, Color32) {
    match (a, b) {
        (true, false) => ("−", p.only_a),
        (false, true) => ("+", p.only_b),
        _ => ("≠", p.error),
    }
}

fn or(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

fn hex(bytes: &[u8]) -> String {
    let all: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
    all.join(" ")
}

fn place(space: u8, va: u64, physical: bool) -> String {
    if physical {
        format!("physical {va:#x}")
    } else {
        format!("AS {space} {va:#x}")
    }
}

fn job(pair: JobPair) -> String {
    match pair.a.or(pair.b) {
        Some(0) => "before any job".into(),
        Some(n) => format!("job {}", n - 1),
        None => String::new(),
    }
}

/// A row of three cells: a name, and what both sides have.
pub(super) fn three(ui: &mut Ui, name: &str, cells: [(String, FontId, Color32); 3]) {
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Row, true, name));
    let at = [0.0, 0.34, 0.67, 1.0].map(|f| rect.left() + rect.width() * f);
    for ((t, font, ink), ends) in cells.into_iter().zip(at.windows(2)) {
        let cell = Rect::from_min_max(pos2(ends[0], rect.top()), pos2(ends[1] - 6.0, rect.bottom()));
        paint_text(ui, cell, Align2::LEFT_CENTER, &t, font, ink);
    }
    r.on_hover_text(name);
}

/// What is known of the difference that is meant: both sides field by field, what led to it, and how to leave it out.
fn detail_ui(doc: &mut Document, c: &Arc<Comparison>, meant: &Meant, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    ui.spacing_mut().item_spacing.y = 0.0;
    if view.section == Section::Events {
        step_head(doc, c, ui);
    }
    egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        match meant {
            Meant::Events(None, None) => {
                step_fields(doc, c, ui, true);
                return step_fields(doc, c, ui, false);
            }
            Meant::Events(..) => step_fields(doc, c, ui, true),
            Meant::Register(n) => {
                let fields = c.diff.registers.get(*n).map_or(&[][..], |r| &r.fields);
                for (name, a, b) in fields {
                    field(ui, name, a, b);
                }
            }
            Meant::Descriptor(n) => {
                let fields = c.diff.descriptors.list.get(*n).map_or(&[][..], |d| &d.fields);
                for (name, a, b) in fields {
                    field(ui, name, a, b);
                }
            }
            Meant::Memory(n) => {
                if let Some(e) = buffers(c).nth(*n).and_then(|b| b.elements.as_ref()) {
                    errors::ui(e, ui);
                }
            }
            Meant::Write(_) | Meant::Mapping(_) | Meant::Byte(..) => {}
        }
        let row = view
            .selected
            .filter(|_| matches!(meant, Meant::Memory(_) | Meant::Write(_) | Meant::Descriptor(_)));
        let p = palette(ui);
        if let Some(l) = row
            .and_then(|row| line(doc, c, view.section, row, p))
            .filter(|l| l.memory.is_some())
        {
            ui.add_space(4.0);
            if ui.button("Bytes side by side").on_hover_text("Enter").clicked() {
                lead(doc, c, view, asks, &l, true);
            }
        }
        why::ui(doc, c, meant, view, asks, ui);
        leave_out(doc, c, meant, view, asks, ui);
        // What is the same comes last: it may be long.
        if matches!(meant, Meant::Events(..)) {
            step_fields(doc, c, ui, false);
        }
    });
}

/// The rules that would leave a difference out, each a button that does.
fn leave_out(doc: &mut Document, c: &Comparison, meant: &Meant, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    let rules = meant.rules(doc, c);
    if rules.is_empty() {
        return;
    }
    widgets::section(ui, "Leave it out");
    for rule in rules {
        let words = rule.to_string();
        let shown = widgets::cut_middle(ui, ui.available_width() - 12.0, &words, &mono_small());
        let button = ui.add(egui::Button::new(egui::RichText::new(shown).font(mono_small())).truncate());
        button.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Rule: {words}")));
        if button
            .on_hover_text(format!("Adds the rule and compares once more:\n{words}"))
            .clicked()
        {
            rules::add(doc, view, asks, &rule);
        }
        ui.add_space(3.0);
    }
}

/// The step at the moment: what became of it, and where it is on both sides.
fn step_head(doc: &Document, c: &Comparison, ui: &mut Ui) {
    let p = palette(ui);
    let Some(step) = doc.step().and_then(|s| c.steps.at(s)) else {
        return;
    };
    let (sign, word, ink) = told(p, step.what);
    let event = |e: Option<u64>, at: u64| match e {
        Some(e) => text::count(e),
        None => format!("before {}", text::count(at)),
    };
    let (a, b) = (event(step.a, step.at_a), event(step.b, step.at_b));
    let mark = format!("{sign} {word}");
    let name = format!("{mark}: event A {a}, event B {b}");
    let cells = [
        (mark, strong(), ink),
        (format!("A {a}"), mono(), p.only_a),
        (format!("B {b}"), mono(), p.only_b),
    ];
    three(ui, &name, cells);
}

/// The fields of the step at the moment that differ, or those that are the same.
fn step_fields(doc: &Document, c: &Comparison, ui: &mut Ui, differ: bool) {
    let Some(step) = doc.step().and_then(|s| c.steps.at(s)) else {
        return;
    };
    let all = fields::pairs(doc, c, step.a, step.b);
    let mut shown = all
        .iter()
        .filter(|f| f.differs() == differ && !(f.a.is_empty() && f.b.is_empty()));
    let mut first = shown.next();
    if first.is_some() && !differ && step.what != Become::Equal {
        widgets::section(ui, "The same");
    }
    while let Some(f) = first {
        field(ui, &f.name, &f.a, &f.b);
        first = shown.next();
    }
}

/// A field on both sides; one that differs stands out.
fn field(ui: &mut Ui, name: &str, a: &str, b: &str) {
    let p = palette(ui);
    let differs = a != b;
    let ink = if differs { p.error } else { p.quiet };
    let shown = if differs {
        format!("≠ {name}")
    } else {
        format!("   {name}")
    };
    let font = if differs { strong() } else { body() };
    let value = if differs { p.text } else { p.quiet };
    let label = format!("field {name}: A {}, B {}", or(a), or(b));
    let cells = [
        (shown, font, ink),
        (or(a).to_owned(), mono(), value),
        (or(b).to_owned(), mono(), value),
    ];
    three(ui, &label, cells);
}
