//! The workspace of a recording: restored when it opens, saved while it is open and when it closes.

use super::app::App;
use super::crash;
use super::layout::{self, FloatingGeometry, FloatingPanel, RecordingContent, Sides};
use super::requests::LeaveAction;
use super::workspace_file::{WorkspacePaths, WorkspaceSaver};
use crate::log::{self, Level};
use crate::panels;
use crate::theme::columns::Tables;
use egui::Context;
use kinescope_files::workspace::{self, CursorEvents, ReplayOptions, Side, VERSION, Workspace};
use kinescope_session::Document;
use kinescope_session::cursors::Cursor;
use kinescope_session::screen::has_framebuffer;
use kinescope_session::wasm_run::is_wasm_run;
use replay_engine::client::fitting::Fit;
use trace_core::finding::FindingKind;

/// Interval between two checks for workspace changes, seconds.
const SAVE_INTERVAL_S: f64 = 2.0;

/// Returns the content kind of the document's recording.
pub(super) fn content_of(doc: &Document) -> RecordingContent {
    match (doc.recording.api().is_some(), has_framebuffer(&doc.recording)) {
        (false, _) if doc.recording.driver_trace().is_some() => RecordingContent::Requests,
        (true, _) if is_wasm_run(&doc.recording) => RecordingContent::Copies,
        (true, _) => RecordingContent::Calls,
        (_, true) => RecordingContent::Screen,
        _ => RecordingContent::Accesses,
    }
}

impl App {
    /// Shows a document. Closes the open document properly first, or asks the user if that would lose edits.
    pub fn show_document(&mut self, doc: Document) {
        let Some(LeaveAction::Show(doc)) = self.check_leave(LeaveAction::Show(Box::new(doc))) else {
            return;
        };
        let mut doc = *doc;
        self.close();
        crash::set_open_recording(&doc.path);
        log::push(
            Level::Info,
            format!("opened {}: {} events", doc.path.display(), doc.len()),
        );
        if let Some(text) = doc.notice.take() {
            log::push(Level::Warning, text.clone());
            self.notice = Some((format!("Changes of {}", doc.title), text));
        }
        let mut findings = doc.recording.metadata.findings.iter();
        if let Some(cut) = findings.find(|f| f.kind == FindingKind::TruncatedSection) {
            let details = format!("{}: {}. The part after it is not shown.", cut.place, cut.message);
            self.notice = Some((format!("{} is truncated", doc.title), details));
        }
        for k in &doc.derived.gaps_in_knowledge {
            log::push(Level::Warning, k.clone());
        }
        doc.replay.set_reachable(&self.targets);
        if let Some(b) = &self.target {
            doc.replay.choose(b);
        }
        self.apply_default_layout(content_of(&doc));
        self.views = std::mem::take(&mut self.views).for_another_document();
        self.trim_sheet = None;
        self.actions.tables = Tables::default();
        self.settings.add_recent(&doc.path);
        self.workspace_saver = WorkspaceSaver {
            places: WorkspacePaths::for_recording(&doc.path, &self.settings),
            ..WorkspaceSaver::default()
        };
        match self.workspace_saver.places.as_ref().and_then(WorkspacePaths::read) {
            Some(Ok(w)) => self.arrange(&mut doc, &w),
            found => {
                if let Some(Err(e)) = found {
                    log::push(Level::Warning, format!("the workspace file is damaged: {e}"));
                    self.notice = Some(("The workspace file is damaged".into(), e.to_string()));
                }
                if let Some(first) = doc.first_work() {
                    doc.go(first);
                }
            }
        }
        self.doc = Some(doc);
        self.workspace_saver.last_saved = self.workspace();
    }

    /// Resets the panel arrangement to the default.
    pub fn reset_arrangement(&mut self) {
        let holds = self.doc.as_ref().map_or(RecordingContent::Accesses, content_of);
        self.apply_default_layout(holds);
    }

    pub(super) fn apply_default_layout(&mut self, holds: RecordingContent) {
        self.dock = layout::tree(&layout::default_dock(holds));
        self.fitted_share = None;
        self.floating.clear();
        self.outline = true;
        self.inspector = true;
        self.sides = Sides::default();
    }

