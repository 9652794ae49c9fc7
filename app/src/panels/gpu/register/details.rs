//! Details of a register: its bits and fields, their previous values, its accesses over the recording.

use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_menu;
use crate::panels::gpu::jobs;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{icons, mono, mono_small, palette, small};
use egui::accesskit::Role as AccessRole;
use egui::{Align2, Mesh, Rect, RichText, Sense, Shape, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::numbers::NumberFormat;
use kinescope_files::scene::Selection;
use kinescope_session::derived_data::Stage;
use kinescope_session::{Document, descriptions, lookup, text};
use std::sync::Arc;
use trace_core::families::{JobForm, job_form};
use trace_core::recording::Access;
use trace_core::registers::{AccessList, Direction, Field, FieldKind, Half, Register, Role};
use trace_core::{GpuVa, RegOffset};

/// Returns the access that decides what is shown (the current event or the last access before it) and the register's
/// value after it.
pub(super) fn current_access(doc: &Document, register: RegOffset) -> Option<(u64, Access, u64)> {
    let held = doc
        .derived
        .register_value(&doc.recording, register, doc.current_event())?;
    let access = doc.recording.events.access(usize::try_from(held.event).ok()?)?;
    Some((held.event, access, held.value))
}

/// Draws the details of a register, also for the inspector.
pub fn details(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, register: RegOffset) {
    let p = palette(ui);
    let def = lookup::find_register(&doc.recording, register);
    widgets::section(ui, "Register");
    let name = doc.derived.register_name(register);
    let r = ui.add(egui::Label::new(RichText::new(&name).font(mono())).sense(Sense::click()));
    let own = [("name", name), ("offset", format!("{register:#x}"))];
    copy_menu::for_selection(&r, doc, actions, &own, &Selection::Register(register));
    let place = match def {
        Some(r) => format!(
            "{} · offset {register:#06x} · {}",
            r.block.to_lowercase().replace('_', " "),
            r.access.name()
        ),
        None => format!("offset {register:#06x} · not in the register map"),
    };
    ui.add(egui::Label::new(RichText::new(place).color(p.quiet)).truncate());
    if let Some(r) = def.filter(|r| !r.doc.is_empty()) {
        ui.add(egui::Label::new(RichText::new(r.doc.as_ref()).font(small()).color(p.quiet)).wrap());
    }
    let Some((event, access, held)) = current_access(doc, register) else {
        ui.add_space(8.0);
        let message = if doc.derived.has_stage(Stage::Registers) {
            "No access before this event."
        } else {
            "Sorting accesses by register …"
        };
        ui.label(RichText::new(message).color(p.quiet));
        history(doc, actions, ui, register);
        return;
    };
    ui.add_space(6.0);
    let colour = if access.write { p.write } else { p.read };
    let before = value_before(doc, register, event);
    let width = lookup::register_width(&doc.recording, register, &access);
    bits(ui, held, u32::from(width) * 8, before, colour);
    if let Some(r) = def {
        decoded_fields(doc, ui, r, (held, Direction::new(access.write)), before);
    }
    if let Some(b) = before.filter(|b| *b != held) {
        ui.add_space(2.0);
        let was = doc.numbers.format(b, width);
        ui.label(RichText::new(format!("was {was}")).font(mono()).color(p.quiet));
    }
    access_value(doc, ui, register, event, access);
    addresses(doc, actions, ui, register, event, access);
    let started = doc.derived.job_submitted_at(event).map(|j| j.index);
    if let Some(j) = started {
        starts(doc, actions, ui, j);
    } else {
        let means = descriptions::describe_event(doc, event);
        if !means.is_empty() {
            widgets::key_value(ui, "means", StyledText::body(means));
        }
    }
    poll_and_replay(doc, ui, def, (event, access), started);
    let job = doc.derived.job_of(&doc.recording, event).map(|j| j.index);
    if let Some(j) = job.filter(|_| started.is_none())
        && widgets::key_link(ui, "job", &format!("job {j}")).clicked()
    {
        doc.go_job(j);
    }
    history(doc, actions, ui, register);
    if let Some(j) = started {
        jobs::show_reachable(doc, actions, ui, j);
    }
}

/// Draws the fields of a value that was read or written, and its bits that the register map does not name; what changed
/// shows its value before.
fn decoded_fields(doc: &Document, ui: &mut Ui, r: &Register, (held, direction): (u64, Direction), before: Option<u64>) {
    let decoded = r.layout.decode_in(held, direction);
    for f in &decoded.fields {
        let range = bit_range(f.field.lo, f.field.hi);
        let changed = before.map(|b| f.field.extract(b)).filter(|b| *b != f.value);
        // Values that the map names, addresses and flags keep the format of the map.
        let number = matches!(f.field.kind, FieldKind::Number | FieldKind::Hex) && doc.numbers != NumberFormat::Hex;
        let describe = |v: u64| {
            if number {
                doc.numbers.format_unsized(v)
            } else {
                f.field.text_in(v, direction)
            }
        };
        let was = changed.map(describe);
        field_row(
            ui,
            &range,
            &f.field.name,
            &if number { describe(f.value) } else { f.text.clone() },
            was.as_deref(),
            &field_help(f.field, f.value, direction),
        );
    }
    if decoded.unknown_mask() != 0 {
        let (mask, value) = (decoded.unknown_mask(), decoded.unknown_value());
        let was = before.map(|b| b & mask).filter(|b| *b != value);
        let help = format!("the register map does not name bits {mask:#x}");
        let was = was.map(|b| doc.numbers.format_unsized(b));
        field_row(
            ui,
            &mask_ranges(mask),
            "not named",
            &doc.numbers.format_unsized(value),
            was.as_deref(),
            &help,
        );
    }
}

/// Draws the access that is shown: its event and its value.
fn access_value(doc: &mut Document, ui: &mut Ui, register: RegOffset, event: u64, access: Access) {
    widgets::section(ui, if access.write { "This write" } else { "This read" });
    if widgets::key_link(ui, "at", &format!("event {}", text::count(event))).clicked() {
        doc.go_with(event, Selection::Register(register));
    }
    let value = widgets::key_value(
        ui,
        "value",
        StyledText::mono(doc.numbers.format(access.value, access.width)),
    );
    let forms = [
        ("as hex", format!("{:#x}", access.value)),
        ("as decimal", access.value.to_string()),
        ("as binary", format!("{:#b}", access.value)),
    ];
    widgets::add_copy_menu(&value, &forms);
}

/// Draws the poll that an access belongs to, and what a replay does with the access. `started`: the job that it
/// submits.
fn poll_and_replay(
    doc: &Document,
    ui: &mut Ui,
    def: Option<&Register>,
    (event, access): (u64, Access),
    started: Option<u32>,
) {
    if let Some(f) = doc.derived.poll_at(event).copied() {
        let waits = format!(
            "{}, events {} to {}",
            text::count_noun(f.reads, "read", "reads"),
            text::count(f.first),
            text::count(f.last)
        );
        widgets::key_value(ui, "poll", StyledText::body(waits));
    }
    if let Some(r) = def {
        let rule = match (access.write, r.replay.write) {
            (true, true) => "written".to_owned(),
            (true, false) => "not written".to_owned(),
            (false, _) => format!("{:?}", r.replay.read).to_lowercase(),
        };
        let rule = match started {
            Some(j) if has_descriptors(doc) => describe_replay_use(doc, j),
            _ => rule,
        };
        let shown = widgets::key_wrapped(ui, "on replay", StyledText::body(rule));
        if !r.replay.reason.is_empty() {
            shown.on_hover_text(&r.replay.reason);
        }
    }
}

/// Returns whether the jobs of the recording are chains of descriptors.
fn has_descriptors(doc: &Document) -> bool {
    job_form(&doc.recording) == JobForm::DescriptorChains
}

/// Draws the job that a write starts: its type, its header, its amount of work, when it was done.
fn starts(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, index: u32) {
    let derived = Arc::clone(&doc.derived);
    let Some(j) = derived.jobs.get(index as usize) else {
        return;
    };
    let kind = j
        .chain
        .first()
        .map_or_else(|| descriptions::describe_job(j), |c| c.kind.clone());
    if widgets::key_link(ui, "starts", &format!("job {index}, {kind}")).clicked() {
        doc.go_job(index);
    }
    let has_descriptors = has_descriptors(doc);
    if has_descriptors && !j.chain.is_empty() {
        let n = text::count_noun(j.chain.len() as u64, "job", "jobs");
        widgets::key_value(ui, "chain of", StyledText::body(n));
    }
    let label = if has_descriptors { "header" } else { "address" };
    if widgets::key_link(ui, label, &format!("{:#x}", j.head_va)).clicked() {
        actions.show_memory(Some(j.chain.space.unwrap_or(0)), j.head_va, 32);
        actions.run_command("show-memory");
    }
    if let Some(d) = j.chain.first().and_then(|c| c.dispatch) {
        widgets::key_value(ui, "dispatch", StyledText::mono(descriptions::format_dispatch(d)));
    }
    match (j.done, j.duration_ns) {
        (Some(d), took) => {
            let took = took.filter(|_| doc.has_times());
            let took = took.map(|t| format!("{}, ", text::duration(t))).unwrap_or_default();
            if widgets::key_link(ui, "done after", &format!("{took}event {}", text::count(d))).clicked() {
                doc.go_with(d, Selection::Job(index));
            }
        }
        (None, _) => {
            let text = StyledText::body(jobs::describe_missing_end(j));
            let text = if j.is_end_unknown {
                text
            } else {
                text.colour(palette(ui).warning)
            };
            widgets::key_wrapped(ui, "done after", text);
        }
    }
}

/// Describes what a replay does at the start of a job.
fn describe_replay_use(doc: &Document, index: u32) -> String {
    let waits = doc.derived.jobs.get(index as usize).is_some_and(|j| j.done.is_some());
    if !waits {
        return "written; the recording shows no interrupt to wait for".into();
    }
    let plan = doc.replay.plan.as_ref().map(|p| p.0.plan.budgets);
    let limit = plan.unwrap_or_default().interrupt_ns;
    let limit = match limit {
        n if n % 1_000_000_000 == 0 => format!("{} s", text::count(n / 1_000_000_000)),
        n => text::duration(n),
    };
    format!("wait for interrupt, limit {limit}")
}

/// Draws the address that a register and its other half hold together, as a link.
fn addresses(
    doc: &mut Document,
    actions: &mut UiActions,
    ui: &mut Ui,
    register: RegOffset,
    event: u64,
    access: Access,
) {
    let Some(r) = lookup::find_register(&doc.recording, register) else {
        return;
    };
    let Some(wide) = &r.wide else { return };
    let physical = matches!(r.replay.role, Some(Role::Root | Role::GpuFaultAddress));
    let (half, other, low) = match r.pair {
        Some(Half::Low { high_offset }) => (access.value & 0xffff_ffff, high_offset, true),
        Some(Half::High { low_offset }) => (access.value & 0xffff_ffff, low_offset, false),
        None => return,
    };
    // The other half has its old value, or the value of the same driver's next write.
    let Some(fact) = doc.derived.registers.get(&other) else {
        return;
    };
    let [before, near] = fact.accesses.all().neighbors(event);
    let near = near.filter(|e| e - event <= 2);
    let Some(e) = near.or(before) else { return };
    let Some(rest) = doc.recording.events.access(e as usize).map(|a| a.value & 0xffff_ffff) else {
        return;
    };
    let value = if low { rest << 32 | half } else { half << 32 | rest };
    for f in wide.decode(value).fields {
        if !matches!(f.field.kind, FieldKind::Address { .. }) || f.value == 0 {
            continue;
        }
        if physical {
            widgets::key_value(ui, "both halves", StyledText::mono(f.text));
            continue;
        }
        let at = widgets::key_link(ui, "both halves", &f.text);
        if let Some(va) = text::parse_number(&f.text)
            && widgets::add_copy_menu(&at, &[("address", f.text.clone())]).clicked()
        {
            actions.show_memory(None, GpuVa::new(va), 32);
            actions.run_command("show-memory");
        }
    }
}

pub(super) fn value_before(doc: &Document, register: RegOffset, event: u64) -> Option<u64> {
    let held = doc
        .derived
        .register_value(&doc.recording, register, event.checked_sub(1)?)?;
    Some(held.value)
}

pub(super) fn bit_range(lo: u32, hi: u32) -> String {
    if hi == lo {
        format!("[{lo}]")
    } else {
        format!("[{hi}:{lo}]")
    }
}

/// Formats the bit ranges of a mask: `[31:12]`, or the first of several with `…`.
fn mask_ranges(mask: u64) -> String {
    let lo = mask.trailing_zeros();
    let run = (mask.checked_shr(lo).unwrap_or(0)).trailing_ones();
    let first = bit_range(lo, lo + run.max(1) - 1);
    let more = mask.checked_shr(lo + run).unwrap_or(0) != 0;
    if more { format!("{first}…") } else { first }
}

/// Describes a field, and its other possible values in reads or writes.
pub(super) fn field_help(field: &Field, value: u64, direction: Direction) -> String {
    let mut out = field.doc.clone();
    if let Some(values) = field.values(direction) {
        for (v, name) in values.iter().filter(|(_, n)| !n.is_empty()).take(24) {
            let mark = if *v == value { "●" } else { "  " };
            let doc = values.doc(*v).map(|d| format!(": {d}")).unwrap_or_default();
            out += &format!("\n{mark} {v:#x} {name}{doc}");
        }
    }
    out.trim_start().to_owned()
}

fn field_row(ui: &mut Ui, range: &str, name: &str, value: &str, was: Option<&str>, help: &str) {
    let p = palette(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), crate::theme::ROW), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(AccessRole::Label, true, format!("field {name} {value}")));
    if response.hovered() {
        ui.painter().rect_filled(rect.expand2(vec2(4.0, 0.0)), 0.0, p.raised);
    }
    let cell = |from: f32, to: f32| Rect::from_min_max(pos2(from, rect.top()), pos2(to.max(from), rect.bottom()));
    let numbers = cell(rect.left(), rect.left() + 56.0);
    widgets::paint_text(ui, numbers, Align2::LEFT_CENTER, range, mono(), p.quiet);
    let right = cell(rect.left() + rect.width() * 0.45, rect.right());
    let mut used = widgets::paint_text(ui, right, Align2::RIGHT_CENTER, value, mono(), p.text);
    if let Some(was) = was {
        let line = rect.right() - used..=rect.right();
        ui.painter()
            .hline(line, rect.center().y + 7.5, Stroke::new(1.0, p.text));
        let rest = cell(right.left(), rect.right() - used - 8.0);
        used += 8.0 + widgets::paint_text(ui, rest, Align2::RIGHT_CENTER, &format!("was {was}"), small(), p.quiet);
    }
    let names = cell(rect.left() + 58.0, rect.right() - used - 6.0);
    let shown = name.replace('_', " ").to_lowercase();
    widgets::paint_text(ui, names, Align2::LEFT_CENTER, &shown, crate::theme::body(), p.text);
    let mut message = format!("{shown} {value}");
    if let Some(w) = was {
        message += &format!(", was {w}");
    }
    if !help.is_empty() {
        message += &format!("\n{help}");
    }
    let forms = [
        ("value", value.to_owned()),
        ("name and value", format!("{name} {value}")),
    ];
    widgets::add_copy_menu(&response, &forms).on_hover_text(message);
}

