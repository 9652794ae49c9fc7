//! The text of the program, line by line: numbers, active lanes of each block, traps.

use super::bar::percent;
use super::view::{LineTarget, View};
use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, body, focus, icons, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Color32, Key, Modifiers, Rect, RichText, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::text;
use kinescope_session::wasm_run::WasmRunData;
use std::sync::Arc;
use trace_core::progress::Progress;
use wasm_run::BlockProfile;
use wasm_text::ProgramText;

/// Width of the line numbers, of the strip of active lanes, and of the marks of traps, points.
const NUMBERS: f32 = 56.0;
const STRIP: f32 = 46.0;
const MARKS: f32 = 18.0;
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

/// Draws the list of functions. It shows the function of the selected line, or of the first line in view.
fn functions(view: &mut View, ui: &mut Ui, data: &WasmRunData) {
    let program = data.text();
    let functions = program.functions();
    if functions.is_empty() {
        let message = RichText::new("no functions").font(body()).color(palette(ui).quiet);
        ui.label(message);
        return;
    }
    let line = view.line.unwrap_or(view.program.top as u32);
    let current = program.function(line);
    let name = current.map_or_else(|| "functions".to_owned(), |f| program.function_name(f));
    let wide = (ui.available_width() - 230.0).clamp(90.0, 240.0);
    let shown = widgets::truncate_middle(ui, wide - 34.0, &name, &mono());
    let combo = egui::ComboBox::from_id_salt("wasm-function")
        .selected_text(RichText::new(shown).font(mono()))
        .width(wide)
        .height(360.0)
        .show_ui(ui, |ui| {
            let area = egui::ScrollArea::vertical().max_height(320.0);
            area.show_rows(ui, ROW, functions.len(), |ui, rows| {
                for function in functions.get(rows).unwrap_or_default() {
                    let name = text::truncate_middle(&program.function_name(*function), 64);
                    let label = RichText::new(name).font(mono());
                    if ui.selectable_label(current == Some(*function), label).clicked() {
                        view.go_line(LineTarget::Line(function.first));
                        ui.close();
                    }
                }
            });
        });
    combo
        .response
        .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Function"));
    combo.response.on_hover_text(&name);
}

fn search(view: &mut View, actions: &mut UiActions, ui: &mut Ui, data: &Arc<WasmRunData>) {
    let p = palette(ui);
    let hint = RichText::new("search the program").font(body()).color(p.quiet);
    let edit = egui::TextEdit::singleline(&mut view.search)
        .id(egui::Id::unique("wasm-search"))
        .font(mono())
        .desired_width((ui.available_width() - 150.0).clamp(60.0, 150.0))
        .hint_text(hint);
    let r = ui.add(edit).accessible_name("Search the program");
    let wanted = view.search.trim().to_lowercase();
    if view.hits.0 != wanted {
        if let Some(before) = view.searching.take() {
            before.cancel();
        }
        view.hits = (wanted.clone(), Arc::default());
        if data.text().text().len() <= AT_ONCE {
            let lines = find_lines(data.text(), &wanted, &Progress::new());
            view.set_hits(lines);
        } else {
            let (data, wanted) = (Arc::clone(data), wanted.clone());
            view.searching = Some(actions.start_work::<View>("searching the program", move |progress| {
                let lines = find_lines(data.text(), &wanted, progress);
                Box::new(move |_, view, _| {
                    if view.hits.0 == wanted {
                        view.searching = None;
                        view.set_hits(lines);
                    }
                })
            }));
        }
    }
    if r.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter)) {
        let back = ui.input(|i| i.modifiers.matches_exact(Modifiers::SHIFT));
        let (lines, here) = (Arc::clone(&view.hits.1), view.line.unwrap_or(0));
        let next = match back {
            false => lines.iter().find(|l| **l > here).or(lines.first()),
            true => lines.iter().rev().find(|l| **l < here).or(lines.last()),
        };
        if let Some(line) = next {
            view.go_line(LineTarget::Line(*line));
        }
        r.request_focus();
    }
    if !wanted.is_empty() {
        let found = match view.hits.1.len() {
            _ if view.searching.is_some() => RichText::new("searching…").color(p.quiet),
            0 => RichText::new("not found").color(p.warning),
            n => RichText::new(format!("{} found", text::count(n as u64))).color(p.quiet),
        };
        ui.label(found.font(small()));
    }
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
    fn set_hits(&mut self, lines: Vec<u32>) {
        let here = self.line.unwrap_or(0);
        if let Some(first) = lines.iter().find(|l| **l >= here).or(lines.first()) {
            self.go_line(LineTarget::Line(*first));
        }
        self.hits.1 = Arc::new(lines);
    }
}

