//! Verbs inside another program, such as Python: output in memory, collected messages, observed and cancellable work.

mod open_recording;
mod pictures;

use super::failure::FailureKind;
use super::out::MemoryOutput;
use super::progress_line;
use super::{Exit, Failure, Out, VERBS, child_program, command, limit, source};
use std::ffi::OsString;
use std::path::PathBuf;
use trace_core::progress::Progress;

pub use super::work_watch::WorkWatch;
pub use open_recording::{EmbeddedEvents, EmbeddedRecording};
pub use pictures::{Picture, render_picture};

/// Verbs that another program may run: they start no program, ask no question and change no keys.
pub const EMBEDDED_VERBS: [&str; 27] = [
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
    "tune",
    "verify",
];

/// Sets the words that start the command line of this package in a process of its own: a program and its first arguments.
/// Targets that need a worker process start it. Returns `false` if the words were set before.
pub fn set_program_words(words: Vec<OsString>) -> bool {
    replay_cuda::set_program_words(words)
}

/// Sets the folder of the libraries that this package loads into programs: the recorder of `record --with cuda`. Returns
/// `false` if it was set before.
pub fn set_library_folder(folder: PathBuf) -> bool {
    child_program::set_package_folder(folder)
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

/// Runs a verb on this thread, as the command line does. `arguments` begin with its name. The files of `held` recordings
/// are not opened again.
///
/// # Errors
/// When the verb is not one of [`EMBEDDED_VERBS`], an argument is not valid, or the verb cannot do its work.
pub fn run_verb(arguments: &[OsString], json: bool, held: &[&EmbeddedRecording]) -> Result<VerbOutput, Failure> {
    source::with_held(held.iter().map(|r| r.source()), || run_matched_verb(arguments, json))
}

fn run_matched_verb(arguments: &[OsString], json: bool) -> Result<VerbOutput, Failure> {
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
    use super::super::work_watch::{current, is_embedded};
    use super::*;
    use std::sync::Arc;

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
        let refused = run_verb(&["run".into(), "true".into()], false, &[]);
        assert_eq!(refused.unwrap_err().kind(), FailureKind::Arguments);
    }
}