fn bits(ui: &mut Ui, value: u64, count: u32, before: Option<u64>, colour: egui::Color32) {
    let p = palette(ui);
    let count = count.clamp(8, 64);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width().min(340.0), 16.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(AccessRole::Label, true, format!("bits {value:#b}")));
    ui.painter().rect_filled(rect, 2.0, p.raised);
    let w = rect.width() / count as f32;
    for i in 0..count {
        let bit = count - 1 - i;
        let x = rect.left() + i as f32 * w;
        let on = value >> bit & 1 == 1;
        let cell = Rect::from_min_max(pos2(x, rect.top()), pos2(x + w, rect.bottom()));
        if on {
            ui.painter().rect_filled(cell.shrink(0.5), 1.0, colour);
        }
        if before.is_some_and(|b| (b ^ value) >> bit & 1 == 1) {
            ui.painter().hline(
                cell.left() + 1.0..=cell.right() - 1.0,
                rect.bottom() + 1.0,
                Stroke::new(1.5, colour),
            );
        }
        if i > 0 {
            let strong = bit % 8 == 7;
            ui.painter()
                .vline(x, rect.y_range(), Stroke::new(if strong { 1.5 } else { 1.0 }, p.line));
        }
        let ink = if on { p.background } else { p.quiet };
        ui.painter().text(
            cell.center(),
            Align2::CENTER_CENTER,
            if on { "1" } else { "0" },
            mono_small(),
            ink,
        );
    }
    ui.add_space(4.0);
}

