//! `campaign run --queue`: the program `kinescope-worker` queues the runs on a broker and follows their results.

use super::run::RunArguments;
use crate::cli::{Failure, signals};
use clap::Args;
use kinescope_campaign::CampaignEnd;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use trace_core::progress::Progress;

/// Name of the program that knows brokers.
const PROGRAM: &str = "kinescope-worker";
/// Maximum size of its report, bytes.
const MAX_REPORT_BYTES: u64 = 8 << 20;
/// Interval at which a stop is passed on.
const TICK: Duration = Duration::from_millis(20);

/// A broker and how to reach it.
#[derive(Args, Clone, Debug)]
pub struct BrokerArguments {
    /// Queue the runs on a broker, for workers on other machines: nats://HOST[:PORT][,HOST...], or tls:// [default: run
    /// them here]
    #[arg(long, value_name = "URL", conflicts_with_all = ["workers", "name"])]
    pub queue: Option<String>,
    /// Certificates (PEM) that the broker's certificate is checked with
    #[arg(long, value_name = "FILE", requires = "queue")]
    tls_ca: Option<PathBuf>,
    /// Certificate (PEM) that this program shows to the broker
    #[arg(long, value_name = "FILE", requires = "queue")]
    tls_cert: Option<PathBuf>,
    /// Key (PEM) of that certificate
    #[arg(long, value_name = "FILE", requires = "queue")]
    tls_key: Option<PathBuf>,
    /// Credentials of a user of the broker: a .creds file
    #[arg(long, value_name = "FILE", requires = "queue")]
    credentials: Option<PathBuf>,
    /// File with a user's name and password, each in a line
    #[arg(long, value_name = "FILE", requires = "queue")]
    login: Option<PathBuf>,
    /// Servers of a NATS cluster that hold each message, when the storage is created [default: 1]
    #[arg(long, value_name = "N", requires = "queue", value_parser = clap::value_parser!(u8).range(1..=5))]
    replicas: Option<u8>,
}

impl BrokerArguments {
    /// Returns the options of the other program.
    fn options(&self, address: &str) -> Vec<OsString> {
        let mut options = vec!["--queue".into(), address.into()];
        for (name, file) in [
            ("--tls-ca", &self.tls_ca),
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
            ("--credentials", &self.credentials),
            ("--login", &self.login),
        ] {
            if let Some(file) = file {
                options.extend([name.into(), file.into()]);
            }
        }
        if let Some(replicas) = self.replicas {
            options.extend(["--replicas".into(), replicas.to_string().into()]);
        }
        options
    }
}

/// Returns the program: next to this one, or in `PATH`.
fn find_program() -> OsString {
    let own = std::env::current_exe().ok();
    let next = own.and_then(|own| Some(own.parent()?.join(PROGRAM)));
    next.filter(|p| p.is_file())
        .map_or_else(|| PROGRAM.into(), PathBuf::into_os_string)
}

/// Runs a campaign on a broker, until all results are in the folder or it is stopped.
pub fn run_on_broker(arguments: &RunArguments, address: &str) -> Result<CampaignEnd, Failure> {
    let stop = Progress::new();
    let _going = signals::cancel_on_signal(&stop);
    let mut command = Command::new(find_program());
    command
        .arg("submit")
        .arg(&arguments.file)
        .arg("-o")
        .arg(&arguments.folder)
        .args(arguments.broker.options(address))
        .arg("--stop-at-end-of-input")
        // It stops when this program ends, however that happens.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Failure::usage(format!(
            "{PROGRAM} is not installed: put it next to this program or into PATH (cargo build --release -p {PROGRAM})"
        )),
        _ => Failure::usage(format!("{PROGRAM}: {e}")),
    })?;
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.map(|out| out.take(MAX_REPORT_BYTES).read_to_end(&mut bytes));
        read.transpose().map(|_| bytes)
    });
    let status = wait(&mut child, &stop).map_err(|e| Failure::usage(format!("{PROGRAM}: {e}")))?;
    let report = reader.join().ok().and_then(Result::ok).unwrap_or_default();
    match serde_json::from_slice::<CampaignEnd>(&report) {
        Ok(end) => Ok(end),
        // It has printed why.
        Err(_) => Err(Failure::usage(format!(
            "{PROGRAM} could not run the campaign ({status})"
        ))),
    }
}

/// Waits for the program, and passes a stop on.
fn wait(child: &mut Child, stop: &Progress) -> std::io::Result<ExitStatus> {
    let mut is_stopped = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if !is_stopped && stop.check().is_err() {
            is_stopped = true;
            // The end of its input stops it; a signal from a terminal has reached it too.
            drop(child.stdin.take());
        }
        std::thread::sleep(TICK);
    }
}
