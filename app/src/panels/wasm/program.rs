//! The text of the program, line by line: numbers, active lanes of each block, traps.

use super::bar::percent;
use super::view::{LineTarget, View};
use crate::panels::common::actions::UiActions;
use crate::panels::common::code_listing::{FunctionMenu, SearchField, SearchInput};
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, body, icons, mono, palette, small};
use egui::{Align2, Color32, Rect, RichText, Ui, pos2, vec2};
use kinescope_session::text;
use kinescope_session::wasm_run::WasmRunData;
use std::sync::Arc;
use trace_core::progress::Progress;
use wasm_run::BlockProfile;
use wasm_text::ProgramText;

/// Width of the line numbers and of the marks of traps, points.
const NUMBERS: f32 = 56.0;
const MARKS: f32 = 18.0;
/// Width of the number of active lanes, of the bar right of it, and of the gap after the bar, points.
const SHARE: f32 = 42.0;
const BAR_WIDTH: f32 = 34.0;
const BAR_GAP: f32 = 6.0;
/// Height of the bar above the lines, points.
const BAR: f32 = 28.0;
/// Maximum size of a text in bytes that is searched at once; more is searched in a background job.
const AT_ONCE: usize = 1 << 20;
/// Lines between two checks for cancellation.
const LINES_BETWEEN_CHECKS: u32 = 4096;
/// Lanes of a warp.
const LANES: u64 = 32;

/// Draws the program.
pub(super) fn ui(view: &mut View, actions: &mut UiActions, ui: &mut Ui, data: &Arc<WasmRunData>) {
    if let Some(why) = data.text_error() {
        let message = format!("{why}. The copies and their streams are complete.");
        widgets::empty_state(ui, icons::WARNING_CIRCLE, &message, None);
        return;
    }
    bar(view, actions, ui, data);
    lines(view, ui, data);
}

fn bar(view: &mut View, actions: &mut UiActions, ui: &mut Ui, data: &Arc<WasmRunData>) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(BAR);
        ui.add_space(8.0);
        functions(view, ui, data);
        search(view, actions, ui, data);
        let lines = text::count_noun(u64::from(data.text().lines()), "line", "lines");
        let message = match data.text().is_truncated() {
            true => format!("{lines}, the rest is too long"),
            false => lines,
        };
        let summary = RichText::new(message).font(small()).color(p.quiet);
        ui.add(egui::Label::new(summary).truncate());
    });
}

/// Draws the menu of functions. It shows the function of the selected line, or of the first line in view.
fn functions(view: &mut View, ui: &mut Ui, data: &WasmRunData) {
    let program = data.text();
    let functions = program.functions();
    if functions.is_empty() {
        let message = RichText::new("no functions").font(body()).color(palette(ui).quiet);
        ui.label(message);
        return;
    }
    let line = view.line.unwrap_or(view.program.rows.top as u32);
    let current = program.function(line);
    let name = current.map_or_else(|| "functions".to_owned(), |f| program.function_name(f));
    let menu = FunctionMenu {
        id: "wasm-function",
        label: "Function",
        name: &name,
        hover: &name,
        width: (ui.available_width() - 230.0).clamp(90.0, 240.0),
    };
    let position = current.and_then(|f| functions.binary_search_by_key(&f.first, |f| f.first).ok());
    let name_of = |n: usize| functions.get(n).map_or_else(String::new, |f| program.function_name(*f));
    let chosen = menu.show(ui, (position, functions.len()), name_of);
    if let Some(function) = chosen.and_then(|n| functions.get(n)) {
        view.go_line(LineTarget::Line(function.first));
    }
}

fn search(view: &mut View, actions: &mut UiActions, ui: &mut Ui, data: &Arc<WasmRunData>) {
    let field = SearchField {
        id: "wasm-search",
        hint: "search",
        label: "Search the program",
        width: (ui.available_width() - 150.0).clamp(60.0, 150.0),
    };
    match view.search.field(ui, field, view.line.unwrap_or(0)) {
        Some(SearchInput::Search(wanted)) => start_search(view, actions, data, wanted),
        Some(SearchInput::Go(line)) => view.go_line(LineTarget::Line(line)),
        None => {}
    }
}

/// Searches a short program at once, and a long one in the background.
fn start_search(view: &mut View, actions: &mut UiActions, data: &Arc<WasmRunData>, wanted: String) {
    if let Some(before) = view.searching.take() {
        before.cancel();
    }
    view.search.is_running = data.text().text().len() > AT_ONCE;
    if !view.search.is_running {
        let lines = find_lines(data.text(), &wanted, &Progress::new());
        view.set_hits(&wanted, lines);
        return;
    }
    let data = Arc::clone(data);
    view.searching = Some(actions.start_work::<View>("searching the program", move |progress| {
        let lines = find_lines(data.text(), &wanted, progress);
        Box::new(move |_, view, _| view.set_hits(&wanted, lines))
    }));
}

/// Returns the lines that contain a text in lower case, without regard to case. A cancelled search is incomplete.
fn find_lines(program: &ProgramText, wanted: &str, progress: &Progress) -> Vec<u32> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let goes_on = |line: &u32| !line.is_multiple_of(LINES_BETWEEN_CHECKS) || progress.check().is_ok();
    let lines = (0..program.lines()).take_while(goes_on);
    lines
        .filter(|line| program.line(*line).to_lowercase().contains(wanted))
        .collect()
}

