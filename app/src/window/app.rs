//! The application behind the window: what is open, what is running, what was asked for.

use super::arrange::{Sides, Torn};
use super::asks::{Asks, Chooser, Pick};
use super::log::{self, Level};
use super::{Settings, ThemeChoice, arrange, crash, layout, palette, shell};
use crate::commands;
use crate::document::boards::Boards;
use crate::document::tasks::Tasks;
use crate::document::{Document, derive};
use crate::theme;
use egui::{Context, Ui};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
}

/// The application.
pub struct App {
    /// The open recording.
    pub doc: Option<Document>,
    /// What is running.
    pub tasks: Tasks,
    /// What panels asked for.
    pub asks: Asks,
    /// The dock.
    pub dock: egui_tiles::Tree<layout::Pane>,
    /// Panels that are windows of their own.
    pub torn: Vec<Torn>,
    /// The palette, when it is open.
    pub palette: Option<palette::Palette>,
    /// Whether the sheet of shortcuts is open.
    pub help: bool,
    /// Whether the sheet about the program is open.
    pub about: bool,
    /// Whether the outline is shown.
    pub outline: bool,
    /// Whether the inspector is shown.
    pub inspector: bool,
    /// Widths of both.
    pub sides: Sides,
    /// Boards that can be reached from here.
    pub boards: Boards,
    /// Text of an error that the person has not seen, with its details.
    pub notice: Option<(String, String)>,
    /// A board that is hardware and waits for the person's word.
    pub confirm: Option<&'static str>,
    /// Settings of the person.
    pub settings: Settings,
    pub(super) board: Option<String>,
    pub(super) keeper: arrange::Keeper,
    pub(super) replaying: Option<u64>,
    theme: ThemeChoice,
    chooser: Chooser,
    failed: Option<String>,
}

impl App {
    /// An application without a recording.
    #[must_use]
    pub fn new(ctx: &Context, setup: Setup) -> Self {
        let settings = Settings::load(setup.settings);
        let theme = setup.theme.unwrap_or_else(|| settings.theme());
        theme::install(ctx, theme);
        Self {
            doc: None,
            tasks: Tasks::default(),
            asks: Asks::default(),
            dock: layout::tree(&layout::at_first()),
            torn: Vec::new(),
            palette: None,
            help: false,
            about: false,
            outline: true,
            inspector: true,
            sides: Sides::default(),
            boards: Boards::of_person(),
            notice: None,
            confirm: None,
            settings,
            board: setup.board,
            keeper: arrange::Keeper::default(),
            replaying: None,
            theme,
            chooser: setup.chooser,
            failed: None,
        }
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
        self.settings.light = theme == ThemeChoice::Light;
        self.settings.save();
    }

    /// Tells the person that something was done.
    pub fn info(&mut self, text: impl Into<String>) {
        log::push(Level::Info, text);
    }

    /// Tells the person that something went wrong: what, to what, and the details.
    pub fn error(&mut self, what: &str, details: &str) {
        log::push(Level::Error, format!("{what}: {details}"));
        self.failed = Some(format!("{what}: {details}"));
        self.notice = Some((what.to_owned(), details.to_owned()));
    }

    /// Tells the person once of a crash report that a former run left in `folder`.
    pub fn tell_of_crash(&mut self, folder: &Path) {
        let Some(report) = crash::newest(folder) else { return };
        let name = report.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == self.settings.crash_told {
            return;
        }
        self.settings.crash_told = name;
        self.settings.save();
        let what = "The program stumbled when it ran before".to_owned();
        let details = format!("its report is {}; attach it when you tell somebody", report.display());
        log::push(Level::Warning, format!("{what}: {details}"));
        self.notice = Some((what, details));
    }

