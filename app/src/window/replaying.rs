//! Replays and boards on behalf of the window: each on a thread of its own, and what becomes of the answer.

use super::app::App;
use super::layout;
use crate::document::Document;
use crate::document::comparison::With;
use crate::document::replay::{self, Trouble, TroubleKind};
use crate::log::{self, Level};
use crate::panels::desk::Pairing;
use crate::panels::inputs;
use egui::Context;
use replay_engine::client::ClientError;
use replay_engine::client::fitting::Fit;
use replay_engine::plan::RewriteKind;
use replay_engine::run::Verdict;
use replay_engine::serve::ANSWER_LIMIT;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use trace_core::recording::Recording;

/// How often a wait for the person looks whether they stopped it.
const TICK: Duration = Duration::from_millis(50);

impl App {
    /// The document that some work was begun for, when it is still the one that is open.
    fn still(&mut self, of: &Arc<Recording>) -> Option<&mut Document> {
        self.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, of))
    }

    fn troubled(&mut self, of: &Arc<Recording>, board: &str, what: &str, trouble: Trouble) {
        let level = match trouble.kind {
            TroubleKind::Stopped => Level::Info,
            _ => Level::Error,
        };
        log::push(level, format!("{what}: {}", trouble.text));
        if let Some(doc) = self.still(of) {
            if trouble.silent {
                doc.replay.silent = Some(board.to_owned());
            }
            doc.replay.error = Some(trouble);
        }
    }

    /// Makes the plan of the replay.
    pub fn plan(&mut self, ctx: &Context) {
        let Some(doc) = &mut self.doc else { return };
        doc.replay.begin();
        let (order, of) = (doc.order(&self.boards), Arc::clone(&doc.recording));
        let board = doc.replay.board().to_owned();
        let progress = self.tasks.spawn(ctx, "making the plan", move |progress| {
            let planned = replay::plan(&order, progress);
            Box::new(move |app| match planned {
                Ok(p) => {
                    if let Some(doc) = app.still(&of) {
                        doc.replay.planned(p);
                    }
                }
                Err(e) => app.troubled(&of, &board, "no plan", e),
            })
        });
        doc.replay.running = Some(progress);
        self.replaying = self.tasks.latest();
    }

    /// Replays `times` times; hardware asks the person first. A board that did not say yet what it is is asked before.
    pub fn replay(&mut self, ctx: &Context, times: u32, command: &'static str) {
        let Some(doc) = &mut self.doc else { return };
        let answered = self.confirm == Some(command);
        if !answered && doc.replay.unasked() {
            self.ask_board(ctx, command);
            return;
        }
        if !answered && doc.replay.asks() {
            self.confirm = Some(command);
            return;
        }
        // The question that was answered has said so.
        if self.confirm.take().is_some() {
            doc.replay.let_on();
        }
        doc.replay.repeat = times;
        doc.replay.begin();
        if let Err(why) = doc.replay.against(&doc.buffers) {
            doc.replay.error = Some(Trouble {
                kind: TroubleKind::Plan,
                text: format!("What outputs are held against is not right: {why}"),
                silent: false,
                allow: None,
                unfit: false,
            });
            self.turn_to_replay();
            return;
        }
        let (order, of) = (doc.order(&self.boards), Arc::clone(&doc.recording));
        let board = doc.replay.board().to_owned();
        let again = ctx.clone();
        let progress = self.tasks.spawn(ctx, format!("replaying on {board}"), move |progress| {
            let played = replay::play(&order, progress);
            Box::new(move |app| {
                let what = format!("replay on {board}");
                match played {
                    Ok(p) => app.played(&again, &of, (&board, &what), command, p),
                    Err(e) => app.missed(&of, &board, &what, e),
                }
            })
        });
        doc.replay.running = Some(progress);
        self.replaying = self.tasks.latest();
        self.turn_to_replay();
    }

    /// Asks the chosen board what it is, then the person whether it may be touched; software is replayed on at once.
    fn ask_board(&mut self, ctx: &Context, command: &'static str) {
        let Some(doc) = &mut self.doc else { return };
        doc.replay.begin();
        let (boards, of) = (self.boards.clone(), Arc::clone(&doc.recording));
        let board = doc.replay.board().to_owned();
        let progress = self
            .tasks
            .spawn(ctx, format!("asking {board} what it is"), move |progress| {
                let told = boards.ask(&board);
                let told = progress.check().map_err(|_| ClientError::Cancelled).and(told);
                Box::new(move |app| match told {
                    Ok(info) => {
                        // Who chose another board meanwhile does not want this one.
                        let doc = app.still(&of).filter(|d| d.replay.board() == board);
                        let Some(doc) = doc else { return };
                        doc.replay.silent = None;
                        doc.replay.asked = Some(info);
                        if doc.replay.asks() {
                            app.confirm = Some(command);
                        } else {
                            app.asks.command(command);
                        }
                    }
                    Err(e) => app.missed(&of, &board, &format!("replay on {board}"), e.into()),
                })
            });
        if let Ok(mut phase) = doc.replay.phase.lock() {
            "asking the board what it is".clone_into(&mut phase);
        }
        doc.replay.running = Some(progress);
        self.replaying = self.tasks.latest();
        self.turn_to_replay();
    }

    /// Shows what a replay does. Who works on inputs sees the outputs beside them, and what went wrong when something
    /// did.
    fn turn_to_replay(&mut self) {
        let outputs = self.doc.as_ref().is_some_and(inputs::shows_outputs);
        if !(outputs && layout::active(&self.dock).contains(&"inputs")) {
            layout::show(&mut self.dock, "replay");
        }
    }

    /// What went wrong is told in the Replay panel, to a person who still looks at inputs.
    fn turn_from_inputs(&mut self) {
        if layout::active(&self.dock).contains(&"inputs") {
            layout::show(&mut self.dock, "replay");
        }
    }

    /// Tells that a replay left no outcome, so that the one before is not taken for its.
    fn missed(&mut self, of: &Arc<Recording>, board: &str, what: &str, trouble: Trouble) {
        let stopped = trouble.kind == TroubleKind::Stopped;
        self.troubled(of, board, what, trouble);
        if let Some(doc) = self.still(of) {
            doc.replay.missed = Some(if stopped { "was stopped" } else { "did not run" });
            self.turn_from_inputs();
        }
    }

    fn played(
        &mut self,
        ctx: &Context,
        of: &Arc<Recording>,
        (board, what): (&str, &str),
        command: &'static str,
        played: replay::Played,
    ) {
        let Some(doc) = self.still(of) else {
            log::push(
                Level::Info,
                format!("{what}: its recording is closed, so the outcome is not shown"),
            );
            return;
        };
        let revision = played.planned.revision;
        doc.replay.planned(played.planned);
        match played.outcome {
            Ok((outcome, compared)) => {
                let (word, told) = (replay::verdict(&outcome), replay::summary(&outcome));
                let edits = match outcome.rewrites.get(&RewriteKind::Input) {
                    Some(1) => " · 1 input edited".to_owned(),
                    Some(n) => format!(" · {n} inputs edited"),
                    None => String::new(),
                };
                log::push(Level::Info, format!("{what}: {word} {told}{edits}"));
                board.clone_into(&mut doc.replay.outcome_board);
                doc.replay.outcome_revision = revision;
                doc.replay.missed = None;
                doc.replay.silent = None;
                let good = outcome.verdict == Verdict::Match && outcome.computed;
                doc.replay.outcome = Some(Arc::clone(&outcome));
                doc.replay.compared = compared;
                doc.jumps += 1;
                doc.go_to_what_went_wrong();
                let parted = outcome.verdict == Verdict::Diverged;
                if !good {
                    self.turn_from_inputs();
                }
                if parted {
                    // Where it parted from its original is shown beside it.
                    self.compare(ctx, With::Outcome(outcome));
                }
            }
            // The board is not what the person was asked about: they are asked again, and the board waits.
            Err(e) if e.kind == TroubleKind::Unconfirmed && doc.replay.board() == board => {
                log::push(Level::Info, format!("{what}: {}", e.text));
                self.confirm = Some(command);
            }
            Err(e) => self.missed(of, board, what, e),
        }
    }

    /// Notices that the plan or replay that was going on is over, however it ended.
    pub(super) fn replay_over(&mut self) {
        let Some(id) = self.replaying else { return };
        if self.tasks.running().iter().any(|r| r.id() == id) {
            return;
        }
        self.replaying = None;
        if let Some(doc) = &mut self.doc {
            doc.replay.running = None;
        }
    }

    /// Asks which boards there are.
    pub fn find_boards(&mut self, ctx: &Context) {
        let boards = self.boards.clone();
        self.tasks.spawn(ctx, "looking for boards", move |_| {
            let (boards, unread) = boards.list();
            Box::new(move |app| {
                if let Some(d) = &mut app.doc {
                    log::push(Level::Info, format!("{} targets are known", boards.len()));
                    // The list tells newly who answers.
                    d.replay.silent = None;
                    d.replay.boards = Some(boards);
                    d.replay.meet(&app.boards);
                    // Whoever pairs wants to replay there.
                    let of_agent = app.just_paired.take().map(|name| format!("agent:{name}/"));
                    let all = d.replay.targets();
                    let mut fitting = all.iter().filter(|t| t.fit != Fit::Unfit);
                    let target = of_agent.and_then(|of| fitting.find(|t| t.name.starts_with(&of)));
                    if let Some(name) = target.map(|t| t.name.clone()) {
                        d.replay.choose(&name);
                    }
                }
                if let Some(e) = unread {
                    app.error("paired agents could not be read", &e.to_string());
                }
            })
        });
    }

    /// Pairs with the agent whose address stands in the board field.
    pub fn pair(&mut self, ctx: &Context) {
        let Some(doc) = &self.doc else { return };
        let typed = doc.replay.board_field.trim().to_owned();
        let (slot, again, boards) = (Arc::clone(&self.asks.pairing), ctx.clone(), self.boards.clone());
        self.tasks.spawn(ctx, format!("pairing with {typed}"), move |progress| {
            let (asked, stop) = (Arc::clone(&slot), progress.clone());
            let confirm = move |code: &str| {
                let (to, from) = channel();
                if let Ok(mut s) = asked.lock() {
                    *s = Some(Pairing {
                        code: code.to_owned(),
                        answer: Some(to),
                    });
                }
                again.request_repaint();
                let asked = Instant::now();
                loop {
                    match from.recv_timeout(TICK) {
                        Ok(same) => return same,
                        // The agent does not wait longer either.
                        Err(RecvTimeoutError::Timeout) if stop.check().is_ok() && asked.elapsed() < ANSWER_LIMIT => {}
                        Err(_) => return false,
                    }
                }
            };
            let done = boards.pair(&typed, progress, confirm);
            if let Ok(mut s) = slot.lock() {
                *s = None;
            }
            Box::new(move |app| match done {
                Ok(name) => {
                    app.info(format!("paired with {name}"));
                    app.just_paired = Some(name.clone());
                    app.news = Some(format!("Paired with {name}"));
                    if let Some(d) = &mut app.doc {
                        d.replay.board_field.clear();
                    }
                    app.asks.command("find-boards");
                }
                Err(e) => match Trouble::from(e) {
                    Trouble {
                        kind: TroubleKind::Stopped,
                        ..
                    } => app.info("pairing was stopped; no key was kept"),
                    e => app.error("pairing did not succeed", &e.text),
                },
            })
        });
    }
}
