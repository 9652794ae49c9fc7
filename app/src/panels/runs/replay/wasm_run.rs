//! The replay of a WebAssembly run: the commands that replay it, for each target.

use crate::theme::widgets::{self, PAD, part};
use crate::theme::{ROW, icons, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::wasm_run::{ReplayCommand, diff_command, replay_commands};
use kinescope_session::{Document, text};

/// Width of the names of targets, points.
const NAME: f32 = 120.0;
/// Room for the button that copies a command, points.
const COPY: f32 = 44.0;
/// Maximum width of the text, points.
const WIDE: f32 = 760.0;

/// Draws the panel.
pub(super) fn ui(doc: &Document, ui: &mut Ui) {
    let full = ui.available_rect_before_wrap();
    let rect = full.with_max_x(full.right().min(full.left() + WIDE + 2.0 * PAD));
    part(ui, "wasm run", rect, |ui| commands(doc, ui));
    ui.advance_cursor_after_rect(full);
}

fn commands(doc: &Document, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "Replay of the run");
    let unfinished = doc.derived.run_copies().map_or(0, |copies| copies.unfinished());
    if unfinished > 0 {
        let copies = text::count_noun(unfinished, "copy has", "copies have");
        let message = format!(
            "! The run was stopped: {copies} no result. Only whole runs can be replayed; run the program again with \
             `kinescope wasm run`."
        );
        ui.add(egui::Label::new(RichText::new(message).color(p.warning)).wrap());
        return;
    }
    let message = "The command line replays WebAssembly runs. It runs the program again on the recorded inputs, and \
                   compares system calls, outputs and the end of each copy.";
    ui.add(egui::Label::new(RichText::new(message).color(p.text)).wrap());
    let commands = replay_commands(&doc.replay, &doc.path);
    widgets::section(ui, "Targets");
    for command in &commands {
        target(ui, command);
    }
    if doc.replay.agents().is_empty() {
        let message = "agent:NAME/cpu and agent:NAME/cuda0 name the targets of a paired agent.";
        ui.label(RichText::new(message).font(small()).color(p.quiet));
    }
    let Some(first) = commands.first() else { return };
    widgets::section(ui, "With another input");
    let name = doc.derived.run_copies().and_then(|copies| copies.copy(0));
    let name = name.map_or("NAME", |copy| copy.name.as_str());
    command_row(ui, "another input", &format!("{} --input {name}=FILE", first.command));
    widgets::section(ui, "To keep the replay as a recording");
    command_row(
        ui,
        "a recording of the replay",
        &format!("{} -o again.kine", first.command),
    );
    widgets::section(ui, "To compare with another run");
    command_row(ui, "a comparison", &diff_command(&doc.path));
}

/// Draws a target and its command.
fn target(ui: &mut Ui, command: &ReplayCommand) {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("target {}", command.target)));
    let name = Rect::from_min_max(rect.min, pos2(rect.left() + NAME, rect.bottom()));
    widgets::paint_middle(ui, name, Align2::LEFT_CENTER, &command.target, mono(), p.text);
    let words = Rect::from_min_max(pos2(name.right() + 8.0, rect.top()), rect.max);
    match &command.missing {
        Some(missing) => {
            let message = format!("! {} · {missing}", command.description);
            widgets::paint_text(ui, words, Align2::LEFT_CENTER, &message, small(), p.warning);
        }
        None => {
            widgets::paint_text(ui, words, Align2::LEFT_CENTER, command.description, small(), p.quiet);
        }
    }
    command_row(ui, &command.target, &command.command);
    ui.add_space(4.0);
}

/// Draws a command, and a button that copies it.
fn command_row(ui: &mut Ui, label: &str, command: &str) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        let width = (ui.available_width() - COPY).max(40.0);
        let (rect, r) = ui.allocate_exact_size(vec2(width, 24.0), Sense::hover());
        r.widget_info(|| WidgetInfo::labeled(Role::Label, true, command));
        ui.painter().rect_filled(rect, 4.0, p.raised);
        let inner = rect.shrink2(vec2(8.0, 0.0));
        if widgets::paint_middle(ui, inner, Align2::LEFT_CENTER, command, mono_small(), p.text) {
            r.on_hover_text(RichText::new(command).font(mono_small()));
        }
        if widgets::icon_button(ui, icons::COPY, &format!("Copy the command for {label}")).clicked() {
            ui.ctx().copy_text(command.to_owned());
        }
    });
}
