//! Replays and targets for the window: each runs on its own thread, and its result is stored here.

use super::app::App;
use super::layout;
use super::pick::Pick;
use crate::log::{self, Level};
use crate::panels::common::actions::{Pairing, ReplayFile};
use crate::panels::runs::inputs;
use egui::Context;
use kinescope_session::Document;
use kinescope_session::comparison::ComparisonSource;
use kinescope_session::output_diff::OutputDiff;
use kinescope_session::replay::task::{ReplayEnd, ReplayResult};
use kinescope_session::replay::{self, ReplayError, ReplayErrorKind};
use replay_engine::client::ClientError;
use replay_engine::client::fitting::Fit;
use replay_engine::plan::RewriteKind;
use replay_engine::run::{Outcome, Verdict};
use replay_engine::serve::ANSWER_LIMIT;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use trace_core::recording::Recording;

/// Interval at which a wait for the user checks for cancellation.
const TICK: Duration = Duration::from_millis(50);

/// Whether an outcome diverges from its recording, and not only from what the user expects instead.
fn is_unlike_recording(doc: &Document, outcome: &Outcome) -> bool {
    let options = &doc.replay.options;
    if options.expected.is_empty() && options.expected_screen.is_empty() {
        return outcome.verdict == Verdict::Diverged;
    }
    let is_wrong = |d: &&OutputDiff| d.expected_from.is_some() && d.differ > 0;
    // A register trace counts only reads.
    let expected = match outcome.api() {
        Some(_) => doc.replay.output_diffs.iter().filter(is_wrong).count() as u64,
        None => 0,
    };
    outcome.verdict == Verdict::Diverged && outcome.divergence_count > expected
}

/// Returns why the options do not make a request.
fn find_option_error(doc: &Document) -> Option<String> {
    let replay = &doc.replay;
    if let Err(why) = replay.parse_tolerance(&doc.buffers) {
        return Some(format!("The output tolerance is invalid: {why}"));
    }
    if replay.is_api_trace() && replay.options.guard && doc.api_trace().is_none() {
        return Some("The calls of the recording are still being read. Replay again in a moment.".to_owned());
    }
    let learns = replay.options.learn && replay.checks_effects();
    let wrong = replay.parse_check_after().err().filter(|_| learns)?;
    Some(format!("The events to check after are invalid: {wrong}"))
}

