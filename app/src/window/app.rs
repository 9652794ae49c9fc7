//! The state of the application behind the window: the open document, running tasks and requests.

use super::command::Command;
use super::crash;
use super::followed_file::FollowedFile;
use super::key_capture::KeysSheet;
use super::keymap::Keymap;
use super::layout::{self, FloatingPanel, Sides};
use super::name_queue::{NameQueue, NameSheet};
use super::pick::{Chooser, PathPrompt, Pick, PickResult};
use super::program_state::{ProgramSheet, ShownRun};
use super::requests::{AfterOpen, PictureRequest, Question};
use super::settings::{SCALES, Settings};
use super::tasks::Tasks;
use super::tour_state::Tour;
use super::trimming::TrimSheet;
use super::user_maps_watch::UserMapsWatch;
use super::workspace_file::WorkspaceSaver;
use crate::log::{self, Level};
use crate::panels::common::actions::{MenuCommand, UiActions};
use crate::panels::views::{PanelContext, Views};
use crate::theme::{self, ThemeChoice};
use egui::Context;
use kinescope_files::journal::SaveState;
use kinescope_files::output::{self, NamedFile};
use kinescope_session::Document;
use kinescope_session::program_run::ProgramRequest;
use kinescope_session::targets::Targets;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Title of the notice that explains why a replay does not run.
const NOT_REPLAYED: &str = "Not replayed";
/// Title of the notice that explains why a growing recording is not edited.
const NOT_EDITED: &str = "Not edited";

/// Startup options of the application.
pub struct Setup {
    /// Settings folder; `None`: settings are not saved.
    pub settings: Option<PathBuf>,
    /// Theme; `None`: the theme chosen last.
    pub theme: Option<ThemeChoice>,
    /// Target for replays.
    pub target: Option<String>,
    /// Asks the user for paths.
    pub chooser: Chooser,
    /// All commands.
    pub commands: &'static [Command<App>],
}

/// The command palette while it is open.
#[derive(Default)]
pub struct Palette {
    /// Text that the user typed.
    pub text: String,
    pub(super) chosen: usize,
    pub(super) focused: bool,
}

/// The application.
pub struct App {
    /// The open recording.
    pub doc: Option<Document>,
    /// View state of each panel.
    pub views: Views,
    /// Running background tasks.
    pub tasks: Tasks<Self>,
    /// Actions requested by panels.
    pub actions: UiActions,
    /// The dock layout.
    pub dock: egui_tiles::Tree<layout::Pane>,
    /// Panels in separate windows.
    pub floating: Vec<FloatingPanel>,
    /// The palette, when it is open.
    pub palette: Option<Palette>,
    /// The path prompt, when it is open.
    pub path_prompt: Option<PathPrompt<Self>>,
    /// Whether the sheet of shortcuts is open.
    pub help: bool,
    /// Whether the About sheet is open.
    pub about: bool,
    /// The sheet for changing shortcuts, when it is open.
    pub keys_sheet: Option<KeysSheet>,
    /// Shortcuts of all commands.
    pub keys: Keymap,
    /// Whether the outline is shown.
    pub outline: bool,
    /// Whether the inspector is shown.
    pub inspector: bool,
    /// Widths of the outline and the inspector.
    pub sides: Sides,
    /// Share of the dock height that the last fit gave the timeline.
    pub(super) fitted_share: Option<f32>,
    /// Targets that can be reached from this machine.
    pub(super) targets: Targets,
    /// Title and details of an error that the user has not dismissed.
    pub notice: Option<(String, String)>,
    /// Description and path of the last saved file, until the user dismisses it.
    pub saved: Option<(String, PathBuf)>,
    /// Message about a success, until the user dismisses it.
    pub news: Option<String>,
    /// Name of the agent that was paired last, until its devices are listed.
    pub just_paired: Option<String>,
    /// Replay command that waits for the user to confirm the use of a hardware target.
    pub confirm: Option<&'static str>,
    /// Question that the user must answer before anything else.
    pub question: Option<Question>,
    /// User settings.
    pub settings: Settings,
    /// The tour, while it is active.
    pub tour: Option<Tour>,
    /// A file dropped over the open recording. The user decides what it is for.
    pub dropped_file: Option<PathBuf>,
    /// Actions to run once the recording that is being opened is loaded.
    pub(super) after_open: AfterOpen,
    /// A panel picture that waits for the pixels of the window.
    pub(super) picture_request: Option<PictureRequest>,
    /// The user's register maps that may name registers of the open recording.
    pub(super) user_maps: Option<UserMapsWatch>,
    /// The file that the window follows.
    pub(super) following: Option<FollowedFile>,
    /// The sheet that starts a program, when it is open.
    pub program_sheet: Option<ProgramSheet>,
    /// The program that runs or has run last.
    pub(super) program: Option<ShownRun>,
    /// What the user ran last.
    pub(super) last_program: Option<ProgramRequest>,
    /// The executable whose verb `run` runs programs.
    pub kinescope: PathBuf,
    /// The sheet for naming a register or memory range, when it is open.
    pub name_sheet: Option<NameSheet>,
    /// The sheet for trimming or bisecting the recording, when it is open.
    pub trim_sheet: Option<TrimSheet>,
    /// Names that wait to be written to map files.
    pub(super) name_queue: NameQueue,
    pub(super) target: Option<String>,
    pub(super) workspace_saver: WorkspaceSaver,
    /// Where the edits were saved at the last check.
    pub(super) keeping: SaveState,
    /// Revision of the changes at the last check.
    pub(super) seen_revision: u64,
    pub(super) replaying: Option<u64>,
    pub(super) last_error: Option<String>,
    /// Window title that was last sent to the desktop.
    pub(super) window_title: String,
    pub(super) commands: &'static [Command<App>],
    theme: ThemeChoice,
    chooser: Chooser,
}

