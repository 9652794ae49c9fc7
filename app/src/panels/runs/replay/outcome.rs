//! The outcome of a replay: the verdict first, then failures, outputs, jobs.

use super::text_lines::{small_line, wrapped_text};
use super::{failures, guarded, jobs, outputs};
use crate::panels::common::actions::UiActions;
use crate::theme::{ROW, icons, mono, palette, small, strong, widgets};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::{Document, replay, text};
use replay_engine::run::{Outcome, Verdict};

/// Opacity of an outcome that is older than the last attempt.
const FROM_BEFORE: f32 = 0.5;

pub(super) fn draw(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    if let Some(summary) = doc.replay.guarded.clone() {
        guarded::draw(doc, ui, &summary);
        return;
    }
    let Some(o) = doc.replay.outcome.clone() else {
        widgets::section(ui, "Outcome");
        let words = if doc.recording.api().is_some() {
            "Nothing was replayed yet. Replay runs the recorded work again and compares the readbacks."
        } else if doc.recording.driver_trace().is_some() {
            "Nothing was replayed yet. Replay submits the recorded push buffers again and reads the outputs back."
        } else {
            "Nothing was replayed yet. Replay runs the recorded work again and compares every read."
        };
        wrapped_text(ui, words, p.quiet);
        ui.add_space(6.0);
        let can = doc.replay.running.is_none() && doc.replay.obstacle().is_none();
        if can && ui.button("Replay now").clicked() {
            actions.run_command("replay");
        }
        return;
    };
    ui.add_space(6.0);
    headline(doc, ui, &o);
    ui.scope(|ui| {
        if doc.replay.last_failure.is_some() {
            // The old result does not hold for the current attempt.
            ui.multiply_opacity(FROM_BEFORE);
        }
        show_results(doc, actions, ui, &o);
    });
}

/// Draws the results of a replay.
fn show_results(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, o: &Outcome) {
    let p = palette(ui);
    if let Some(f) = o.failure.as_ref().filter(|_| o.faults.is_empty()) {
        wrapped_text(ui, format!("▲ {f}"), p.error);
    }
    action_buttons(actions, ui);
    effects(ui, o);
    failures::faults(doc, actions, ui, o);
    failures::divergences(doc, ui, o);
    failures::findings(doc, ui, o);
    outputs::draw(doc, actions, ui, o);
    jobs::draw(doc, ui, o);
}

/// Draws the buttons of the outcome before its lists, which may be long.
fn action_buttons(actions: &mut UiActions, ui: &mut Ui) {
    ui.add_space(4.0);
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.y = 6.0;
        for (words, name, hover, command) in [
            (
                "Save…",
                "Save outcome…",
                "save the outcome as a recording",
                "save-outcome",
            ),
            (
                "Open",
                "Open outcome",
                "open the outcome: it is a recording too",
                "open-outcome",
            ),
            (
                "Compare",
                "Compare outcome",
                "compare the outcome with the recording",
                "compare-outcome",
            ),
        ] {
            let button = ui.button(words).accessible_name(name);
            if button.on_hover_text(hover).clicked() {
                actions.run_command(command);
            }
        }
    });
}

/// Draws the effects other than reads: missing ones first, then those that could not be checked.
fn effects(ui: &mut Ui, o: &Outcome) {
    let p = palette(ui);
    for e in o.effects() {
        match e.matched {
            Some(true) => {}
            Some(false) => {
                let words = format!("▲ {} expected {}, was {} ({})", e.kind, e.expected, e.got, e.source);
                wrapped_text(ui, words, p.error);
            }
            None => wrapped_text(ui, format!("! {} {}", e.kind, e.got), p.warning),
        }
    }
    let there: Vec<&str> = o
        .effects()
        .iter()
        .filter(|e| e.matched == Some(true))
        .map(|e| e.kind.as_str())
        .collect();
    if !there.is_empty() {
        wrapped_text(ui, format!("{} as expected", there.join(", ")), p.quiet);
    }
    for what in o.accesses().map_or(&[][..], |a| &a.unchecked) {
        wrapped_text(ui, format!("! {what}"), p.warning);
    }
}

