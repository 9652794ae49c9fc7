//! Agent program that owns devices on a target machine and serves them.
#![forbid(unsafe_code)]

mod answer_output;
mod cli;
mod devices;
mod live;
mod pairing_prompt;
mod programs;
mod record;
mod serve;

use anyhow::{Context as _, Result, bail};
use clap::{CommandFactory as _, Parser as _};
use cli::{Cli, Command, Keys};
use command_pages::{completion_script, print_manual, print_text};
use replay_engine::wire::{KeyStore, PublicKey};
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Maximum wait for a running agent to report closed connections. The agent polls its keys several times a second.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("KINESCOPE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match run_command(Cli::parse()) {
        Ok(code) => code,
        Err(e) => {
            // Standard error may be closed; the exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "kinescope-agent: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn run_command(cli: Cli) -> Result<ExitCode> {
    let folder = match cli.keys {
        Some(folder) => Ok(folder),
        None => KeyStore::agent_folder(),
    };
    let store = || -> Result<Arc<KeyStore>> { Ok(Arc::new(KeyStore::open(&folder?)?)) };
    match cli.command {
        Command::Record(options) => return record::record(&options),
        Command::RecordGuard { folder } => record::run_record_guard(&folder),
        Command::Serve(options) => serve::serve(&options, &store()?),
        Command::Pair(options) => serve::pair(&options, &store()?),
        Command::Devices => list_devices(),
        Command::Guard => devices::run_guard(),
        Command::RunWasm => programs::serve_worker(),
        Command::ServeProgram => live::serve_worker(),
        Command::PlayCalls => answer_output::take_answer_output()
            .and_then(|to| Ok(replay_cuda::worker::serve_request(std::io::stdin(), to)?))
            .context("standard input or output"),
        Command::PlayChannel => answer_output::take_answer_output()
            .and_then(|to| Ok(replay_nvidia::worker::serve_request(std::io::stdin(), to)?))
            .context("standard input or output"),
        Command::Keys { command } => run_keys(&command, &*store()?),
        Command::Completions { shell } => Ok(print_text(&completion_script(&Cli::command(), shell))?),
        Command::Man { folder } => Ok(print_manual(&Cli::command(), folder.as_deref())?),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Prints a line for a user or a script.
fn print_line(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("standard output")
}

fn list_devices() -> Result<()> {
    let hardware = devices::Hardware::new(false, 0, &[], &[])?;
    for name in devices::software_device_names() {
        let device = devices::factory(&name, &hardware)?.open()?;
        let info = device.info();
        print_line(&format!(
            "{name}\t{} ({}), {} MiB of memory",
            info.description,
            info.gpu_name,
            info.arena.pages >> 8
        ))?;
    }
    for (name, message) in devices::list_cuda_devices() {
        print_line(&format!("{name}\t{message}"))?;
    }
    for (name, message) in programs::TARGETS {
        print_line(&format!("{name}\t{message}"))?;
    }
    for line in devices::list_machine_devices() {
        print_line(&line)?;
    }
    Ok(())
}

fn run_keys(command: &Keys, store: &KeyStore) -> Result<()> {
    match command {
        Keys::List => {
            print_line(&format!(
                "this agent\t{}\t{}",
                store.key_pair().public().fingerprint(),
                store.key_pair().public().to_hex()
            ))?;
            for peer in store.peers()? {
                print_line(&format!(
                    "{}\t{}\t{}",
                    peer.name,
                    peer.key.fingerprint(),
                    peer.key.to_hex()
                ))?;
            }
            Ok(())
        }
        Keys::Forget { name } => {
            let Some(gone) = store.forget(name)? else {
                bail!("no client is named `{name}`; `kinescope-agent keys list` lists them");
            };
            print_line(&format!("forgot {gone}"))?;
            if !store.is_served() {
                return Ok(());
            }
            // Only the running agent knows its connections.
            match gone.key.and_then(|key| store.wait_for_closed(&key, ANSWER_LIMIT)) {
                Some(0) => print_line(&format!("{name} had no open connection")),
                Some(1) => print_line(&format!("1 open connection of {name} is closed")),
                Some(n) => print_line(&format!("{n} open connections of {name} are closed")),
                None => print_line("the running agent closes its open connections and frees their devices"),
            }
        }
        Keys::Trust { name, key } => {
            let Some(parsed) = PublicKey::from_hex(key) else {
                bail!(
                    "`{key}` is not a key (expected 64 hexadecimal digits, as `keys list` on the other machine prints them)"
                )
            };
            store.pin(name, parsed, "")?;
            print_line(&format!("trusted {name}\t{}", parsed.fingerprint()))
        }
    }
}
