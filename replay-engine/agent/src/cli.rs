//! The command line of `kinescope-agent`.

use clap::{Parser, Subcommand};
use replay_engine::wire::DEFAULT_PORT;
use std::path::PathBuf;

/// Owns devices on this machine and lets paired clients replay on them.
#[derive(Debug, Parser)]
#[command(name = "kinescope-agent", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Folder of the key store [default: keys/ in the user's configuration folder for kinescope-agent]
    #[arg(long, global = true, value_name = "DIR")]
    pub keys: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve devices to paired clients
    Serve(Serve),
    /// Let one unknown client pair, then end; a running `serve` knows it at once
    Pair(Pair),
    /// List the devices that this agent can own
    Devices,
    /// The agent's own key and those of its clients
    Keys {
        /// What to do with them.
        #[command(subcommand)]
        command: Keys,
    },
}

/// Options of `serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// TCP address to listen on, 0.0.0.0:7117 for every network that this machine is on; port 0 takes a free one
    /// [default: 127.0.0.1:7117, which other machines cannot reach, or none with --unix]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Unix socket to listen on
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// Device to own, software:MODEL or qemu:DEVICE[,PROPERTY=VALUE...]; may be given more than once [default: all
    /// software devices]
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Also let one unknown client pair, asking here
    #[arg(long)]
    pub pair: bool,
    /// Most mebibytes of pages kept between replays
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    pub cache: usize,
}

/// Options of `pair`.
#[derive(Debug, clap::Args)]
pub struct Pair {
    /// TCP address to pair at, 0.0.0.0:0 for a client on another machine; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Unix socket to pair at, instead of TCP
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// TCP port of `serve`, which the client keeps
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    pub serve_port: u16,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// List the agent's key and its clients
    List,
    /// Forget a client: its next connection is refused
    Forget {
        /// Its name in the list.
        name: String,
    },
    /// Trust a client's key that was carried here by hand, without pairing
    Trust {
        /// Name to keep it under.
        name: String,
        /// 64 hexadecimal digits, as `keys list` on the other end shows them.
        key: String,
    },
}
