//! SIGINT and SIGTERM: work that is going on is cancelled and leaves nothing half done; a second signal ends the
//! program at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trace_core::progress::Progress;

/// What is going on, and whether it is to end.
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

/// The exit code of a program that a signal ended, as shells count it: 130 for SIGINT, 143 for SIGTERM.
fn signal_exit_code(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
}

/// Makes signals cancel what [`cancel_on_signal`] is going on, and end the program where nothing is.
///
/// # Errors
/// When the system does not take the handlers, or there is no thread to be had.
pub fn install() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // What is written may wait for a reader, where no progress is looked at.
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

/// The exit code to end with, when a signal asked for it.
#[must_use]
pub fn requested_exit_code() -> Option<u8> {
    state().signal.map(signal_exit_code)
}

/// Work that signals cancel until this is dropped.
#[derive(Debug)]
pub struct CancelGuard(u64);

/// From now on signals cancel this work, and no longer end the program before it is over.
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
