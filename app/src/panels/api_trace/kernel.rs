//! The Kernel panel: the function that a launch runs, its PTX if the module holds it, its parameters, its launches.

mod lines;
mod properties;
pub mod view;

pub use view::View;

use super::launches;
use crate::panels::common::actions::UiActions;
use crate::panels::common::code_listing::{FunctionMenu, Listing, SearchField, SearchInput};
use crate::theme::{icons, palette, small, widgets};
use egui::{Rect, RichText, Stroke, Ui, pos2, vec2};
use kinescope_session::{Document, api_trace, text};
use std::sync::Arc;
use trace_core::api_trace::{ApiTrace, KernelCode};

/// Width of the column next to the code, points.
const SIDE: f32 = 300.0;
/// Width below which the code goes under the details, points.
const NARROW: f32 = 620.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let Some(api_trace) = doc.api_trace() else {
        return launches::show_no_calls(doc, actions, ui, "kernels with their PTX and resources");
    };
    follow(doc, view, &api_trace);
    let Some(function) = view.function else {
        let message = "This API trace holds no device function.";
        if widgets::empty_state(ui, icons::CPU, message, Some("Show events")) {
            actions.run_command("show-events");
        }
        return;
    };
    read(doc, view, actions, &api_trace, function);
    bar(view, actions, ui, &api_trace, function);
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    if full.width() < NARROW {
        // Parameters and launches come first; the code needs room.
        let top = Rect::from_min_max(full.min, pos2(full.right(), full.top() + (full.height() * 0.45)));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(top.shrink2(vec2(12.0, 0.0))));
        child.shrink_clip_rect(top);
        properties::ui(doc, view, &mut child, &api_trace, function);
        let below = Rect::from_min_max(pos2(full.left(), top.bottom()), full.max);
        ui.painter()
            .hline(below.x_range(), below.top(), Stroke::new(1.0, p.line));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(below));
        child.shrink_clip_rect(below);
        lines::ui(view, actions, &mut child, &api_trace, function);
    } else {
        let left = Rect::from_min_max(full.min, pos2(full.right() - SIDE, full.bottom()));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
        child.shrink_clip_rect(left);
        lines::ui(view, actions, &mut child, &api_trace, function);
        let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
        ui.painter()
            .vline(right.left(), right.y_range(), Stroke::new(1.0, p.line));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 0.0))));
        child.shrink_clip_rect(right);
        properties::ui(doc, view, &mut child, &api_trace, function);
    }
    ui.advance_cursor_after_rect(full);
}

/// Follows the launch that the user went to; at first shows the first function that is launched.
fn follow(doc: &Document, view: &mut View, api_trace: &ApiTrace) {
    let of = |n: u32| api_trace.launches().get(n as usize).map(|l| l.function);
    if view.seen_jump != doc.jumps || view.function.is_none() {
        view.seen_jump = doc.jumps;
        if let Some(f) = doc.current_launch().and_then(of) {
            view.function = Some(f);
        }
    }
    if view.function.is_none() {
        let any = || (!api_trace.metadata().functions.is_empty()).then_some(0);
        view.function = of(0).or_else(any);
    }
}

/// Reads the code if the shown code belongs to another function.
fn read(doc: &Document, view: &mut View, actions: &mut UiActions, api_trace: &Arc<ApiTrace>, function: u32) {
    let of = (Arc::as_ptr(api_trace) as usize, function);
    if view.code_key == Some(of) {
        return;
    }
    if let Some(before) = view.reading.take() {
        before.cancel();
    }
    view.code_key = Some(of);
    view.code = None;
    view.line = None;
    view.listing = Listing::default();
    view.launches.top = 0.0;
    let (api_trace, recording) = (Arc::clone(api_trace), Arc::clone(&doc.recording));
    let name = api_trace::short_function_name(api_trace.function_name(function)).to_owned();
    view.reading = Some(
        actions.start_work::<View>(format!("reading the code of {name}"), move |_| {
            let code = Arc::new(api_trace.kernel(&recording, function));
            Box::new(move |_, view, _| {
                if view.code_key == Some(of) {
                    view.reading = None;
                    view.set_code(code);
                }
            })
        }),
    );
}

impl View {
    /// Stores the code that was read and brings its function into view.
    fn set_code(&mut self, code: Arc<KernelCode>) {
        self.search.clear_hits();
        if code.ptx.is_some() {
            self.listing.rows.top = (code.entry_line as f64 - 2.0).max(0.0);
        }
        self.code = Some(code);
    }
}

fn bar(view: &mut View, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace, function: u32) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let short_name = |f| api_trace::short_function_name(api_trace.function_name(f));
        let menu = FunctionMenu {
            id: "kernel-function",
            label: "Kernel",
            name: short_name(function),
            hover: api_trace.function_name(function),
            width: (ui.available_width() - 330.0).clamp(120.0, 460.0),
        };
        let current = view.function.map(|f| f as usize);
        let count = api_trace.metadata().functions.len();
        if let Some(chosen) = menu.show(ui, (current, count), |f| short_name(f as u32).to_owned()) {
            view.function = Some(chosen as u32);
        }
        let Some(code) = view.code.clone().filter(|c| c.ptx.is_some()) else {
            return;
        };
        search(view, &code, ui);
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(8.0);
            if widgets::icon_button(ui, icons::COPY, "Copy PTX").clicked() {
                actions.run_command("copy-ptx");
            }
            let message = text::count_noun(code.lines() as u64, "line", "lines");
            ui.add(egui::Label::new(RichText::new(message).font(small()).color(p.quiet)).truncate());
        });
    });
}

fn search(view: &mut View, code: &KernelCode, ui: &mut Ui) {
    let field = SearchField {
        id: "kernel-search",
        hint: "search the PTX",
        label: "Search the PTX",
        width: (ui.available_width() - 170.0).clamp(60.0, 160.0),
    };
    let line = match view.search.field(ui, field, view.line.unwrap_or(0)) {
        Some(SearchInput::Search(wanted)) => {
            let hit = |n: &u32| !wanted.is_empty() && code.line(*n as usize).to_lowercase().contains(&wanted);
            let lines = (0..code.lines() as u32).filter(hit).collect();
            view.search.set_hits(&wanted, lines, code.entry_line as u32)
        }
        Some(SearchInput::Go(line)) => Some(line),
        None => None,
    };
    if let Some(line) = line {
        view.go_line(line);
    }
}
