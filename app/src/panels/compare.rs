//! The Compare panel: a second recording next to the open one, on one timeline, with a list of differences.

mod calls;
mod causes;
mod detail;
mod errors;
mod field;
mod line;
mod list;
mod memory;
mod rules;
mod sections;
mod style;
mod timeline;
pub mod view;
mod walks;

pub use list::current_difference;
pub use memory::step;
pub use rules::{add as add_rule, apply as apply_rules};
pub use view::{Section, View};

use crate::panels::common::actions::UiActions;
use crate::theme::{body, icons, palette, small, strong, widgets};
use egui::accesskit::Role;
use egui::{Align, Align2, Color32, Layout, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::comparison::{Comparison, ComparisonSource};
use kinescope_session::{Document, text};
use sections::{choose_opening_section, entries, list_sections};
use std::sync::Arc;
use style::{SIDE, label_change};
use trace_core::diff::ChangeKind;

/// Height from which the timeline of both is drawn above the list, points.
const MIN_HEIGHT_WITH_TIMELINE: f32 = 210.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    if let Some((name, progress)) = &doc.comparison.running {
        let done = progress.fraction().unwrap_or(0.0);
        let words = format!("Comparing with {name} … {:.0} %", done * 100.0);
        if doc.comparison.done.is_none() {
            if widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, &words, Some("Stop comparing")) {
                progress.cancel();
            }
            return;
        }
        ui.horizontal(|ui| {
            ui.add_space(SIDE);
            ui.label(RichText::new(words).font(small()).color(palette(ui).quiet));
            if ui.small_button("Stop comparing").clicked() {
                progress.cancel();
            }
        });
    }
    let Some(c) = doc.comparison.done.clone() else {
        show_empty(doc, actions, ui);
        return;
    };
    head(doc, &c, actions, ui);
    summary_line(&c, ui);
    counts(&c, ui);
    for w in &c.warnings {
        ui.horizontal(|ui| {
            ui.add_space(SIDE);
            let p = palette(ui);
            ui.label(RichText::new(format!("! {w}")).font(small()).color(p.warning));
        });
    }
    // If there is room for only one, the list stays: the timeline above also shows the lane of differences.
    if ui.available_height() >= MIN_HEIGHT_WITH_TIMELINE {
        timeline::ui(doc, &c, view, ui);
    }
    // Until the user chooses a list, the list of the earliest cause is shown.
    if !view.chosen {
        view.section = choose_opening_section(&c).unwrap_or(view.section);
    }
    section_tabs(&c, view, ui);
    match view.section {
        Section::Memory => memory::ui(doc, &c, view, actions, ui),
        Section::Rules => rules::ui(doc, &c, view, actions, ui),
        _ => list::ui(doc, &c, view, actions, ui),
    }
}

/// Draws the panel while there is no second recording.
fn show_empty(doc: &Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let message = match &doc.comparison.failed {
        Some((name, why)) => format!("{name} was not compared: {why}"),
        None => {
            "Compare this recording with another one: a timeline shows both, and a list shows the differences. Drop a \
             file on the window, or choose one."
                .into()
        }
    };
    let icon = match doc.comparison.failed {
        Some(_) => icons::WARNING_CIRCLE,
        None => icons::SIDEBAR_SIMPLE,
    };
    ui.add_space((ui.available_height() * 0.25).clamp(12.0, 100.0));
    ui.vertical_centered(|ui| {
        ui.label(RichText::new(icon).size(28.0).color(p.quiet));
        ui.add_space(4.0);
        ui.set_max_width(560.0_f32.min(ui.available_width()));
        ui.add(egui::Label::new(RichText::new(message).color(p.quiet)).wrap());
        ui.add_space(8.0);
        let mut button = |words: &str, id: &'static str| {
            if ui.button(words).clicked() {
                actions.run_command(id);
            }
            ui.add_space(4.0);
        };
        button("Compare with file…", "compare-with");
        button("Compare with folder…", "compare-folder");
        if doc.replay.outcome.is_some() {
            button("Compare with the outcome of the replay", "compare-outcome");
        }
    });
}

