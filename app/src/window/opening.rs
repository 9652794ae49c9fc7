//! The opening of a recording and the background computation of its derived data.

use super::app::App;
use super::layout;
use super::requests::{LeaveAction, Question};
use crate::log::{self, Level};
use egui::Context;
use kinescope_session::comparison::ComparisonSource;
use kinescope_session::{Document, derive, source};
use std::path::PathBuf;
use std::sync::Arc;

impl App {
    /// Shows the panel of a file that the user opened like a recording. Without an open recording, `recording` opens too:
    /// panels are beside one.
    pub(super) fn show_panel_of_file(
        &mut self,
        ctx: &Context,
        panel: &'static str,
        title: &str,
        recording: Option<PathBuf>,
    ) {
        match recording.filter(|_| self.doc.is_none()) {
            Some(recording) => {
                self.after_open.panel = Some(panel);
                self.open(ctx, recording);
            }
            None if self.doc.is_none() => {
                let why = format!("it names no recording; open one, then show the panel `{panel}`");
                self.error(&format!("{title} is not shown"), &why);
            }
            None => {
                layout::show(&mut self.dock, panel);
            }
        }
    }

    /// Opens a recording in the background.
    pub fn open(&mut self, ctx: &Context, path: PathBuf) {
        // `.` and `..` have no name to store files next to.
        let path = match path.file_name() {
            Some(_) => path,
            None => path.canonicalize().unwrap_or(path),
        };
        if super::pipelines::is_pipeline(&path) {
            super::pipelines::open_with_recording(self, ctx, path);
            return;
        }
        if super::campaigns::is_campaign(&path) {
            super::campaigns::open_with_recording(self, ctx, path);
            return;
        }
        let title = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        let afterwards = std::mem::take(&mut self.after_open);
        let Some(LeaveAction::Open(path, afterwards)) = self.check_leave(LeaveAction::Open(path, afterwards)) else {
            return;
        };
        self.last_error = None;
        // If the same recording is opened again, its journal must be complete and unlocked, so that its edits are
        // restored.
        let same = |d: &&mut Document| matches!((d.path.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b);
        match self.doc.as_mut().filter(same) {
            Some(d) => d.close(),
            None => self.release_user_map(),
        }
        let (again, elsewhere) = (ctx.clone(), self.settings.journal_path(&path));
        self.tasks.spawn(ctx, format!("opening {title}"), move |progress| {
            let read = source::open(&path, progress, || {});
            let made = read.map_err(|e| e.to_string()).and_then(|read| {
                let o = read.opened;
                let kept = (o.pyramid, o.timeline);
                let derived = derive::first(&o.recording, kept, progress).map_err(|e| e.to_string())?;
                let (recording, derived) = (Arc::new(o.recording), Arc::new(derived));
                Ok((
                    Document::with_journal_fallback(path.clone(), elsewhere, recording, derived),
                    read.maps,
                ))
            });
            let recordings = match &made {
                Err(_) if path.is_dir() && !trace_import::fits(&path) => trace_import::recordings_in(&path),
                // One recording in an archive was opened, or its error is shown.
                Err(_) if path.is_file() => Some(trace_import::recordings_in_archive(&path))
                    .filter(|several| several.len() > 1)
                    .unwrap_or_default(),
                _ => Vec::new(),
            };
            Box::new(move |app| match made {
                Ok((doc, own)) => {
                    for error in own.errors() {
                        app.error("a user register map was not loaded", error);
                    }
                    app.show_document(doc);
                    app.watch_user_maps(own, &again);
                    app.derive_next_stage(&again);
                    if let Some(goal) = afterwards.goal {
                        app.go_to(&goal);
                    }
                    if let Some(panel) = afterwards.panel {
                        layout::show(&mut app.dock, panel);
                    }
                    match afterwards.compare {
                        Some(other) => app.compare(&again, ComparisonSource::File(other)),
                        None => app.compare_again(&again),
                    }
                }
                Err(e) => {
                    if e == "cancelled" {
                        app.info(format!("opening {title} was stopped"));
                    } else if !recordings.is_empty() {
                        app.question = Some(Question::Recordings {
                            folder: path,
                            recordings,
                        });
                    } else {
                        app.error(&format!("{title} was not opened"), &e);
                    }
                }
            })
        });
    }

    /// Computes the missing derived data of the open recording in the background, one stage after another. Results are
    /// shown as they arrive. Stopping a stage also skips the later ones.
    pub(super) fn derive_next_stage(&mut self, ctx: &Context) {
        let Some(doc) = &mut self.doc else { return };
        let Some(stage) = doc.derived.pending.first().copied() else {
            doc.derivation = None;
            return;
        };
        let (recording, derived, again) = (Arc::clone(&doc.recording), Arc::clone(&doc.derived), ctx.clone());
        let path = doc.path.clone();
        let progress = self.tasks.spawn(ctx, stage.title(), move |progress| {
            let part = derive::find_out(stage, &recording, Some(&path), &derived, progress);
            // The window can store the part without a copy if nothing else holds the derived data.
            drop(derived);
            let watched = progress.clone();
            Box::new(move |app| {
                let Some(doc) = app.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, &recording)) else {
                    return;
                };
                if let Ok(part) = part {
                    doc.learn(part);
                }
                if watched.check().is_ok() {
                    app.derive_next_stage(&again);
                } else {
                    doc.derivation = None;
                    let left = match app.keys.text("reload").as_str() {
                        "" => format!(
                            "{} was stopped; use Reload in the menu File to run it again",
                            stage.title()
                        ),
                        key => format!("{} was stopped; {key} reads the recording again", stage.title()),
                    };
                    log::push(Level::Warning, left);
                }
            })
        });
        doc.derivation = Some(progress);
    }
}
