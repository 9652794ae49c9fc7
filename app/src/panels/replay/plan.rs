//! What the replay will do: actions, comparisons, what was proved, every rewrite; and the buttons that start it.

use super::say::{aside, count_row, told};
use crate::document::Document;
use crate::document::boards::contained_briefly;
use crate::document::replay::TroubleKind;
use crate::panels::desk::Asks;
use crate::theme::{icons, palette, small, text, widgets};
use egui::{RichText, Ui};
use replay_engine::plan::{Plan, RewriteKind};

fn rewrite_words(kind: RewriteKind) -> &'static str {
    match kind {
        RewriteKind::Root => "page-table root → the board's",
        RewriteKind::FlushId => "flush id ← read at run time",
        RewriteKind::JobStatus => "job status cleared before its submit",
        RewriteKind::Gap => "idle time skipped",
        RewriteKind::ReadToWait => "status reads → bounded wait",
        RewriteKind::WaitAdded => "wait for an interrupt added",
        RewriteKind::Input => "input ← your edit",
        RewriteKind::Output => "output copied out at the end",
        RewriteKind::Address => "address → the board's",
    }
}

pub(super) fn draw(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "What the replay will do");
    trouble(doc, asks, ui);
    let Some((compiled, _)) = doc.replay.plan.clone() else {
        if doc.replay.error.is_none() {
            let words = "A plan lists every write, every comparison and every change before anything is sent to the \
                         board.";
            told(ui, words, p.quiet);
        }
        return;
    };
    if let Some(d) = &doc.replay.device {
        aside(ui, format!("on {} · {}", d.gpu_name, contained_briefly(d.containment)));
    }
    if !doc.plan_is_fresh() {
        told(
            ui,
            "! your edits are newer than this plan; a replay makes a new one",
            p.warning,
        );
    }
    planned(doc, ui, &compiled.plan);
    ui.add_space(6.0);
    if ui.button("Save plan as text…").clicked() {
        asks.command("save-plan");
    }
}

/// What went wrong, and the way on.
fn trouble(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    let Some(t) = doc.replay.error.clone() else { return };
    let (words, colour) = match t.kind {
        TroubleKind::Stopped => ("Stopped. Nothing was kept of this run.".to_owned(), p.quiet),
        _ => (format!("▲ {}", t.text), p.error),
    };
    told(ui, words, colour);
    if let Some(range) = &t.allow {
        ui.add_space(4.0);
        let words = format!("Allow {:#x}..{:#x} and plan again", range.start, range.end);
        let more = "registers that the map does not know are replayed only where you allow them; plan and outcome name \
                    the range";
        if ui.button(words).on_hover_text(more).clicked() {
            doc.replay.allowed.push(range.clone());
            asks.command("plan");
        }
    }
    if t.kind == TroubleKind::Board && doc.replay.board() != doc.replay.software() {
        ui.add_space(4.0);
        if ui.button("Go on with the software board").clicked() {
            let software = doc.replay.software().to_owned();
            doc.replay.choose(&software);
        }
    }
    ui.add_space(6.0);
}

fn planned(doc: &Document, ui: &mut Ui, plan: &Plan) {
    let p = palette(ui);
    let none = ("", p.quiet);
    let what = "register accesses, waits and pauses";
    count_row(ui, plan.actions, "actions", none, None, what);
    let left = "reads that count freely, like cycle counters, are not compared";
    count_row(ui, plan.reads.compared(), "reads compared", none, None, left);
    let limit = format!("jobs, limit {} each", text::duration(plan.budgets.interrupt_ns));
    count_row(ui, plan.jobs.len() as u64, &limit, none, None, "");
    let word = match &doc.replay.verified {
        Some(Ok(v)) if v.unproved.is_empty() => ("proved", p.job),
        Some(Ok(_)) => ("! bounded", p.warning),
        Some(Err(_)) => ("▲ refused", p.error),
        None => none,
    };
    let inside = doc.safety_told();
    count_row(ui, plan.used_pages, "pages, all its own", word, None, &inside);
    match &doc.replay.verified {
        Some(Err(e)) => {
            told(ui, format!("▲ {e}. Nothing is sent."), p.error);
        }
        Some(Ok(v)) => {
            for u in &v.unproved {
                let words = RichText::new(format!("! not proved, bounded by time: {u}"));
                ui.add(egui::Label::new(words.font(small()).color(p.warning)).wrap());
            }
        }
        None => {}
    }
    widgets::section(ui, "Rewrites");
    for kind in RewriteKind::ALL {
        let list: Vec<_> = plan.rewrites.iter().filter(|r| r.kind == kind).collect();
        if list.is_empty() {
            continue;
        }
        let ink = (kind == RewriteKind::Input).then_some(p.edited);
        let mut hover: Vec<String> = list
            .iter()
            .take(6)
            .map(|r| match r.event {
                Some(e) => format!("event {}: {}", text::count(e), r.detail),
                None => r.detail.clone(),
            })
            .collect();
        if list.len() > hover.len() {
            hover.push(format!(
                "and {} more; the plan as text lists all",
                list.len() - hover.len()
            ));
        }
        count_row(ui, list.len() as u64, rewrite_words(kind), none, ink, &hover.join("\n"));
    }
}

/// The buttons; while something runs, how far it is and the way to stop it.
pub(super) fn actions(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    if let Some(progress) = doc.replay.running.clone() {
        let phase = doc.replay.phase.lock().map(|t| t.clone()).unwrap_or_default();
        ui.horizontal(|ui| {
            let bar = egui::ProgressBar::new(progress.fraction().unwrap_or(0.0))
                .desired_width((ui.available_width() * 0.4).min(160.0))
                .desired_height(8.0);
            ui.add(bar);
            let stopping = progress.check().is_err();
            let words = if stopping { "stopping".to_owned() } else { phase };
            ui.label(RichText::new(words).color(p.quiet));
            if widgets::icon_button(ui, icons::X, "Cancel replay").clicked() {
                progress.cancel();
            }
        });
        ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
        return;
    }
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.y = 6.0;
        let (word, label) = match doc.replay.real() {
            true => ("Replay on hardware", "Replay on hardware"),
            false => ("Replay", "Run replay"),
        };
        let words = format!("{} {word}", icons::PLAY);
        if widgets::primary_button(ui, &words, label, true)
            .on_hover_text("Ctrl Enter")
            .clicked()
        {
            asks.command("replay");
        }
        if ui.button("10 times").clicked() {
            asks.command("replay-ten");
        }
        let again = if doc.replay.plan.is_some() {
            "Plan again"
        } else {
            "Make plan"
        };
        if ui.button(again).clicked() {
            asks.command("plan");
        }
    });
}