/// Draws whether the recordings differ, their names, and the buttons that step through the differences.
fn head(doc: &mut Document, c: &Arc<Comparison>, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 30.0), Sense::hover());
    let inner = rect.shrink2(vec2(SIDE, 2.0));
    let mut right = ui.new_child(
        egui::UiBuilder::new()
            .id_salt("way")
            .max_rect(inner)
            .layout(Layout::right_to_left(Align::Center)),
    );
    if widgets::icon_button(&mut right, icons::X, "Close comparison").clicked() {
        actions.run_command("end-compare");
    }
    let n = c.steps.rows();
    if n > 0 {
        if widgets::icon_button(&mut right, icons::CARET_RIGHT, "Next difference").clicked() {
            actions.run_command("next-difference");
        }
        if widgets::icon_button(&mut right, icons::CARET_LEFT, "Previous difference").clicked() {
            actions.run_command("previous-difference");
        }
        let here = doc.step().and_then(|s| c.steps.row_at(s));
        let mut words = match here {
            Some(row) => format!("difference {} of {}", text::count(row + 1), text::count(n)),
            None => text::count_noun(n, "difference", "differences"),
        };
        if !doc.comparison.jump_message.is_empty() {
            words = format!("{words}, {}", doc.comparison.jump_message);
        }
        let r = right.label(RichText::new(&words).font(small()).color(p.quiet));
        r.widget_info(|| WidgetInfo::labeled(Role::Status, true, words.clone()));
    }
    let end = right.min_rect().left();
    let (sign, words, ink) = match (c.summary.same, c.summary.not_compared.is_empty()) {
        (true, true) => ("=", "The recordings are equal", p.job),
        (true, false) => ("!", "The compared parts are equal", p.warning),
        (false, _) => ("≠", "The recordings differ", p.error),
    };
    let left = Rect::from_min_max(inner.min, pos2(end - 12.0, inner.max.y));
    let r = ui.interact(left, ui.scope_id().with("verdict"), Sense::hover());
    let all = format!("{words}: A {}, B {}", doc.title, c.other.name);
    r.widget_info(|| WidgetInfo::labeled(Role::Heading, true, all.clone()));
    let mut x = left.left();
    let mut put = |t: &str, font: egui::FontId, ink: Color32, gap: f32, max: f32| {
        let room = Rect::from_min_max(pos2(x, left.top()), pos2((x + max).min(left.right()), left.bottom()));
        let shown = widgets::truncate_middle(ui, room.width(), t, &font);
        x += widgets::paint_text(ui, room, Align2::LEFT_CENTER, &shown, font, ink) + gap;
    };
    put(
        sign,
        egui::FontId::new(16.0, egui::FontFamily::Proportional),
        ink,
        6.0,
        40.0,
    );
    put(words, strong(), ink, 16.0, 240.0);
    let half = ((left.width() - 200.0) / 2.0).max(60.0);
    put("A", strong(), p.only_a, 5.0, 20.0);
    put(&doc.title, body(), p.text, 16.0, half);
    put("B", strong(), p.only_b, 5.0, 20.0);
    put(&c.other.name, body(), p.text, 8.0, half);
    let tip = match &c.other.source {
        ComparisonSource::File(path) => format!("A {}\nB {}", doc.path.display(), path.display()),
        ComparisonSource::Outcome(_) => format!("A {}\nB {}", doc.path.display(), c.other.name),
    };
    r.on_hover_text(tip);
}

/// Draws how many events have each kind of change: the number with its sign, colour and word.
fn counts(c: &Comparison, ui: &mut Ui) {
    let p = palette(ui);
    let e = &c.diff.events;
    let of = |w: ChangeKind| label_change(p, w);
    let (eq, ch, da, db) = (
        of(ChangeKind::Equal),
        of(ChangeKind::Changed),
        of(ChangeKind::Deleted),
        of(ChangeKind::Inserted),
    );
    let list = [
        (
            eq.0,
            e.equal,
            "equal",
            p.job,
            "events that are equal in both recordings",
        ),
        (
            ch.0,
            e.changed,
            "changed",
            ch.2,
            "the same accesses with different values",
        ),
        (da.0, e.deleted, "only in A", da.2, "events that only recording A has"),
        (db.0, e.inserted, "only in B", db.2, "events that only recording B has"),
        (
            "↗",
            e.moved,
            "moved",
            p.text,
            "events of both recordings, at different positions",
        ),
        (
            "→",
            e.relocated,
            "relocated",
            p.quiet,
            "writes that differ only in relocated addresses; they count as equal",
        ),
        (
            "~",
            e.uncompared,
            "per run",
            p.quiet,
            "values that differ in every run, such as free-running counters; not compared",
        ),
    ];
    let sides = egui::Margin::symmetric(SIDE as i8, 0);
    egui::Frame::new().inner_margin(sides).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing = vec2(14.0, 2.0);
            for (sign, n, word, ink, why) in list {
                let ink = if n == 0 { p.quiet } else { ink };
                let words = format!("{sign} {} {word}", text::count(n));
                let r = ui.label(RichText::new(&words).font(body()).color(ink));
                r.widget_info(|| WidgetInfo::labeled(Role::Label, true, words.clone()));
                r.on_hover_text(why);
            }
            if c.is_api_trace {
                return;
            }
            let (a, b) = c.diff.jobs;
            let words = if a == b {
                text::count_noun(a, "job each", "jobs each")
            } else {
                format!("≠ {} jobs and {}", text::count(a), text::count(b))
            };
            let ink = if a == b { p.quiet } else { p.error };
            ui.label(RichText::new(words).font(body()).color(ink));
        });
    });
    ui.add_space(2.0);
}

/// Draws the result of the comparison in one sentence, and what could not be compared.
fn summary_line(c: &Comparison, ui: &mut Ui) {
    let p = palette(ui);
    let mut line = |words: &str, ink: Color32| {
        let sides = egui::Margin::symmetric(SIDE as i8, 0);
        egui::Frame::new().inner_margin(sides).show(ui, |ui| {
            let r = ui.add(egui::Label::new(RichText::new(words).font(body()).color(ink)).wrap());
            r.widget_info(|| WidgetInfo::labeled(Role::Label, true, words));
        });
    };
    if !c.summary.same {
        line(&c.summary.sentence, p.text);
    }
    if !c.summary.not_compared.is_empty() {
        line(&format!("! {}", c.summary.not_compared), p.warning);
    }
}

/// Draws the choice of the list.
fn section_tabs(c: &Comparison, view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    let sides = egui::Margin::symmetric(SIDE as i8 - 4, 0);
    egui::Frame::new().inner_margin(sides).show(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing = vec2(4.0, 2.0);
            for section in list_sections(c).iter().copied() {
                let n = entries(c, section);
                let on = view.section == section;
                let words = match n {
                    0 => section.name().to_owned(),
                    n => format!("{} {}", section.name(), text::count(n)),
                };
                let ink = if on { p.text } else { p.quiet };
                let r = ui.selectable_label(on, RichText::new(&words).color(ink));
                r.widget_info(|| WidgetInfo::selected(Role::Tab, true, on, format!("Differences: {}", section.name())));
                if r.clicked() {
                    view.open(section);
                }
            }
        });
    });
    ui.add_space(2.0);
    let y = ui.cursor().top() - 2.0;
    let x = ui.max_rect().x_range();
    ui.painter().hline(x, y, Stroke::new(1.0, p.line));
}
