//! Work of this thread that another one observes and cancels, and the messages of a verb inside another program.

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trace_core::progress::Progress;

/// The current step of the work; clones share it.
#[derive(Clone, Debug)]
pub struct CurrentStep(Arc<Mutex<&'static str>>);

impl CurrentStep {
    /// Creates the step that the work begins with.
    pub(super) fn new(what: &'static str) -> Self {
        Self(Arc::new(Mutex::new(what)))
    }

    /// Sets the current step.
    pub fn set(&self, what: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Returns the current step.
    pub fn get(&self) -> &'static str {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of messages that are kept of one call.
const MAX_MESSAGES: usize = 1000;

thread_local! {
    /// The watch of the call that runs on this thread.
    static CURRENT: RefCell<Option<Arc<WorkWatch>>> = const { RefCell::new(None) };
}

/// Work that runs on one thread and that another one observes and cancels.
#[derive(Debug, Default)]
pub struct WorkWatch(Mutex<WatchState>);

#[derive(Debug, Default)]
struct WatchState {
    /// Whether all work ends, also work that starts later.
    is_cancelled: bool,
    /// The running work; the last one is the innermost.
    work: Vec<(Progress, CurrentStep)>,
    /// Messages that are no errors, in order.
    messages: Vec<String>,
}

impl WorkWatch {
    fn state(&self) -> MutexGuard<'_, WatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the running work, and all work that starts later under this watch.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.is_cancelled = true;
        for (progress, _) in &state.work {
            progress.cancel();
        }
    }

    /// Returns the current step and its fraction, 0 to 1, if it is known. `None` if no work runs.
    #[must_use]
    pub fn current_step(&self) -> Option<(&'static str, Option<f32>)> {
        let state = self.state();
        let (progress, step) = state.work.last()?;
        Some((step.get(), progress.fraction()))
    }

    /// Returns the messages so far, and leaves none.
    #[must_use]
    pub fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.state().messages)
    }

    /// Runs work on this thread under this watch.
    pub fn run<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let _entered = EnteredWatch {
            outer: CURRENT.replace(Some(self.clone())),
        };
        work()
    }
}

/// Restores the outer watch of the thread when it is dropped, also after a panic.
struct EnteredWatch {
    outer: Option<Arc<WorkWatch>>,
}

impl Drop for EnteredWatch {
    fn drop(&mut self) {
        CURRENT.set(self.outer.take());
    }
}

pub(super) fn current() -> Option<Arc<WorkWatch>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Returns whether a call of another program runs on this thread.
pub(super) fn is_embedded() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Keeps a message for the program that embeds the verb. Returns whether there is one.
pub(super) fn note_message(message: &impl Display) -> bool {
    let Some(watch) = current() else {
        return false;
    };
    let mut state = watch.state();
    if state.messages.len() < MAX_MESSAGES {
        state.messages.push(message.to_string());
    }
    true
}

/// Observed work, until this is dropped.
pub(super) struct ObservedWork(Option<Arc<WorkWatch>>);

impl Drop for ObservedWork {
    fn drop(&mut self) {
        if let Some(watch) = &self.0 {
            watch.state().work.pop();
        }
    }
}

/// Shows work to the watch of this thread, if there is one.
pub(super) fn observe(progress: &Progress, step: &CurrentStep) -> ObservedWork {
    let watch = current();
    if let Some(watch) = &watch {
        let mut state = watch.state();
        if state.is_cancelled {
            progress.cancel();
        }
        state.work.push((progress.clone(), step.clone()));
    }
    ObservedWork(watch)
}