impl App {
    /// Creates an application without a recording.
    #[must_use]
    pub fn new(ctx: &Context, setup: Setup) -> Self {
        let settings = Settings::load(setup.settings);
        let theme = setup.theme.unwrap_or_else(|| settings.theme());
        theme::install(ctx, theme);
        // The toolkit's own zoom keys would not save the scale.
        ctx.options_mut(|o| o.zoom_with_keyboard = false);
        ctx.set_zoom_factor(settings.scale() as f32 / 100.0);
        let keys = Keymap::load(setup.commands, settings.folder());
        let item = |c: &Command<Self>| MenuCommand {
            id: c.id,
            title: c.full_title(),
            keys: keys.text(c.id),
        };
        let mut app = Self {
            doc: None,
            views: Views::default(),
            tasks: Tasks::default(),
            actions: UiActions::new(setup.commands.iter().map(item).collect()),
            dock: layout::tree(&layout::default_dock(layout::RecordingContent::Accesses)),
            floating: Vec::new(),
            palette: None,
            path_prompt: None,
            help: false,
            about: false,
            keys_sheet: None,
            outline: true,
            inspector: true,
            sides: Sides::default(),
            fitted_share: None,
            targets: Targets::with_default_keys(),
            notice: None,
            saved: None,
            news: None,
            just_paired: None,
            window_title: String::new(),
            confirm: None,
            question: None,
            settings,
            tour: None,
            dropped_file: None,
            after_open: AfterOpen::default(),
            picture_request: None,
            user_maps: None,
            following: None,
            program_sheet: None,
            program: None,
            last_program: None,
            kinescope: replay_cuda::current_program(),
            name_sheet: None,
            trim_sheet: None,
            name_queue: NameQueue::default(),
            target: setup.target,
            workspace_saver: WorkspaceSaver::default(),
            keeping: SaveState::NextToRecording,
            seen_revision: 0,
            replaying: None,
            theme,
            chooser: setup.chooser,
            last_error: None,
            commands: setup.commands,
            keys,
        };
        app.report_keymap_problems();
        app
    }

    /// Returns the current theme.
    #[must_use]
    pub fn theme(&self) -> ThemeChoice {
        self.theme
    }

    /// Sets the theme and saves it.
    pub fn choose_theme(&mut self, ctx: &Context, theme: ThemeChoice) {
        self.theme = theme;
        theme::choose(ctx, theme);
        self.settings.set_theme(theme);
        self.settings.save();
    }

    /// Adds `by` percentage points to the interface scale and saves it; `None`: resets it to the default.
    pub fn rescale(&mut self, ctx: &Context, by: Option<i32>) {
        let (min, max) = (*SCALES.start(), *SCALES.end());
        let to = by.map_or(100, |by| {
            self.settings.scale().saturating_add_signed(by).clamp(min, max)
        });
        self.settings.scale = if to == 100 { 0 } else { to };
        self.settings.save();
        ctx.set_zoom_factor(to as f32 / 100.0);
        self.info(format!("zoom is {to} %"));
    }

    /// Shows a message that an action succeeded.
    pub fn info(&mut self, text: impl Into<String>) {
        log::push(Level::Info, text);
    }

    /// Shows an error: `what` is the title with the subject, `details` is the reason.
    pub fn error(&mut self, what: &str, details: &str) {
        log::push(Level::Error, format!("{what}: {details}"));
        self.last_error = Some(format!("{what}: {details}"));
        self.notice = Some((what.to_owned(), details.to_owned()));
    }

    /// Shows once that an earlier run left a crash report in `folder`.
    pub fn report_last_crash(&mut self, folder: &Path) {
        let Some(report) = crash::find_newest(folder) else {
            return;
        };
        let name = report.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == self.settings.crash_told {
            return;
        }
        self.settings.crash_told = name;
        self.settings.save();
        let what = "Kinescope crashed last time".to_owned();
        let details = format!("report: {}. Please attach it to a bug report", report.display());
        log::push(Level::Warning, format!("{what}: {details}"));
        self.notice = Some((what, details));
    }

