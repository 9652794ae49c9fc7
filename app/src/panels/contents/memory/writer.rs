//! The last writer of a byte, next to its references, from a replay on the simulator that runs once and is kept.

use super::view::{ByteReferences, View, WriterLookup};
use crate::panels::common::actions::{UiActions, WorkCompletion};
use crate::theme::widgets;
use crate::theme::{icons, mono, palette, small};
use device_mali::debug::DebugError;
use egui::{RichText, Ui};
use kinescope_session::Document;
use kinescope_session::debug::{WriterError, WriterReport};
use kinescope_session::writer_cache::{EditedInputs, TracedReplay, is_too_many_writes};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::progress::Progress;

/// Draws the last writer.
pub(super) fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, t: &ByteReferences) {
    let p = palette(ui);
    let mut clicked = false;
    let link = |ui: &mut Ui| {
        let r = widgets::link(ui, "find last writer", "last writer…");
        r.on_hover_text("replay on the simulator and record every write; later searches need no replay")
            .clicked()
    };
    match t.writer.as_ref().filter(|_| t.key == doc.edit_key()) {
        None => {
            clicked = link(ui);
            if t.writer.is_some() {
                let message = "inputs were edited since";
                ui.label(RichText::new(message).font(small()).color(p.edited));
            }
        }
        Some(WriterLookup::Pending(progress)) => busy(ui, "replaying", progress),
        Some(WriterLookup::Stopped) => {
            ui.label(RichText::new("stopped").font(small()).color(p.quiet));
            clicked = link(ui);
        }
        Some(WriterLookup::Failed(why)) => {
            let rich_text = RichText::new(format!("▲ {why}")).font(small()).color(p.error);
            ui.add(egui::Label::new(rich_text).truncate()).on_hover_text(why);
        }
        Some(WriterLookup::Ready(report, more)) => {
            let (short, long) = (report.summarize(), report.describe());
            match (report.job(), &report.location) {
                (Some(_), Some(_)) => {
                    let r = widgets::link(ui, &format!("last writer {short}"), &short);
                    if r.on_hover_text(RichText::new(long).font(mono())).clicked() {
                        actions.show_writer_thread(report);
                    }
                }
                (Some(place), None) => {
                    let r = widgets::link(ui, &format!("last writer {short}"), &short);
                    if r.on_hover_text(long).clicked() {
                        doc.go_job(place.chain);
                    }
                }
                _ => {
                    ui.label(RichText::new(short).color(p.text)).on_hover_text(long);
                }
            }
            if let Some(progress) = more {
                busy(ui, "following the thread", progress);
            }
        }
    }
    if clicked {
        find_writer(doc, view, actions, t.space, t.va.get());
    }
}

/// Draws the progress of work, and a button to stop it.
fn busy(ui: &mut Ui, what: &str, progress: &Progress) {
    let p = palette(ui);
    let message = match progress.fraction() {
        Some(f) => format!("{what} {:.0} %", f * 100.0),
        None => format!("{what}…"),
    };
    ui.label(RichText::new(message).font(small()).color(p.quiet));
    if widgets::icon_button(ui, icons::X, "Stop search").clicked() {
        progress.cancel();
    }
    ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
}

/// Requests the last writer of a byte: from the kept run, from the running one, or from a new one.
fn find_writer(doc: &mut Document, view: &mut View, actions: &mut UiActions, space: u32, va: u64) {
    let given = doc.edited_inputs();
    let Some(t) = &mut view.references else { return };
    t.key.clone_from(&given.key);
    if let Some(report) = doc.writers.find_answer(&given.key, space, GpuVa::new(va)) {
        t.writer = Some(WriterLookup::Ready(report, None));
        return;
    }
    if let Some(run) = doc.writers.find_run(&given.key) {
        answer(doc, view, actions, &run, (space, GpuVa::new(va)));
        return;
    }
    if let Some(progress) = doc.writers.running(&given.key) {
        t.writer = Some(WriterLookup::Pending(progress));
        return;
    }
    let (recording, path, key) = (Arc::clone(&doc.recording), doc.path.clone(), given.key.clone());
    let alive = Arc::new(());
    let mine = Arc::clone(&alive);
    let progress = actions.start_work::<View>("replaying and recording every write", move |progress| {
        let made = TracedReplay::new(&recording, &given, None, progress);
        Box::new(move |doc, view, actions| {
            let _alive = mine;
            if doc.path != path {
                return;
            }
            let of = view
                .references
                .as_ref()
                .filter(|t| t.key == given.key)
                .map(|t| (t.space, t.va));
            let waits = matches!(
                view.references.as_ref().and_then(|t| t.writer.as_ref()),
                Some(WriterLookup::Pending(_))
            );
            match made {
                Ok(run) => {
                    let run = Arc::new(run);
                    doc.writers.store_run(&run);
                    if let Some(of) = of.filter(|_| waits) {
                        answer(doc, view, actions, &run, of);
                    }
                }
                Err(e) => {
                    if let Some(t) = view.references.as_mut().filter(|t| waits && t.key == given.key) {
                        t.writer = Some(failed_writer(&e));
                    }
                }
            }
        })
    });
    doc.writers.begin(key, progress.clone(), &alive);
    t.writer = Some(WriterLookup::Pending(progress));
}

