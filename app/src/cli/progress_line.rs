//! Says on a terminal what long work is doing and how far it is; says nothing anywhere else.

use super::{Failure, limit, signals};
use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use trace_core::progress::Progress;

/// Work that is shorter than this is not worth a line.
const SHOW_DELAY: Duration = Duration::from_millis(400);
/// Time between two looks.
const TICK: Duration = Duration::from_millis(100);

/// What the work is doing now; clones share it.
#[derive(Clone, Debug)]
pub struct CurrentStep(Arc<Mutex<&'static str>>);

impl CurrentStep {
    /// It is doing something else from now on.
    pub fn set(&self, what: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    fn get(&self) -> &'static str {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does some work, and shows its progress on standard error while it goes on, when that is a terminal. The line is
/// gone when the work is over. SIGINT and SIGTERM cancel it: what it then could not do is told as stopped.
pub fn run_with_progress<T>(
    what: &'static str,
    work: impl FnOnce(&Progress, &CurrentStep) -> Result<T, Failure>,
) -> Result<T, Failure> {
    run_work(what, true, work)
}

/// The same for work that prints what it finds as it goes: on a terminal that already shows how far it is.
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
        // It only prints.
        let _ = thread.join();
    }
    result
}

/// The thread that prints, and what ends it when it is dropped. `None` where there is no thread to be had.
fn spawn_printer(progress: &Progress, doing: &CurrentStep) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (over, wait) = channel::<()>();
    let (progress, doing) = (progress.clone(), doing.clone());
    let print = move || {
        let mut pause = SHOW_DELAY;
        while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(pause) {
            pause = TICK;
            let mut err = std::io::stderr().lock();
            // A terminal that is gone has nobody to tell.
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
