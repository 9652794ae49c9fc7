//! Failures of a replay: faults with their registers and walk, divergences as links to their event, findings.

use super::text_lines::wrapped_text;
use crate::panels::common::actions::UiActions;
use crate::panels::common::severity::{severity_colour, severity_label};
use crate::theme::rows::Rows;
use crate::theme::widgets::{self, StyledText, paint_text};
use crate::theme::{ROW, body, focus, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, text};
use replay_engine::run::{Divergence, FaultReport, Outcome};
use trace_core::recording::Access;

/// Maximum number of faults that are shown in full.
const FAULTS: usize = 8;
/// Maximum number of findings that are listed.
const FINDINGS: usize = 20;

pub(super) fn faults(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, o: &Outcome) {
    let p = palette(ui);
    for (i, f) in (0u32..).zip(o.faults.iter().take(FAULTS)) {
        ui.add_space(8.0);
        let on = *doc.selection() == Selection::Fault(i);
        let left = StyledText::body(title(f)).colour(p.error);
        let row = widgets::list_row(ui, &format!("fault {i}"), on, 0.0, left, StyledText::small(""));
        if row.clicked() {
            doc.go_with(f.event, Selection::Fault(i));
        }
        wrapped_text(ui, &f.summary, p.text);
        // A fault of a driver call has neither.
        if f.registers.is_empty() && f.walk.is_empty() && f.address.is_none() {
            continue;
        }
        // The inspector shows the selected fault.
        ui.push_id(("fault", i), |ui| {
            egui::CollapsingHeader::new(RichText::new("registers and walk").font(small()).color(p.quiet))
                .id_salt("more")
                .show(ui, |ui| {
                    place(doc, actions, ui, f);
                    registers(ui, f);
                });
        });
    }
}

fn title(f: &FaultReport) -> String {
    match (f.job, f.address) {
        (Some(j), Some(_)) => format!("▲ Fault in job {j}"),
        (Some(j), None) => format!("▲ Job {j} failed"),
        (None, _) => "▲ Fault".to_owned(),
    }
}

/// Draws the details of a fault: what happened, its location, its registers, the walk of its address.
pub fn fault(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, f: &FaultReport) {
    let p = palette(ui);
    ui.add_space(8.0);
    ui.label(RichText::new(title(f)).font(crate::theme::strong()).color(p.error));
    wrapped_text(ui, &f.summary, p.text);
    ui.add_space(2.0);
    place(doc, actions, ui, f);
    registers(ui, f);
}

/// Draws where a fault was reported, its kind, and its subject.
fn place(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, f: &FaultReport) {
    if widgets::key_link(ui, "reported at", &format!("event {}", text::count(f.event))).clicked() {
        doc.go(f.event);
    }
    if let Some(j) = f.job
        && widgets::key_link(ui, "job", &j.to_string()).clicked()
    {
        doc.go_job(j);
        actions.run_command("show-jobs");
    }
    if f.exception != f.summary {
        widgets::key_wrapped(ui, "exception", StyledText::mono(&f.exception));
    }
    if let Some(a) = f.address
        && widgets::key_link(ui, "address", &a.to_string()).clicked()
    {
        actions.show_memory(Some(0), a, 1);
        actions.run_command("show-page-tables");
    }
    if let Some((name, by)) = &f.nearest_buffer {
        let message = match by {
            0 => format!("inside {name}"),
            n => format!("{name}, {} away", text::bytes(*n)),
        };
        if widgets::key_link(ui, "nearest", &message).clicked() {
            doc.select(Selection::Buffer(name.clone()));
            actions.run_command("show-inputs");
        }
    }
}

fn registers(ui: &mut Ui, f: &FaultReport) {
    let p = palette(ui);
    if !f.registers.is_empty() {
        widgets::section(ui, "Fault registers");
        for r in &f.registers {
            register(ui, &r.name, r.value, &r.means);
        }
    }
    if !f.walk.is_empty() {
        widgets::section(ui, "Walk of the address");
        for line in &f.walk {
            let bad = line.contains("invalid") || line.contains("does not translate") || line.contains("reserved");
            let words = RichText::new(line).font(mono_small());
            let words = words.color(if bad { p.error } else { p.quiet });
            ui.add(egui::Label::new(words).wrap());
        }
    }
}

