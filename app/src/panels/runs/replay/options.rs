//! Further options of a replay: limits, learned effects, guards, files with expected results, an existing plan.

use crate::panels::common::actions::{ReplayFile, UiAction, UiActions};
use crate::theme::widgets::{self, paint_middle};
use crate::theme::{ROW, body, field, icons, palette, small, strong};
use egui::accesskit::Role;
use egui::{Align2, DragValue, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::workspace::ReplayOptions;
use kinescope_session::Document;
use kinescope_session::replay::DEFAULT_REPEATED_RUNS;
use kinescope_session::replay::request::{TIME_LIMITS_S, limit_time};
use replay_engine::serve::MAX_REPEATS;
use std::path::Path;
use trace_core::recording::BufferRole;

/// Width of a button that removes a file, points.
const REMOVE: f32 = 24.0;
/// Width of the names of numbers, points.
const NAME: f32 = 72.0;
/// Maximum height of the list of outputs, points.
const MENU: f32 = 260.0;

/// Draws the section, folded until the user opens it. Its title counts the options that do not have their default.
pub(super) fn draw(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    ui.add_space(widgets::HEAD);
    let title = match doc.replay.options.count_set() {
        0 => "More options".to_owned(),
        n => format!("More options · {n} set"),
    };
    egui::CollapsingHeader::new(RichText::new(title).font(strong()).color(p.quiet))
        .id_salt("more options")
        .show_unindented(ui, |ui| {
            let mut options = doc.replay.options.clone();
            fields(doc, &mut options, actions, ui);
            doc.replay.set_options(options);
        });
}

fn fields(doc: &mut Document, options: &mut ReplayOptions, actions: &mut UiActions, ui: &mut Ui) {
    let is_api = doc.replay.is_api_trace();
    numbers(options, ui);
    if is_api {
        let guard = ui.checkbox(&mut options.guard, "guard buffers");
        guard.on_hover_text(
            "Each buffer ends at unmapped memory. The replay names the launch that reads or writes past one.",
        );
        // A graph has no launches that stop one by one.
        if options.guard && doc.replay.api_options.graph {
            doc.replay.api_options.graph = false;
            doc.replay.plan = None;
        }
    } else if doc.replay.checks_effects() {
        learning(doc, options, ui);
    }
    let bypass = ui.checkbox(&mut options.bypass_check, "leave the check to the agent");
    bypass.on_hover_text("The window does not check the plan. The agent checks it in any case.");
    files(doc, options, actions, ui);
}

/// Draws the numbers: time limit, runs of a repeated replay.
fn numbers(options: &mut ReplayOptions, ui: &mut Ui) {
    let default = limit_time(None).time_ns / 1_000_000_000;
    let mut limit = options.time_limit.unwrap_or(default);
    number(ui, "time limit", |ui| {
        let value = DragValue::new(&mut limit).range(TIME_LIMITS_S).suffix(" s");
        ui.add(value)
            .accessible_name("time limit")
            .on_hover_text("A run that takes longer is stopped.");
    });
    options.time_limit = (limit != default).then_some(limit);
    let mut runs = options.runs.unwrap_or(DEFAULT_REPEATED_RUNS);
    number(ui, "repeats", |ui| {
        let value = DragValue::new(&mut runs).range(1..=MAX_REPEATS).suffix(" times");
        ui.add(value)
            .accessible_name("number of runs")
            .on_hover_text("The second button below the plan replays this many times.");
    });
    options.runs = (runs != DEFAULT_REPEATED_RUNS).then_some(runs);
}

/// Draws the name of a number, and the number.
fn number(ui: &mut Ui, name: &str, add: impl FnOnce(&mut Ui)) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(NAME, 22.0), Sense::hover());
        widgets::paint_text(ui, rect, Align2::LEFT_CENTER, name, body(), p.quiet);
        add(ui);
    });
}

/// Draws the options that learn effects.
fn learning(doc: &Document, options: &mut ReplayOptions, ui: &mut Ui) {
    let learn = ui.checkbox(&mut options.learn, "learn expectations");
    learn.on_hover_text(
        "A good run shows what the recording does not hold, such as the framebuffer. A second run is compared with it.",
    );
    if !options.learn {
        return;
    }
    let wrong = doc.replay.parse_check_after().err();
    let hint = "Events after which the effects are checked too, separated by commas.";
    let empty = "also after events";
    field::checked_text(
        ui,
        "Check after events",
        &mut options.check_after,
        (empty, hint),
        wrong.is_some(),
    );
    field::error_line(ui, wrong.as_deref());
}

