//! The following of a recording while its recorder writes it: each reading replaces the recording of the document, and
//! the finished file ends in its place.

use super::app::App;
use super::crash;
use super::followed_file::FollowedFile;
use super::pick::{PathPrompt, Pick};
use super::requests::LeaveAction;
use super::workspace_file::{WorkspacePaths, WorkspaceSaver};
use crate::log::{self, Level};
use crate::panels::views::Views;
use crate::theme::columns::Tables;
use egui::Context;
use kinescope_files::output;
use kinescope_session::following::{FollowPhase, FollowedRecording, Follower};
use kinescope_session::{Document, GrowthState, text};
use register_maps::UserMaps;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use trace_core::progress::Progress;
use trace_core::recording::{LostEvents, Recording};
use trace_core::timeline;

/// Interval in which the shown times change.
const TICK: Duration = Duration::from_secs(1);
/// What a snapshot says about the events that it lacks.
const SNAPSHOT: &str = "it is a snapshot: the program went on when it was saved";

/// Returns the name of a file.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

impl App {
    /// Follows the recording at a path, which may not exist yet. Closes the open recording.
    pub fn follow_file(&mut self, ctx: &Context, path: PathBuf) {
        let Some(LeaveAction::Follow(path)) = self.check_leave(LeaveAction::Follow(path)) else {
            return;
        };
        self.last_error = None;
        self.close();
        self.release_user_map();
        let path = std::path::absolute(&path).unwrap_or(path);
        let again = ctx.clone();
        match Follower::start(path.clone(), move || again.request_repaint()) {
            Ok(follower) => {
                log::push(Level::Info, format!("following {}", path.display()));
                let (status, _) = follower.take();
                self.following = Some(FollowedFile {
                    follower,
                    status,
                    is_opening: false,
                });
            }
            Err(e) => self.error(&format!("{} is not followed", file_name(&path)), &e.to_string()),
        }
    }

    /// Asks for the path of a recording to follow. The window's own prompt asks: a file dialog of the desktop offers
    /// only files that exist.
    pub fn pick_followed(&mut self) {
        let act = |app: &mut Self, ctx: &Context, path: PathBuf| app.follow_file(ctx, path);
        self.path_prompt = Some(PathPrompt::new(Pick::Follow, &self.folder(), Box::new(act)));
    }

    /// Returns the file that the window follows.
    #[must_use]
    pub fn following(&self) -> Option<&FollowedFile> {
        self.following.as_ref()
    }

    /// Ends following. The recording so far stays open.
    pub fn stop_following(&mut self) {
        let Some(followed) = self.following.take() else { return };
        let name = file_name(followed.path());
        match &mut self.doc {
            Some(doc) => {
                doc.stop_growing();
                self.info(format!(
                    "{name} is not followed any more; the recording so far stays open"
                ));
            }
            None => self.info(format!("{name} is not awaited any more")),
        }
    }