/// Returns the reason why there is no answer.
fn failed_writer(e: &WriterError) -> WriterLookup {
    match e {
        WriterError::Debug(DebugError::Cancelled(_)) => WriterLookup::Stopped,
        e => WriterLookup::Failed(e.to_string()),
    }
}

/// Answers from a run: the writer at once, what its thread read as soon as it is traced.
fn answer(
    doc: &mut Document,
    view: &mut View,
    actions: &mut UiActions,
    run: &Arc<TracedReplay>,
    (space, va): (u32, GpuVa),
) {
    let Some(t) = &mut view.references else { return };
    let (recording, key) = (Arc::clone(&doc.recording), t.key.clone());
    let report = match run.writer(&doc.recording, space, va) {
        Ok(report) => report,
        Err(e) if is_too_many_writes(&e) => {
            let (run, given) = (Arc::clone(run), doc.edited_inputs());
            let path = doc.path.clone();
            let progress = actions.start_work("replaying and recording the writes to one page", move |progress| {
                let made = TracedReplay::new(&recording, &given, Some((&run, space, va.get())), progress);
                let result = made.and_then(|r| {
                    let report = r.writer(&recording, space, va)?;
                    r.with_shader_reads(&recording, space, report, progress)
                });
                store_answer(path, given, (space, va), result)
            });
            t.writer = Some(WriterLookup::Pending(progress));
            return;
        }
        Err(e) => {
            t.writer = Some(failed_writer(&e));
            return;
        }
    };
    if !report.is_from_shader() {
        let writer_report = Arc::new(report);
        doc.writers.store_answer(&key, space, va, &writer_report);
        t.writer = Some(WriterLookup::Ready(writer_report, None));
        return;
    }
    let (run, given, path, first) = (Arc::clone(run), doc.edited_inputs(), doc.path.clone(), report.clone());
    let progress = actions.start_work("following the thread that wrote the byte", move |progress| {
        let result = run.with_shader_reads(&recording, space, report, progress);
        store_answer(path, given, (space, va), result)
    });
    t.writer = Some(WriterLookup::Ready(Arc::new(first), Some(progress)));
}

/// Stores an answer with its request, if the request is still current.
fn store_answer(
    path: std::path::PathBuf,
    given: EditedInputs,
    (space, va): (u32, GpuVa),
    result: Result<WriterReport, WriterError>,
) -> WorkCompletion<View> {
    Box::new(move |doc, view, _| {
        if doc.path != path {
            return;
        }
        let outcome = result.map(Arc::new);
        if let Ok(report) = &outcome {
            doc.writers.store_answer(&given.key, space, va, report);
        }
        let mine = |t: &&mut ByteReferences| t.space == space && t.va == va && t.key == given.key;
        let Some(t) = view.references.as_mut().filter(mine) else {
            return;
        };
        t.writer = Some(match (outcome, t.writer.take()) {
            (Ok(writer_report), _) => WriterLookup::Ready(writer_report, None),
            // The writer stays known if the user cancels the rest.
            (Err(WriterError::Debug(DebugError::Cancelled(_))), Some(WriterLookup::Ready(writer_report, _))) => {
                WriterLookup::Ready(writer_report, None)
            }
            (Err(e), _) => failed_writer(&e),
        });
    })
}
