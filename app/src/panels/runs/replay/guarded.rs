//! The result of guarded replays: how much was guarded, and the launch that passes the end of a buffer.

use super::text_lines::wrapped_text;
use crate::theme::{palette, widgets};
use egui::Ui;
use kinescope_session::replay::guard::GuardedSummary;
use kinescope_session::{Document, text};

/// Draws the result.
pub(super) fn draw(doc: &mut Document, ui: &mut Ui, all: &GuardedSummary) {
    let p = palette(ui);
    widgets::section(ui, "Guarded replay");
    if let Some(missed) = doc.replay.last_failure {
        wrapped_text(ui, format!("! previous result: the last attempt {missed}"), p.warning);
    }
    match &all.past {
        Some(past) => {
            wrapped_text(ui, format!("▲ {}", past.describe()), p.error);
            let event = format!("event {}", text::count(past.event));
            if widgets::key_link(ui, "launch at", &event).clicked() {
                doc.go(past.event);
            }
        }
        None if all.failure.is_none() => {
            wrapped_text(ui, "No launch reads or writes past a guarded buffer.", p.job);
        }
        None => {}
    }
    for limit in all.describe_limits() {
        wrapped_text(ui, format!("! {limit}"), p.warning);
    }
    wrapped_text(ui, all.describe(), p.quiet);
    for line in all.describe_unguarded() {
        wrapped_text(ui, line, p.quiet);
    }
}
