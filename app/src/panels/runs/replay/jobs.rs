//! The jobs of a replay: the end of each, whether its shader ran, its duration.

use crate::theme::rows::Rows;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, body, focus, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Color32, Rect, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::{Document, descriptions, job_outcome, text};
use replay_engine::run::{JobOutcome, Outcome};

/// Describes in a few words how a job ended.
fn describe_end(ui: &Ui, j: &JobOutcome) -> (&'static str, Color32) {
    let p = palette(ui);
    match (j.done, j.status, j.computed) {
        (false, None, _) => ("▲ never ended", p.error),
        (false, _, _) => ("▲ failed", p.error),
        (true, _, Some(false)) => ("! not computed", p.warning),
        (true, _, Some(true)) => ("computed", p.job),
        (true, _, None) => ("done", p.job),
    }
}

pub(super) fn draw(doc: &mut Document, ui: &mut Ui, o: &Outcome) {
    if o.jobs().is_empty() {
        return;
    }
    let p = palette(ui);
    widgets::section(ui, "Jobs");
    let height = (o.jobs().len() as f32 * ROW).min(12.0 * ROW);
    let rect = Rect::from_min_size(ui.cursor().min, vec2(ui.available_width(), height));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(rect));
    let id = ui.scope_id().with("replayed jobs");
    let mut rows: Rows = ui.data(|d| d.get_temp(id)).unwrap_or_default();
    let mut go = None;
    rows.show(&mut child, "Replayed jobs", o.jobs().len() as u64, |ui, row, rect| {
        let Some(j) = o.jobs().get(row as usize) else { return };
        let (word, colour) = describe_end(ui, j);
        let r = focus::row_response(ui, rect, ui.scope_id().with(("replayed", row)));
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("replayed job {} {word}", j.index)));
        if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let fact = doc.derived.job_submitted_at(j.submit_event);
        let why = fact
            .and_then(|f| job_outcome::find_job_outcome(doc, f))
            .and_then(|report| report.1);
        let what = fact.map(descriptions::describe_job).unwrap_or_default();
        let y = rect.center().y;
        ui.painter().text(
            pos2(rect.left() + 22.0, y),
            Align2::RIGHT_CENTER,
            j.index.to_string(),
            mono(),
            p.quiet,
        );
        let inner = Rect::from_min_max(
            pos2(rect.left() + 30.0, rect.top()),
            pos2(rect.right() - 10.0, rect.bottom()),
        );
        let took = text::duration(j.duration_ns);
        let a = paint_text(ui, inner, Align2::RIGHT_CENTER, &took, mono(), p.quiet);
        let rest = Rect::from_min_max(inner.min, pos2(inner.right() - a.max(58.0) - 8.0, inner.bottom()));
        let b = paint_text(ui, rest, Align2::RIGHT_CENTER, word, small(), colour);
        let rest = Rect::from_min_max(rest.min, pos2(rest.right() - b - 8.0, rest.bottom()));
        paint_text(ui, rest, Align2::LEFT_CENTER, &what, body(), p.text);
        if r.clicked() {
            go = Some(j.submit_event);
        }
        if let Some(why) = why {
            r.on_hover_text(why);
        }
    });
    ui.data_mut(|d| d.insert_temp(id, rows));
    ui.advance_cursor_after_rect(rect);
    if let Some(e) = go {
        match doc.derived.job_submitted_at(e).map(|j| j.index) {
            Some(j) => doc.go_job(j),
            None => doc.go(e),
        }
    }
}
