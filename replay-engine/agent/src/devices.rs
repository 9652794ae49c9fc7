//! Table of the devices that this agent can own, by the names that `--device` accepts.

use crate::cli::AddressBits;
use anyhow::{Context as _, Result, bail};
use device_mali::{Model, SoftwareMali};
use replay_cuda::{CudaReplayDevice, WorkerProcesses, list_devices_in_worker};
use replay_engine::client::targets::LocalChannelTargets as _;
use replay_engine::device::guard::{self, Guard};
use replay_engine::device::host::Host;
use replay_engine::device::pci::{self, PciReplayDevice};
use replay_engine::device::platform::{self, PlatformReplayDevice};
use replay_engine::device::qemu::{self, QemuReplayDevice};
use replay_engine::device::{RegisterFactory, free_memory};
use replay_engine::target::Factory;
use replay_engine::tree_gpus;
use replay_nvidia::{ChannelWorkers, NvidiaTargets};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::cell::{Cell, OnceCell};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Verb of the worker process that replays API traces.
pub const WORKER_VERB: &str = "play-calls";
/// Verb of the worker process that replays on the channels of an NVIDIA GPU.
pub const CHANNEL_VERB: &str = "play-channel";
/// Verb of the guard process that quiesces devices when the agent exits.
pub const GUARD_VERB: &str = "guard";

/// Settings for opening the hardware of this machine.
#[derive(Debug)]
pub struct Hardware {
    /// Whether a device may be detached from its kernel driver.
    pub take: bool,
    /// Maximum size of memory for plans on each device, bytes.
    pub memory: u64,
    /// Address width of devices, keyed by the names under which the devices are opened.
    bits: Vec<AddressBits>,
    /// Number of devices of this machine that are not yet opened.
    unopened: Cell<u64>,
    guard: OnceCell<Guard>,
}

impl Hardware {
    /// Creates the settings.
    ///
    /// `take` allows a device to be detached from its driver. `memory` is the maximum size of memory for plans on each
    /// device, bytes. `bits` overrides the address widths of the register maps. `names` lists the devices that will be
    /// opened: those of this machine share its free memory.
    ///
    /// # Errors
    /// When `bits` names a device that will not be opened, or one that is not a PCI function.
    pub fn new(take: bool, memory: u64, bits: &[AddressBits], names: &[String]) -> Result<Self> {
        if let Some(other) = bits
            .iter()
            .find(|b| !b.device.starts_with("pci:") || !names.contains(&b.device))
        {
            bail!(
                "--address-bits names `{}`, which is not a PCI function named by --device",
                other.device
            );
        }
        let of_machine = names.iter().filter(|n| n.starts_with("pci:")).count();
        Ok(Self {
            take,
            memory,
            bits: bits.to_vec(),
            unopened: Cell::new(of_machine as u64),
            guard: OnceCell::new(),
        })
    }

    /// Returns the guard that all devices share; the first call starts it.
    fn guard(&self) -> Result<Guard> {
        if let Some(guard) = self.guard.get() {
            return Ok(guard.clone());
        }
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let guard = Guard::start(Command::new(program).arg(GUARD_VERB)).context("cannot start the guard process")?;
        Ok(self.guard.get_or_init(|| guard).clone())
    }

    fn platform_options(&self) -> Result<platform::Options> {
        Ok(platform::Options {
            take: self.take,
            memory: self.memory,
            guard: Some(self.guard()?),
            gpus: tree_gpus(),
        })
    }

    fn pci_options(&self, name: &str) -> Result<pci::Options> {
        let among = self.unopened.get().max(1);
        self.unopened.set(among - 1);
        Ok(pci::Options {
            take: self.take,
            memory: self.memory,
            among,
            address_bits: self.bits.iter().find(|b| b.device == name).map(|b| b.bits),
            guard: Some(self.guard()?),
        })
    }
}

/// Returns the names of the devices that the agent owns by default: the simulators, `software:MODEL`.
pub fn software_device_names() -> impl Iterator<Item = String> {
    Model::ALL.into_iter().map(|m| format!("software:{}", m.data().name))
}

