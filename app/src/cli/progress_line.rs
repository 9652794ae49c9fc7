//! The progress line: on a terminal it shows the current step and the progress of long work, elsewhere nothing.

use super::{Failure, limit, signals};
use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use trace_core::progress::Progress;

/// Minimum duration of work that shows a line.
const SHOW_DELAY: Duration = Duration::from_millis(400);
/// Interval between two updates.
const TICK: Duration = Duration::from_millis(100);

/// The current step of the work; clones share it.
#[derive(Clone, Debug)]
pub struct CurrentStep(Arc<Mutex<&'static str>>);

impl CurrentStep {
    /// Sets the current step.
    pub fn set(&self, what: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    fn get(&self) -> &'static str {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    let doing = CurrentStep(Arc::new(Mutex::new(what)));
    let shown = (show && std::io::stderr().is_terminal())
        .then(|| spawn_printer(&progress, &doing))
        .flatten();
    let result = work(&progress, &doing).map_err(|e| signals::requested_exit_code().map_or(e, Failure::stopped));
    if let Some((over, thread)) = shown {
        drop(over);
        // The thread only prints, so its result does not matter.
        let _ = thread.join();
    }
    result
}

/// Starts the printer thread. It ends when the returned sender is dropped. `None` if no thread can be started.
fn spawn_printer(progress: &Progress, doing: &CurrentStep) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (over, wait) = channel::<()>();
    let (progress, doing) = (progress.clone(), doing.clone());
    let print = move || {
        let mut pause = SHOW_DELAY;
        while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(pause) {
            pause = TICK;
            let mut err = std::io::stderr().lock();
            // Errors of a closed terminal are ignored.
            let _ = write!(err, "\r\x1b[K{}", format_line(doing.get(), progress.fraction())).and_then(|()| err.flush());
        }
        if pause == TICK {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[K").and_then(|()| err.flush());
        }
    };
    let thread = std::thread::Builder::new()
        .name("kinescope-waiting".into())
        .spawn(print);
    thread.ok().map(|t| (over, t))
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
    fn a_line_says_what_and_how_far() {
        assert_eq!(format_line("uploading", Some(0.424)), "uploading … 42 %");
        assert_eq!(format_line("connecting", None), "connecting …");
    }

    #[test]
    fn the_work_gives_its_result_and_may_change_its_name() {
        let n = run_with_progress("reading", |progress, doing| {
            doing.set("counting");
            assert_eq!(doing.get(), "counting");
            progress.set_total(1);
            Ok(7)
        });
        assert_eq!(n.unwrap(), 7);
    }
}