/// Draws the files that the user chose, and the buttons that choose more.
fn files(doc: &Document, options: &mut ReplayOptions, actions: &mut UiActions, ui: &mut Ui) {
    ui.add_space(4.0);
    let mut removed = None;
    for (name, path) in &options.expected {
        if file_row(ui, name, path, &format!("Remove the expected content of {name}")) {
            removed = Some(name.clone());
        }
    }
    if let Some(name) = removed {
        options.expected.remove(&name);
    }
    if !options.expected_screen.is_empty()
        && file_row(ui, "screen", &options.expected_screen, "Remove the expected screen")
    {
        options.expected_screen.clear();
    }
    if !options.plan.is_empty() && file_row(ui, "plan", &options.plan, "Remove the plan file") {
        options.plan.clear();
    }
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.y = 6.0;
        if doc.replay.is_api_trace() || doc.replay.checks_effects() {
            output_menu(doc, actions, ui);
        }
        if doc.replay.checks_effects() {
            let screen = ui.button("Expected screen…");
            let hover = "Chooses the picture that the screen of the device must show at the end, a binary PPM.";
            if screen.on_hover_text(hover).clicked() {
                actions.push(UiAction::ChooseReplayFile(ReplayFile::Screen));
            }
        }
        let plan = ui.button("Plan file…");
        let hover = "Chooses a saved plan, which is replayed instead of a new one.";
        if plan.on_hover_text(hover).clicked() {
            actions.push(UiAction::ChooseReplayFile(ReplayFile::Plan));
        }
    });
}

/// Draws the menu of outputs whose expected content can be chosen.
fn output_menu(doc: &Document, actions: &mut UiActions, ui: &mut Ui) {
    let names = output_names(doc);
    let menu = ui.add_enabled_ui(!names.is_empty(), |ui| {
        ui.menu_button("Expected output…", |ui| {
            egui::ScrollArea::vertical()
                .max_height(MENU)
                .show_rows(ui, ROW, names.len(), |ui, rows| {
                    for name in names.get(rows).unwrap_or_default() {
                        let item = ui.button(*name).accessible_name(format!("Expected content of {name}…"));
                        if item.clicked() {
                            actions.push(UiAction::ChooseReplayFile(ReplayFile::Output((*name).to_owned())));
                            ui.close();
                        }
                    }
                });
        })
        .response
    });
    let enabled = !names.is_empty();
    let r = menu.inner;
    r.widget_info(|| WidgetInfo::labeled(Role::Button, enabled, "Expected output…"));
    r.on_hover_text("Chooses a file with the bytes that an output must have at the end.")
        .on_disabled_hover_text("The recording and the plan name no outputs.");
}

/// Returns the names of the buffers that a replay can return: those that the recording calls outputs first, and those
/// of the plan last.
fn output_names(doc: &Document) -> Vec<&str> {
    let all = doc.buffers.list();
    let is_api = doc.replay.is_api_trace();
    let is_readback = |name: &str| doc.buffers.origin(name).is_some_and(|o| !o.kind.is_replaceable());
    let is_output = |role| role == BufferRole::Output;
    let fits = all.iter().filter(|b| !is_api || is_readback(&b.name));
    let (mut names, others): (Vec<_>, Vec<_>) = fits.partition(|b| is_output(b.role));
    names.extend(others);
    let mut names: Vec<&str> = names.into_iter().map(|b| b.name.as_str()).collect();
    // A plan file may return buffers that the recording does not name.
    let plan = doc.replay.plan.iter().flat_map(|(compiled, _)| &compiled.plan.outputs);
    let own: Vec<&str> = plan.map(|o| o.name.as_str()).filter(|n| !names.contains(n)).collect();
    names.extend(own);
    names
}

/// Draws a chosen file: what it is for, and its name. Returns `true` if the user removes it.
fn file_row(ui: &mut Ui, what: &str, path: &str, remove: &str) -> bool {
    let p = palette(ui);
    let name = Path::new(path).file_name().map_or(path.into(), |n| n.to_string_lossy());
    ui.horizontal(|ui| {
        let (rect, r) = ui.allocate_exact_size(
            vec2((ui.available_width() - REMOVE - 8.0).max(40.0), ROW),
            Sense::hover(),
        );
        r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{what} {name}")));
        let split = rect.left() + (rect.width() * 0.4).min(NAME);
        let left = Rect::from_min_max(rect.min, pos2(split - 4.0, rect.bottom()));
        paint_middle(ui, left, Align2::LEFT_CENTER, what, small(), p.quiet);
        let right = Rect::from_min_max(pos2(split, rect.top()), rect.max);
        paint_middle(ui, right, Align2::LEFT_CENTER, &name, small(), p.text);
        r.on_hover_text(path);
        widgets::icon_button(ui, icons::X, remove).clicked()
    })
    .inner
}
