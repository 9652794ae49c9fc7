//! The application behind the window: what is open, what is running, what was asked for. How it is drawn, and what else
//! it does, stands in the files that name it.

use super::command::Command;
use super::crash;
use super::keymap::Keymap;
use super::keys_sheet::KeysSheet;
use super::layout::{self, FloatingPanel, Sides};
use super::links::AfterOpen;
use super::naming::{NameQueue, NameSheet};
use super::panel_picture::PictureRequest;
use super::pick::{Chooser, PathPrompt, Pick, PickResult};
use super::settings::{SCALES, Settings};
use super::tasks::Tasks;
use super::tour::Tour;
use super::unsaved_edits::Question;
use super::user_maps::UserMapsWatch;
use super::workspace_file::WorkspaceSaver;
use crate::document::Document;
use crate::document::boards::Boards;
use crate::document::journal::SaveState;
use crate::log::{self, Level};
use crate::panels::panel_context::{MenuCommand, PanelContext, UiActions};
use crate::panels::views::Views;
use crate::theme::{self, ThemeChoice};
use egui::Context;
use kinescope_files::output::{self, NamedFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Title of the notice that says why a replay does not run.
const NOT_REPLAYED: &str = "Not replayed";

/// What an application starts with.
pub struct Setup {
    /// Folder for settings; `None`: nothing is kept.
    pub settings: Option<PathBuf>,
    /// Theme; `None`: the one that was chosen last.
    pub theme: Option<ThemeChoice>,
    /// Board for replays.
    pub board: Option<String>,
    /// Asks the person for paths.
    pub chooser: Chooser,
    /// Every command there is.
    pub commands: &'static [Command<App>],
}

/// The palette while it is open.
#[derive(Default)]
pub struct Palette {
    /// What was typed.
    pub text: String,
    pub(super) chosen: usize,
    pub(super) focused: bool,
}

/// The application.
pub struct App {
    /// The open recording.
    pub doc: Option<Document>,
    /// What each panel shows of it.
    pub views: Views,
    /// What is running.
    pub tasks: Tasks<Self>,
    /// What panels asked for.
    pub actions: UiActions,
    /// The dock.
    pub dock: egui_tiles::Tree<layout::Pane>,
    /// Panels that are windows of their own.
    pub floating: Vec<FloatingPanel>,
    /// The palette, when it is open.
    pub palette: Option<Palette>,
    /// The field for a path, when it is open.
    pub path_prompt: Option<PathPrompt<Self>>,
    /// Whether the sheet of shortcuts is open.
    pub help: bool,
    /// Whether the sheet about the program is open.
    pub about: bool,
    /// The sheet on which keys are changed, when it is open.
    pub keys_sheet: Option<KeysSheet>,
    /// Which key runs which command.
    pub keys: Keymap,
    /// Whether the outline is shown.
    pub outline: bool,
    /// Whether the inspector is shown.
    pub inspector: bool,
    /// Widths of both.
    pub sides: Sides,
    /// Share of the timeline that the window's height gave it.
    pub(super) fitted_share: Option<f32>,
    /// Boards that can be reached from here.
    pub(super) boards: Boards,
    /// Text of an error that the person has not seen, with its details.
    pub notice: Option<(String, String)>,
    /// What was saved last, in words, and its file, until the person saw it.
    pub saved: Option<(String, PathBuf)>,
    /// Something that succeeded, in words, until the person saw it.
    pub news: Option<String>,
    /// The agent that was paired with last, until its devices are listed.
    pub just_paired: Option<String>,
    /// A board that is hardware and waits for the person's word.
    pub confirm: Option<&'static str>,
    /// What the person is asked before anything else.
    pub question: Option<Question>,
    /// Settings of the person.
    pub settings: Settings,
    /// The tour, while it is taken.
    pub tour: Option<Tour>,
    /// A file that was let go over the open recording: the person says what it is for.
    pub dropped_file: Option<PathBuf>,
    /// What happens once the recording that is being opened is there.
    pub(super) after_open: AfterOpen,
    /// A picture of a panel that waits for the window's pixels.
    pub(super) picture_request: Option<PictureRequest>,
    /// The register maps of the person's own that the open recording may have names from.
    pub(super) user_maps: Option<UserMapsWatch>,
    /// The sheet that names a register or memory, when it is open.
    pub name_sheet: Option<NameSheet>,
    /// Names on their way into files.
    pub(super) name_queue: NameQueue,
    pub(super) board: Option<String>,
    pub(super) workspace_saver: WorkspaceSaver,
    /// Where the edits were kept when it was looked last.
    pub(super) keeping: SaveState,
    /// State of the changes when it was looked last.
    pub(super) seen_revision: u64,
    pub(super) replaying: Option<u64>,
    pub(super) last_error: Option<String>,
    /// Title of the window, as the desktop was told it last.
    pub(super) window_title: String,
    pub(super) commands: &'static [Command<App>],
    theme: ThemeChoice,
    chooser: Chooser,
}

impl App {
    /// An application without a recording.
    #[must_use]
    pub fn new(ctx: &Context, setup: Setup) -> Self {
        let settings = Settings::load(setup.settings);
        let theme = setup.theme.unwrap_or_else(|| settings.theme());
        theme::install(ctx, theme);
        // The toolkit's own keys for this would be remembered nowhere.
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
            boards: Boards::with_default_keys(),
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
            name_sheet: None,
            name_queue: NameQueue::default(),
            board: setup.board,
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

    /// The theme that holds.
    #[must_use]
    pub fn theme(&self) -> ThemeChoice {
        self.theme
    }

    /// Chooses a theme, and remembers it.
    pub fn choose_theme(&mut self, ctx: &Context, theme: ThemeChoice) {
        self.theme = theme;
        theme::choose(ctx, theme);
        self.settings.set_theme(theme);
        self.settings.save();
    }

    /// Makes everything larger by so many percent, or smaller, and remembers it; `None`: as at first.
    pub fn rescale(&mut self, ctx: &Context, by: Option<i32>) {
        let (least, most) = (*SCALES.start(), *SCALES.end());
        let to = by.map_or(100, |by| {
            self.settings.scale().saturating_add_signed(by).clamp(least, most)
        });
        self.settings.scale = if to == 100 { 0 } else { to };
        self.settings.save();
        ctx.set_zoom_factor(to as f32 / 100.0);
        self.info(format!("everything at {to} % of its size"));
    }

    /// Tells the person that something was done.
    pub fn info(&mut self, text: impl Into<String>) {
        log::push(Level::Info, text);
    }

    /// Tells the person that something went wrong: what, to what, and the details.
    pub fn error(&mut self, what: &str, details: &str) {
        log::push(Level::Error, format!("{what}: {details}"));
        self.last_error = Some(format!("{what}: {details}"));
        self.notice = Some((what.to_owned(), details.to_owned()));
    }

    /// Tells the person once of a crash report that a former run left in `folder`.
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

    /// The last thing that went wrong.
    #[must_use]
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Asks the person for a path on a thread of its own, then acts on it. Where the desktop cannot ask, a field does.
    /// Nothing is saved over the open recording.
    pub fn pick(&mut self, ctx: &Context, what: Pick, act: impl FnOnce(&mut Self, &Context, PathBuf) + Send + 'static) {
        let (chooser, again) = (Arc::clone(&self.chooser), ctx.clone());
        let saves = matches!(what, Pick::Save(_));
        let folder = self.folder();
        // What is saved is offered a place next to the recording.
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

    /// The folder where a person looks for files: the recording's, else the one that the program was started in.
    fn folder(&self) -> PathBuf {
        let recording = self.doc.as_ref().and_then(|d| std::path::absolute(&d.path).ok());
        let beside = recording.and_then(|p| p.parent().map(Path::to_owned));
        beside
            .or_else(|| std::env::current_dir().ok())
            .unwrap_or_else(|| PathBuf::from("/"))
    }

    /// Takes up which targets can be reached from here.
    pub fn set_boards(&mut self, boards: Boards) {
        if let Some(doc) = &mut self.doc {
            doc.replay.set_reachable(&boards);
        }
        self.boards = boards;
    }

    /// What panels work at, when a recording is open.
    pub fn panel_context(&mut self) -> Option<PanelContext<'_>> {
        Some(PanelContext {
            doc: self.doc.as_mut()?,
            views: &mut self.views,
            asks: &mut self.actions,
        })
    }

    /// The command of this id.
    #[must_use]
    pub fn command(&self, id: &str) -> Option<&'static Command<Self>> {
        self.commands.iter().find(|c| c.id == id)
    }

    /// Runs a command of the table, when it is there and may run now. `false`: it did not.
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

    /// Takes back the word that a replay was refused once it would not be.
    pub(super) fn withdraw_refusal(&mut self) {
        if self.notice.as_ref().is_some_and(|n| n.0 == NOT_REPLAYED) && self.refusal("replay").is_none() {
            self.notice = None;
        }
    }

    /// Runs a command whose key was pressed; one that cannot run says why, where it has something to say.
    pub(super) fn run_by_key(&mut self, ctx: &Context, id: &str) {
        if !self.run(ctx, id)
            && let Some(why) = self.refusal(id)
        {
            self.notice = Some((NOT_REPLAYED.to_owned(), why));
        }
    }

    /// Returns why a command cannot run, where its key is answered by words: a replay whose target does not fit.
    #[must_use]
    pub fn refusal(&self, id: &str) -> Option<String> {
        let replay = &self.doc.as_ref()?.replay;
        let replays = matches!(id, "replay" | "replay-ten") && replay.running.is_none();
        replay.obstacle().filter(|_| replays)
    }
}
