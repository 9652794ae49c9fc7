//! Replay: the board, what the replay will do, the run, and what came of it.

use crate::document::moment::Selection;
use crate::document::{Document, replay, values};
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, Part, paint_text};
use crate::theme::{body, icons, mono, palette, small, text};
use crate::window::Asks;
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use replay_engine::client::boards::Reach;
use replay_engine::device::Containment;
use replay_engine::plan::{Plan, RewriteKind};
use replay_engine::run::{Outcome, Verdict};
use std::sync::Arc;

/// Draws the panel.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    if doc.is_empty() {
        widgets::empty(
            ui,
            icons::PLAY,
            "There is nothing to replay: this recording holds no register accesses.",
            None,
        );
        return;
    }
    let full = ui.available_rect_before_wrap();
    let parts = [full.width() * 0.23, full.width() * 0.39];
    let mut x = full.left();
    for (i, draw) in [board as fn(&mut Document, &mut Asks, &mut Ui), plan, outcome]
        .into_iter()
        .enumerate()
    {
        let w = parts.get(i).copied().unwrap_or(full.right() - x);
        let rect = Rect::from_min_max(pos2(x, full.top()), pos2(x + w, full.bottom()));
        if i > 0 {
            ui.painter()
                .vline(rect.left(), rect.y_range(), Stroke::new(1.0, p.line));
        }
        let mut child = ui.new_child(
            egui::UiBuilder::new()
                .max_rect(rect.shrink2(vec2(12.0, 0.0)))
                .id_salt(i),
        );
        child.shrink_clip_rect(rect);
        egui::ScrollArea::vertical()
            .id_salt(("replay", i))
            .auto_shrink(false)
            .show(&mut child, |ui| {
                ui.spacing_mut().item_spacing.y = 2.0;
                draw(doc, asks, ui);
            });
        x += w;
    }
    ui.advance_cursor_after_rect(full);
}

/// What keeps a device from foreign memory, in words.
#[must_use]
pub fn contained(c: Containment) -> &'static str {
    match c {
        Containment::Software => "a software device, contained",
        Containment::Iommu => "contained by an IOMMU",
        Containment::PageTables => "contained by its page tables",
        Containment::None => "not contained",
    }
}

fn board(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "Board");
    let now = doc.replay.board().to_owned();
    let mut names = vec![(
        replay::SOFTWARE.to_owned(),
        "the software Mali of this program".to_owned(),
        true,
    )];
    for b in doc.replay.boards.iter().flatten() {
        let (told, free) = match &b.reach {
            Reach::Here => (b.description.clone(), true),
            Reach::Free => (format!("{}, free", b.description), true),
            Reach::Busy(who) => (format!("held by {who}"), false),
            Reach::Away(why) => (format!("away: {why}"), false),
        };
        if b.name != replay::SOFTWARE {
            names.push((b.name.clone(), told, free));
        }
    }
    if !names.iter().any(|n| n.0 == now) {
        names.push((now.clone(), "by address".into(), true));
    }
    for (name, told, free) in names {
        let mut left = Part::mono(format!(
            "{} {}",
            if now == name { "●" } else { "○" },
            text::middle(&name, 28)
        ));
        if now == name {
            left = left.colour(p.job);
        } else if !free {
            left = left.colour(p.quiet);
        }
        let r = widgets::list_row(ui, &format!("board {name}"), now == name, 0.0, left, Part::small(""));
        if r.on_hover_text(&told).clicked() {
            doc.replay.choose(&name);
        }
        ui.add(egui::Label::new(RichText::new(told).font(small()).color(p.quiet)).truncate());
    }
    ui.add_space(4.0);
    if ui
        .button("Look for boards")
        .on_hover_text("asks the agents that are paired")
        .clicked()
    {
        asks.command("find-boards");
    }
    widgets::section(ui, "Another board");
    ui.add(
        egui::TextEdit::singleline(&mut doc.replay.board_field)
            .font(mono())
            .desired_width(f32::INFINITY)
            .hint_text(RichText::new("agent://HOST:PORT/DEVICE").font(mono()).color(p.quiet)),
    )
    .accessible_name("Board address");
    let typed = doc.replay.board_field.trim().to_owned();
    ui.horizontal_wrapped(|ui| {
        if ui.add_enabled(!typed.is_empty(), egui::Button::new("Use")).clicked() {
            doc.replay.choose(&typed);
        }
        if ui.add_enabled(!typed.is_empty(), egui::Button::new("Pair…")).clicked() {
            asks.command("pair");
        }
    });
    asks.pairing_ui(ui);
    widgets::section(ui, "Pace");
    ui.horizontal(|ui| {
        for (keep, word) in [(false, "fast"), (true, "as recorded")] {
            if ui.radio(doc.replay.keep_gaps == keep, word).clicked() && doc.replay.keep_gaps != keep {
                asks.command("toggle-pace");
            }
        }
    });
    ui.label(
        RichText::new("fast skips the recorded idle time")
            .font(small())
            .color(p.quiet),
    );
}