    /// The last thing that went wrong.
    #[must_use]
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Opens a recording, apart from the interface thread.
    pub fn open(&mut self, ctx: &Context, path: PathBuf) {
        // `.` and `..` have no name to put files beside.
        let path = match path.file_name() {
            Some(_) => path,
            None => path.canonicalize().unwrap_or(path),
        };
        let title = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        self.failed = None;
        // Read again, the recording comes with what was changed up to now: the journal must be whole, and free.
        let same = |d: &&mut Document| matches!((d.path.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if let Some(d) = self.doc.as_mut().filter(same) {
            d.close();
        }
        let again = ctx.clone();
        self.tasks.spawn(ctx, format!("opening {title}"), move |progress| {
            let read = trace_core::import::open_with_derived(&path, progress).map_err(|e| e.to_string());
            let made = read.and_then(|o| {
                let kept = (o.pyramid, o.timeline);
                let facts = derive::first(&o.recording, kept, progress).map_err(|e| e.to_string())?;
                Ok(Document::new(path.clone(), Arc::new(o.recording), Arc::new(facts)))
            });
            Box::new(move |app| match made {
                Ok(doc) => {
                    app.take(doc);
                    app.find_out(&again);
                }
                Err(e) if e == "cancelled" => app.info(format!("opening {title} was stopped")),
                Err(e) => app.error(&format!("{title} was not opened"), &e),
            })
        });
    }

    /// Finds out what is not known of the open recording yet, one stage after another, apart from the interface
    /// thread. What was found out is shown as it comes; stopping one stage leaves the ones after it too.
    fn find_out(&mut self, ctx: &Context) {
        let Some(doc) = &mut self.doc else { return };
        let Some(stage) = doc.facts.pending.first().copied() else {
            doc.finding_out = None;
            return;
        };
        let (recording, facts, again) = (Arc::clone(&doc.recording), Arc::clone(&doc.facts), ctx.clone());
        let progress = self.tasks.spawn(ctx, stage.title(), move |progress| {
            let part = derive::find_out(stage, &recording, &facts, progress);
            // The window can take the part up without a copy when nobody else holds the facts.
            drop(facts);
            let watched = progress.clone();
            Box::new(move |app| {
                let Some(doc) = app.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, &recording)) else {
                    return;
                };
                if let Ok(part) = part {
                    doc.learn(part);
                }
                if watched.check().is_ok() {
                    app.find_out(&again);
                } else {
                    doc.finding_out = None;
                    let left = format!("{} was stopped: F5 reads the recording again", stage.title());
                    log::push(Level::Warning, left);
                }
            })
        });
        doc.finding_out = Some(progress);
    }

    /// Asks the person for a path on a thread of its own, then acts on it.
    pub fn pick(&mut self, ctx: &Context, what: Pick, act: impl FnOnce(&mut Self, &Context, PathBuf) + Send + 'static) {
        let (chooser, again) = (Arc::clone(&self.chooser), ctx.clone());
        self.tasks.spawn(ctx, "choosing a file", move |_| {
            let path = chooser(&what);
            Box::new(move |app| {
                if let Some(p) = path {
                    act(app, &again, p);
                }
            })
        });
    }

    /// Runs a command of the table, when it is there and may run now. `false`: it did not.
    pub fn run(&mut self, ctx: &Context, id: &str) -> bool {
        match commands::by_id(id) {
            Some(c) if (c.enabled)(self) => {
                tracing::debug!("command {id}");
                (c.run)(self, ctx);
                ctx.request_repaint();
                true
            }
            _ => false,
        }
    }

    /// Runs a command, or one of `filter=TEXT`, `go=N`, `job=N`, `memory=ADDRESS`.
    ///
    /// # Errors
    /// When there is no such command or it may not run now.
    pub fn script(&mut self, ctx: &Context, step: &str) -> anyhow::Result<()> {
        let done = match (step.split_once('='), &mut self.doc) {
            (Some(("filter", text)), Some(doc)) => {
                text.clone_into(&mut doc.events.filter);
                true
            }
            (Some((what @ ("go" | "job" | "memory"), n)), Some(doc)) => {
                let n = theme::text::parse_number(n).ok_or_else(|| anyhow::anyhow!("{n:?} is not a number"))?;
                match what {
                    "go" => doc.go(n),
                    "job" => doc.go_job(u32::try_from(n)?),
                    _ => doc.show_memory(0, n, 16),
                }
                true
            }
            _ => self.run(ctx, step),
        };
        anyhow::ensure!(done, "there is no command {step:?} that may run now");
        Ok(())
    }

    /// Draws a frame and acts on what was asked for in it.
    pub fn ui(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx().clone();
        for done in self.tasks.finished() {
            done(self);
        }
        if let Some(e) = self.doc.as_ref().and_then(Document::journal_failure) {
            self.error("the changes could not be kept beside the recording", &e);
        }
        self.replay_over();
        self.dropped(&ctx);
        commands::keys(self, &ctx);
        shell::draw(self, ui);
        palette::draw(self, ui);
        for _ in 0..4 {
            let (ids, deferred) = self.asks.take();
            if ids.is_empty() && deferred.is_empty() {
                break;
            }
            for d in deferred {
                d(self, &ctx);
            }
            for id in ids {
                self.run(&ctx, id);
            }
            ctx.request_repaint();
        }
        if !self.tasks.running().is_empty() {
            ctx.request_repaint_after(std::time::Duration::from_millis(100));
        }
        self.keep(&ctx);
    }

    fn dropped(&mut self, ctx: &Context) {
        let file = ctx.input(|i| i.raw.dropped_files.first().map(|f| f.path().to_owned()));
        if let Some(path) = file {
            self.open(ctx, path);
        }
    }
}
