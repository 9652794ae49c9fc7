//! SIGINT and SIGTERM handling: the first signal cancels the running work, which leaves nothing half written; a second
//! one ends the program at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trace_core::progress::Progress;

/// The running work, and the signal that was received.
struct State {
    signal: Option<i32>,
    work: Vec<(u64, Progress)>,
    next: u64,
}

static STATE: Mutex<State> = Mutex::new(State {
    signal: None,
    work: Vec::new(),
    next: 0,
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the exit code of a program that a signal ended, as shells count it: 130 for SIGINT, 143 for SIGTERM.
fn signal_exit_code(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
}

/// Installs handlers that cancel the work registered with [`cancel_on_signal`], or end the program if there is none.
///
/// # Errors
/// When the system rejects the handlers, or no thread can be started.
pub fn install() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // A write may wait for a reader, where no progress is checked.
    kinescope_files::pipe_writer::set_stop_check(|| requested_exit_code().is_some());
    let heed = move || {
        for signal in signals.forever() {
            let mut state = state();
            if state.signal.replace(signal).is_some() || state.work.is_empty() {
                low_level::exit(i32::from(signal_exit_code(signal)));
            }
            for (_, progress) in &state.work {
                progress.cancel();
            }
        }
    };
    let thread = std::thread::Builder::new().name("kinescope-signals".into());
    thread.spawn(heed).map(drop)
}

/// Returns the exit code to end with, if a signal was received.
#[must_use]
pub fn requested_exit_code() -> Option<u8> {
    state().signal.map(signal_exit_code)
}

/// Registration of work that signals cancel, until this is dropped.
#[derive(Debug)]
pub struct CancelGuard(u64);

/// Registers work that signals cancel from now on, instead of ending the program.
#[must_use]
pub fn cancel_on_signal(progress: &Progress) -> CancelGuard {
    let mut state = state();
    if state.signal.is_some() {
        progress.cancel();
    }
    let id = state.next;
    state.next += 1;
    state.work.push((id, progress.clone()));
    CancelGuard(id)
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        state().work.retain(|(id, _)| *id != self.0);
    }
}
