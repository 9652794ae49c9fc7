//! The table of devices that this agent can own, by the names that `--device` takes.

use crate::cli::AddressBits;
use anyhow::{Context as _, Result, bail};
use device_mali::{Model, SoftwareMali};
use replay_engine::device::cuda::{self, CudaBoard, Players, list_devices_in_worker};
use replay_engine::device::guard::{self, Guard};
use replay_engine::device::host::Host;
use replay_engine::device::pci::{self, PciBoard};
use replay_engine::device::platform::{self, PlatformBoard};
use replay_engine::device::qemu::{self, QemuBoard};
use replay_engine::device::{Board, free_memory};
use replay_engine::serve::Factory;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::cell::{Cell, OnceCell};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The verb of the process that plays calls.
pub const WORKER_VERB: &str = "play-calls";
/// The verb of the process that makes devices quiet when the agent ends.
pub const GUARD_VERB: &str = "guard";

/// How hardware of this machine is opened.
#[derive(Debug)]
pub struct Hardware {
    /// Whether a device may be taken from a driver of the kernel's.
    pub take: bool,
    /// Most bytes of memory for plans, each device.
    pub memory: u64,
    /// How many bits the addresses of devices have, by the names that the devices are opened by.
    bits: Vec<AddressBits>,
    /// Devices of this machine that are still to be opened.
    unopened: Cell<u64>,
    guard: OnceCell<Guard>,
}

impl Hardware {
    /// `take`: whether a device may be taken from its driver; `memory`: most bytes of memory for plans, each device.
    /// `bits`: what is known of devices' addresses better than by their maps. `names` are the devices that will be opened:
    /// those of this machine share what memory it has free.
    ///
    /// # Errors
    /// When bits are told of a device that will not be opened, or is no PCI function.
    pub fn new(take: bool, memory: u64, bits: &[AddressBits], names: &[String]) -> Result<Self> {
        if let Some(other) = bits
            .iter()
            .find(|b| !b.device.starts_with("pci:") || !names.contains(&b.device))
        {
            bail!(
                "--address-bits tells of `{}`, which is no PCI function that --device names",
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

    /// One guard for all devices, started for the first of them.
    fn guard(&self) -> Result<Guard> {
        if let Some(guard) = self.guard.get() {
            return Ok(guard.clone());
        }
        let program = std::env::current_exe().context("where this program is")?;
        let guard = Guard::start(Command::new(program).arg(GUARD_VERB)).context("the guard of devices")?;
        Ok(self.guard.get_or_init(|| guard).clone())
    }

    fn platform_options(&self) -> Result<platform::Options> {
        Ok(platform::Options {
            take: self.take,
            memory: self.memory,
            guard: Some(self.guard()?),
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

/// Names of the devices that it owns unless it is told which: software boards, `software:MODEL`.
pub fn software_device_names() -> impl Iterator<Item = String> {
    Model::ALL.into_iter().map(|m| format!("software:{}", m.data().name))
}

/// The factory of a device. One in QEMU is started now, one of this machine is opened.
///
/// # Errors
/// When this agent has no device of that name, QEMU does not make it, or this machine does not give it.
pub fn factory(name: &str, hardware: &Hardware) -> Result<Factory> {
    if let Some(device) = name.strip_prefix("qemu:") {
        return Ok(QemuBoard::factory(&qemu::Name::parse(device)?)?);
    }
    if let Some(function) = name.strip_prefix("pci:") {
        let function = pci::Name::parse(function)?;
        return Ok(PciBoard::factory(
            &Host::local(),
            &function,
            &hardware.pci_options(name)?,
        )?);
    }
    if let Some(number) = name.strip_prefix("cuda:") {
        let number = number
            .parse()
            .ok()
            .with_context(|| format!("`{name}` names no CUDA device (expected cuda:N)"))?;
        return Ok(CudaBoard::factory(number, true, new_players())?);
    }
    if let Some(device) = name.strip_prefix("platform:") {
        let device = platform::Name::parse(device)?;
        return Ok(PlatformBoard::factory(
            &Host::local(),
            &device,
            &hardware.platform_options()?,
        )?);
    }
    let Some(model) = name.strip_prefix("software:").and_then(Model::from_name) else {
        let known: Vec<String> = software_device_names().collect();
        let known = known.join(", ");
        bail!(
            "this agent has no device `{name}`; it can own: {known}, cuda:N, {}, {}, {}",
            qemu::FORM,
            pci::FORM,
            platform::FORM
        );
    };
    Ok(Arc::new(move || {
        Ok(Box::new(SoftwareMali::new(model)) as Box<dyn Board>)
    }))
}

/// The processes that play on a CUDA device: this program again.
fn new_players() -> Arc<Players> {
    Arc::new(Players::new(|| {
        let mut command = Command::new(cuda::current_program());
        command.arg(WORKER_VERB);
        command
    }))
}

/// Names of the CUDA devices of this machine, `cuda:N`, with what the driver calls them. None where there is no driver; one
/// that does not answer is told to the log.
pub fn list_cuda_devices() -> Vec<(String, String)> {
    if !cuda::is_likely() {
        return Vec::new();
    }
    match list_devices_in_worker(&new_players()) {
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

/// Hardware of this machine that it can own, a line each: the name, and what it is.
pub fn list_machine_devices() -> Vec<String> {
    let host = Host::local();
    let functions = pci::list_functions(&host);
    let memory = free_memory(&host);
    let able = functions.iter().filter(|f| !f.is_bridge());
    let mut lines: Vec<String> = able
        .map(|f| format!("pci:{}\t{}", f.address, f.describe(&host, memory)))
        .collect();
    // A board's tree describes hundreds of devices; those that no map knows have no plans either.
    let devices = platform::list_devices(&host);
    let known = devices.iter().filter(|d| d.is_known());
    lines.extend(known.map(|d| format!("platform:{}\t{}", d.name, d.describe())));
    lines
}

/// The guard's process: returns when the agent that started it has ended and its devices are quiet.
///
/// # Errors
/// When a device could not be made quiet or given back.
pub fn run_guard() -> Result<()> {
    // What ends programs by name, or all of a service, ends the agent, and this has to outlive it: the pipe tells when.
    let heed = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&heed)).context("signals of the guard of devices")?;
    }
    let wrong = guard::run_guard(std::io::stdin().lock(), &Host::local());
    match wrong.is_empty() {
        true => Ok(()),
        false => bail!("when the agent ended: {}", wrong.join("; ")),
    }
}