fn rewrite_words(kind: RewriteKind) -> &'static str {
    match kind {
        RewriteKind::Root => "page-table root → the agent's",
        RewriteKind::FlushId => "flush id ← read at run time",
        RewriteKind::JobStatus => "job status cleared before its submit",
        RewriteKind::Gap => "idle time skipped",
        RewriteKind::ReadToWait => "status reads → bounded wait",
        RewriteKind::WaitAdded => "wait for an interrupt added",
        RewriteKind::Input => "input ← your edit",
        RewriteKind::Output => "output copied out at the end",
        RewriteKind::Address => "address → the agent's",
    }
}

fn count_row(ui: &mut Ui, n: u64, what: &str, told: &str, ink: Option<egui::Color32>, hover: &str) {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), crate::theme::ROW), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{n} {what}")));
    let y = rect.center().y;
    ui.painter().text(
        pos2(rect.left() + 52.0, y),
        Align2::RIGHT_CENTER,
        text::count(n),
        mono(),
        ink.unwrap_or(p.text),
    );
    let used = paint_text(ui, rect, Align2::RIGHT_CENTER, told, body(), p.job);
    let mid = Rect::from_min_max(
        pos2(rect.left() + 62.0, rect.top()),
        pos2(rect.right() - used - 4.0, rect.bottom()),
    );
    paint_text(ui, mid, Align2::LEFT_CENTER, what, body(), ink.unwrap_or(p.text));
    if !hover.is_empty() {
        r.on_hover_text(hover);
    }
}

fn plan(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "What the replay will do");
    let fresh = doc
        .replay
        .plan
        .as_ref()
        .is_some_and(|(_, r)| *r == doc.changes().revision());
    match doc.replay.plan.clone() {
        Some((compiled, _)) => {
            let on = doc.replay.device.as_ref().map_or(String::new(), |d| {
                format!("on {} · {}", d.gpu_name, contained(d.containment))
            });
            ui.add(egui::Label::new(RichText::new(on).font(small()).color(p.quiet)).truncate());
            planned(doc, ui, &compiled.plan);
            if !fresh {
                ui.add(
                    egui::Label::new(
                        RichText::new("! your edits are newer than this plan; a replay makes a new one")
                            .color(p.warning),
                    )
                    .wrap(),
                );
            }
        }
        None => {
            ui.add(
                egui::Label::new(
                    RichText::new("A plan lists every write, every comparison and every change before anything is sent to the board.")
                        .color(p.quiet),
                )
                .wrap(),
            );
        }
    }
    if let Some(e) = &doc.replay.error {
        ui.add_space(4.0);
        ui.add(egui::Label::new(RichText::new(format!("▲ {e}")).color(p.error)).wrap());
    }
    ui.add_space(8.0);
    let running = doc.replay.running.clone();
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.y = 6.0;
        let label = if doc.replay.real() {
            "Replay on hardware"
        } else {
            "Run replay"
        };
        let words = format!(
            "{} {}",
            icons::PLAY,
            if doc.replay.real() {
                "Replay on hardware"
            } else {
                "Replay"
            }
        );
        if widgets::primary_button(ui, &words, label, running.is_none()).clicked() {
            asks.command("replay");
        }
        if ui
            .add_enabled(running.is_none(), egui::Button::new("10 times"))
            .clicked()
        {
            asks.command("replay-ten");
        }
        if ui
            .add_enabled(
                running.is_none(),
                egui::Button::new(if fresh { "Plan again" } else { "Make plan" }),
            )
            .clicked()
        {
            asks.command("plan");
        }
        if doc.replay.plan.is_some() && ui.button("Save plan…").clicked() {
            asks.command("save-plan");
        }
    });
    if let Some(progress) = running {
        let phase = doc.replay.phase.lock().map(|t| t.clone()).unwrap_or_default();
        ui.add_space(4.0);
        ui.horizontal(|ui| {
            ui.add(
                egui::ProgressBar::new(progress.fraction().unwrap_or(0.0))
                    .desired_width(140.0)
                    .desired_height(8.0),
            );
            ui.label(RichText::new(phase).color(p.quiet));
            if widgets::icon_button(ui, icons::X, "Cancel replay").clicked() {
                progress.cancel();
            }
        });
        ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
    }
}

