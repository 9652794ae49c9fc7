//! The `record` verb: options, signals and messages around the recorder crate. All messages go to standard error:
//! standard output belongs to the command.

use crate::cli::Record;
use crate::print_line;
use anyhow::{Context as _, Result, bail};
use linux_recorder::{Machine, RecordRequest, RecordSummary, StopRequest};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Verb of the guard process: this program starts itself again with it, to restore the machine.
const GUARD_VERB: &str = "record-guard";
/// Exit code if the recording failed or the machine could not be restored.
const EXIT_FAILED: u8 = 2;

/// Records, or with `--check` prints what could be recorded.
///
/// # Errors
/// When the recording fails, or the machine cannot be restored.
pub fn record(options: &Record) -> Result<ExitCode> {
    let kernel = Machine::default();
    let target = options.device.parse()?;
    if options.check {
        let (lines, abilities) = linux_recorder::check(
            &kernel,
            &target,
            options.driver.as_deref(),
            &options.accessor,
            &options.functions,
        )?;
        lines.iter().try_for_each(|line| print_line(line))?;
        let mut able = false;
        for a in abilities {
            able |= a.availability.is_ok();
            match a.availability {
                Ok(how) => print_line(&format!("{}\tyes\t{how}", a.method))?,
                Err(why) => print_line(&format!("{}\tno\t{why}", a.method))?,
            }
        }
        return Ok(ExitCode::from(if able { 0 } else { EXIT_FAILED }));
    }
    let Some(to) = options.to.clone() else {
        bail!("name the recording to write with -o F.kine");
    };
    if to.extension().is_none_or(|e| !e.eq_ignore_ascii_case("kine")) {
        bail!("{}: the name of a recording ends in .kine", to.display());
    }
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let folder = options.run_folder.to_string_lossy().into_owned();
    let request = RecordRequest {
        target,
        driver: options.driver.clone(),
        modules: options.module.clone(),
        method: options.with,
        accessors: options.accessor.clone(),
        functions: options.functions.clone(),
        command: options.command.clone(),
        output: to,
        keep_log: options.keep_log,
        limit: options.limit.saturating_mul(1 << 20),
        buffer: options.buffer.map(|mib| mib.saturating_mul(1 << 20)),
        settle: Duration::from_millis(options.settle),
        force: options.anyway,
        run_folder: options.run_folder.clone(),
        guard: Some((program, vec![GUARD_VERB.to_owned(), folder])),
        tool: format!("kinescope-agent {}", env!("CARGO_PKG_VERSION")),
    };
    let stop = StopRequest::default();
    stop_on_signals(&stop)?;
    let recorded = linux_recorder::record(&kernel, &request, &stop)?;
    log_summary(&recorded);
    // A command that a signal interrupted did not complete, whatever its own exit code says.
    let signalled = stop.signal().and_then(|s| u8::try_from(s.saturating_add(128)).ok());
    Ok(ExitCode::from(signalled.or(recorded.capture.exit_code).unwrap_or(0)))
}

/// Installs signal handlers that end the recording.
fn stop_on_signals(stop: &StopRequest) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot handle signals")?;
    let stop = stop.clone();
    std::thread::Builder::new()
        .name("kinescope-signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                stop.request(signal);
            }
        })?;
    Ok(())
}

fn log_summary(recorded: &RecordSummary) {
    let capture = &recorded.capture;
    for line in recorded.notes.iter().chain(&capture.unobserved) {
        tracing::warn!("{line}");
    }
    let code = capture
        .exit_code
        .map_or_else(String::new, |c| format!(", the command ended with {c}"));
    let lost = match recorded.lost {
        0 => "none lost".to_owned(),
        n => format!("{n} or more lost"),
    };
    let log = recorded
        .log
        .as_ref()
        .map_or_else(String::new, |l| format!(", log in {}", l.display()));
    tracing::info!(
        "{}: {} events by {}, {lost}{code}{log}; the machine is restored",
        recorded.output.display(),
        recorded.events,
        capture.method
    );
}

/// Restores the machine when the recorder that started this process is killed.
///
/// # Errors
/// When the list of changes cannot be read.
pub fn run_record_guard(folder: &Path) -> Result<()> {
    for line in linux_recorder::keep_watch(&Machine::default(), folder)? {
        tracing::warn!("{line}");
    }
    Ok(())
}
