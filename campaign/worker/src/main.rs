//! The program `kinescope-worker`: takes runs of campaigns from a broker.
#![forbid(unsafe_code)]

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser as _};
use command_pages::{completion_script, print_manual, print_text};
use kinescope_worker::cli::{Cli, Command, LogForm, with_default_verb};
use kinescope_worker::submit::{SubmitOptions, submit};
use kinescope_worker::worker;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use trace_core::progress::Progress;

fn main() -> ExitCode {
    let cli = Cli::parse_from(with_default_verb(std::env::args_os()));
    start_log(cli.log);
    match run(cli) {
        Ok(code) => code,
        Err(e) => {
            // Standard error may be closed; the exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "kinescope-worker: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn start_log(form: LogForm) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("KINESCOPE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,async_nats=warn"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match form {
        LogForm::Text => log.with_target(false).init(),
        LogForm::Json => log.json().init(),
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Serve(options) => worker::serve(&options, &stop_on_signal()?),
        Command::Submit(options) => return run_submit(&options),
        Command::PlayCalls => {
            replay_cuda::worker::serve_request(std::io::stdin(), std::io::stdout()).context("standard input or output")
        }
        Command::PlayChannel => replay_nvidia::worker::serve_request(std::io::stdin(), std::io::stdout())
            .context("standard input or output"),
        Command::Completions { shell } => Ok(print_text(&completion_script(&Cli::command(), shell))?),
        Command::Man { folder } => Ok(print_manual(&Cli::command(), folder.as_deref())?),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Runs the client. Its end is an object of JSON on standard output; the exit code is 1 if runs are left.
fn run_submit(options: &SubmitOptions) -> Result<ExitCode> {
    let stop = stop_on_signal()?;
    if options.stop_at_end_of_input {
        let stop = stop.clone();
        let thread = std::thread::Builder::new().name("input".into());
        thread.spawn(move || {
            // Nothing is expected but the end.
            let mut bytes = [0; 64];
            while std::io::stdin().read(&mut bytes).is_ok_and(|n| n > 0) {}
            stop.cancel();
        })?;
    }
    let end = submit(options, &stop)?;
    print_text(&format!("{}\n", serde_json::to_string(&end)?))?;
    Ok(match end.stopped || !end.given_up.is_empty() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Returns a progress that the first SIGINT or SIGTERM cancels. The second one ends the program.
fn stop_on_signal() -> Result<Progress> {
    let stop = Progress::new();
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals")?;
    let cancelled = stop.clone();
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || {
        let mut is_second = false;
        for signal in signals.forever() {
            if is_second {
                signal_hook::low_level::exit(signal.saturating_add(128));
            }
            is_second = true;
            cancelled.cancel();
        }
    })?;
    Ok(stop)
}
