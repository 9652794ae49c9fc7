//! The application behind the window: what is open, what is running, what was asked for.

use super::asks::{Asks, Chooser, Pairing, Pick};
use super::log::{self, Level};
use super::{Settings, ThemeChoice, crash, layout, palette, shell};
use crate::commands;
use crate::document::tasks::Tasks;
use crate::document::workspace::{VERSION, Workspace};
use crate::document::{Document, derive, replay};
use crate::panels;
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
    pub torn: Vec<&'static str>,
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
    /// Text of an error that the person has not seen, with its details.
    pub notice: Option<(String, String)>,
    /// A board that is hardware and waits for the person's word.
    pub confirm: Option<&'static str>,
    /// Settings of the person.
    pub settings: Settings,
    theme: ThemeChoice,
    board: Option<String>,
    chooser: Chooser,
    failed: Option<String>,
    ended: bool,
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
            notice: None,
            confirm: None,
            settings,
            theme,
            board: setup.board,
            chooser: setup.chooser,
            failed: None,
            ended: false,
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

    /// The last thing that went wrong.
    #[must_use]
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Opens a recording, apart from the interface thread.
    pub fn open(&mut self, ctx: &Context, path: PathBuf) {
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

    /// Shows a document; the one that was open is closed in good order.
    pub fn take(&mut self, mut doc: Document) {
        self.close();
        self.ended = false;
        crash::opened(&doc.path);
        log::push(
            Level::Info,
            format!("opened {}: {} events", doc.path.display(), doc.len()),
        );
        if let Some(text) = doc.notice.take() {
            log::push(Level::Warning, text.clone());
            self.notice = Some((format!("Changes of {}", doc.title), text));
        }
        for k in &doc.facts.gaps_in_knowledge {
            log::push(Level::Warning, k.clone());
        }
        if let Some(b) = &self.board {
            doc.replay.choose(b);
        }
        self.dock = layout::tree(&layout::at_first());
        self.torn.clear();
        self.settings.opened(&doc.path);
        let text = self
            .settings
            .workspace_path(&doc.path)
            .and_then(|p| std::fs::read_to_string(p).ok());
        match text.as_deref().map(|t| Workspace::parse(t, &panels::is_known)) {
            Some(Ok(w)) => self.arrange(&mut doc, &w),
            Some(Err(e)) => log::push(Level::Warning, format!("the workspace was not taken up: {e}")),
            None => {
                if let Some(first) = doc.facts.jobs.first().map(|j| j.submit) {
                    doc.go(first);
                }
            }
        }
        self.doc = Some(doc);
    }

    fn arrange(&mut self, doc: &mut Document, w: &Workspace) {
        doc.timeline.axis = w.axis;
        doc.timeline.range = w.view.map(|v| (v[0], v[1]));
        doc.events.filter.clone_from(&w.filter);
        if self.board.is_none() && !w.board.is_empty() {
            doc.replay.choose(&w.board);
        }
        doc.go_with(w.moment, w.selection.clone());
        if let Some(d) = &w.dock {
            self.dock = layout::tree(d);
        }
        self.torn = w.torn.iter().filter_map(|t| panels::by_id(t).map(|p| p.id)).collect();
    }

    /// What the workspace file of the open recording would hold.
    #[must_use]
    pub fn workspace(&self) -> Option<Workspace> {
        let doc = self.doc.as_ref()?;
        Some(Workspace {
            version: VERSION,
            moment: doc.moment(),
            filter: doc.events.filter.clone(),
            board: doc.replay.board().to_owned(),
            axis: doc.timeline.axis,
            view: doc.timeline.range.map(|r| [r.0, r.1]),
            outline: None,
            inspector: None,
            torn: self.torn.iter().map(|t| (*t).to_owned()).collect(),
            selection: doc.selection().clone(),
            dock: layout::dock(&self.dock),
        })
    }

    /// Keeps the workspace of the open recording, and ends its journal in good order.
    pub fn close(&mut self) {
        if self.ended {
            return;
        }
        let kept = self
            .workspace()
            .zip(self.doc.as_ref().and_then(|d| self.settings.workspace_path(&d.path)));
        if let Some((w, path)) = kept {
            let folder = path.parent().map(Path::to_owned).unwrap_or_default();
            if let Err(e) = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, w.text())) {
                log::push(
                    Level::Warning,
                    format!("the workspace was not kept in {}: {e}", path.display()),
                );
            }
        }
        if let Some(d) = &mut self.doc {
            d.close();
        }
        self.ended = true;
        self.doc = None;
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

    /// Makes the plan of the replay.
    pub fn plan(&mut self, ctx: &Context) {
        let Some(doc) = &mut self.doc else { return };
        let order = doc.order();
        doc.replay.error = None;
        let progress = self.tasks.spawn(ctx, "making the plan", move |progress| {
            let planned = replay::plan(&order, progress);
            Box::new(move |app| {
                let Some(doc) = &mut app.doc else { return };
                doc.replay.running = None;
                match planned {
                    Ok(p) => doc.replay.planned(p),
                    Err(e) => {
                        log::push(Level::Error, format!("no plan: {e}"));
                        doc.replay.error = Some(e);
                    }
                }
            })
        });
        doc.replay.running = Some(progress);
    }

    /// Replays `times` times; hardware asks the person first.
    pub fn replay(&mut self, ctx: &Context, times: u32, command: &'static str) {
        let Some(doc) = &mut self.doc else { return };
        if doc.replay.real() && self.confirm != Some(command) {
            self.confirm = Some(command);
            return;
        }
        self.confirm = None;
        doc.replay.repeat = times;
        doc.replay.error = None;
        let order = doc.order();
        let board = doc.replay.board().to_owned();
        let progress = self.tasks.spawn(ctx, format!("replaying on {board}"), move |progress| {
            let played = replay::play(&order, progress);
            Box::new(move |app| {
                let Some(doc) = &mut app.doc else { return };
                doc.replay.running = None;
                match played {
                    Ok(p) => {
                        let (word, told) = (replay::verdict(&p.outcome), replay::summary(&p.outcome));
                        log::push(Level::Info, format!("replay on {board}: {word} {told}"));
                        doc.replay.outcome_revision = p.planned.revision;
                        doc.replay.planned(p.planned);
                        doc.replay.outcome = Some(p.outcome);
                        doc.replay.compared = p.compared;
                    }
                    Err(e) => {
                        log::push(Level::Error, format!("replay on {board}: {e}"));
                        doc.replay.error = Some(e);
                    }
                }
                doc.jumps += 1;
            })
        });
        doc.replay.running = Some(progress);
        layout::show(&mut self.dock, "replay");
    }

    /// Pairs with the agent whose address stands in the board field.
    pub fn pair(&mut self, ctx: &Context) {
        let Some(doc) = &self.doc else { return };
        let typed = doc.replay.board_field.trim().to_owned();
        let slot = Arc::clone(&self.asks.pairing);
        let again = ctx.clone();
        self.tasks.spawn(ctx, format!("pairing with {typed}"), move |_| {
            let confirm = |code: &str| {
                let (to, from) = std::sync::mpsc::channel();
                if let Ok(mut s) = slot.lock() {
                    *s = Some(Pairing {
                        code: code.to_owned(),
                        answer: to,
                    });
                }
                again.request_repaint();
                from.recv().unwrap_or(false)
            };
            let done = replay::pair(&typed, confirm);
            Box::new(move |app| match done {
                Ok(name) => {
                    app.info(format!("paired with {name}"));
                    app.asks.command("find-boards");
                }
                Err(e) => app.error("pairing did not succeed", &e),
            })
        });
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
    }

    fn dropped(&mut self, ctx: &Context) {
        let file = ctx.input(|i| i.raw.dropped_files.first().map(|f| f.path().to_owned()));
        if let Some(path) = file {
            self.open(ctx, path);
        }
    }
}