/// A strip of accesses with its inputs: register, width, accesses, events.
type CachedStrip = ((RegOffset, u64, usize, u64), Arc<Vec<Strip>>);

/// The content of a pixel of the strip of accesses.
#[derive(Clone, Copy)]
enum Strip {
    Nothing,
    Reads,
    Writes,
}

/// Returns the accesses to a register over the full recording, by pixel; cached for the same register and width.
fn strip(doc: &Document, ui: &Ui, register: RegOffset, pixels: u64) -> Arc<Vec<Strip>> {
    let Some(fact) = doc.derived.registers.get(&register) else {
        return Arc::default();
    };
    let id = ui.scope_id().with("strip of accesses");
    let key = (register, pixels, fact.accesses.len(), doc.len());
    let kept: Option<CachedStrip> = ui.data(|d| d.get_temp(id));
    if let Some((_, strip)) = kept.filter(|k| k.0 == key) {
        return strip;
    }
    let total = doc.len().max(1);
    let some = |list: AccessList<'_>, a: u64, b: u64| list.count_before(a) < list.count_before(b);
    let strip: Arc<Vec<Strip>> = Arc::new(
        (0..pixels)
            .map(|i| match (i * total / pixels, (i + 1) * total / pixels) {
                (a, b) if some(fact.accesses.writes(), a, b) => Strip::Writes,
                (a, b) if some(fact.accesses.all(), a, b) => Strip::Reads,
                _ => Strip::Nothing,
            })
            .collect(),
    );
    ui.data_mut(|d| d.insert_temp(id, (key, Arc::clone(&strip))));
    strip
}

