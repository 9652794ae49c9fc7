//! The program that owns devices on a board and serves them.
#![forbid(unsafe_code)]

mod cli;
mod devices;
mod person;
mod record;
mod serve;

use anyhow::{Context as _, Result, bail};
use clap::Parser as _;
use cli::{Cli, Command, Keys};
use replay_engine::wire::{KeyStore, PublicKey};
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long a running agent has to say what it closed: it looks at its keys several times a second.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("KINESCOPE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match work(Cli::parse()) {
        Ok(code) => code,
        Err(e) => {
            // Standard error may be closed: the exit code still tells.
            let _ = writeln!(std::io::stderr(), "kinescope-agent: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn work(cli: Cli) -> Result<ExitCode> {
    let folder = match cli.keys {
        Some(folder) => Ok(folder),
        None => KeyStore::agent_folder(),
    };
    let store = || -> Result<Arc<KeyStore>> { Ok(Arc::new(KeyStore::open(&folder?)?)) };
    match cli.command {
        Command::Record(options) => return record::record(&options),
        Command::RecordGuard { folder } => record::guard(&folder),
        Command::Serve(options) => serve::serve(&options, &store()?),
        Command::Pair(options) => serve::pair(&options, &store()?),
        Command::Devices => list_devices(),
        Command::Guard => devices::keep_guard(),
        Command::PlayCalls => replay_engine::device::cuda::worker::answer(std::io::stdin(), std::io::stdout())
            .context("standard input or output"),
        Command::Keys { command } => keys(&command, &*store()?),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Prints a line for a person or a script.
fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .context("standard output")
}

fn list_devices() -> Result<()> {
    let hardware = devices::Hardware::new(false, 0, &[], &[])?;
    for name in devices::names() {
        let board = devices::factory(&name, &hardware)?()?;
        let info = board.info();
        say(&format!(
            "{name}\t{} ({}), {} MiB of memory",
            info.description,
            info.gpu_name,
            info.arena.pages >> 8
        ))?;
    }
    for (name, told) in devices::of_cuda() {
        say(&format!("{name}\t{told}"))?;
    }
    for line in devices::of_this_machine() {
        say(&line)?;
    }
    Ok(())
}

fn keys(command: &Keys, store: &KeyStore) -> Result<()> {
    match command {
        Keys::List => {
            say(&format!(
                "this agent\t{}\t{}",
                store.own().public().fingerprint(),
                store.own().public().to_hex()
            ))?;
            for peer in store.peers()? {
                say(&format!(
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
                bail!("no client is called `{name}` (see: kinescope-agent keys list)");
            };
            say(&format!("forgot {gone}"))?;
            if !store.is_served() {
                return Ok(());
            }
            // Which connections it has is known to the running agent alone.
            match gone.key.and_then(|key| store.closed(&key, ANSWER_LIMIT)) {
                Some(0) => say(&format!("{name} had no open connection")),
                Some(1) => say(&format!("1 open connection of {name} is closed")),
                Some(n) => say(&format!("{n} open connections of {name} are closed")),
                None => say("the running agent closes its open connections and frees their devices"),
            }
        }
        Keys::Trust { name, key } => {
            let Some(parsed) = PublicKey::from_hex(key) else {
                bail!(
                    "`{key}` is not a key: those are 64 hexadecimal digits, as `keys list` on the other end shows them"
                )
            };
            store.pin(name, parsed, "")?;
            say(&format!("trusted {name}\t{}", parsed.fingerprint()))
        }
    }
}
