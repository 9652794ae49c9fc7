//! Verbs inside another program, such as Python: output in memory, collected messages, observed and cancellable work.

mod open_recording;
mod pictures;

use super::failure::FailureKind;
use super::out::MemoryOutput;
use super::progress_line::{self, CurrentStep};
use super::{Exit, Failure, Out, VERBS, command, limit, source};
use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trace_core::progress::Progress;

pub use open_recording::EmbeddedRecording;
pub use pictures::{Picture, render_picture};

/// Verbs that another program may run: they start no program, ask no question and change no keys.
pub const EMBEDDED_VERBS: [&str; 26] = [
    "apply",
    "channels",
    "check",
    "diff",
    "events",
    "export",
    "import",
    "info",
    "jobs",
    "kernels",
    "last-writer",
    "launches",
    "link",
    "memory",
    "objects",
    "pagetables",
    "plan",
    "pushbuffer",
    "references",
    "regmaps",
    "replay",
    "screen",
    "shader",
    "stats",
    "targets",
    "verify",
];

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

fn current() -> Option<Arc<WorkWatch>> {
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

/// Runs work with a progress that the watch of this thread observes.
///
/// # Errors
/// The errors of the work.
pub fn run_step<T>(step: &'static str, work: impl FnOnce(&Progress) -> Result<T, Failure>) -> Result<T, Failure> {
    progress_line::run_with_progress(step, |progress, _| work(progress))
}

/// The output of a verb.
#[derive(Clone, Debug)]
pub struct VerbOutput {
    /// What it printed: text, or JSON.
    pub bytes: Vec<u8>,
    /// Exit code of the program for this result: 0, or 1 for differences and findings.
    pub code: u8,
}

/// Runs a verb on this thread, as the command line does. `arguments` begin with its name.
///
/// # Errors
/// When the verb is not one of [`EMBEDDED_VERBS`], an argument is not valid, or the verb cannot do its work.
pub fn run_verb(arguments: &[OsString], json: bool) -> Result<VerbOutput, Failure> {
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.to_string_lossy(), rest),
        None => return Err(Failure::usage("no verb was given").with_kind(FailureKind::Arguments)),
    };
    let verb = VERBS
        .iter()
        .find(|v| v.name == name && EMBEDDED_VERBS.contains(&v.name));
    let verb = verb.ok_or_else(|| {
        let verbs = EMBEDDED_VERBS.join(", ");
        let message = format!("'{name}' is no verb that another program runs (expected one of {verbs})");
        Failure::usage(message).with_kind(FailureKind::Arguments)
    })?;
    let words = ["kinescope", verb.name].into_iter().map(OsString::from);
    let words = words.chain(json.then(|| "--json".into())).chain(rest.iter().cloned());
    let matches = command().try_get_matches_from(words)?;
    let Some((_, matches)) = matches.subcommand() else {
        return Err(Failure::usage("no verb was given").with_kind(FailureKind::Arguments));
    };
    limit::set_from_arguments(matches);
    let buffer = MemoryOutput::default();
    let mut out = Out::memory(&buffer, json);
    let done = (verb.run)(matches, &mut out).and_then(|exit| out.flush().map(|()| exit).map_err(Failure::from));
    // Reported in each case, so that the next verb of this thread does not report it.
    let is_damaged = source::report_damage();
    let exit = match done? {
        Exit::Good if is_damaged => Exit::Differs,
        exit => exit,
    };
    Ok(VerbOutput {
        bytes: buffer.take(),
        code: exit.code(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_verbs_exist() {
        for name in EMBEDDED_VERBS {
            assert!(VERBS.iter().any(|v| v.name == name), "{name}");
        }
    }

    #[test]
    fn cancelled_watch_ends_work_and_keeps_messages() {
        let watch = Arc::new(WorkWatch::default());
        watch.cancel();
        let ended = watch.run(|| {
            crate::cli::failure::complain("a message");
            run_step("reading", |progress| {
                assert_eq!(current().unwrap().current_step().map(|s| s.0), Some("reading"));
                progress.check().map_err(|e| Failure::usage(e.to_string()))
            })
        });
        assert!(ended.is_err());
        assert_eq!(watch.take_messages(), ["a message"]);
        assert!(!is_embedded());
        assert!(watch.current_step().is_none());
    }

    #[test]
    fn verbs_that_start_programs_are_refused() {
        let refused = run_verb(&["run".into(), "true".into()], false);
        assert_eq!(refused.unwrap_err().kind(), FailureKind::Arguments);
    }
}