fn history(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, register: RegOffset) {
    let p = palette(ui);
    let Some(fact) = doc.derived.registers.get(&register) else {
        return;
    };
    let n = fact.accesses.len();
    widgets::section(
        ui,
        &match n {
            1 => "The only access".to_owned(),
            n => format!("All {} accesses", text::count(n as u64)),
        },
    );
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 26.0), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(AccessRole::Button, true, "Accesses to this register"));
    ui.painter().rect_filled(rect, 2.0, p.raised);
    let total = doc.len().max(1);
    let mut mesh = Mesh::default();
    for (i, kind) in strip(doc, ui, register, rect.width().max(1.0) as u64)
        .iter()
        .enumerate()
    {
        let (inset, colour) = match kind {
            Strip::Nothing => continue,
            Strip::Reads => (8.0, p.read),
            Strip::Writes => (3.0, p.write),
        };
        let x = rect.left() + i as f32;
        let r = Rect::from_min_max(pos2(x, rect.top() + inset), pos2(x + 1.0, rect.bottom() - inset));
        mesh.add_colored_rect(r, colour);
    }
    ui.painter().add(Shape::mesh(mesh));
    let x = rect.left() + rect.width() * (doc.current_event() as f32 / total as f32);
    ui.painter().vline(x, rect.y_range(), Stroke::new(1.0, p.text));
    if let Some(at) = response.interact_pointer_pos().filter(|_| response.clicked()) {
        let event = (f64::from((at.x - rect.left()) / rect.width()) * total as f64) as u64;
        let [before, at] = fact.accesses.all().neighbors(event);
        if let Some(e) = at.or(before) {
            doc.go_with(e, Selection::Register(register));
        }
    }
    ui.horizontal_wrapped(|ui| steps(doc, actions, ui, register));
}