/// Returns the factory of a device. A device in QEMU is started now; hardware of this machine is opened now.
///
/// # Errors
/// When this agent has no device of that name, QEMU does not provide it, or it cannot be opened on this machine.
pub fn factory(name: &str, hardware: &Hardware) -> Result<Factory> {
    if let Some(device) = name.strip_prefix("qemu:") {
        return Ok(QemuReplayDevice::factory(&qemu::Name::parse(device)?)?.into());
    }
    if let Some(function) = name.strip_prefix("pci:") {
        let function = pci::Name::parse(function)?;
        return Ok(PciReplayDevice::factory(&Host::local(), &function, &hardware.pci_options(name)?)?.into());
    }
    if let Some(number) = name.strip_prefix("cuda:") {
        let number = number
            .parse()
            .ok()
            .with_context(|| format!("`{name}` names no CUDA device (expected cuda:N)"))?;
        return Ok(CudaReplayDevice::factory(number, true, new_workers())?.into());
    }
    if let Some(number) = name.strip_prefix("nvidia:") {
        let number = number
            .parse()
            .ok()
            .with_context(|| format!("`{name}` names no NVIDIA GPU (expected nvidia:N)"))?;
        return Ok(nvidia_targets().factory(number)?.into());
    }
    if let Some(device) = name.strip_prefix("platform:") {
        let device = platform::Name::parse(device)?;
        return Ok(PlatformReplayDevice::factory(&Host::local(), &device, &hardware.platform_options()?)?.into());
    }
    let Some(model) = name.strip_prefix("software:").and_then(Model::from_name) else {
        let known: Vec<String> = software_device_names().collect();
        let known = known.join(", ");
        bail!(
            "this agent has no device `{name}`; it can own: {known}, cuda:N, nvidia:N, cpu, interpreter, {}, {}, {}",
            qemu::FORM,
            pci::FORM,
            platform::FORM
        );
    };
    let factory: RegisterFactory = Arc::new(move || Ok(Box::new(SoftwareMali::new(model))));
    Ok(factory.into())
}

/// Returns the GPUs of this machine whose channels take submissions. Each worker process runs this same executable.
fn nvidia_targets() -> NvidiaTargets {
    NvidiaTargets::new(Arc::new(ChannelWorkers::new(|| {
        let mut command = Command::new(replay_cuda::current_program());
        command.arg(CHANNEL_VERB);
        command
    })))
}

/// Returns the NVIDIA GPUs of this machine as pairs of name (`nvidia:N`) and description. The list is empty if there is
/// no driver whose interface is known.
pub fn list_nvidia_devices() -> Vec<(String, String)> {
    let all = nvidia_targets().list().into_iter();
    all.map(|(number, info)| (format!("nvidia:{number}"), info.description))
        .collect()
}

/// Creates the pool of worker processes that replay on a CUDA device. Each worker runs this same executable.
fn new_workers() -> Arc<WorkerProcesses> {
    Arc::new(WorkerProcesses::new(|| {
        let mut command = Command::new(replay_cuda::current_program());
        command.arg(WORKER_VERB);
        command
    }))
}

/// Returns the CUDA devices of this machine as pairs of name (`cuda:N`) and the driver's name for the device. The list
/// is empty if there is no driver. A driver that does not respond is logged.
pub fn list_cuda_devices() -> Vec<(String, String)> {
    if !replay_cuda::is_likely() {
        return Vec::new();
    }
    match list_devices_in_worker(&new_workers()) {
        Ok(all) => all
            .into_iter()
            .map(|d| (format!("cuda:{}", d.number), d.name))
            .collect(),
        Err(e) => {
            tracing::warn!("no CUDA device: {e}");
            Vec::new()
        }
    }
}

/// Returns the hardware of this machine that the agent can own, one line per device: its name and a description.
pub fn list_machine_devices() -> Vec<String> {
    let host = Host::local();
    let functions = pci::list_functions(&host);
    let memory = free_memory(&host);
    let able = functions.iter().filter(|f| !f.is_bridge());
    let mut lines: Vec<String> = able
        .map(|f| format!("pci:{}\t{}", f.address, f.describe(&host, memory)))
        .collect();
    // The device tree of a board describes hundreds of devices. Devices without a register map cannot have plans.
    let devices = platform::list_devices(&host, tree_gpus());
    let known = devices.iter().filter(|d| d.is_known());
    lines.extend(known.map(|d| format!("platform:{}\t{}", d.name, d.describe())));
    lines
}

/// Runs the guard process. Returns after the agent that started it has exited and the agent's devices are quiesced.
///
/// # Errors
/// When a device could not be quiesced or returned to its driver.
pub fn run_guard() -> Result<()> {
    // A signal that ends the agent, by name or with its whole service, must not end the guard. The pipe reports the
    // agent's exit.
    let heed = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&heed)).context("cannot handle signals in the guard process")?;
    }
    let wrong = guard::run_guard(std::io::stdin().lock(), &Host::local());
    match wrong.is_empty() {
        true => Ok(()),
        false => bail!(
            "cannot quiesce all devices after the end of the agent: {}",
            wrong.join("; ")
        ),
    }
}
