//! The run of a program with its device elsewhere: it is recorded, and the window follows the recording.

pub(super) mod output;
pub(super) mod sheet;

use super::app::App;
use super::following::file_name;
use super::program_state::{ProgramSheet, ShownRun};
use super::requests::LeaveAction;
use crate::log::{self, Level};
use egui::Context;
use kinescope_session::program_run::{CheckedRequest, ProgramRequest, ProgramRun, RunEnd};
use replay_engine::client::targets::ReplayTarget;
use std::path::PathBuf;
use std::time::Duration;

/// Interval in which the shown time changes.
const TICK: Duration = Duration::from_secs(1);

/// Returns whether a target runs programs.
fn runs_programs(target: &ReplayTarget) -> bool {
    target.live.is_some() || target.name.starts_with("cuda:") && target.info.is_some()
}

impl App {
    /// Opens the sheet that starts a program. It has the values of the last program.
    pub fn open_program_sheet(&mut self, ctx: &Context) {
        let request = self.last_program.clone().unwrap_or_else(|| ProgramRequest {
            folder: self.folder(),
            ..ProgramRequest::default()
        });
        self.program_sheet = Some(ProgramSheet {
            folder: request.folder.to_string_lossy().into_owned(),
            request,
            targets: None,
            problem: None,
            is_focused: false,
            has_new_target: false,
        });
        let targets = self.targets.clone();
        self.tasks.spawn(ctx, "asking for targets", move |_| {
            let (all, _) = targets.list();
            let names: Vec<String> = all.into_iter().filter(runs_programs).map(|t| t.name).collect();
            Box::new(move |app| {
                let Some(sheet) = &mut app.program_sheet else { return };
                if let [first, ..] = names.as_slice()
                    && sheet.request.target.is_empty()
                {
                    sheet.request.target.clone_from(first);
                    sheet.has_new_target = true;
                }
                sheet.targets = Some(names);
            })
        });
    }

    /// Starts what the open sheet says. If something is missing, the sheet says what and stays open.
    pub(super) fn start_from_sheet(&mut self, ctx: &Context) {
        let Some(sheet) = &mut self.program_sheet else { return };
        let folder = PathBuf::from(sheet.folder.trim());
        sheet.request.folder = std::path::absolute(&folder).unwrap_or(folder);
        match sheet.request.check() {
            Ok(checked) => {
                self.last_program = self.program_sheet.take().map(|sheet| sheet.request);
                self.run_program(ctx, checked);
            }
            Err(why) => sheet.problem = Some(why),
        }
    }

    /// Runs a program, and follows its recording. Closes the open recording.
    pub fn run_program(&mut self, ctx: &Context, request: CheckedRequest) {
        let Some(LeaveAction::Run(request)) = self.check_leave(LeaveAction::Run(Box::new(request))) else {
            return;
        };
        let (name, recording) = (request.name(), request.recording.clone());
        let again = ctx.clone();
        match ProgramRun::start(&self.kinescope, *request, move || again.request_repaint()) {
            Ok(run) => {
                log::push(
                    Level::Info,
                    format!("running {name}, recorded as {}", recording.display()),
                );
                self.program = Some(ShownRun {
                    run,
                    is_open: true,
                    is_reported: false,
                });
                self.follow_file(ctx, recording);
            }
            Err(e) => self.error(
                &format!("{name} was not started"),
                &format!("{}: {e}", self.kinescope.display()),
            ),
        }
    }

    /// Returns the program that runs or has run last.
    #[must_use]
    pub fn program(&self) -> Option<&ShownRun> {
        self.program.as_ref()
    }

    /// Returns whether a program runs.
    #[must_use]
    pub fn is_program_running(&self) -> bool {
        self.program.as_ref().is_some_and(|shown| shown.run.end().is_none())
    }

    /// Asks the program to end; a second call ends it at once.
    pub fn stop_program(&mut self) {
        if let Some(shown) = &mut self.program {
            shown.run.stop();
        }
    }

    /// Shows the output of the program.
    pub fn show_program(&mut self) {
        if let Some(shown) = &mut self.program {
            shown.is_open = true;
        }
    }

    /// Notices the end of the program. A program without a recording has a message.
    pub(super) fn poll_program(&mut self, ctx: &Context) {
        let Some(shown) = self.program.as_mut().filter(|shown| !shown.is_reported) else {
            return;
        };
        let Some(end) = shown.run.end() else {
            return ctx.request_repaint_after(TICK);
        };
        shown.is_reported = true;
        let request = shown.run.request();
        let (name, recording) = (request.name(), request.recording.clone());
        if recording.exists() {
            let how = end.describe();
            return self.info(format!("{name} ended: {how}"));
        }
        shown.is_open = true;
        let errors = shown.run.last_errors();
        let details = match errors.as_str() {
            "" => end.describe(),
            errors => format!("{}; {errors}", end.describe()),
        };
        // Nobody will write the awaited file.
        if self.following.as_ref().is_some_and(|f| f.path() == recording) {
            self.stop_following();
        }
        let title = match end {
            RunEnd::Code(0) => format!("{name} left no recording"),
            _ => format!("{name} did not run, or left no recording"),
        };
        self.error(&title, &details);
    }

    /// Opens the recording of the program that has ended.
    pub(super) fn open_program_recording(&mut self, ctx: &Context) {
        if let Some(shown) = &self.program {
            let path = shown.run.request().recording.clone();
            log::push(Level::Info, format!("opening {}", file_name(&path)));
            self.open(ctx, path);
        }
    }
}