/// Draws the buttons that go to the previous and next access and write, and the pin.
pub(super) fn steps(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, register: RegOffset) {
    let quiet = palette(ui).quiet;
    let (all, writes) = doc
        .derived
        .registers
        .get(&register)
        .map_or((0, 0), |f| (f.accesses.len(), f.accesses.writes().len()));
    // If every access is a write, both pairs of buttons are the same.
    pair(doc, actions, ui, register, writes == all);
    if writes == 0 {
        ui.label(RichText::new("writes: none").font(small()).color(quiet));
    } else if writes < all {
        ui.add_space(8.0);
        ui.label(RichText::new("write").font(small()).color(quiet));
        pair(doc, actions, ui, register, true);
    }
    let pinned = doc.changes().pins().contains(&register);
    let r = ui.selectable_label(pinned, RichText::new(icons::PUSH_PIN).size(14.0));
    r.widget_info(|| WidgetInfo::selected(AccessRole::Button, true, pinned, "Pin to timeline"));
    if r.on_hover_text("Adds a lane with its values to the timeline").clicked() {
        doc.pin(register);
    }
}

/// Draws two buttons: to the access or write of a register before the current event, and to the one after it.
fn pair(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, register: RegOffset, writes: bool) {
    // The only access has no neighbour to go to.
    if [false, true]
        .iter()
        .all(|forward| doc.find_neighbour_access(*forward, writes).is_none())
    {
        return;
    }
    for (forward, icon) in [(false, icons::CARET_LEFT), (true, icons::CARET_RIGHT)] {
        let to = doc.find_neighbour_access(forward, writes);
        let (title, id) = match (forward, writes) {
            (false, false) => ("Previous access", "previous-touch"),
            (true, false) => ("Next access", "next-touch"),
            (false, true) => ("Previous write", "previous-write"),
            (true, true) => ("Next write", "next-write"),
        };
        let label = match to.map(text::count) {
            None => icon.to_owned(),
            Some(event) if forward => format!("{event} {icon}"),
            Some(event) => format!("{icon} {event}"),
        };
        let r = ui.add_enabled(to.is_some(), egui::Button::new(RichText::new(label).font(mono())));
        r.widget_info(|| WidgetInfo::labeled(AccessRole::Button, to.is_some(), title));
        let r = r.on_hover_text(actions.tooltip(id, title));
        let none = match (forward, writes) {
            (false, false) => "No access before this event",
            (true, false) => "No access after this event",
            (false, true) => "No write before this event",
            (true, true) => "No write after this event",
        };
        if r.on_disabled_hover_text(none).clicked()
            && let Some(event) = to
        {
            doc.go_with(event, Selection::Register(register));
        }
    }
}
