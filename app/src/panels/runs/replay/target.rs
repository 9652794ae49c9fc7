//! The target of a replay: the known targets, another one by its address, the pace.

use super::options;
use super::text_lines::{small_line, wrapped_text};
use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{field, mono, palette, small};
use egui::{Align2, Color32, Rect, RichText, Sense, Stroke, Ui, pos2, vec2};
use kinescope_session::Document;
use kinescope_session::replay_targets::TargetRow;
use replay_engine::client::fitting::Fit;
use std::time::Duration;

/// Left edge of the names of targets, right of their marks, points.
const NAME: f32 = 16.0;

/// Required form of a target's address.
const ADDRESS_HELP: &str = "enter the address with its device, HOST:PORT/DEVICE, or a QEMU device, qemu:DEVICE";

/// Instruction for the first step on the machine of the target.
const PAIRING: &str = "First run this on the machine of the target:\nkinescope-agent serve --pair --listen \
                       ADDRESS:PORT\nADDRESS is an address of that machine, or 0.0.0.0 for all its networks. Without \
                       --listen, only programs on that machine can connect.";

/// Returns the listed targets: all but those of another kind than the recorded device, which are in the target menu of
/// the bar.
fn rows(doc: &Document) -> Vec<TargetRow> {
    let now = doc.replay.target();
    // Only their names distinguish simulators of the same line of GPUs.
    let alike = |t: &TargetRow| t.name.starts_with("software:") && doc.replay.has_simulator();
    let mut all = doc.replay.targets();
    all.retain(|t| t.fit != Fit::Unfit || t.name == now || alike(t));
    all
}

pub(super) fn draw(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "Target");
    let now = doc.replay.target().to_owned();
    let (unfit, shown): (Vec<TargetRow>, Vec<TargetRow>) = rows(doc)
        .into_iter()
        .partition(|t| t.fit == Fit::Unfit && t.name != now);
    for row in &shown {
        target_row(doc, ui, row, now == row.name);
    }
    if !unfit.is_empty() {
        let title = format!(
            "{} more that {}",
            unfit.len(),
            if unfit.len() == 1 { "does not fit" } else { "do not fit" }
        );
        egui::CollapsingHeader::new(RichText::new(title).font(small()).color(p.quiet))
            .id_salt("targets that do not fit")
            .show_unindented(ui, |ui| {
                for row in &unfit {
                    target_row(doc, ui, row, false);
                }
            });
    }
    for agent in doc.replay.unqueried_agents() {
        let none = || StyledText::small("");
        let r = widgets::list_row(ui, &format!("agent {agent}"), false, 0.0, none(), none());
        let words = Rect::from_min_max(pos2(r.rect.left() + NAME, r.rect.top()), r.rect.max);
        paint_target(ui, words, &format!("agent:{agent}"), p.text);
        if r.on_hover_text("queries the devices of all paired agents").clicked() {
            actions.run_command("find-boards");
        }
        ui.horizontal(|ui| {
            ui.add_space(NAME);
            small_line(ui, "paired · devices not queried yet".to_owned());
        });
    }
    ui.add_space(6.0);
    let look = ui
        .button("Find targets")
        .on_hover_text("queries the paired agents, and looks for QEMU and a CUDA driver on this machine");
    if look.clicked() {
        actions.run_command("find-boards");
    }
    widgets::section(ui, "Another target");
    ui.add_space(2.0);
    typed_target(doc, actions, ui);
    if doc.recording.api().is_some() {
        replay_options(doc, ui);
    } else {
        pace(doc, actions, ui);
    }
    options::draw(doc, actions, ui);
}

/// Draws a target of the list; a click chooses it.
fn target_row(doc: &mut Document, ui: &mut Ui, b: &TargetRow, chosen: bool) {
    let p = palette(ui);
    let ink = match (chosen, b.free, b.fit) {
        (true, _, Fit::Unfit) => p.error,
        (true, true, _) => p.job,
        (true, false, _) => p.warning,
        (false, true, Fit::Fits | Fit::FitsRewritten | Fit::Unknown) => p.text,
        _ => p.quiet,
    };
    let none = || StyledText::small("");
    let r = widgets::list_row(ui, &format!("target {}", b.name), chosen, 0.0, none(), none());
    let mark = pos2(r.rect.left() + 4.0, r.rect.center().y);
    if chosen {
        ui.painter().circle_filled(mark, 3.5, ink);
    } else {
        ui.painter().circle_stroke(mark, 3.0, Stroke::new(1.0, ink));
    }
    let words = Rect::from_min_max(pos2(r.rect.left() + NAME, r.rect.top()), r.rect.max);
    paint_target(ui, words, &b.name, ink);
    let hover = [b.name.as_str(), &b.description, &b.state];
    let hover: Vec<&str> = hover.into_iter().filter(|t| !t.is_empty()).collect();
    if r.on_hover_text(hover.join("\n")).clicked() {
        doc.replay.choose(&b.name);
    }
    ui.horizontal(|ui| {
        ui.add_space(NAME);
        let fit = match b.fit {
            Fit::Unfit => "does not fit",
            Fit::FitsRewritten => "another model",
            Fit::Fits | Fit::Unknown => "",
        };
        let parts = [b.device.as_str(), fit, &b.state];
        let parts: Vec<&str> = parts.into_iter().filter(|t| !t.is_empty()).collect();
        small_line(ui, parts.join(" · "));
    });
}

