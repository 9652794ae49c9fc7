//! Who wrote a byte last, beside what touches it: asked of a replay on the software GPU that is made once and kept.

use super::view::{Touched, View, Writer};
use crate::document::Document;
use crate::document::debug::{Told, Trouble};
use crate::document::writers::{Given, Run, is_too_many};
use crate::panels::desk::{Asks, Done};
use crate::theme::widgets;
use crate::theme::{icons, mono, palette, small};
use device_mali::debug::DebugError;
use egui::{RichText, Ui};
use std::sync::Arc;
use trace_core::progress::Progress;

/// Draws it.
pub(super) fn ui(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui, t: &Touched) {
    let p = palette(ui);
    let mut ask = false;
    let link = |ui: &mut Ui| {
        let r = widgets::link(ui, "who wrote it last", "last writer…");
        r.on_hover_text(
            "replays on the software GPU with every write remembered; the next question is answered at once",
        )
        .clicked()
    };
    match t.writer.as_ref().filter(|_| t.key == doc.given_key()) {
        None => {
            ask = link(ui);
            if t.writer.is_some() {
                let told = "inputs were edited since";
                ui.label(RichText::new(told).font(small()).color(p.edited));
            }
        }
        Some(Writer::Asked(progress)) => busy(ui, "replaying", progress),
        Some(Writer::Stopped) => {
            ui.label(RichText::new("stopped").font(small()).color(p.quiet));
            ask = link(ui);
        }
        Some(Writer::Not(why)) => {
            let told = RichText::new(format!("▲ {why}")).font(small()).color(p.error);
            ui.add(egui::Label::new(told).truncate()).on_hover_text(why);
        }
        Some(Writer::Told(told, more)) => {
            let (short, long) = (told.short(), told.long());
            match (told.job(), &told.within) {
                (Some(_), Some(_)) => {
                    let r = widgets::link(ui, &format!("last writer {short}"), &short);
                    if r.on_hover_text(RichText::new(long).font(mono())).clicked() {
                        asks.follow(told);
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
    if ask {
        self::ask(doc, view, asks, t.space, t.va);
    }
}

/// How far work is, and a cross to stop it.
fn busy(ui: &mut Ui, what: &str, progress: &Progress) {
    let p = palette(ui);
    let told = match progress.fraction() {
        Some(f) => format!("{what} {:.0} %", f * 100.0),
        None => format!("{what}…"),
    };
    ui.label(RichText::new(told).font(small()).color(p.quiet));
    if widgets::icon_button(ui, icons::X, "Stop asking").clicked() {
        progress.cancel();
    }
    ui.ctx().request_repaint_after(std::time::Duration::from_millis(100));
}

/// Asks who wrote a byte last: of the run that is kept, of the one under way, or of a new one.
fn ask(doc: &mut Document, view: &mut View, asks: &mut Asks, space: u32, va: u64) {
    let given = doc.given();
    let Some(t) = &mut view.touched else { return };
    t.key.clone_from(&given.key);
    if let Some(told) = doc.writers.told(&given.key, space, va) {
        t.writer = Some(Writer::Told(told, None));
        return;
    }
    if let Some(run) = doc.writers.run(&given.key) {
        answer(doc, view, asks, &run, (space, va));
        return;
    }
    if let Some(progress) = doc.writers.running(&given.key) {
        t.writer = Some(Writer::Asked(progress));
        return;
    }
    let (recording, path, key) = (Arc::clone(&doc.recording), doc.path.clone(), given.key.clone());
    let alive = Arc::new(());
    let mine = Arc::clone(&alive);
    let progress = asks.work("replaying with every write remembered", move |progress| {
        let made = Run::new(&recording, &given, None, progress);
        Box::new(move |desk| {
            let _alive = mine;
            if desk.doc.path != path {
                return;
            }
            let (doc, view) = (&mut *desk.doc, &mut desk.views.memory);
            let of = view
                .touched
                .as_ref()
                .filter(|t| t.key == given.key)
                .map(|t| (t.space, t.va));
            let waits = matches!(
                view.touched.as_ref().and_then(|t| t.writer.as_ref()),
                Some(Writer::Asked(_))
            );
            match made {
                Ok(run) => {
                    let run = Arc::new(run);
                    doc.writers.keep(&run);
                    if let Some(of) = of.filter(|_| waits) {
                        answer(doc, view, desk.asks, &run, of);
                    }
                }
                Err(e) => {
                    if let Some(t) = view.touched.as_mut().filter(|t| waits && t.key == given.key) {
                        t.writer = Some(not(&e));
                    }
                }
            }
        })
    });
    doc.writers.begin(key, progress.clone(), &alive);
    t.writer = Some(Writer::Asked(progress));
}

/// Why nothing is told.
fn not(e: &Trouble) -> Writer {
    match e {
        Trouble::Debug(DebugError::Cancelled(_)) => Writer::Stopped,
        e => Writer::Not(e.to_string()),
    }
}

/// Answers out of a run: who it was at once, what the thread had read as soon as it was followed.
fn answer(doc: &mut Document, view: &mut View, asks: &mut Asks, run: &Arc<Run>, (space, va): (u32, u64)) {
    let Some(t) = &mut view.touched else { return };
    let (recording, key) = (Arc::clone(&doc.recording), t.key.clone());
    let told = match run.writer(&doc.recording, space, va) {
        Ok(told) => told,
        Err(e) if is_too_many(&e) => {
            let (run, given) = (Arc::clone(run), doc.given());
            let path = doc.path.clone();
            let progress = asks.work("replaying with the writes to one page remembered", move |progress| {
                let made = Run::new(&recording, &given, Some((&run, space, va)), progress);
                let told = made.and_then(|r| {
                    let told = r.writer(&recording, space, va)?;
                    r.within(&recording, space, told, progress)
                });
                done(path, given, (space, va), told)
            });
            t.writer = Some(Writer::Asked(progress));
            return;
        }
        Err(e) => {
            t.writer = Some(not(&e));
            return;
        }
    };
    if !told.is_within() {
        let told = Arc::new(told);
        doc.writers.learn(&key, space, va, &told);
        t.writer = Some(Writer::Told(told, None));
        return;
    }
    let (run, given, path, first) = (Arc::clone(run), doc.given(), doc.path.clone(), told.clone());
    let progress = asks.work("following the thread that wrote the byte", move |progress| {
        let told = run.within(&recording, space, told, progress);
        done(path, given, (space, va), told)
    });
    t.writer = Some(Writer::Told(Arc::new(first), Some(progress)));
}

/// Puts an answer where the question was asked, if that is still so.
fn done(path: std::path::PathBuf, given: Given, (space, va): (u32, u64), told: Result<Told, Trouble>) -> Done {
    Box::new(move |desk| {
        if desk.doc.path != path {
            return;
        }
        let told = told.map(Arc::new);
        if let Ok(told) = &told {
            desk.doc.writers.learn(&given.key, space, va, told);
        }
        let mine = |t: &&mut Touched| t.space == space && t.va == va && t.key == given.key;
        let Some(t) = desk.views.memory.touched.as_mut().filter(mine) else {
            return;
        };
        t.writer = Some(match (told, t.writer.take()) {
            (Ok(told), _) => Writer::Told(told, None),
            // Who it was stays known when the person does not want the rest.
            (Err(Trouble::Debug(DebugError::Cancelled(_))), Some(Writer::Told(told, _))) => Writer::Told(told, None),
            (Err(e), _) => not(&e),
        });
    })
}