fn planned(doc: &Document, ui: &mut Ui, plan: &Plan) {
    let p = palette(ui);
    let proved = match &doc.replay.verified {
        Some(Ok(v)) => Some(Ok(v)),
        Some(Err(e)) => Some(Err(e)),
        None => None,
    };
    let good = if matches!(proved, Some(Ok(_))) { "proved" } else { "" };
    count_row(
        ui,
        plan.actions,
        "actions",
        "",
        None,
        "register accesses, waits and pauses",
    );
    count_row(ui, plan.reads.compared(), "reads compared", "", None, "");
    let limit = format!("jobs, limit {} each", text::duration(plan.budgets.interrupt_ns));
    count_row(ui, plan.jobs.len() as u64, &limit, "", None, "");
    let inside = "the page tables were walked after relocation: every address that the GPU can reach is the agent's";
    count_row(ui, plan.used_pages, "pages, all the board's own", good, None, inside);
    match proved {
        Some(Err(e)) => {
            ui.add(egui::Label::new(RichText::new(format!("▲ refused: {e}")).color(p.error)).wrap());
        }
        Some(Ok(v)) => {
            for u in &v.unproved {
                ui.add(egui::Label::new(RichText::new(format!("! {u}")).font(small()).color(p.warning)).wrap());
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
        let hover: Vec<String> = list.iter().take(6).map(|r| r.detail.clone()).collect();
        count_row(ui, list.len() as u64, rewrite_words(kind), "", ink, &hover.join("\n"));
    }
}

fn outcome(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "Outcome");
    let Some(o) = doc.replay.outcome.clone() else {
        ui.add(
            egui::Label::new(
                RichText::new("Nothing was replayed yet. Replay runs the recorded work again and compares every read.")
                    .color(p.quiet),
            )
            .wrap(),
        );
        return;
    };
    headline(doc, ui, &o);
    if let Some(f) = &o.failure {
        ui.add(egui::Label::new(RichText::new(format!("▲ {f}")).color(p.error)).wrap());
    }
    divergences(doc, ui, &o);
    faults(doc, asks, ui, &o);
    outputs(doc, ui, &o);
    jobs(doc, ui, &o);
    ui.add_space(8.0);
    ui.horizontal_wrapped(|ui| {
        if ui.button("Save outcome…").clicked() {
            asks.command("save-outcome");
        }
        if ui
            .button("Open outcome")
            .on_hover_text("the outcome is a recording too")
            .clicked()
        {
            asks.command("open-outcome");
        }
    });
}

fn headline(doc: &Document, ui: &mut Ui, o: &Outcome) {
    let p = palette(ui);
    let (icon, colour) = match o.verdict {
        Verdict::Match => (icons::CHECK_CIRCLE, p.job),
        Verdict::Diverged => (icons::WARNING, p.error),
        Verdict::Failed => (icons::X_CIRCLE, p.error),
    };
    ui.horizontal(|ui| {
        let word = format!("{icon} {}", replay::verdict(o));
        ui.label(
            RichText::new(word)
                .font(crate::theme::strong())
                .size(14.0)
                .color(colour),
        );
    });
    ui.add(egui::Label::new(RichText::new(replay::summary(o)).color(p.quiet)).wrap());
    if !o.computed {
        let shaders = o.jobs.iter().filter(|j| j.computed == Some(false)).count();
        let told = format!(
            "! not computed: {shaders} of {} jobs completed without running their shader, so outputs hold what was there before",
            o.jobs.len()
        );
        ui.add(egui::Label::new(RichText::new(told).color(p.warning)).wrap());
    }
    if doc.replay.outcome_revision != doc.changes().revision() {
        ui.label(
            RichText::new("your edits are newer than this outcome")
                .font(small())
                .color(p.edited),
        );
    }
    let sent = format!(
        "{} sent · {} on {}",
        text::bytes(o.pushed_bytes),
        text::duration(o.timing.push_ns),
        o.device
    );
    ui.add(egui::Label::new(RichText::new(sent).font(small()).color(p.quiet)).truncate());
    if o.timing.runs_ns.len() > 1 {
        let mut runs = o.timing.runs_ns.clone();
        runs.sort_unstable();
        let at = |part: f64| runs[((runs.len() - 1) as f64 * part) as usize];
        let told = format!(
            "{} runs: fastest {}, middle {}, slowest {}",
            runs.len(),
            text::duration(at(0.0)),
            text::duration(at(0.5)),
            text::duration(at(1.0))
        );
        ui.add(egui::Label::new(RichText::new(told).font(small()).color(p.quiet)).wrap());
    }
}

fn divergences(doc: &mut Document, ui: &mut Ui, o: &Arc<Outcome>) {
    if o.divergences.is_empty() {
        return;
    }
    let p = palette(ui);
    widgets::section(ui, &format!("{} divergences", text::count(o.divergence_count)));
    let height = (o.divergences.len() as f32 * crate::theme::ROW).min(160.0);
    let rect = Rect::from_min_size(ui.cursor().min, vec2(ui.available_width(), height));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(rect));
    let id = ui.scope_id().with("divergence rows");
    let mut rows: Rows = ui.data(|d| d.get_temp(id)).unwrap_or_default();
    let mut go = None;
    rows.show(
        &mut child,
        "Divergences",
        o.divergences.len() as u64,
        |ui, row, rect| {
            let Some(d) = o.divergences.get(row as usize) else {
                return;
            };
            let r = ui.interact(rect, ui.scope_id().with(("divergence", row)), Sense::click());
            r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("divergence at event {}", d.event)));
            if r.hovered() || *doc.selection() == Selection::Divergence(row as u32) {
                ui.painter().rect_filled(rect, 0.0, p.selection);
            }
            let told = format!(
                "▲ {} {} {:#x}, recorded {:#x}",
                text::count(d.event),
                d.register,
                d.got,
                d.expected
            );
            paint_text(ui, rect, Align2::LEFT_CENTER, &told, mono(), p.error);
            let r = r.on_hover_text(format!(
                "{}\ngot {:#x}, the recording has {:#x} ({})",
                d.register, d.got, d.expected, d.class
            ));
            if r.clicked() {
                go = Some((d.event, row as u32));
            }
        },
    );
    ui.data_mut(|d| d.insert_temp(id, rows));
    ui.advance_cursor_after_rect(rect);
    if let Some((event, i)) = go {
        doc.go_with(event, Selection::Divergence(i));
    }
}