impl View {
    /// Takes the lines that a search found, and goes to the next one.
    fn set_hits(&mut self, wanted: &str, lines: Vec<u32>) {
        if let Some(line) = self.search.set_hits(wanted, lines, self.line.unwrap_or(0)) {
            self.go_line(LineTarget::Line(line));
        }
    }
}

fn lines(view: &mut View, ui: &mut Ui, data: &WasmRunData) {
    let program = data.text();
    let strip = if data.has_profile() { SHARE + BAR_WIDTH } else { 0.0 };
    let left = NUMBERS + strip + MARKS;
    let mut list = view.program;
    let mut clicked = None;
    let count = u64::from(program.lines());
    list.show(ui, ("Program", count), left, |ui, lines, row, rect| {
        let Ok(line) = u32::try_from(row) else { return };
        let p = palette(ui);
        let words = program.line(line);
        let traps = data.traps_at(line);
        let block = data.line_profile(line);
        let label = describe_line(line, words, traps, block);
        let selected = view.line == Some(line);
        let r = lines.row(ui, rect, ui.scope_id().with(("wat", line)), (label, selected));
        if view.search.is_hit(line) {
            lines.hit(ui, rect);
        }
        lines.number(ui, rect, NUMBERS, &(row + 1).to_string());
        if let Some(block) = block {
            active_lanes(ui, rect, block);
        }
        if traps > 0 {
            let mark = Rect::from_min_size(pos2(rect.left() + NUMBERS + strip, rect.top()), vec2(MARKS, ROW));
            paint_text(ui, mark, Align2::LEFT_CENTER, "▲", body(), p.error);
        }
        lines.code(ui, rect, words.to_owned(), mono(), line_colour(ui, words, traps));
        r.context_menu(|ui| {
            if ui.button("Copy line").clicked() {
                ui.ctx().copy_text(words.trim().to_owned());
                ui.close();
            }
            if ui.button("Copy program").clicked() {
                ui.ctx().copy_text(program.text().to_owned());
                ui.close();
            }
        });
        let hover = hover_text(data, line, traps, block);
        let r = if hover.is_empty() { r } else { r.on_hover_text(hover) };
        if r.clicked() {
            clicked = Some(line);
        }
    });
    view.program = list;
    if clicked.is_some() {
        view.line = clicked;
    }
}

/// Draws the share of active lanes: the number on the first line of a block, and right of it a bar on each line.
fn active_lanes(ui: &Ui, row: Rect, (block, is_first): (BlockProfile, bool)) {
    let p = palette(ui);
    let bar = Rect::from_min_size(
        pos2(row.left() + NUMBERS + SHARE, row.top()),
        vec2(BAR_WIDTH - BAR_GAP, row.height()),
    );
    let Some(share) = block.active_share() else {
        // The block was never executed.
        let dot = Rect::from_center_size(bar.left_center() + vec2(2.0, 0.0), vec2(3.0, 1.0));
        ui.painter().rect_filled(dot, 0.0, p.poll);
        return;
    };
    let fill = p.panel.lerp_to_gamma(p.job, 0.18 + 0.42 * share as f32);
    let width = (bar.width() * share as f32).max(2.0);
    let full = Rect::from_min_size(bar.min, vec2(width, bar.height()));
    ui.painter().rect_filled(full, 0.0, fill);
    let edge = full.with_min_x(full.right() - 2.0);
    ui.painter().rect_filled(edge, 0.0, p.job);
    if is_first {
        let number = Rect::from_min_max(
            pos2(row.left() + NUMBERS, row.top()),
            pos2(bar.left() - 6.0, row.bottom()),
        );
        paint_text(ui, number, Align2::RIGHT_CENTER, &percent(share), small(), p.text);
    }
}

fn line_colour(ui: &Ui, line: &str, traps: u64) -> Color32 {
    let p = palette(ui);
    let words = line.trim_start();
    match words {
        _ if traps > 0 => p.error,
        w if w.starts_with("(func ") => p.job,
        w if w.starts_with('(') || w.starts_with(')') => p.quiet,
        _ => p.text,
    }
}

fn describe_line(line: u32, words: &str, traps: u64, block: Option<(BlockProfile, bool)>) -> String {
    let mut label = format!("line {} {}", line + 1, words.trim());
    if let Some(share) = block.and_then(|(block, _)| block.active_share()) {
        label.push_str(&format!(", {} of lanes active", percent(share)));
    }
    if traps > 0 {
        label.push_str(&format!(", {} trapped", text::count_noun(traps, "copy", "copies")));
    }
    label
}

fn hover_text(data: &WasmRunData, line: u32, traps: u64, block: Option<(BlockProfile, bool)>) -> String {
    let mut lines = Vec::new();
    if traps > 0 {
        lines.push(format!("▲ {} trapped here", text::count_noun(traps, "copy", "copies")));
    }
    if let Some((block, _)) = block {
        match block.active_share() {
            Some(share) => {
                let lanes = block.active_lanes as f64 / block.executions as f64;
                lines.push(format!(
                    "{} of lanes active: {lanes:.1} of {LANES} on average",
                    percent(share)
                ));
                let times = text::count_noun(block.executions, "execution", "executions");
                lines.push(format!("{times} of the block by warps"));
            }
            None => lines.push("this block was never executed".to_owned()),
        }
    }
    if let Some(offset) = data.text().offset(line).filter(|_| !lines.is_empty()) {
        lines.push(format!("byte {offset:#x} of the file"));
    }
    lines.join("\n")
}