/// Draws the field for the address of a target, and the buttons that use it or pair with its agent.
fn typed_target(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let id = egui::Id::unique("board address");
    let hint = RichText::new("HOST:PORT/DEVICE").font(mono()).color(p.quiet);
    let field = field::value(ui, id, "Target address", &mut doc.replay.target_field, None, |text| {
        egui::TextEdit::singleline(text)
            .font(mono())
            .desired_width(f32::INFINITY)
            .hint_text(hint)
    });
    let how = "agent://HOST:PORT/DEVICE or agent:///PATH.sock/DEVICE; pairing needs no device; \
               qemu:DEVICE,PROPERTY=VALUE for a device that QEMU emulates here";
    field.response.clone().on_hover_text(how);
    let typed = doc.replay.target_field.trim().to_owned();
    let named = match typed.as_str() {
        t if t.contains(':') && !["agent:", "software:", "qemu:"].iter().any(|k| t.starts_with(k)) => {
            format!("agent://{t}")
        }
        t => t.to_owned(),
    };
    let device = replay_engine::client::targets::parse(&named).is_ok();
    let wrong = id.with("wrong");
    if field.enter && device {
        doc.replay.choose(&named);
    } else if field.enter && !typed.is_empty() {
        ui.data_mut(|d| d.insert_temp(wrong, typed.clone()));
        field.select_all();
    }
    // The reason for the rejection stays until the text is changed.
    if ui.data(|d| d.get_temp::<String>(wrong)).is_some_and(|w| w == typed) {
        wrapped_text(ui, format!("▲ {ADDRESS_HELP}"), p.error);
    }
    ui.add_space(4.0);
    ui.horizontal_wrapped(|ui| {
        let how = "replays run there; its agent must be paired";
        let r = ui.add_enabled(device, egui::Button::new("Use")).on_hover_text(how);
        if r.on_disabled_hover_text(ADDRESS_HELP).clicked() {
            doc.replay.choose(&named);
        }
        let r = ui.add_enabled(!typed.is_empty(), egui::Button::new("Pair…"));
        let r = r.on_disabled_hover_text("enter the agent's address above: HOST:PORT");
        if r.on_hover_text(PAIRING).clicked() {
            actions.run_command("pair");
        }
    });
}

/// Draws the options for the replay of calls.
fn replay_options(doc: &mut Document, ui: &mut Ui) {
    widgets::section(ui, "Options");
    let was = doc.replay.api_options;
    let mut now = was;
    let graph = ui.checkbox(&mut now.graph, "as one graph");
    graph.on_hover_text("captures the range into one CUDA graph; each repetition is one launch");
    let step = ui.checkbox(&mut now.step, "synchronize after each launch");
    step.on_hover_text("finds the launch that fails");
    let keep = ui.checkbox(&mut now.no_restore, "do not restore memory between runs");
    keep.on_hover_text("each run starts with the memory that the previous run left, as in the program");
    let memory = ui.checkbox(&mut now.memory, "compare final memory too");
    memory.on_hover_text("memory after the recorded range is read back and compared like outputs");
    let rebuild = ui.checkbox(&mut now.rebuild, "build launches anew on nvidia:N");
    rebuild.on_hover_text("from code and arguments, even if the recording holds what the driver submitted");
    // Waits inside a graph are not waits of the host.
    if now.graph && now.step {
        (now.graph, now.step) = (!was.graph, !was.step);
    }
    if now.graph && doc.replay.options.guard {
        doc.replay.options.guard = false;
    }
    if now != was {
        doc.replay.api_options = now;
        doc.replay.plan = None;
        doc.replay.verified = None;
    }
    tolerance_field(doc, ui);
}