fn faults(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, o: &Arc<Outcome>) {
    let p = palette(ui);
    for f in o.faults.iter().take(8) {
        widgets::section(ui, "Fault");
        ui.add(egui::Label::new(RichText::new(format!("▲ {}", f.summary)).color(p.error)).wrap());
        widgets::key_value(ui, "exception", Part::mono(&f.exception));
        if let Some(a) = f.address
            && widgets::key_link(ui, "address", &a.to_string()).clicked()
        {
            doc.show_memory(0, a.0, 1);
            asks.command("show-page-tables");
        }
        if widgets::key_link(ui, "at", &format!("event {}", text::count(f.event))).clicked() {
            doc.go(f.event);
        }
        for line in &f.walk {
            ui.add(egui::Label::new(RichText::new(line).font(mono()).color(p.quiet)).truncate());
        }
        if let Some((name, by)) = &f.nearest_buffer {
            widgets::key_value(ui, "nearest", Part::words(format!("{name}, {} away", text::bytes(*by))));
        }
    }
}

fn outputs(doc: &mut Document, ui: &mut Ui, o: &Arc<Outcome>) {
    let p = palette(ui);
    for out in &o.outputs {
        let n = out.data.len() / out.element.bytes();
        widgets::section(
            ui,
            &format!("Output {} · {} {}", out.name, out.element.name(), text::count(n as u64)),
        );
        if let Some(c) = doc.replay.compared.iter().find(|c| c.name == out.name) {
            let (told, colour) = if c.unknown == c.bytes {
                (
                    "the recording does not hold it, so there is nothing to compare with".into(),
                    p.quiet,
                )
            } else if c.differ == 0 {
                ("as recorded, byte for byte".into(), p.job)
            } else {
                (
                    format!(
                        "▲ {} of {} bytes differ from the recording",
                        text::count(c.differ),
                        text::count(c.bytes)
                    ),
                    p.error,
                )
            };
            ui.add(egui::Label::new(RichText::new(told).color(colour)).wrap());
        }
        bars(ui, out.element, &out.data);
    }
}