impl App {
    /// Returns the document that a task was started for, if it is still open.
    fn document_of(&mut self, of: &Arc<Recording>) -> Option<&mut Document> {
        self.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, of))
    }

    fn report_error(&mut self, of: &Arc<Recording>, target: &str, what: &str, trouble: ReplayError) {
        let level = match trouble.kind {
            ReplayErrorKind::Stopped => Level::Info,
            _ => Level::Error,
        };
        log::push(level, format!("{what}: {}", trouble.text));
        if let Some(doc) = self.document_of(of) {
            if trouble.is_unresponsive {
                doc.replay.unresponsive_target = Some(target.to_owned());
            }
            doc.replay.error = Some(trouble);
        }
    }

    /// Compiles the replay plan.
    pub fn plan(&mut self, ctx: &Context) {
        let Some(doc) = &mut self.doc else { return };
        doc.replay.begin();
        let (task, of) = (doc.replay_task(&self.targets), Arc::clone(&doc.recording));
        let target = doc.replay.target().to_owned();
        let progress = self.tasks.spawn(ctx, "making the plan", move |progress| {
            let planned = task.prepare(progress);
            Box::new(move |app| match planned {
                Ok(p) => {
                    if let Some(doc) = app.document_of(&of) {
                        doc.replay.set_plan(p);
                    }
                }
                Err(e) => app.report_error(&of, &target, "no plan", e),
            })
        });
        doc.replay.running = Some(progress);
        self.replaying = self.tasks.latest();
    }

    /// Replays `times` times. Asks the user before it uses hardware. If the kind of the target is unknown, queries the
    /// target first.
    pub fn replay(&mut self, ctx: &Context, times: u32, command: &'static str) {
        let Some(doc) = &mut self.doc else { return };
        let answered = self.confirm == Some(command);
        if !answered && doc.replay.is_unqueried() {
            self.query_target(ctx, command);
            return;
        }
        if !answered && doc.replay.needs_confirmation() {
            self.confirm = Some(command);
            return;
        }
        // The answered question has shown this already.
        if self.confirm.take().is_some() {
            doc.replay.confirm();
        }
        doc.replay.repeat = times;
        doc.replay.begin();
        if let Some(text) = find_option_error(doc) {
            doc.replay.error = Some(ReplayError::new(ReplayErrorKind::Plan, text));
            self.show_replay_panel();
            return;
        }
        let (task, of) = (doc.replay_task(&self.targets), Arc::clone(&doc.recording));
        let target = doc.replay.target().to_owned();
        let again = ctx.clone();
        let progress = self
            .tasks
            .spawn(ctx, format!("replaying on {target}"), move |progress| {
                let played = task.run(progress);
                Box::new(move |app| {
                    let what = format!("replay on {target}");
                    match played {
                        Ok(p) => app.finish_replay(&again, &of, (&target, &what), command, p),
                        Err(e) => app.report_missed_replay(&of, &target, &what, e),
                    }
                })
            });
        doc.replay.running = Some(progress);
        self.replaying = self.tasks.latest();
        self.show_replay_panel();
    }

    /// Asks for the file of a replay option and stores its path. A replay reads the file.
    pub(super) fn choose_replay_file(&mut self, ctx: &Context, file: ReplayFile) {
        let Some(of) = self.doc.as_ref().map(|d| Arc::clone(&d.recording)) else {
            return;
        };
        let what = match file {
            ReplayFile::Output(_) => Pick::ExpectedOutput,
            ReplayFile::Screen => Pick::ExpectedScreen,
            ReplayFile::Plan => Pick::Plan,
        };
        self.pick(ctx, what, move |app, _, path| {
            let Some(doc) = app.document_of(&of) else { return };
            let path = std::path::absolute(&path)
                .unwrap_or(path)
                .to_string_lossy()
                .into_owned();
            let mut options = doc.replay.options.clone();
            match file {
                ReplayFile::Output(name) => drop(options.expected.insert(name, path)),
                ReplayFile::Screen => options.expected_screen = path,
                ReplayFile::Plan => options.plan = path,
            }
            doc.replay.set_options(options);
        });
    }

    /// Queries the kind of the selected target. For hardware, asks the user for permission; for a simulator, replays at
    /// once.
    fn query_target(&mut self, ctx: &Context, command: &'static str) {
        let Some(doc) = &mut self.doc else { return };
        doc.replay.begin();
        let (targets, of) = (self.targets.clone(), Arc::clone(&doc.recording));
        let target = doc.replay.target().to_owned();
        let progress = self.tasks.spawn(ctx, format!("querying {target}"), move |progress| {
            let result = targets.query_device(&target);
            let result = progress.check().map_err(|_| ClientError::Cancelled).and(result);
            Box::new(move |app| match result {
                Ok(info) => {
                    // The user selected another target meanwhile.
                    let doc = app.document_of(&of).filter(|d| d.replay.target() == target);
                    let Some(doc) = doc else { return };
                    doc.replay.unresponsive_target = None;
                    doc.replay.queried_device = Some(info);
                    if doc.replay.needs_confirmation() {
                        app.confirm = Some(command);
                    } else {
                        app.actions.run_command(command);
                    }
                }
                Err(e) => app.report_missed_replay(&of, &target, &format!("replay on {target}"), e.into()),
            })
        });
        if let Ok(mut phase) = doc.replay.phase.lock() {
            "querying the target".clone_into(&mut phase);
        }
        doc.replay.running = Some(progress);
        self.replaying = self.tasks.latest();
        self.show_replay_panel();
    }

    /// Shows the Replay panel. A user who works on inputs sees the outputs next to them, and errors if there are any.
    fn show_replay_panel(&mut self) {
        let outputs = self.doc.as_ref().is_some_and(inputs::shows_outputs);
        if !(outputs && layout::active_panels(&self.dock).contains(&"inputs")) {
            layout::show(&mut self.dock, "replay");
        }
    }

    /// Brings the Replay panel with the error to the front, if the user still looks at inputs.
    fn leave_inputs_panel(&mut self) {
        if layout::active_panels(&self.dock).contains(&"inputs") {
            layout::show(&mut self.dock, "replay");
        }
    }

    /// Reports that a replay has no outcome, so that the previous outcome is not mistaken for it.
    fn report_missed_replay(&mut self, of: &Arc<Recording>, target: &str, what: &str, trouble: ReplayError) {
        let stopped = trouble.kind == ReplayErrorKind::Stopped;
        self.report_error(of, target, what, trouble);
        if let Some(doc) = self.document_of(of) {
            doc.replay.last_failure = Some(if stopped { "was stopped" } else { "did not run" });
            self.leave_inputs_panel();
        }
    }

    fn finish_replay(
        &mut self,
        ctx: &Context,
        of: &Arc<Recording>,
        (target, what): (&str, &str),
        command: &'static str,
        played: ReplayResult,
    ) {
        let Some(doc) = self.document_of(of) else {
            log::push(
                Level::Info,
                format!("{what}: its recording is closed, so the outcome is not shown"),
            );
            return;
        };
        let revision = played.planned.revision;
        doc.replay.set_plan(played.planned);
        match played.end {
            Ok(ReplayEnd::Guarded(summary)) => {
                log::push(Level::Info, format!("{what}: {}", summary.describe()));
                doc.replay.last_failure = None;
                doc.replay.unresponsive_target = None;
                // The older outcome would look like a result of this replay.
                doc.replay.outcome = None;
                doc.replay.output_diffs.clear();
                if let Some(past) = &summary.past {
                    doc.go(past.event);
                }
                doc.replay.guarded = Some(summary);
            }
            Ok(ReplayEnd::Compared {
                outcome,
                outputs,
                is_success,
            }) => {
                let (word, message) = (replay::format_verdict(&outcome), replay::format_summary(&outcome));
                let edits = match outcome.rewrites.get(&RewriteKind::Input) {
                    Some(1) => " · 1 input edited".to_owned(),
                    Some(n) => format!(" · {n} inputs edited"),
                    None => String::new(),
                };
                log::push(Level::Info, format!("{what}: {word} {message}{edits}"));
                target.clone_into(&mut doc.replay.outcome_target);
                doc.replay.outcome_revision = revision;
                doc.replay.last_failure = None;
                doc.replay.unresponsive_target = None;
                let good = is_success && outcome.computed;
                doc.replay.guarded = None;
                doc.replay.outcome = Some(Arc::clone(&outcome));
                doc.replay.output_diffs = outputs;
                doc.jumps += 1;
                doc.go_to_first_failure();
                let parted = is_unlike_recording(doc, &outcome);
                if !good {
                    self.leave_inputs_panel();
                }
                if parted {
                    // Shows where the replay diverged from its original next to it.
                    self.compare(ctx, ComparisonSource::Outcome(outcome));
                }
            }
            // The target is not the one that the user confirmed: ask again. The target stays open.
            Err(e) if e.kind == ReplayErrorKind::Unconfirmed && doc.replay.target() == target => {
                log::push(Level::Info, format!("{what}: {}", e.text));
                self.confirm = Some(command);
            }
            Err(e) => self.report_missed_replay(of, target, what, e),
        }
    }

    /// Clears the state of a plan or replay task that ended, with any result.
    pub(super) fn clear_finished_replay(&mut self) {
        let Some(id) = self.replaying else { return };
        if self.tasks.running().iter().any(|r| r.id() == id) {
            return;
        }
        self.replaying = None;
        if let Some(doc) = &mut self.doc {
            doc.replay.running = None;
        }
    }

    /// Requests the list of targets.
    pub fn find_targets(&mut self, ctx: &Context) {
        let targets = self.targets.clone();
        self.tasks.spawn(ctx, "finding targets", move |_| {
            let (targets, unread) = targets.list();
            Box::new(move |app| {
                if let Some(d) = &mut app.doc {
                    log::push(Level::Info, format!("{} targets are known", targets.len()));
                    // The new list shows which targets respond.
                    d.replay.unresponsive_target = None;
                    d.replay.known_targets = Some(targets);
                    d.replay.set_reachable(&app.targets);
                    // A user who pairs with an agent wants to replay there.
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

    /// Pairs with the agent whose address is in the target field.
    pub fn pair(&mut self, ctx: &Context) {
        let Some(doc) = &self.doc else { return };
        let typed = doc.replay.target_field.trim().to_owned();
        let (slot, again, targets) = (Arc::clone(&self.actions.pairing), ctx.clone(), self.targets.clone());
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
                        // The agent stops waiting after the same time.
                        Err(RecvTimeoutError::Timeout) if stop.check().is_ok() && asked.elapsed() < ANSWER_LIMIT => {}
                        Err(_) => return false,
                    }
                }
            };
            let done = targets.pair(&typed, progress, confirm);
            if let Ok(mut s) = slot.lock() {
                *s = None;
            }
            Box::new(move |app| match done {
                Ok(name) => {
                    app.info(format!("paired with {name}"));
                    app.just_paired = Some(name.clone());
                    app.news = Some(format!("Paired with {name}"));
                    if let Some(d) = &mut app.doc {
                        d.replay.target_field.clear();
                    }
                    app.actions.run_command("find-boards");
                }
                Err(e) => match ReplayError::from(e) {
                    ReplayError {
                        kind: ReplayErrorKind::Stopped,
                        ..
                    } => app.info("pairing was stopped; no key was saved"),
                    e => app.error("pairing failed", &e.text),
                },
            })
        });
    }
}
