//! The Push buffer panel: the ring entry of a submission, its methods by name, and the work that they start.

mod code;
mod head;
mod line;
pub mod view;

pub use view::View;

use crate::panels::common::actions::{PanelAction, UiActions};
use crate::theme::columns::{Column, Table};
use crate::theme::{icons, palette, widgets};
use egui::{Label, Rect, RichText, Ui, UiBuilder};
use kinescope_session::driver_data::{DriverData, read_push_buffer};
use kinescope_session::{Document, text};
use line::LineAction;
use std::sync::Arc;
use trace_core::driver_trace::Submission;
use trace_core::progress::Progress;
use view::PushLine;

/// Name of the table in the workspace.
const TABLE: &str = "push-buffer";
/// Maximum number of submissions, and size of one in bytes, that are decoded at once. More are decoded in a background
/// job.
const AT_ONCE: (u32, u64) = (64, 64 << 10);

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let what = "the methods and launches of a push buffer";
    let Some(data) = super::find_driver_data(doc, actions, ui, what) else {
        return;
    };
    if data.trace.submissions().is_empty() {
        let message = "This driver trace holds no ring entries, so no push buffer is known. A log of a CUDA program's \
                       requests holds them.";
        if widgets::empty_state(ui, icons::CPU, message, Some("Show objects")) {
            actions.run_command("show-objects");
        }
        return;
    }
    follow(doc, view, actions, &data);
    let shown = view
        .key
        .and_then(|k| data.trace.submissions().get(k.1 as usize))
        .copied();
    let Some(submission) = shown else {
        return;
    };
    head::ui(doc, view, actions, ui, &data, &submission);
    let Some(listing) = view.listing.clone() else {
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Decoding the push buffer…", None);
        return;
    };
    if let Some(error) = &listing.error {
        let p = palette(ui);
        let ends = if listing.items.is_empty() {
            "Not decoded"
        } else {
            "Decoded in part"
        };
        ui.horizontal(|ui| {
            ui.add_space(12.0);
            let message = RichText::new(format!("▲ {ends}: {error}.")).color(p.error);
            ui.add(Label::new(message).wrap());
        });
        if listing.items.is_empty() {
            return;
        }
    }
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns());
    if view.lines.is_empty() {
        table.finish(ui, actions.tables.state(TABLE));
        let message = "These methods only change state: they start no launch, copy or semaphore.";
        if widgets::empty_state(ui, icons::LIGHTNING, message, Some("Show methods")) {
            view.only_work = false;
            view.build_lines();
        }
        return;
    }
    let full = ui.available_rect_before_wrap();
    let (upper, lower) = match view.code {
        Some(_) => full.split_top_bottom_at_y(full.top() + (full.height() * 0.5).round()),
        None => (full, Rect::NOTHING),
    };
    let mut child = ui.new_child(UiBuilder::new().id_salt("lines").max_rect(upper));
    child.shrink_clip_rect(upper);
    let mut list = view.list;
    let mut clicked = None;
    list.show(&mut child, "Push buffer", view.lines.len() as u64, |ui, n, rect| {
        let line = view.lines.get(n as usize).copied();
        if let Some((line, item)) = line.and_then(|l| Some((l, listing.items.get(l.item as usize)?))) {
            let is_selected = view.selected == Some(n as u32);
            let is_open = view.is_open(line.item, item);
            let row = line::LineRow {
                item,
                line,
                is_selected,
                is_open,
            };
            if let Some(action) = row.ui(doc, actions, ui, &data, &table, rect) {
                clicked = Some((n as u32, line, action));
            }
        }
    });
    view.list = list;
    table.finish(ui, actions.tables.state(TABLE));
    if view.code.is_some() {
        code::ui(view, ui, lower);
    }
    ui.advance_cursor_after_rect(full);
    let Some((n, PushLine { item, detail }, action)) = clicked else {
        return;
    };
    view.selected = Some(n);
    match action {
        LineAction::Select => {
            let has_lines = listing.items.get(item as usize).is_some_and(|i| i.line_count() > 0);
            if detail.is_none() && has_lines {
                view.toggle(item);
            }
        }
        LineAction::ShowCode(program, class) => code::read(doc, view, actions, &data, &submission, (program, class)),
        LineAction::ShowKernel(function) => {
            actions.push(PanelAction::Kernel(function));
            actions.run_command("show-kernel");
        }
        LineAction::GoToCall(event) => doc.go(event),
    }
}

fn columns() -> [Column; 6] {
    [
        Column::new("word", "word", 46.0).number().hide_order(1),
        Column::new("subchannel", "sub", 24.0).number().hide_order(4),
        Column::new("class", "class", 132.0)
            .stretch(0.15)
            .max_width(190.0)
            .hide_order(3),
        Column::new("method", "method", 190.0).stretch(0.5).max_width(300.0),
        Column::new("value", "value", 86.0).number(),
        Column::new("fields", "fields", 150.0).stretch(1.0),
    ]
}

/// Returns a number that differs for each derived data, and changes when the calls are known: they name launches.
fn data_key(doc: &Document, data: &Arc<DriverData>) -> usize {
    // The address of the data is even.
    Arc::as_ptr(data) as usize | usize::from(doc.api_trace().is_some())
}

/// Shows the submission of the current event, or the one that the call there made, or else the last one before it.
fn follow(doc: &Document, view: &mut View, actions: &mut UiActions, data: &Arc<DriverData>) {
    let of = data_key(doc, data);
    let is_other = view.key.is_none_or(|k| k.0 != of);
    if view.seen_jump == Some(doc.jumps) && !is_other {
        return;
    }
    view.seen_jump = Some(doc.jumps);
    let event = doc.current_event();
    let made = || data.trace.submissions().get(doc.submission_number_of_event()? as usize);
    let own = data.submission_of(event).or_else(made);
    view.is_exact = own.is_some();
    let found = own.or_else(|| data.last_submission(event));
    let Some(submission) = found.or_else(|| data.trace.submissions().first()) else {
        return;
    };
    let key = (of, submission.index);
    if view.key == Some(key) {
        return;
    }
    if let Some(before) = view.reading.take() {
        before.cancel();
    }
    if !view.show(key) {
        read(doc, view, actions, data, submission);
    }
}

/// Decodes a submission: a short one at once, others in the background.
fn read(doc: &Document, view: &mut View, actions: &mut UiActions, data: &Arc<DriverData>, submission: &Submission) {
    let key = (data_key(doc, data), submission.index);
    let (max_index, max_bytes) = AT_ONCE;
    let (recording, data) = (Arc::clone(&doc.recording), Arc::clone(data));
    let (api_trace, submission) = (doc.api_trace(), *submission);
    if submission.index < max_index && submission.bytes <= max_bytes {
        let api_trace = api_trace.as_deref();
        if let Ok(listing) = read_push_buffer(&recording, &data, api_trace, &submission, &Progress::new()) {
            view.store(key, Arc::new(listing));
        }
        return;
    }
    let title = format!("decoding submission {}", text::count(u64::from(submission.index)));
    view.reading = Some(actions.start_work::<View>(title, move |progress| {
        let found = read_push_buffer(&recording, &data, api_trace.as_deref(), &submission, progress);
        Box::new(move |_, view, _| {
            if let Ok(listing) = found {
                view.store(key, Arc::new(listing));
            }
        })
    }));
}
