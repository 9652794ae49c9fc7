//! Comparison of the open recording with a second one: requested, computed in the background and shown.

use super::app::App;
use super::layout;
use crate::log::{self, Level};
use egui::Context;
use kinescope_session::comparison::{self, ComparisonError, ComparisonSource};
use std::path::PathBuf;
use std::sync::Arc;
use trace_core::progress::Progress;

impl App {
    /// Compares the open recording with another one and shows where they differ. A newer request replaces a running
    /// one.
    pub fn compare(&mut self, ctx: &Context, with: ComparisonSource) {
        self.start_comparison(ctx, with);
        layout::show(&mut self.dock, "compare");
    }

    /// Compares the recording again with the one it was compared with when it was closed last. Does not move panels.
    pub(super) fn compare_again(&mut self, ctx: &Context) {
        let kept = self.doc.as_mut().and_then(|d| d.comparison.last_file.take());
        match kept {
            Some(path) if path.exists() => self.start_comparison(ctx, ComparisonSource::File(path)),
            Some(path) => log::push(
                Level::Info,
                format!(
                    "{}: the file no longer exists, so the comparison was not reopened",
                    path.display()
                ),
            ),
            None => {}
        }
    }

    fn start_comparison(&mut self, ctx: &Context, with: ComparisonSource) {
        let Some(doc) = &mut self.doc else { return };
        let name = with.name();
        let progress = Progress::new();
        let request = doc.comparison.begin(name.clone(), progress.clone());
        let (recording, rules) = (Arc::clone(&doc.recording), Arc::clone(&doc.comparison.rules));
        let title = format!("comparing with {name}");
        self.tasks.spawn_with(ctx, title, progress, move |progress| {
            let compared = comparison::compare(&recording, with, rules, progress);
            Box::new(move |app| {
                let doc = app.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, &recording));
                let Some(doc) = doc else { return };
                let stopped = compared.as_ref().err() == Some(&ComparisonError::Stopped);
                if !doc.comparison.end(request, compared) {
                    return;
                }
                if let Some((what, why)) = doc.comparison.failed.clone() {
                    app.error(&format!("{what} was not compared"), &why);
                } else if stopped {
                    log::push(Level::Info, format!("comparing with {name} was stopped"));
                } else {
                    app.views.compare.reset();
                    log::push(Level::Info, format!("compared with {name}"));
                }
            })
        });
    }

    /// Handles files that were dropped on the window. Opens the first file if no recording is open, and compares it
    /// with the second. If a recording is open, asks the user what a file is for.
    pub(super) fn take_dropped_files(&mut self, ctx: &Context) {
        let files: Vec<PathBuf> = ctx.input(|i| i.raw.dropped_files.iter().map(|f| f.path().to_owned()).collect());
        let mut files = files.into_iter();
        let Some(first) = files.next() else { return };
        if self.doc.is_some() {
            self.dropped_file = Some(first);
            return;
        }
        self.after_open.compare = files.next();
        self.open(ctx, first);
    }
}