/// Draws the tolerance of outputs, and the error in it below.
fn tolerance_field(doc: &mut Document, ui: &mut Ui) {
    widgets::section(ui, "Output tolerance");
    let wrong = doc.replay.parse_tolerance(&doc.buffers).err();
    let message = "f32:1e-5 (absolute and relative), f32:1e-6,1e-4, f16:2ulp, exact; for one output out0=RULE; \
                   separate rules with semicolons";
    let alike = &mut doc.replay.tolerance;
    field::checked_text(ui, "Tolerance of outputs", alike, ("exact", message), wrong.is_some());
    field::error_line(ui, wrong.as_deref());
}

fn pace(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "Pace");
    for (keep, word) in [(false, "fast"), (true, "as recorded")] {
        if ui.radio(doc.replay.keep_gaps == keep, word).clicked() && doc.replay.keep_gaps != keep {
            actions.run_command("toggle-pace");
        }
    }
    let pace = if doc.replay.keep_gaps {
        "recorded idle time is kept on the device clock"
    } else {
        "recorded idle time is skipped"
    };
    ui.label(RichText::new(pace).font(small()).color(p.quiet));
}

/// Paints a target's name, cut before its device if it is too long.
pub(super) fn paint_target(ui: &Ui, rect: Rect, name: &str, ink: Color32) {
    let (font, left) = (mono(), Align2::LEFT_CENTER);
    let wide = |t: &str| {
        let g = ui.painter().layout_no_wrap(t.to_owned(), font.clone(), ink);
        g.size().x
    };
    let device = name.rfind('/').map_or("", |at| &name[at..]);
    let room = rect.width() - wide(device);
    if device.is_empty() || room < 40.0 || wide(name) <= rect.width() {
        widgets::paint_middle(ui, rect, left, name, font, ink);
        return;
    }
    let head = widgets::truncate_middle(ui, room, name.strip_suffix(device).unwrap_or(name), &font);
    widgets::paint_text(ui, rect, left, &format!("{head}{device}"), font, ink);
}

/// Time for which the confirming button stays disabled, because nobody can have read the pairing code yet, seconds.
const UNREAD: f64 = 0.8;

/// Shows the pairing code and asks whether the agent shows the same. It stands above all else: a safety choice must be
/// always in view.
pub(super) fn pairing(actions: &UiActions, ui: &mut Ui) {
    let Ok(mut pairing) = actions.pairing.lock() else {
        return;
    };
    let Some(now) = pairing.as_mut() else { return };
    let p = palette(ui);
    widgets::section(ui, "Pairing");
    let question = match now.answer {
        Some(_) => "Does the agent show this code?",
        None => "Now confirm the code on the agent: type yes there.",
    };
    ui.add(egui::Label::new(question).wrap());
    ui.add_space(4.0);
    let width = ui.available_width();
    let (code, _) = ui.allocate_exact_size(vec2(width, 34.0), Sense::hover());
    let frame = Stroke::new(1.0, p.quiet);
    ui.painter()
        .rect(code, 4.0, p.background, frame, egui::StrokeKind::Inside);
    let mut child = ui.new_child(
        egui::UiBuilder::new()
            .max_rect(code)
            .layout(egui::Layout::centered_and_justified(egui::Direction::LeftToRight)),
    );
    child.label(RichText::new(&now.code).font(mono()).size(18.0));
    let Some(to) = &now.answer else { return };
    // A new question is visible however far the column was scrolled.
    let (id, time) = (ui.scope_id().with("pairing code"), ui.input(|i| i.time));
    let asked: Option<(String, f64)> = ui.data(|d| d.get_temp(id)).filter(|(code, _)| *code == now.code);
    let since = asked.map(|(_, since)| since).unwrap_or_else(|| {
        ui.data_mut(|d| d.insert_temp(id, (now.code.clone(), time)));
        ui.scroll_to_rect(code, None);
        time
    });
    // A click or a key for something else must not pair.
    let left = since + UNREAD - time;
    if left > 0.0 {
        ui.ctx().request_repaint_after(Duration::from_secs_f64(left));
    }
    ui.add_space(6.0);
    let mut answer = None;
    for (words, same) in [("Codes are the same", true), ("They differ", false)] {
        ui.add_enabled_ui(!same || left <= 0.0, |ui| {
            if ui.add_sized(vec2(width, 26.0), egui::Button::new(words)).clicked() {
                answer = Some(same);
            }
        });
        ui.add_space(2.0);
    }
    if let Some(same) = answer {
        // The receiver is gone if the agent left; the log has the result.
        let _ = to.send(same);
        now.answer = None;
        if !same {
            *pairing = None;
        }
    }
}
