//! Statistics about the accesses of the current register that hint at its purpose: requested by a button, computed off
//! the interface thread, kept until another register is current.

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{ROW, body, mono, palette};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, lookup, text};
use std::sync::Arc;
use trace_core::RegOffset;
use trace_core::registers::{Guess, guess};

/// Maximum number of values and followers that are shown at once.
const MAX_SHOWN: usize = 24;

/// Requests the statistics of a register, unless they are known or pending.
fn start_guess(doc: &Document, view: &mut View, actions: &mut UiActions, register: RegOffset) {
    if view.guessing.as_ref().is_some_and(|g| g.0 == register) {
        return;
    }
    if let Some((_, progress)) = view.guessing.take() {
        progress.cancel();
    }
    let recording = Arc::clone(&doc.recording);
    let first = doc
        .derived
        .registers
        .get(&register)
        .and_then(|f| f.accesses.all().first());
    let access = first.and_then(|e| recording.events.access(e as usize));
    let width = access.map_or(4, |a| lookup::register_width(&recording, register, &a));
    let space = doc.derived.register_space;
    let title = format!("analysing the accesses of {}", doc.derived.register_name(register));
    let progress = actions.start_work::<View>(title, move |progress| {
        let found = guess(&recording, space, register, width, progress);
        Box::new(move |_, view, _| {
            if view.guessing.as_ref().is_some_and(|g| g.0 == register) {
                view.guessing = None;
                match found {
                    Ok(g) => view.guess = Some(Arc::new(g)),
                    // A stopped request is not repeated automatically.
                    Err(_) => view.statistics = false,
                }
            }
        })
    });
    view.guessing = Some((register, progress));
}

/// Draws the statistics.
pub(super) fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, register: RegOffset) {
    let p = palette(ui);
    let Some(g) = view.guess.clone().filter(|g| g.offset == register) else {
        start_guess(doc, view, actions, register);
        ui.label(RichText::new("analysing its accesses…").color(p.quiet));
        return;
    };
    let mut go = None;
    egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        widgets::section(ui, "Likely kind");
        let hints = g.hints();
        for hint in &hints {
            let message = hint.to_string();
            let r = ui.add(egui::Label::new(RichText::new(&message).font(body())).wrap());
            r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("looks like {message}")));
        }
        if hints.is_empty() {
            ui.label(RichText::new("its accesses match no known kind").color(p.quiet));
        }
        properties(&g, ui);
        values(doc, &g, ui);
        go = followers(doc, &g, ui);
    });
    if let Some(offset) = go {
        doc.select(Selection::Register(RegOffset::new(offset)));
    }
}

fn properties(g: &Guess, ui: &mut Ui) {
    widgets::section(ui, "Bits and accesses");
    let width = g.width;
    for (key, bits) in [
        ("bits changed", g.changing),
        ("always 1", g.ones),
        ("always 0", g.zeros),
    ] {
        let value = text::hex(bits, width);
        let r = widgets::key_value(ui, key, StyledText::mono(&value));
        widgets::add_copy_menu(&r, &[("bits", value)]);
    }
    let count = text::count;
    widgets::key_value(
        ui,
        "accesses",
        StyledText::body(format!("{} reads, {} writes", count(g.reads), count(g.writes))),
    );
    let mut entries = Vec::new();
    if g.partial > 0 {
        entries.push(("partial", format!("{} accesses", count(g.partial))));
    }
    let after = g.read_back + g.read_other;
    if after > 0 {
        let same = format!(
            "{} of {} reads return the written value",
            count(g.read_back),
            count(after)
        );
        entries.push(("after writes", same));
    }
    if g.cleared + g.kept > 0 {
        let all = count(g.cleared + g.kept);
        entries.push((
            "writing ones",
            format!("{} of {all} times cleared bits", count(g.cleared)),
        ));
    }
    if g.rises + g.falls > 0 {
        entries.push(("reads", format!("{} rise, {} fall", count(g.rises), count(g.falls))));
    }
    if g.polls > 0 {
        let who: Vec<String> = g
            .pollers
            .iter()
            .take(6)
            .map(|p| format!("thread {} ({})", p.thread, count(p.reads)))
            .collect();
        let polled = format!(
            "{} polls, {} reads, by {}",
            count(g.polls),
            count(g.polled),
            who.join(", ")
        );
        entries.push(("polled", polled));
        entries.push(("waits for", text::hex(g.awaited, width)));
    }
    for (key, value) in entries {
        widgets::key_wrapped(ui, key, StyledText::body(value));
    }
}

fn values(doc: &Document, g: &Guess, ui: &mut Ui) {
    let p = palette(ui);
    let more = if g.beyond > 0 { "more than " } else { "" };
    widgets::section(ui, &format!("Values: {more}{} different", text::count(g.different)));
    let max = g.values.first().map_or(1, |v| v.1).max(1);
    let map = doc.derived.device.map(trace_core::registers::RecordedRegisters::map);
    for (value, n) in g.values.iter().take(MAX_SHOWN) {
        let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
        let (shown, times) = (text::hex(*value, g.width), text::count(*n));
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("value {shown}, {times} times")));
        let bar = Rect::from_min_size(
            pos2(rect.left() + 170.0, rect.top() + 5.0),
            vec2(120.0 * *n as f32 / max as f32, ROW - 10.0),
        );
        ui.painter().rect_filled(bar, 1.0, p.quiet.gamma_multiply(0.5));
        ui.painter()
            .text(rect.left_center(), Align2::LEFT_CENTER, &shown, mono(), p.text);
        let at = pos2(rect.left() + 162.0, rect.center().y);
        ui.painter().text(at, Align2::RIGHT_CENTER, &times, mono(), p.quiet);
        if let Some(means) = map.and_then(|m| m.describe(g.offset, g.width, *value)) {
            let rest = Rect::from_min_max(pos2(rect.left() + 298.0, rect.top()), rect.max);
            widgets::paint_text(ui, rest, Align2::LEFT_CENTER, &means, body(), p.quiet);
        }
        widgets::add_copy_menu(&r, &[("value", shown), ("row", format!("{value:#x}\t{n}"))]);
    }
    let left = g.different.saturating_sub(g.values.len().min(MAX_SHOWN) as u64);
    if left > 0 {
        ui.label(RichText::new(format!("and {} more", text::count(left))).color(p.quiet));
    }
}

/// Draws the accesses that follow a write; returns the register that was clicked.
fn followers(doc: &Document, g: &Guess, ui: &mut Ui) -> Option<u32> {
    if g.followers.is_empty() {
        return None;
    }
    widgets::section(ui, "After a write, among the next 16 accesses");
    let mut go = None;
    for f in g.followers.iter().take(MAX_SHOWN) {
        let name = doc.derived.register_name(f.offset);
        let deed = if f.write { "write" } else { "read" };
        let far = match f.accesses {
            1 => "the next access".to_owned(),
            n => format!("{n} accesses later"),
        };
        let times = text::count(f.count);
        let ns = text::offset_us(f.ns);
        let message = format!("{times} of {} · {far} · {ns}", text::count(g.writes));
        let label = format!("followed by {deed} {name}, {message}");
        let left = StyledText::mono(format!("{deed} {name}"));
        let r = widgets::list_row(ui, &label, false, 0.0, left, StyledText::body(message));
        if r.clicked() {
            go = Some(f.offset);
        }
    }
    go.map(RegOffset::get)
}
