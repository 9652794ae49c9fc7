//! The Launches panel: every launch of an API trace, by name, sorted, each with its arguments decoded.

mod details;
mod list;
mod times;
pub mod view;

pub use details::details;
pub use view::View;

use crate::panels::common::actions::UiActions;
use crate::panels::common::memory_trace_buttons;
use crate::theme::{body, icons, mono, palette, small, widgets};
use egui::{Key, Rect, RichText, Stroke, Ui, pos2, vec2};
use kinescope_session::api_trace::{self, LaunchSort};
use kinescope_session::derived_data::Stage;
use kinescope_session::{Document, memory_trace, text};
use std::sync::Arc;
use trace_core::api_trace::ApiTrace;
use trace_core::progress::Progress;

/// Width from which the panel shows the launch's details at the right of the list, points.
const WIDE: f32 = 980.0;
/// Width of the bar that the filter field leaves to the others in the first frame, points.
const OTHERS: f32 = 400.0;
/// Gap between the filter field and the others, points.
const GAP: f32 = 16.0;
/// Maximum number of launches that are sorted at once; more are sorted in a background job.
const AT_ONCE: usize = 20_000;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let Some(api_trace) = doc.api_trace() else {
        return show_no_calls(doc, actions, ui, "kernel launches with their arguments");
    };
    if api_trace.launches().is_empty() {
        let message = "This API trace holds no kernel launch.";
        if widgets::empty_state(ui, icons::LIGHTNING, message, Some("Show events")) {
            actions.run_command("show-events");
        }
        return;
    }
    update_rows(doc, view, actions, &api_trace);
    bar(doc, view, actions, &api_trace, ui);
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    // The inspector shows the launch; so does the panel if there is room for both.
    let side = if full.width() < WIDE || actions.inspector {
        0.0
    } else {
        (full.width() * 0.34).min(380.0)
    };
    let left = Rect::from_min_max(full.min, pos2(full.right() - side, full.bottom()));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    child.shrink_clip_rect(left);
    list::ui(doc, view, actions, &mut child, &api_trace);
    if side > 0.0 {
        let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
        ui.painter()
            .vline(right.left(), right.y_range(), Stroke::new(1.0, p.line));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 0.0))));
        egui::ScrollArea::vertical()
            .id_salt("launch")
            .auto_shrink(false)
            .show(&mut child, |ui| match doc.current_launch() {
                Some(n) => details(doc, actions, ui, n),
                None => {
                    widgets::empty_state(ui, icons::LIGHTNING, "Select a launch to see its arguments.", None);
                }
            });
    }
    ui.advance_cursor_after_rect(full);
}

/// Draws the message of a call panel if the recording has no calls.
pub(super) fn show_no_calls(doc: &Document, actions: &mut UiActions, ui: &mut Ui, what: &str) {
    if doc.recording.api().is_some() && !doc.derived.has_stage(Stage::Calls) && doc.derivation.is_some() {
        widgets::empty_state(
            ui,
            icons::HOURGLASS_SIMPLE_MEDIUM,
            "Following buffers through the calls…",
            None,
        );
        return;
    }
    let message = format!(
        "This recording is not an API trace. For a CUDA program recorded with `kinescope record --with cuda`, this \
         panel shows {what}."
    );
    if widgets::empty_state(ui, icons::LIGHTNING, &message, Some("Show events")) {
        actions.run_command("show-events");
    }
}

/// Starts to filter and sort the launches if the user changed the choice.
fn update_rows(doc: &Document, view: &mut View, actions: &mut UiActions, api_trace: &Arc<ApiTrace>) {
    let wanted = (view.filter.trim().to_owned(), view.sort, view.falling);
    // The order does not depend on reports of targets.
    let of = Arc::as_ptr(&doc.recording) as usize;
    if view.rows_key == Some((of, wanted.clone())) {
        return;
    }
    if let Some(before) = view.choosing.take() {
        before.cancel();
    }
    view.rows_key = Some((of, wanted.clone()));
    let (filter, sort, falling) = wanted.clone();
    if api_trace.launches().len() <= AT_ONCE {
        if let Ok(rows) =
            api_trace::select_launches(api_trace, &doc.recording, &filter, (sort, falling), &Progress::new())
        {
            view.set_rows(rows);
        }
        return;
    }
    let (api_trace, recording) = (Arc::clone(api_trace), Arc::clone(&doc.recording));
    view.choosing = Some(actions.start_work::<View>("sorting launches", move |progress| {
        let found = api_trace::select_launches(&api_trace, &recording, &filter, (sort, falling), progress);
        Box::new(move |_, view, _| {
            if let Ok(rows) = found
                && view.rows_key == Some((of, wanted))
            {
                view.choosing = None;
                view.set_rows(rows);
            }
        })
    }));
}

/// Returns the id of the filter field.
fn filter_id() -> egui::Id {
    egui::Id::unique("launches-filter")
}

fn bar(doc: &mut Document, view: &mut View, actions: &mut UiActions, api_trace: &ApiTrace, ui: &mut Ui) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        // The others take the width that they needed in the last frame. The field takes the rest.
        let others = ui.scope_id().with("width of the others");
        let kept: Option<f32> = ui.data(|d| d.get_temp(others));
        let room = ui.available_width() - kept.unwrap_or(OTHERS) - GAP;
        let hint = RichText::new("name of a kernel").font(body()).color(p.quiet);
        let edit = egui::TextEdit::singleline(&mut view.filter)
            .id(filter_id())
            .font(mono())
            .desired_width(room.clamp(90.0, 320.0))
            .hint_text(hint);
        let r = ui.add(edit).accessible_name("Filter launches by name");
        if std::mem::take(&mut view.focus) {
            r.request_focus();
        }
        if r.has_focus() && ui.input(|i| i.key_pressed(Key::Escape)) {
            view.filter.clear();
        }
        if !view.filter.is_empty() && widgets::icon_button(ui, icons::X, "All launches").clicked() {
            view.filter.clear();
        }
        if view.sort != LaunchSort::Order || view.falling {
            let rich_text = RichText::new("in order").font(small());
            let r = ui.add(egui::Button::new(rich_text).frame_when_inactive(false));
            if r.on_hover_text("sort the launches by time").clicked() {
                (view.sort, view.falling) = (LaunchSort::Order, false);
            }
        }
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            let end = ui.max_rect().right();
            ui.add_space(10.0);
            let all = api_trace.launches().len() as u64;
            let message = match &view.rows {
                _ if view.choosing.is_some() => "sorting…".to_owned(),
                Some(rows) if rows.len() as u64 != all => {
                    format!("{} of {}", text::count(rows.len() as u64), text::count(all))
                }
                _ => text::count_noun(all, "launch", "launches"),
            };
            let whole = ui.painter().layout_no_wrap(message.clone(), mono(), p.quiet).size().x;
            let label = ui.add(egui::Label::new(RichText::new(message).color(p.quiet).font(mono())).truncate());
            let cut = (whole - label.rect.width()).max(0.0);
            if !api_trace.has_all_changes() {
                let summary = "the memory that each launch changed";
                memory_trace_buttons::button(doc, actions, ui, "changes", summary, || {
                    memory_trace::request_for_launches(&doc.recording)
                });
            }
            times::measure_button(doc, actions, ui);
            times::limits_menu(doc, ui);
            let taken = end - ui.min_rect().left() + cut;
            if kept != Some(taken) {
                ui.data_mut(|d| d.insert_temp(others, taken));
                ui.ctx().request_repaint();
            }
        });
    });
}
