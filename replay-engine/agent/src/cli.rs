//! The command line of `kinescope-agent`.

use clap::{Parser, Subcommand};
use command_pages::Shell;
use linux_recorder::{Accessor, Method};
use replay_engine::wire::{DEFAULT_PORT, NamedKey};
use std::path::PathBuf;

/// Own devices of this machine and let paired clients replay on them
#[derive(Debug, Parser)]
#[command(name = "kinescope-agent", version)]
pub struct Cli {
    /// The verb to run.
    #[command(subcommand)]
    pub command: Command,
    /// Folder of the key store [default: keys/ in the user's configuration folder for kinescope-agent]
    #[arg(long, global = true, value_name = "FOLDER")]
    pub keys: Option<PathBuf>,
}

/// Verbs of `kinescope-agent`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve devices to paired clients
    Serve(Serve),
    /// Pair with one unknown client, then exit
    Pair(Pair),
    /// List the devices of this machine that the agent can own
    Devices,
    /// Record the accesses of a driver to its device while a command runs
    Record(Record),
    /// Restore the machine when `record` is killed; `record` starts this verb itself
    #[command(hide = true)]
    RecordGuard {
        /// Folder of the list of changes.
        folder: PathBuf,
    },
    /// Replay an API trace on a CUDA device of this machine: read a request as JSON from standard input, write the
    /// result as JSON to standard output. The agent starts one such process per replay, so that a device failure ends
    /// only that process
    #[command(hide = true)]
    PlayCalls,
    /// Replay one plan on the channels of an NVIDIA GPU: read the request from standard input and write the result as
    /// JSON to standard output. The agent starts one such process per replay
    #[command(hide = true)]
    PlayChannel,
    /// Run a WebAssembly program once for each input: read the request from standard input and write the results to
    /// standard output. The agent starts one such process per run
    #[command(hide = true)]
    RunWasm,
    /// Play the calls of one CUDA program of a client: standard input is a socket to it. The agent starts one such process
    /// per program
    #[command(hide = true)]
    ServeProgram,
    /// Quiesce devices when the agent that started this process exits; the agent starts it itself
    #[command(hide = true)]
    Guard,
    /// Manage the key of the agent and the keys of its clients
    Keys {
        /// The key operation to run.
        #[command(subcommand)]
        command: Keys,
    },
    /// Print a completion script for bash, zsh or fish
    Completions {
        /// Shell that reads the script
        #[arg(value_name = "SHELL", value_enum)]
        shell: Shell,
    },
    /// Print the man page of this program, or write those of all verbs
    Man {
        /// Folder to write the pages into: kinescope-agent.1 and kinescope-agent-VERB.1 [default: print
        /// kinescope-agent.1]
        #[arg(value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

/// Options of `serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// TCP address to listen on, for example 0.0.0.0:7117 for all network interfaces of this machine; port 0 selects a
    /// free port [default: 127.0.0.1:7117, which other machines cannot reach, or none with --unix]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Unix socket to listen on
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// Device to own: software:MODEL, qemu:DEVICE[,PROPERTY=VALUE...], or hardware of this machine as listed by
    /// `devices`: pci:ADDRESS, pci:VENDOR:DEVICE, platform:ADDRESS.NODE, platform:COMPATIBLE; also cpu and interpreter,
    /// which run WebAssembly programs; may be given more than once [default: all simulators and CUDA devices, cpu and
    /// interpreter]
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Detach hardware from the kernel drivers bound to it; the drivers are bound again when the agent exits
    #[arg(long)]
    pub take: bool,
    /// Maximum memory for plans on each hardware device, in mebibytes
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub memory: u32,
    /// Address width of a PCI function in bits, if its register map gives a different value or none
    #[arg(long, value_name = "DEVICE=BITS")]
    pub address_bits: Vec<AddressBits>,
    /// Serve metrics in Prometheus' text format over HTTP at this address: 127.0.0.1:9118
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Also pair with one unknown client, with confirmation at this terminal
    #[arg(long)]
    pub pair: bool,
    /// Pair only with the client that has this key, without a question: its fingerprint, or the key itself, as printed
    /// by `kinescope agents --own-key` on the client
    #[arg(long, value_name = "FINGERPRINT", requires = "pair")]
    pub accept: Option<NamedKey>,
    /// Maximum size of pages and plans cached between replays, in mebibytes [default: 512, or an eighth of the
    /// machine's memory]
    #[arg(long, value_name = "MIB")]
    pub cache: Option<usize>,
    /// Maximum memory of each run of a WebAssembly program, in mebibytes, without that of a GPU; a quarter of it is for
    /// the inputs [default: half of the machine's memory]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    pub program_memory: Option<u32>,
    /// Let paired clients run CUDA programs on the CUDA devices: their kernels and calls run in worker processes of this
    /// agent
    #[arg(long)]
    pub live: bool,
    /// Maximum pinned, mapped and managed memory of each CUDA program of a client at this machine, in mebibytes
    /// [default: a quarter of the machine's memory]
    #[arg(long, value_name = "MIB", requires = "live", value_parser = clap::value_parser!(u32).range(1..))]
    pub live_memory: Option<u32>,
    /// Maximum memory of each CUDA program of a client on all its devices, in mebibytes: what the program allocates beyond
    /// it fails with CUDA_ERROR_OUT_OF_MEMORY [default: no limit]
    #[arg(long, value_name = "MIB", requires = "live", value_parser = clap::value_parser!(u32).range(1..))]
    pub live_device_memory: Option<u32>,
    /// Maximum time of each CUDA program of a client, in seconds; a program that takes longer is ended [default: no
    /// limit]
    #[arg(long, value_name = "SECONDS", requires = "live", value_parser = clap::value_parser!(u32).range(1..))]
    pub live_time: Option<u32>,
    /// Record every CUDA program of a client into this folder, as `record --with cuda` does
    #[arg(long, value_name = "FOLDER", requires = "live")]
    pub live_record: Option<PathBuf>,
}