/// Draws a register, its value, and below it the meaning if there is more to say.
fn register(ui: &mut Ui, name: &str, value: u64, meaning: &str) {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{name} {value:#x} {meaning}")));
    let used = paint_text(ui, rect, Align2::RIGHT_CENTER, &format!("{value:#x}"), mono(), p.text);
    let left = Rect::from_min_max(rect.min, pos2(rect.right() - used - 8.0, rect.bottom()));
    paint_text(ui, left, Align2::LEFT_CENTER, name, mono(), p.quiet);
    if value != 0 && !meaning.is_empty() && meaning != format!("{value:#x}") {
        ui.add(egui::Label::new(RichText::new(meaning).font(small()).color(p.quiet)).wrap());
    }
}

pub(super) fn divergences(doc: &mut Document, ui: &mut Ui, o: &Outcome) {
    if o.divergences.is_empty() {
        return;
    }
    let p = palette(ui);
    let n = o.divergence_count;
    let title = format!("▲ {} divergence{}", text::count(n), if n == 1 { "" } else { "s" });
    ui.add_space(8.0);
    ui.label(RichText::new(title).font(crate::theme::strong()).color(p.error));
    if n > o.divergences.len() as u64 {
        let message = format!("the first {} are listed", text::count(o.divergences.len() as u64));
        ui.label(RichText::new(message).font(small()).color(p.quiet));
    }
    head(ui);
    let height = (o.divergences.len() as f32 * ROW).min(8.0 * ROW);
    let rect = Rect::from_min_size(ui.cursor().min, vec2(ui.available_width(), height));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(rect));
    let id = ui.scope_id().with("divergence rows");
    let mut rows: Rows = ui.data(|d| d.get_temp(id)).unwrap_or_default();
    let selected = match doc.selection() {
        Selection::Divergence(i) => Some(u64::from(*i)),
        _ => None,
    };
    // The row that a key selected is brought into view.
    let jumps = ui.data(|d| d.get_temp::<u64>(id.with("jumps")));
    if let Some(row) = selected.filter(|_| jumps != Some(doc.jumps)) {
        rows.reveal(row);
    }
    let mut go = None;
    rows.show(
        &mut child,
        "Divergences",
        o.divergences.len() as u64,
        |ui, row, rect| {
            let Some(d) = o.divergences.get(row as usize) else {
                return;
            };
            let r = focus::row_response(ui, rect, ui.scope_id().with(("divergence", row)));
            let on = selected == Some(row);
            r.widget_info(|| WidgetInfo::selected(Role::Row, true, on, format!("divergence at event {}", d.event)));
            if on || r.hovered() {
                ui.painter()
                    .rect_filled(rect, 0.0, if on { p.selection } else { p.raised });
            }
            divergence(ui, rect, d);
            let words = explain_divergence(doc, d).join("\n");
            if r.on_hover_text(words).clicked() {
                go = Some((d.event, row as u32));
            }
        },
    );
    ui.data_mut(|d| {
        d.insert_temp(id, rows);
        d.insert_temp(id.with("jumps"), doc.jumps);
    });
    ui.advance_cursor_after_rect(rect);
    if let Some((event, i)) = go {
        doc.go_with(event, Selection::Divergence(i));
    }
    if let Some(d) = selected.and_then(|i| o.divergences.get(i as usize)) {
        ui.add_space(4.0);
        for line in explain_divergence(doc, d) {
            ui.add(egui::Label::new(RichText::new(line).font(small()).color(p.quiet)).wrap());
        }
    }
}

fn head(ui: &mut Ui) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 18.0), Sense::hover());
    let at = |x: f32, align: Align2, word: &str| {
        ui.painter()
            .text(pos2(x, rect.center().y), align, word, small(), p.quiet);
    };
    at(rect.left() + 46.0, Align2::RIGHT_CENTER, "event");
    at(rect.left() + 56.0, Align2::LEFT_CENTER, "register");
    at(rect.right() - 10.0, Align2::RIGHT_CENTER, "got ≠ recorded");
}

fn divergence(ui: &Ui, rect: Rect, d: &Divergence) {
    let p = palette(ui);
    let right = Rect::from_min_max(rect.min, pos2(rect.right() - 10.0, rect.bottom()));
    let values = format!("{:#x} ≠ {:#x}", d.got, d.expected);
    let used = paint_text(ui, right, Align2::RIGHT_CENTER, &values, mono(), p.error);
    ui.painter().text(
        pos2(rect.left() + 46.0, rect.center().y),
        Align2::RIGHT_CENTER,
        text::count(d.event),
        mono(),
        p.read,
    );
    let left = Rect::from_min_max(
        pos2(rect.left() + 56.0, rect.top()),
        pos2(right.right() - used - 8.0, rect.bottom()),
    );
    paint_text(ui, left, Align2::LEFT_CENTER, &d.register, mono(), p.text);
}

/// Explains a divergence: both values decoded, the kind of comparison, what ran before.
fn explain_divergence(doc: &Document, d: &Divergence) -> Vec<String> {
    let access = usize::try_from(d.event)
        .ok()
        .and_then(|e| doc.recording.events.access(e));
    let device = doc.derived.device;
    let value = |v: u64| {
        let message = access.and_then(|a| device?.describe(&Access { value: v, ..a }));
        let means = message.unwrap_or_default();
        match means.as_str() {
            "" => format!("{v:#x}"),
            m => format!("{v:#x}, {m}"),
        }
    };
    let how = match d.class.as_str() {
        "until" => "the poll did not reach the recorded value within its limit",
        "masked" => "only some of its bits are compared",
        _ => "every bit is compared",
    };
    let mut lines = vec![
        format!("got {}", value(d.got)),
        format!("recorded {}", value(d.expected)),
        how.to_owned(),
    ];
    if let Some(j) = d.job {
        lines.push(format!("last job before it: job {j}"));
    }
    lines
}

pub(super) fn findings(doc: &mut Document, ui: &mut Ui, o: &Outcome) {
    if o.findings().is_empty() {
        return;
    }
    let p = palette(ui);
    widgets::section(ui, "Findings about the recording");
    for (i, f) in o.findings().iter().take(FINDINGS).enumerate() {
        let (mark, _) = severity_label(f.severity);
        let colour = severity_colour(p, f.severity);
        let mut left = StyledText::body(format!("{mark} {}", f.message));
        left.font = body();
        let left = left.colour(colour);
        let right = StyledText::mono(f.event.map(text::count).unwrap_or_default()).colour(p.read);
        let r = widgets::list_row(ui, &format!("replay finding {i}"), false, 0.0, left, right);
        if r.on_hover_text(format!("{}\n{}", f.place, f.message)).clicked()
            && let Some(e) = f.event
        {
            doc.go(e);
        }
    }
    if o.findings().len() > FINDINGS {
        let summary = format!("and {} more, in the saved outcome", o.findings().len() - FINDINGS);
        ui.label(RichText::new(summary).font(small()).color(p.quiet));
    }
}
