//! The command line: the table of verbs in `cli/verbs.rs`, one file for each verb below it, and what verbs share here.

mod api_trace;
mod child_program;
mod driver_trace;
pub mod embedding;
mod empty_result;
mod event_filter;
mod failure;
mod findings;
mod gpu;
mod limit;
mod link_arguments;
mod memory_access;
mod out;
mod outputs;
mod page_table_formats;
mod page_tables;
mod paired_agents;
mod plan_file;
mod progress_line;
mod recording_folder;
mod replay_arguments;
mod replayed_screen;
mod signals;
mod source;
mod trace_arguments;
mod trimmed_recording;
mod typo;
mod verb;
mod verbs;
mod wasm_differences;
mod wasm_recordings;
mod wasm_target;
mod window_arguments;
mod work_watch;

use kinescope_session::targets::{PLAY_CALLS, PLAY_CHANNEL};
use std::ffi::OsString;

pub use failure::{Exit, Failure, FailureKind};
pub use out::{Out, format_hex};
pub use verb::Verb;
pub use verbs::{VERBS, command, render_reference};

/// Serves a program with a remote device, and returns the exit code of the worker process.
fn serve_program() -> u8 {
    match remote_worker::serve_standard_input() {
        Ok(()) => 0,
        Err(e) => {
            failure::complain(format_args!("the worker process of a program ends: {e}"));
            2
        }
    }
}

/// Runs the command line of this process and returns its exit code.
#[must_use]
pub fn main() -> u8 {
    run_arguments(std::env::args_os().collect())
}

/// Runs a worker process of a replay: answers go to the standard output, and what kernels print to the standard error.
fn serve_replay(word: &str) -> std::io::Result<()> {
    let to = replay_engine::worker::take_answer_output(std::io::stderr())?;
    match word {
        PLAY_CALLS => replay_cuda::worker::serve_request(std::io::stdin(), to),
        PLAY_CHANNEL => replay_nvidia::worker::serve_request(std::io::stdin(), to),
        _ => wasm_gpu::serve_request(std::io::stdin(), to).map_err(std::io::Error::other),
    }
}

/// Runs the command line with these arguments, the first of which is the name of the program, and returns its exit code.
/// The process is the command's: its signals, and its standard input and output.
#[must_use]
pub fn run_arguments(arguments: Vec<OsString>) -> u8 {
    if let Err(e) = crate::bus::install() {
        eprintln!("kinescope: cannot handle SIGBUS: {e}; if a recording shrinks while it is read, no message names it");
    }
    // Not verbs for users: another process of this program uses them to replay on a CUDA device or on channels.
    let word = arguments
        .get(1)
        .filter(|_| arguments.len() == 2)
        .and_then(|a| a.to_str());
    if word == Some(remote_worker::SERVE_PROGRAM) {
        return serve_program();
    }
    if let Some(word) = word.filter(|word| [PLAY_CALLS, PLAY_CHANNEL, wasm_gpu::RUN_WASM].contains(word)) {
        return match serve_replay(word) {
            Ok(()) => 0,
            Err(e) => {
                failure::complain(format_args!("standard input or output: {e}"));
                2
            }
        };
    }
    if let Some(wrong) = typo::find_unknown_verb(arguments.get(1..).unwrap_or_default()) {
        let code = wrong.code();
        failure::complain(wrong);
        return code;
    }
    let matches = match command().try_get_matches_from(&arguments) {
        Ok(m) => m,
        Err(e) => {
            if let Some(wrong) = typo::suggest_option(&e, &command(), arguments.get(1..).unwrap_or_default()) {
                let code = wrong.code();
                failure::complain(wrong);
                return code;
            }
            let code = if e.use_stderr() { 2 } else { 0 };
            // A closed pipe is not an error for help output.
            let _ = e.print();
            return code;
        }
    };
    let result = match matches.subcommand() {
        Some((name, sub)) => match VERBS.iter().find(|v| v.name == name) {
            Some(verb) => {
                if let Err(e) = signals::install() {
                    failure::complain(format_args!(
                        "cannot handle signals: {e}; a signal ends the program without cleaning up"
                    ));
                }
                limit::set_from_arguments(sub);
                let mut out = Out::stdout(sub.get_flag("json"));
                let done = (verb.run)(sub, &mut out);
                let done = done.and_then(|exit| out.flush().map(|()| exit).map_err(Failure::from));
                // A failure prints its own reason.
                match done {
                    Ok(exit) if source::report_damage() && exit == Exit::Good => Ok(Exit::Differs),
                    done => done,
                }
            }
            None => Err(Failure::usage(format!("no verb '{name}'"))),
        },
        None => window_arguments::open(&matches),
    };
    match result {
        Ok(exit) => exit.code(),
        Err(failure) if failure.is_closed_pipe() => 0,
        Err(failure) => {
            let code = failure.code();
            failure::complain(failure);
            code
        }
    }
}
