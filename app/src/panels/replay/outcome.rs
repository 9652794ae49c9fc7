//! What came of the replay: the verdict first, then what went wrong, outputs, jobs.

use super::say::{aside, told};
use super::{jobs, outputs, wrong};
use crate::document::Document;
use crate::document::replay;
use crate::panels::desk::Asks;
use crate::theme::{icons, palette, small, strong, text, widgets};
use egui::{RichText, Ui};
use replay_engine::run::{Outcome, Verdict};

pub(super) fn draw(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "Outcome");
    let Some(o) = doc.replay.outcome.clone() else {
        let words = "Nothing was replayed yet. Replay runs the recorded work again and compares every read.";
        told(ui, words, p.quiet);
        return;
    };
    headline(doc, ui, &o);
    if let Some(f) = o.failure.as_ref().filter(|_| o.faults.is_empty()) {
        told(ui, format!("▲ {f}"), p.error);
    }
    wrong::faults(doc, asks, ui, &o);
    wrong::divergences(doc, ui, &o);
    wrong::findings(doc, ui, &o);
    outputs::draw(doc, asks, ui, &o);
    jobs::draw(doc, ui, &o);
    ui.add_space(8.0);
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.y = 6.0;
        if ui.button("Save outcome…").clicked() {
            asks.command("save-outcome");
        }
        let open = ui
            .button("Open outcome")
            .on_hover_text("the outcome is a recording too");
        if open.clicked() {
            asks.command("open-outcome");
        }
    });
}

/// Why what jobs compute is not in the outputs.
fn uncomputed(o: &Outcome) -> String {
    let of = o.uncomputed();
    let all = text::count(o.jobs.len() as u64);
    let mut why = Vec::new();
    if of.unfinished > 0 {
        why.push(format!(
            "{} of {all} jobs did not end as done",
            text::count(of.unfinished)
        ));
    }
    if of.unrun > 0 {
        let unrun = text::count(of.unrun);
        why.push(format!("{unrun} of {all} jobs completed without running their shader"));
    }
    if why.is_empty() {
        return "! not computed: the run did not come to its end".to_owned();
    }
    format!(
        "! not computed: {}, so outputs hold what was there before",
        why.join(", ")
    )
}

fn headline(doc: &Document, ui: &mut Ui, o: &Outcome) {
    let p = palette(ui);
    let (icon, colour) = match o.verdict {
        Verdict::Match => (icons::CHECK_CIRCLE, p.job),
        Verdict::Diverged => (icons::WARNING, p.error),
        Verdict::Failed => (icons::X_CIRCLE, p.error),
    };
    // What was is not what would be now.
    let colour = if doc.replay.missed.is_some() { p.quiet } else { colour };
    let word = format!("{icon} {}", replay::verdict(o));
    ui.label(RichText::new(word).font(strong()).size(14.0).color(colour));
    told(ui, format!("on {}", doc.replay.outcome_board), p.quiet);
    told(ui, replay::summary(o), p.quiet);
    if let Some(missed) = doc.replay.missed {
        told(ui, format!("! from before: the last attempt {missed}"), p.warning);
    }
    if !o.computed {
        told(ui, uncomputed(o), p.warning);
    }
    if doc.replay.outcome_revision != doc.changes().revision() {
        let words = RichText::new("your edits are newer than this outcome");
        ui.label(words.font(small()).color(p.edited));
    }
    aside(
        ui,
        format!(
            "{} sent in {} · on {}",
            text::bytes(o.pushed_bytes),
            text::duration(o.timing.push_ns),
            o.device
        ),
    );
    if o.timing.runs_ns.len() > 1 {
        let mut runs = o.timing.runs_ns.clone();
        runs.sort_unstable();
        let at = |part: f64| {
            runs.get(((runs.len() - 1) as f64 * part) as usize)
                .copied()
                .unwrap_or(0)
        };
        let words = format!(
            "{} runs: fastest {}, middle {}, slowest {}",
            runs.len(),
            text::duration(at(0.0)),
            text::duration(at(0.5)),
            text::duration(at(1.0))
        );
        ui.add(egui::Label::new(RichText::new(words).font(small()).color(p.quiet)).wrap());
    }
}