/// Describes why the outputs lack what jobs compute.
fn describe_uncomputed(o: &Outcome) -> String {
    let of = o.count_uncomputed();
    let all = text::count(o.jobs().len() as u64);
    let mut why = Vec::new();
    if of.unfinished > 0 {
        why.push(format!("{} of {all} jobs did not complete", text::count(of.unfinished)));
    }
    if of.unrun > 0 {
        let unrun = text::count(of.unrun);
        why.push(format!("{unrun} of {all} jobs completed without running their shader"));
    }
    if why.is_empty() {
        return "! not computed: the run did not finish".to_owned();
    }
    format!(
        "! not computed: {}, so the outputs hold their previous content",
        why.join(", ")
    )
}

/// Draws how the replay ended, its target, and its duration: always in view. A target's name that does not fit next to
/// the verdict has a line of its own.
pub(super) fn pinned(doc: &Document, ui: &mut Ui, o: &Outcome) {
    let p = palette(ui);
    ui.add_space(widgets::HEAD);
    let (icon, colour) = match o.verdict {
        Verdict::Match if o.computed => (icons::CHECK_CIRCLE, p.job),
        Verdict::Match => (icons::WARNING, p.warning),
        Verdict::Diverged => (icons::WARNING, p.error),
        Verdict::Failed => (icons::X_CIRCLE, p.error),
    };
    // The old result does not hold for the current attempt.
    let colour = if doc.replay.last_failure.is_some() {
        p.quiet
    } else {
        colour
    };
    let word = format!("{icon} {}", replay::format_verdict(o));
    let took = text::duration(o.timing.runs_ns.first().copied().unwrap_or(0));
    let target = match doc.replay.outcome_target.as_str() {
        "" => o.device.clone(),
        b => b.to_owned(),
    };
    let mut head = strong();
    head.size = 14.0;
    let width = |words: &str, font| ui.painter().layout_no_wrap(words.to_owned(), font, colour).size().x;
    // A verdict of more than a word has its own lines if it needs them.
    let apart = width(&word, head.clone()) + width(&took, mono()) + 8.0 > ui.available_width();
    if apart {
        let words = RichText::new(&word).font(head.clone()).color(colour);
        ui.add(egui::Label::new(words).wrap());
    }
    let (row, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    r.widget_info(|| {
        WidgetInfo::labeled(
            Role::Label,
            true,
            format!("{} on {target} in {took}", replay::format_verdict(o)),
        )
    });
    let used = match apart {
        true => 0.0,
        false => widgets::paint_text(ui, row, Align2::LEFT_CENTER, &word, head, colour),
    };
    let time = widgets::paint_text(ui, row, Align2::RIGHT_CENTER, &took, mono(), p.quiet);
    let between = Rect::from_min_max(
        pos2(row.left() + used + 8.0, row.top()),
        pos2(row.right() - time - 8.0, row.bottom()),
    );
    let name = ui.painter().layout_no_wrap(target.clone(), mono(), p.text);
    if name.size().x <= between.width() {
        super::target::paint_target(ui, between, &target, p.text);
    } else {
        let (line, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
        super::target::paint_target(ui, line, &target, p.text);
        r.on_hover_text(RichText::new(target).font(mono()));
    }
    if let Some(missed) = doc.replay.last_failure {
        wrapped_text(ui, format!("! previous outcome: the last attempt {missed}"), p.warning);
    }
}

fn headline(doc: &Document, ui: &mut Ui, o: &Outcome) {
    let p = palette(ui);
    wrapped_text(ui, replay::format_compared(o), p.quiet);
    if !o.computed {
        wrapped_text(ui, describe_uncomputed(o), p.warning);
    }
    if doc.replay.outcome_revision != doc.changes().revision() {
        let words = RichText::new("your edits are newer than this outcome");
        ui.label(words.font(small()).color(p.edited));
    }
    small_line(
        ui,
        format!(
            "{} sent in {} · device {}",
            text::bytes(o.pushed_bytes),
            text::duration(o.timing.push_ns),
            o.device
        ),
    );
    let runs = o.timing.run_times();
    if runs.count > 1 {
        let words = format!(
            "{} runs: fastest {}, median {}, slowest {}",
            runs.count,
            text::duration(runs.min_ns),
            text::duration(runs.p50_ns),
            text::duration(runs.max_ns)
        );
        ui.add(egui::Label::new(RichText::new(words).font(small()).color(p.quiet)).wrap());
    }
}