/// Width of the addresses that a device uses for DMA.
#[derive(Clone, Debug)]
pub struct AddressBits {
    /// The device, in the form that `--device` accepts.
    pub device: String,
    /// Width in bits, 24 to 64.
    pub bits: u8,
}

impl std::str::FromStr for AddressBits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, bits) = text.rsplit_once('=').ok_or("expected DEVICE=BITS, pci:1234:11e8=28")?;
        let bits = bits.parse().ok().filter(|b| (24..=64).contains(b));
        Ok(Self {
            device: device.to_owned(),
            bits: bits.ok_or("expected 24 to 64 bits")?,
        })
    }
}

/// Options of `record`.
#[derive(Debug, clap::Args)]
pub struct Record {
    /// Device to record: pci:ADDRESS (0000:00:03.0), pci:VENDOR:DEVICE (1002:5159), platform:NODE (a path in the device
    /// tree, or a name in /sys/bus/platform/devices)
    #[arg(long, value_name = "DEVICE")]
    pub device: String,
    /// Print what can be recorded for the device on this machine, and change nothing
    #[arg(long)]
    pub check: bool,
    /// Driver to bind, or the module that contains it [default: the bound driver, or the only one that matches the
    /// device]
    #[arg(long, value_name = "NAME")]
    pub driver: Option<String>,
    /// Module to load before the driver is bound, while tracing is active; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub module: Vec<String>,
    /// Tracing method: mmiotrace, rwmmio, kprobes [default: the first of these that the machine supports]
    #[arg(long, value_name = "METHOD")]
    pub with: Option<Method>,
    /// Driver function that accesses a register: FUNCTION:OFFSET returns the value, FUNCTION:OFFSET:VALUE writes it;
    /// OFFSET and VALUE are argument numbers, starting at 1. May be given more than once
    #[arg(long, value_name = "ACCESSOR")]
    pub accessor: Vec<Accessor>,
    /// Pattern of function names whose register loads and stores are probed, for example 'pl031_*', if the driver has
    /// no accessor functions (arm64) [default: all functions of the driver's module]. May be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub functions: Vec<String>,
    /// File to write, a .kine
    #[arg(short = 'o', value_name = "F.kine", required_unless_present = "check")]
    pub to: Option<PathBuf>,
    /// Keep the kernel log next to the recording, as F.txt and F.aux.txt
    #[arg(long)]
    pub keep_log: bool,
    /// Log size in mebibytes at which the recording ends; the command continues
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    pub limit: u64,
    /// Total size of the kernel's trace buffers for all CPUs, in mebibytes [default: 256, or a quarter of the free
    /// memory]
    #[arg(long, value_name = "MIB")]
    pub buffer: Option<u64>,
    /// Idle time in milliseconds after the driver is bound and after the command
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub settle: u64,
    /// Record the device even if it is in use, for example as the text console or by a program
    #[arg(long = "force", alias = "anyway")]
    pub anyway: bool,
    /// Folder of the lock and of the list of changes made to the machine
    #[arg(long, value_name = "FOLDER", default_value = linux_recorder::RUN_FOLDER)]
    pub run_folder: PathBuf,
    /// Command to run, and its arguments; its exit code becomes the exit code of `record`. Without a command, the driver
    /// is bound and nothing is run
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<String>,
}

/// Options of `pair`.
#[derive(Debug, clap::Args)]
pub struct Pair {
    /// TCP address for pairing, 0.0.0.0:0 for a client on another machine; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Unix socket for pairing, instead of TCP
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// TCP port of `serve`, which the client stores
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    pub serve_port: u16,
    /// Pair only with the client that has this key, without a question: its fingerprint, or the key itself, as printed
    /// by `kinescope agents --own-key` on the client
    #[arg(long, value_name = "FINGERPRINT")]
    pub accept: Option<NamedKey>,
}

/// Operations on keys.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// List the agent's key and its clients
    List,
    /// Remove a client: a running agent closes its connections and accepts no new ones
    Forget {
        /// Name of the client in the list.
        name: String,
    },
    /// Trust a client's key that was copied here by hand, without pairing
    Trust {
        /// Name under which the key is stored.
        name: String,
        /// Key as 64 hexadecimal digits, as printed by `keys list` on the other machine.
        key: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_name_of_force_still_parses() {
        let words = [
            "kinescope-agent",
            "record",
            "--device",
            "1234:11e8",
            "--check",
            "--anyway",
        ];
        assert!(Cli::try_parse_from(words).is_ok());
    }
}