    fn arrange(&mut self, doc: &mut Document, w: &Workspace) {
        self.views.timeline.axis = w.axis;
        self.views.timeline.range = w.view.map(|v| (v[0], v[1]));
        self.views.events.filter.clone_from(&w.filter);
        doc.replay.keep_gaps = w.keep_gaps;
        doc.replay.api_options = w.calls;
        doc.replay.tolerance.clone_from(&w.alike);
        doc.replay.options = w.replay.clone();
        doc.numbers = w.numbers;
        // A saved target that cannot be the recorded device was not chosen by the user.
        if self.target.is_none() && !w.board.is_empty() && doc.replay.fit(&w.board) != Fit::Unfit {
            doc.replay.choose(&w.board);
        }
        for (cursor, event) in [(Cursor::A, w.cursors.a), (Cursor::B, w.cursors.b)] {
            if let Some(event) = event {
                doc.set_cursor(cursor, event);
            }
        }
        self.views.timeline.heights.clone_from(&w.lanes);
        self.actions.tables = Tables::from_workspace(&w.tables);
        doc.go_with(w.moment, w.selection.clone());
        doc.comparison.last_file = Some(w.compared.clone()).filter(|c| !c.is_empty()).map(Into::into);
        if let Some(d) = &w.dock {
            self.dock = layout::tree(d);
        }
        self.outline = w.outline.shown;
        self.inspector = w.inspector.shown;
        (self.sides.narrow, self.sides.folded) = (false, false);
        self.sides.outline = w.outline.width.unwrap_or(self.sides.outline);
        self.sides.inspector = w.inspector.width.unwrap_or(self.sides.inspector);
        for t in &w.torn {
            let Some(panel) = panels::by_id(&t.panel) else { continue };
            // A panel is in one location only.
            layout::close(&mut self.dock, panel.id);
            self.floating.push(FloatingPanel::with_geometry(
                panel.id,
                FloatingGeometry { at: t.at, size: t.size },
            ));
        }
    }

    /// Returns the workspace of the open recording as its file would store it.
    #[must_use]
    pub fn workspace(&self) -> Option<Workspace> {
        let doc = self.doc.as_ref()?;
        let side = |shown: bool, width: f32| Side {
            shown,
            width: Some(width.round()),
        };
        let torn = |t: &FloatingPanel| workspace::FloatingPanel {
            panel: t.panel.to_owned(),
            at: t.now.at.map(|a| a.map(f32::round)),
            size: t.now.size.map(f32::round),
        };
        Some(Workspace {
            version: VERSION,
            moment: doc.current_event(),
            filter: self.views.events.filter.clone(),
            board: doc.replay.target().to_owned(),
            keep_gaps: doc.replay.keep_gaps,
            calls: doc.replay.api_options,
            alike: doc.replay.tolerance.clone(),
            replay: ReplayOptions {
                // The user allows an unchecked plan anew for each opened recording.
                bypass_check: false,
                ..doc.replay.options.clone()
            },
            axis: self.views.timeline.axis,
            numbers: doc.numbers,
            view: self.views.timeline.range.map(|r| [r.0, r.1]),
            compared: doc.comparison.file().unwrap_or_default(),
            outline: side(self.outline, self.sides.outline),
            inspector: side(self.inspector || self.sides.folded, self.sides.inspector),
            torn: self.floating.iter().map(torn).collect(),
            selection: doc.selection().clone(),
            dock: layout::arranged_dock(&self.dock, self.fitted_share),
            cursors: CursorEvents {
                a: doc.cursors.a,
                b: doc.cursors.b,
            },
            lanes: self.views.timeline.heights.clone(),
            tables: self.actions.tables.to_workspace(),
        })
    }

    /// Saves the workspace periodically on a separate thread if it changed.
    pub(super) fn save_workspace(&mut self, ctx: &Context) {
        let now = ctx.input(|i| i.time);
        if now - self.workspace_saver.last_check < SAVE_INTERVAL_S {
            return;
        }
        self.workspace_saver.last_check = now;
        self.workspace_saver.collect_result(false);
        let (Some(w), Some(places)) = (self.workspace(), self.workspace_saver.places.clone()) else {
            return;
        };
        if self.workspace_saver.at_work.is_some() || self.workspace_saver.last_saved.as_ref() == Some(&w) {
            return;
        }
        self.workspace_saver.last_saved = Some(w.clone());
        let thread = std::thread::Builder::new().name("workspace".into());
        match thread.spawn(move || places.save(&w)) {
            Ok(t) => self.workspace_saver.at_work = Some(t),
            Err(e) => self.workspace_saver.report_result(Err(e.to_string())),
        }
    }

    /// Closes the recording: saves its workspace, ends its journal properly, stops its tasks and ends following.
    pub fn close(&mut self) {
        self.following = None;
        self.workspace_saver.collect_result(true);
        if let Some(w) = self
            .workspace()
            .filter(|w| self.workspace_saver.last_saved.as_ref() != Some(w))
            && let Some(places) = &self.workspace_saver.places
        {
            let done = places.save(&w);
            self.workspace_saver.report_result(done);
        }
        self.workspace_saver = WorkspaceSaver::default();
        if let Some(mut d) = self.doc.take() {
            for running in [&d.replay.running, &d.derivation].into_iter().flatten() {
                running.cancel();
            }
            d.comparison.clear();
            d.close();
        }
        self.dropped_file = None;
    }
}
