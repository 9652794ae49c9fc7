//! The command line of `kinescope-agent`.

use clap::{Parser, Subcommand};
use linux_recorder::{Accessor, Method};
use replay_engine::wire::{DEFAULT_PORT, NamedKey};
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
    /// Record what a driver of this machine does to its device, around a command; the command's exit code is the verb's
    Record(Record),
    /// Puts the machine back when `record` is killed; started by it
    #[command(hide = true)]
    RecordGuard {
        /// Folder of the list of changes.
        folder: PathBuf,
    },
    /// Play a recording of calls on a CUDA device of this machine: a request as JSON on standard input, the answer as
    /// JSON on standard output; started for each replay, so that what a device does ends there
    #[command(hide = true)]
    PlayCalls,
    /// Make devices quiet when the agent that started this ends; the agent starts it itself
    #[command(hide = true)]
    Guard,
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
    /// Device to own: software:MODEL, qemu:DEVICE[,PROPERTY=VALUE...], or hardware of this machine as `devices` lists
    /// it, pci:ADDRESS, pci:VENDOR:DEVICE, platform:ADDRESS.NODE, platform:COMPATIBLE; may be given more than once [default: all software devices]
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Take hardware from the kernel's drivers that have it; they get it back when the agent ends
    #[arg(long)]
    pub take: bool,
    /// Most mebibytes of memory for plans that each piece of hardware gets
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub memory: u32,
    /// How many bits the addresses of a PCI function have, where its register map tells another number or none
    #[arg(long, value_name = "DEVICE=BITS")]
    pub address_bits: Vec<AddressBits>,
    /// Also let one unknown client pair, asking here
    #[arg(long)]
    pub pair: bool,
    /// Pair only with the client that has this key, and do not ask: its fingerprint, or the key itself, as `kinescope
    /// agents --own-key` shows them there
    #[arg(long, value_name = "FINGERPRINT", requires = "pair")]
    pub accept: Option<NamedKey>,
    /// Most mebibytes of pages and plans kept between replays (default: 512, or an eighth of the machine's memory)
    #[arg(long, value_name = "MIB")]
    pub cache: Option<usize>,
}

/// How many bits the addresses of a device have that it reads and writes memory at by itself.
#[derive(Clone, Debug)]
pub struct AddressBits {
    /// The device, as `--device` has it.
    pub device: String,
    /// 24 to 64.
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
    /// Device: pci:ADDRESS (0000:00:03.0), pci:VENDOR:DEVICE (1002:5159), platform:NODE (a path in the device tree, or a
    /// name in /sys/bus/platform/devices)
    #[arg(long, value_name = "DEVICE")]
    pub device: String,
    /// Say what this machine can do for the device, and change nothing
    #[arg(long)]
    pub check: bool,
    /// Driver to bind, or the module that brings it [default: the one that is bound, or the only one that fits]
    #[arg(long, value_name = "NAME")]
    pub driver: Option<String>,
    /// Module to load before the driver is bound, while the trace is on; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub module: Vec<String>,
    /// What sees the accesses: mmiotrace, rwmmio, kprobes [default: the first of these that the machine has]
    #[arg(long, value_name = "METHOD")]
    pub with: Option<Method>,
    /// Function of the driver that accesses a register: FUNCTION:OFFSET returns the value, FUNCTION:OFFSET:VALUE writes
    /// it; OFFSET and VALUE are numbers of its arguments, from 1. May be given more than once
    #[arg(long, value_name = "ACCESSOR")]
    pub accessor: Vec<Accessor>,
    /// Pattern of the names of functions whose loads and stores of registers are probed, as in 'pl031_*', where the
    /// driver has no accessors (arm64) [default: all functions of the driver's module]. May be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub functions: Vec<String>,
    /// The .kine to write
    #[arg(short = 'o', value_name = "F.kine", required_unless_present = "check")]
    pub to: Option<PathBuf>,
    /// Keep the kernel's log beside the recording, as F.txt and F.aux.txt
    #[arg(long)]
    pub keep_log: bool,
    /// Mebibytes of log at which the recording ends while the command goes on
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    pub limit: u64,
    /// Mebibytes of the kernel's buffers, of all CPUs together [default: 256, or a quarter of the free memory]
    #[arg(long, value_name = "MIB")]
    pub buffer: Option<u64>,
    /// Milliseconds that the driver is left alone after it is bound, and after the command
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub settle: u64,
    /// Take the device also when it is in use: as the text console, by a program
    #[arg(long)]
    pub anyway: bool,
    /// Folder of the list of what is changed on the machine, and of the lock
    #[arg(long, value_name = "DIR", default_value = linux_recorder::RUN_FOLDER)]
    pub run_folder: PathBuf,
    /// The command and its arguments; without one the driver is bound and nothing run
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<String>,
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
    /// Pair only with the client that has this key, and do not ask: its fingerprint, or the key itself, as `kinescope
    /// agents --own-key` shows them there
    #[arg(long, value_name = "FINGERPRINT")]
    pub accept: Option<NamedKey>,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// List the agent's key and its clients
    List,
    /// Forget a client: a running agent closes its connections and takes no new ones
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
