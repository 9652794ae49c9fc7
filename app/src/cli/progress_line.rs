//! The progress line: on a terminal it shows the current step and the progress of long work, elsewhere nothing.

use super::work_watch::{self, CurrentStep};
use super::{Failure, limit, signals};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt;
use std::io::IsTerminal as _;
use std::time::Duration;
use trace_core::progress::Progress;

/// Minimum duration of work that shows a line.
const SHOW_DELAY: Duration = Duration::from_millis(400);
/// Interval between two updates.
const TICK: Duration = Duration::from_millis(100);

/// Runs some work, and shows its progress on standard error if that is a terminal. Removes the line at the end. SIGINT
/// and SIGTERM cancel the work, which then fails as stopped.
pub fn run_with_progress<T>(
    what: &'static str,
    work: impl FnOnce(&Progress, &CurrentStep) -> Result<T, Failure>,
) -> Result<T, Failure> {
    run_work(what, true, work)
}

/// Runs work that prints results as it finds them. Shows no line on a terminal, because the results show the progress.
pub fn run_printing<T>(
    what: &'static str,
    work: impl FnOnce(&Progress, &CurrentStep) -> Result<T, Failure>,
) -> Result<T, Failure> {
    run_work(what, !std::io::stdout().is_terminal(), work)
}

fn run_work<T>(
    what: &'static str,
    show: bool,
    work: impl FnOnce(&Progress, &CurrentStep) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let progress = Progress::new();
    progress.limit_unpacked(limit::max_unpacked_bytes());
    let _going = signals::cancel_on_signal(&progress);
    let doing = CurrentStep::new(what);
    let _observed = work_watch::observe(&progress, &doing);
    let shown = (show && !work_watch::is_embedded() && std::io::stderr().is_terminal())
        .then(|| start_line(&progress, &doing))
        .flatten();
    let result = work(&progress, &doing).map_err(|e| signals::requested_exit_code().map_or(e, Failure::stopped));
    if let Some(line) = shown {
        line.finish_and_clear();
    }
    result
}

/// Starts the line on standard error. A thread of its own updates it until the work is finished.
fn start_line(progress: &Progress, doing: &CurrentStep) -> Option<ProgressBar> {
    let (progress, doing) = (progress.clone(), doing.clone());
    let write = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        // An empty line is not drawn.
        if state.elapsed() >= SHOW_DELAY {
            let _ = out.write_str(&format_line(doing.get(), progress.fraction()));
        }
    };
    let style = ProgressStyle::with_template("{line}").ok()?.with_key("line", write);
    let line = ProgressBar::new_spinner().with_style(style);
    line.enable_steady_tick(TICK);
    Some(line)
}

fn format_line(doing: &str, fraction: Option<f32>) -> String {
    match fraction {
        Some(f) => format!("{doing} … {:.0} %", f * 100.0),
        None => format!("{doing} …"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_shows_step_and_percentage() {
        assert_eq!(format_line("uploading", Some(0.424)), "uploading … 42 %");
        assert_eq!(format_line("connecting", None), "connecting …");
    }

    #[test]
    fn progress_line_returns_the_result_and_updates_its_label() {
        let n = run_with_progress("reading", |progress, doing| {
            doing.set("counting");
            assert_eq!(doing.get(), "counting");
            progress.set_total(1);
            Ok(7)
        });
        assert_eq!(n.unwrap(), 7);
    }
}