    /// Takes what the follower has found since the last frame.
    pub(super) fn poll_following(&mut self, ctx: &Context) {
        let Some(followed) = self.following.as_mut().filter(|f| !f.is_opening) else {
            return;
        };
        ctx.request_repaint_after(TICK);
        let (status, read) = followed.follower.take();
        followed.status = status;
        let (path, phase) = (followed.path().to_owned(), followed.status.phase.clone());
        match (read, phase) {
            (Some(read), FollowPhase::Finished { note }) => {
                followed.is_opening = true;
                self.open_finished(ctx, path, read, note);
            }
            (read, phase) => {
                if let Some(read) = read {
                    self.show_reading(path.clone(), read);
                }
                let name = file_name(&path);
                match phase {
                    FollowPhase::RecorderGone { reason } => {
                        self.stop_following();
                        self.error(&format!("The recorder of {name} is gone"), &reason);
                    }
                    FollowPhase::Failed { reason } => {
                        self.stop_following();
                        self.error(&format!("{name} cannot be followed"), &reason);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Shows a reading of the growing file.
    fn show_reading(&mut self, path: PathBuf, read: FollowedRecording) {
        let ends = self.find_views_at_end();
        let (Some(doc), views) = (&mut self.doc, &mut self.views) else {
            return self.show_first_reading(path, read);
        };
        let before = (
            Arc::clone(&doc.recording),
            Arc::clone(&doc.derived),
            Arc::clone(&doc.buffers),
        );
        doc.grow(read);
        views.forget_results(doc);
        self.keep_ends_in_view(ends);
        drop_elsewhere(before);
    }

    fn show_first_reading(&mut self, path: PathBuf, read: FollowedRecording) {
        crash::set_open_recording(&path);
        let mut doc = Document::new_growing(path, read);
        self.prepare_replay(&mut doc);
        self.apply_default_layout(super::arrange::content_of(&doc));
        self.views = Views::default();
        self.trim_sheet = None;
        self.actions.tables = Tables::default();
        // The file has its workspace when it is finished.
        self.workspace_saver = WorkspaceSaver::default();
        self.doc = Some(doc);
        self.go_to_end();
    }

    /// Opens the finished file in the background, with its changes and its workspace.
    fn open_finished(&mut self, ctx: &Context, path: PathBuf, read: FollowedRecording, note: Option<String>) {
        let (again, elsewhere) = (ctx.clone(), self.settings.journal_path(&path));
        let title = format!("opening {}", file_name(&path));
        self.tasks.spawn(ctx, title, move |_| {
            let (recording, derived) = (Arc::new(read.recording), Arc::new(read.derived));
            let doc = Document::with_journal_fallback(path, elsewhere, recording, derived);
            Box::new(move |app| app.show_finished(&again, doc, read.maps, note))
        });
    }

    /// Shows the finished recording in place of the growing one.
    fn show_finished(&mut self, ctx: &Context, mut doc: Document, maps: UserMaps, note: Option<String>) {
        // The user may have stopped, or opened something else.
        if !self.following.as_ref().is_some_and(|f| f.is_opening) {
            return;
        }
        let ends = self.find_views_at_end();
        self.following = None;
        let name = file_name(&doc.path);
        match self.doc.take() {
            None => self.show_document(doc),
            Some(growing) => {
                if let Some(text) = doc.notice.take() {
                    self.error(&format!("Changes of {}", doc.title), &text);
                }
                self.prepare_replay(&mut doc);
                doc.replay.choose(growing.replay.target());
                doc.continue_from(&growing);
                self.settings.add_recent(&doc.path);
                self.workspace_saver = WorkspaceSaver {
                    places: WorkspacePaths::for_recording(&doc.path, &self.settings),
                    ..WorkspaceSaver::default()
                };
                self.views.forget_results(&doc);
                self.doc = Some(doc);
                self.keep_ends_in_view(ends);
                drop_elsewhere(growing);
            }
        }
        self.watch_user_maps(maps, ctx);
        self.derive_next_stage(ctx);
        let events = self.doc.as_ref().map_or(0, Document::len);
        let events = text::count_noun(events, "event", "events");
        if let Some(note) = note {
            return self.error(&format!("{name} is not complete"), &format!("{events}; {note}"));
        }
        let message = format!("{name} is complete: {events}");
        log::push(Level::Info, message.clone());
        self.news = Some(message);
    }

    /// Sets what a replay of a document can use.
    fn prepare_replay(&self, doc: &mut Document) {
        doc.replay.set_reachable(&self.targets);
        if let Some(target) = &self.target {
            doc.replay.choose(target);
        }
    }

    /// Returns which of timeline, events and launches show the end of the recording.
    fn find_views_at_end(&self) -> [bool; 3] {
        let views = &self.views;
        let timeline = self.doc.as_ref().is_none_or(|doc| views.timeline.is_at_end(doc));
        [timeline, views.events.is_at_end(), views.launches.is_at_end()]
    }

    /// Shows the end of the recording in the views that showed it before the recording grew.
    fn keep_ends_in_view(&mut self, [timeline, events, launches]: [bool; 3]) {
        if let Some(doc) = self.doc.as_ref().filter(|_| timeline) {
            self.views.timeline.go_to_end(doc);
        }
        if events {
            self.views.events.stick_to_end();
        }
        if launches {
            self.views.launches.stick_to_end();
        }
    }

    /// Returns whether timeline and lists show the end of the recording.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.find_views_at_end() == [true; 3]
    }

    /// Moves timeline and lists to the end of the recording; the current event stays. They follow the end until the user
    /// scrolls.
    pub fn go_to_end(&mut self) {
        self.keep_ends_in_view([true; 3]);
    }

    /// Asks for a path and saves what was read of a growing recording there.
    pub fn save_snapshot(&mut self, ctx: &Context) {
        let Some(doc) = self.doc.as_ref().filter(|d| d.growth() != GrowthState::Complete) else {
            return;
        };
        let recording = Arc::clone(&doc.recording);
        let offered = format!(
            "{}-snapshot.kine",
            doc.title.strip_suffix(".kine").unwrap_or(&doc.title)
        );
        self.pick(ctx, Pick::Save(offered), move |app, ctx, path| {
            let title = format!("saving {}", path.display());
            app.tasks.spawn(ctx, title, move |progress| {
                let done = write_snapshot(&recording, &path, progress);
                let events = text::count_noun(recording.events.len() as u64, "event", "events");
                Box::new(move |app| match done {
                    Ok(()) => {
                        let message = format!("Saved a snapshot: {}, {events}", file_name(&path));
                        log::push(Level::Info, format!("{message}: {}", path.display()));
                        app.saved = Some((message, path));
                    }
                    Err(e) => app.error("the snapshot was not saved", &e),
                })
            });
        });
    }
}

/// Writes a part of a recording, with a note that events after it are missing.
fn write_snapshot(recording: &Recording, path: &Path, progress: &Progress) -> Result<(), String> {
    let mut part = recording.clone();
    part.metadata.lost.push(LostEvents {
        before_event: part.events.len() as u64,
        count: None,
        reason: SNAPSHOT.to_owned(),
    });
    let at = output::check_writable_whole(path).map_err(|e| e.to_string())?;
    timeline::write(&part, &at, progress).map_err(|e| e.to_string())
}

/// Frees something large on a thread of its own, so that no frame waits for it.
fn drop_elsewhere<T: Send + 'static>(value: T) {
    let thread = std::thread::Builder::new().name("free memory".to_owned());
    if let Err(e) = thread.spawn(move || drop(value)) {
        tracing::debug!("no thread frees memory: {e}");
    }
}