fn lines(view: &mut View, ui: &mut Ui, data: &WasmRunData) {
    let program = data.text();
    let strip = if data.has_profile() { STRIP } else { 0.0 };
    let left = NUMBERS + strip + MARKS;
    let mut list = view.program;
    let mut clicked = None;
    let area = ui.available_rect_before_wrap();
    let width = view.widest + left + 16.0;
    let offset = view.sideways.scroll(ui, area, width);
    let clip = area.with_min_x(area.left() + left);
    let mut widest = view.widest;
    list.show(ui, "Program", u64::from(program.lines()), |ui, row, rect| {
        let Ok(line) = u32::try_from(row) else { return };
        let p = palette(ui);
        let words = program.line(line);
        let traps = data.traps_at(line);
        let r = focus::row_response(ui, rect, ui.scope_id().with(("wat", line)));
        let block = data.line_profile(line);
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, describe_line(line, words, traps, block)));
        if view.line == Some(line) {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let is_hit = view.hits.1.binary_search(&line).is_ok();
        if is_hit {
            let mark = Rect::from_min_size(pos2(rect.left() + 5.0, rect.center().y - 3.0), vec2(4.0, 6.0));
            ui.painter().rect_filled(mark, 1.0, p.text);
        }
        let number = Rect::from_min_max(rect.min, pos2(rect.left() + NUMBERS - 10.0, rect.bottom()));
        let count = (row + 1).to_string();
        paint_text(ui, number, Align2::RIGHT_CENTER, &count, mono_small(), p.quiet);
        if let Some(block) = block {
            let cell = Rect::from_min_size(pos2(rect.left() + NUMBERS, rect.top()), vec2(STRIP - 6.0, ROW));
            heat(ui, cell, block);
        }
        if traps > 0 {
            let mark = Rect::from_min_size(pos2(rect.left() + NUMBERS + strip, rect.top()), vec2(MARKS, ROW));
            paint_text(ui, mark, Align2::LEFT_CENTER, "▲", body(), p.error);
        }
        let ink = line_colour(ui, words, traps);
        let galley = ui.painter().layout_no_wrap(words.to_owned(), mono(), ink);
        widest = widest.max(galley.size().x);
        let at = pos2(rect.left() + left - offset, rect.center().y - galley.size().y / 2.0);
        let code = ui.painter().with_clip_rect(clip.intersect(ui.clip_rect()));
        code.galley(at, galley, ink);
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
    view.widest = widest;
    view.sideways.bar(ui, "Program", area, width);
    if clicked.is_some() {
        view.line = clicked;
    }
}

/// Draws the share of active lanes: a bar on each line, the number on the first line of a block.
fn heat(ui: &Ui, cell: Rect, (block, is_first): (BlockProfile, bool)) {
    let p = palette(ui);
    let Some(share) = block.active_share() else {
        // The block was never executed.
        let dot = Rect::from_center_size(cell.left_center() + vec2(2.0, 0.0), vec2(3.0, 1.0));
        ui.painter().rect_filled(dot, 0.0, p.poll);
        return;
    };
    let fill = p.panel.lerp_to_gamma(p.job, 0.18 + 0.42 * share as f32);
    let width = (cell.width() * share as f32).max(2.0);
    let bar = Rect::from_min_size(cell.min, vec2(width, cell.height()));
    ui.painter().rect_filled(bar, 0.0, fill);
    let edge = Rect::from_min_size(pos2(bar.right() - 2.0, bar.top()), vec2(2.0, bar.height()));
    ui.painter().rect_filled(edge, 0.0, p.job);
    if is_first {
        let number = cell.shrink2(vec2(3.0, 0.0));
        paint_text(ui, number, Align2::LEFT_CENTER, &percent(share), small(), p.text);
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