    /// Returns the last error.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Asks the user for a path on a separate thread, then calls `act` with it. If the desktop has no file dialog, the
    /// window shows its path prompt. Never saves over the open recording.
    pub fn pick(&mut self, ctx: &Context, what: Pick, act: impl FnOnce(&mut Self, &Context, PathBuf) + Send + 'static) {
        let (chooser, again) = (Arc::clone(&self.chooser), ctx.clone());
        let saves = matches!(what, Pick::Save(_));
        let folder = self.folder();
        // The suggested location for a saved file is the folder of the recording.
        let what = match what {
            Pick::Save(name) => Pick::Save(folder.join(name).to_string_lossy().into_owned()),
            other => other,
        };
        let act = move |app: &mut Self, ctx: &Context, path: PathBuf| {
            let read = app
                .doc
                .as_ref()
                .filter(|_| saves)
                .map(|d| NamedFile::recording(&d.path));
            let taken = output::check_distinct(&read.unwrap_or_default(), &[NamedFile::new("the file to save", &path)]);
            match taken {
                Ok(()) => act(app, ctx, path),
                Err(e) => app.error("nothing was saved", &e.to_string()),
            }
        };
        self.tasks.spawn(ctx, "choosing a file", move |_| {
            let chosen = chooser(&what);
            Box::new(move |app| match chosen {
                PickResult::Path(p) => act(app, &again, p),
                PickResult::Cancelled => {}
                PickResult::NoDialog => app.path_prompt = Some(PathPrompt::new(what, &folder, Box::new(act))),
            })
        });
    }

    /// Returns the default folder for files: the folder of the recording, or else the start folder of the program.
    pub(super) fn folder(&self) -> PathBuf {
        let recording = self.doc.as_ref().and_then(|d| std::path::absolute(&d.path).ok());
        let folder = recording.and_then(|p| p.parent().map(Path::to_owned));
        folder
            .or_else(|| std::env::current_dir().ok())
            .unwrap_or_else(|| PathBuf::from("/"))
    }

    /// Updates the list of reachable targets.
    pub fn set_targets(&mut self, targets: Targets) {
        if let Some(doc) = &mut self.doc {
            doc.replay.set_reachable(&targets);
        }
        self.targets = targets;
    }

    /// Returns the context that panels use, or `None` if no recording is open.
    pub fn panel_context(&mut self) -> Option<PanelContext<'_>> {
        Some(PanelContext {
            doc: self.doc.as_mut()?,
            views: &mut self.views,
            actions: &mut self.actions,
        })
    }

    /// Returns the command with this id.
    #[must_use]
    pub fn command(&self, id: &str) -> Option<&'static Command<Self>> {
        self.commands.iter().find(|c| c.id == id)
    }

    /// Runs a command of the table if it exists and is enabled. Returns `false` if it did not run.
    pub fn run(&mut self, ctx: &Context, id: &str) -> bool {
        match self.command(id) {
            Some(c) if (c.enabled)(self) => {
                tracing::debug!("command {id}");
                (c.run)(self, ctx);
                self.note_tour_command(id);
                ctx.request_repaint();
                true
            }
            _ => false,
        }
    }

    /// Removes the notice that a replay was refused, once the reason is gone.
    pub(super) fn withdraw_refusal(&mut self) {
        let is_gone = |title: &str| match title {
            NOT_REPLAYED => self.refusal("replay").is_none(),
            NOT_EDITED => self.refusal("edit-input").is_none(),
            _ => false,
        };
        if self.notice.as_ref().is_some_and(|n| is_gone(&n.0)) {
            self.notice = None;
        }
    }

    /// Runs the command of a pressed shortcut. If it cannot run and has a reason, shows the reason.
    pub(super) fn run_by_key(&mut self, ctx: &Context, id: &str) {
        if !self.run(ctx, id)
            && let Some(why) = self.refusal(id)
        {
            let title = if is_edit(id) { NOT_EDITED } else { NOT_REPLAYED };
            self.notice = Some((title.to_owned(), why));
        }
    }

    /// Returns why a command cannot run, if its shortcut shows a message: a replay whose target does not fit, or an edit
    /// or a replay of a recording that grows.
    #[must_use]
    pub fn refusal(&self, id: &str) -> Option<String> {
        let doc = self.doc.as_ref()?;
        if is_edit(id) {
            return doc.edit_obstacle().map(str::to_owned);
        }
        let replay = &doc.replay;
        let replays = matches!(id, "replay" | "replay-ten") && replay.running.is_none();
        let needs_all = matches!(
            id,
            "plan" | "bisect" | "trim" | "watch-launch" | "watch-launches" | "measure-launches"
        );
        replay
            .obstacle()
            .filter(|_| replays)
            .or_else(|| replay.growth_obstacle().filter(|_| needs_all))
    }
}

/// Returns whether a command edits a buffer.
fn is_edit(id: &str) -> bool {
    matches!(id, "edit-input" | "revert-input")
}