/// Bars of the first values, as long as the value is large.
fn bars(ui: &mut Ui, element: trace_core::recording::ElementType, data: &[u8]) {
    let p = palette(ui);
    let list: Vec<f64> = data
        .chunks_exact(element.bytes())
        .take(10)
        .filter_map(|c| values::element_f64(element, c))
        .collect();
    let most = list
        .iter()
        .filter(|v| v.is_finite())
        .fold(0.0_f64, |a, v| a.max(v.abs()));
    if most == 0.0 {
        ui.label(
            RichText::new("all of the first values are zero")
                .font(small())
                .color(p.quiet),
        );
        return;
    }
    let best = list.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|x| x.0);
    for (i, v) in list.iter().enumerate() {
        let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), 16.0), Sense::hover());
        r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("output value {i} {v}")));
        let y = rect.center().y;
        let ink = if best == Some(i) { p.job } else { p.text };
        // Long numbers would run into the bar.
        let told = if v.abs() >= 1e6 {
            format!("{v:.4e}")
        } else {
            format!("{v:.4}")
        };
        ui.painter()
            .text(pos2(rect.left(), y), Align2::LEFT_CENTER, i.to_string(), mono(), ink);
        ui.painter()
            .text(pos2(rect.right(), y), Align2::RIGHT_CENTER, told, mono(), p.quiet);
        let (a, b) = (rect.left() + 28.0, rect.right() - 92.0);
        let zero = (a + b) / 2.0;
        let x = zero + (b - a) / 2.0 * (*v / most) as f32;
        let bar = Rect::from_min_max(
            pos2(zero.min(x), y - 5.0),
            pos2(zero.max(x).max(zero.min(x) + 1.0), y + 5.0),
        );
        let colour = if best == Some(i) {
            p.job
        } else if *v < 0.0 {
            p.poll
        } else {
            p.read
        };
        ui.painter().rect_filled(bar, 2.0, colour);
    }
}

fn jobs(doc: &mut Document, ui: &mut Ui, o: &Arc<Outcome>) {
    if o.jobs.is_empty() {
        return;
    }
    let p = palette(ui);
    widgets::section(ui, "Jobs");
    let height = (o.jobs.len() as f32 * crate::theme::ROW).min(200.0);
    let rect = Rect::from_min_size(ui.cursor().min, vec2(ui.available_width(), height));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(rect));
    let id = ui.scope_id().with("replayed jobs");
    let mut rows: Rows = ui.data(|d| d.get_temp(id)).unwrap_or_default();
    let mut go = None;
    rows.show(&mut child, "Replayed jobs", o.jobs.len() as u64, |ui, row, rect| {
        let Some(j) = o.jobs.get(row as usize) else { return };
        let r = ui.interact(rect, ui.scope_id().with(("replayed", row)), Sense::click());
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("replayed job {}", j.index)));
        if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let (word, colour) = match (j.done, j.computed) {
            (false, _) => ("▲ failed", p.error),
            (true, Some(false)) => ("done, not computed", p.warning),
            (true, Some(true)) => ("done, computed", p.job),
            (true, None) => ("done", p.job),
        };
        let y = rect.center().y;
        ui.painter().text(
            pos2(rect.left(), y),
            Align2::LEFT_CENTER,
            format!("job {}", j.index),
            body(),
            p.text,
        );
        ui.painter()
            .text(pos2(rect.left() + 60.0, y), Align2::LEFT_CENTER, word, small(), colour);
        let took = text::duration(j.duration_ns);
        ui.painter()
            .text(pos2(rect.right() - 4.0, y), Align2::RIGHT_CENTER, took, mono(), p.quiet);
        if r.clicked() {
            go = Some(j.submit_event);
        }
    });
    ui.data_mut(|d| d.insert_temp(id, rows));
    ui.advance_cursor_after_rect(rect);
    if let Some(e) = go {
        let j = doc.facts.job_submitted_at(e).map(|j| j.index);
        match j {
            Some(j) => doc.go_job(j),
            None => doc.go(e),
        }
    }
}
