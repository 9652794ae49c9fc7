//! A PCI function as a target.

use super::config::{Config, command};
use super::error::PciError;
use super::function::Function;
use super::interrupts::Interrupts;
use super::name::Name;
use super::open_function::{OpenFunction, Options, decode_bits};
use super::region_access::RegionAccess;
use crate::device::host::Host;
use crate::device::memory::Memory;
use crate::device::ticks::Ticks;
use crate::device::vfio::{FaultLog, Vfio};
use crate::device::{
    Containment, DeviceInfo, DeviceInterface, JobReport, RegisterFactory, RegisterTarget, ReplayDeviceError, Target,
    space,
};
use replay_core::{Device, DeviceError, WaitResult};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trace_core::PhysAddr;
use trace_core::recording::{Hardware, Page};
use trace_core::registers::RegisterMap;
use trace_core::screen::{LiveDisplay, Picture};

/// The only interrupt line: the line of the function.
const LINE: u32 = 1;

/// A PCI function of this machine.
///
/// [`Target::reset`] uses the kernel's reset of the function, or the reset of VFIO, if there is one. Otherwise
/// the known state is: bus mastering off, interrupt masked, windows decoded, memory for plans zero. Registers and
/// memory of the function itself are unchanged.
pub struct PciReplayDevice {
    host: Host,
    function: Function,
    info: DeviceInfo,
    config: Config,
    header: [u8; 64],
    interrupts: Interrupts,
    /// By space number in plans.
    ways: Vec<Option<RegionAccess>>,
    memory: Memory,
    /// The VFIO device, if it is opened through VFIO.
    vfio: Option<Arc<Vfio>>,
    /// Kernel messages about DMA faults since bus mastering was enabled, or of the last time.
    log: Option<FaultLog>,
    refused: Vec<String>,
    display: Option<LiveDisplay>,
    ticks: Ticks,
    trouble: Option<String>,
}

impl std::fmt::Debug for PciReplayDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PciReplayDevice({})", self.function.address)
    }
}

impl PciReplayDevice {
    /// Opens a function of a machine under the name `pci:NAME`.
    ///
    /// # Errors
    /// [`PciError`], if no function or several have that name, a driver is bound to it, or the kernel refuses access.
    pub fn open(host: &Host, name: &Name, options: &Options) -> Result<Self, PciError> {
        let found = Function::find(host, name)?;
        let address = found.address;
        if found.is_bridge() {
            return Err(PciError::Bridge { address });
        }
        let opened = OpenFunction::open(host, &found, options)?;
        let hardware = Hardware::Pci(opened.function.pci.clone());
        let map = RegisterMap::for_hardware(&hardware);
        let known = map.and_then(|m| m.hardware_name(&hardware)).map(str::to_owned);
        let what = known.clone().unwrap_or_else(|| "PCI function".to_owned());
        let info = DeviceInfo {
            name: format!("pci:{name}"),
            description: format!("{what} ({}) at {address}; {}", found.ids(), opened.description),
            gpu_id: 0,
            gpu_name: known.unwrap_or_else(|| found.ids()),
            register_map: map.map_or_else(String::new, |m| m.name().to_owned()),
            containment: opened.containment,
            hardware: Some(hardware.clone()),
            windows: opened.windows,
            arena: opened.memory.arena(),
            interface: DeviceInterface::Registers,
            virtual_time: false,
            computes: false,
        };
        let registers = info.windows.iter().find(|w| w.number == space::REGISTERS);
        let display = LiveDisplay::new(&hardware).filter(|d| registers.is_some_and(|w| w.name == d.registers()));
        let header = opened.config.header()?;
        Ok(Self {
            host: host.clone(),
            function: opened.function,
            info,
            config: opened.config,
            header,
            interrupts: opened.interrupts,
            ways: opened.ways,
            memory: opened.memory,
            vfio: opened.vfio,
            log: None,
            refused: Vec::new(),
            display,
            ticks: Ticks::new(),
            trouble: None,
        })
    }

    /// Returns a factory of such targets. The first one is created now.
    ///
    /// # Errors
    /// Same as [`PciReplayDevice::open`].
    pub fn factory(host: &Host, name: &Name, options: &Options) -> Result<RegisterFactory, PciError> {
        let first = Mutex::new(Some(Self::open(host, name, options)?));
        let (host, name, options) = (host.clone(), *name, options.clone());
        Ok(Arc::new(move || {
            let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let device = first.map_or_else(|| Self::open(&host, &name, &options), Ok)?;
            Ok(Box::new(device))
        }))
    }

    /// Returns why an access was refused.
    #[cold]
    fn refusal(&self, number: u8, offset: u64, width: u8) -> DeviceError {
        let bytes = match number {
            space::ARENA => Some(self.info.arena.end() - self.info.arena.base),
            _ => self.info.windows.iter().find(|w| w.number == number).map(|w| w.bytes),
        };
        let Some(bytes) = bytes else {
            return DeviceError::NoSpace;
        };
        let inside = offset.checked_add(width.into()).is_some_and(|end| end <= bytes);
        let ports = matches!(self.ways.get(usize::from(number)), Some(Some(RegionAccess::File(_))));
        match matches!((width, ports), (1 | 2 | 4, _) | (8, false)) && inside {
            true => DeviceError::Misaligned,
            false => DeviceError::OutOfRange,
        }
    }

    fn gone<T>(&mut self, e: &PciError) -> Result<T, DeviceError> {
        self.trouble = Some(e.to_string());
        Err(DeviceError::Gone)
    }
}

impl Device for PciReplayDevice {
    #[inline]
    fn read(&mut self, number: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        if number == space::ARENA {
            let value = self.memory.read(offset, width);
            return value.ok_or_else(|| self.refusal(number, offset, width));
        }
        self.memory.settle();
        let value = match self.ways.get(usize::from(number)) {
            Some(Some(RegionAccess::Memory(mapping))) => mapping.read(offset, width),
            Some(Some(RegionAccess::File(calls))) => match calls.read(offset, width) {
                Some(Err(source)) => {
                    let address = self.function.address;
                    return self.gone(&PciError::Config {
                        address,
                        offset,
                        source,
                    });
                }
                value => value.and_then(Result::ok),
            },
            _ => None,
        };
        value.ok_or_else(|| self.refusal(number, offset, width))
    }

    #[inline]
    fn write(&mut self, number: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        if number == space::ARENA {
            let done = self.memory.write(offset, width, value);
            return done.ok_or_else(|| self.refusal(number, offset, width));
        }
        self.memory.settle();
        let done = match self.ways.get(usize::from(number)) {
            Some(Some(RegionAccess::Memory(mapping))) => mapping.write(offset, width, value),
            Some(Some(RegionAccess::File(calls))) => match calls.write(offset, width, value) {
                Some(Err(source)) => {
                    let address = self.function.address;
                    return self.gone(&PciError::Config {
                        address,
                        offset,
                        source,
                    });
                }
                done => done.map(|_| ()),
            },
            _ => None,
        };
        if number == space::REGISTERS
            && done.is_some()
            && let Some(display) = &mut self.display
        {
            display.write(offset as u32, width, value);
        }
        done.ok_or_else(|| self.refusal(number, offset, width))
    }

    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        if lines & LINE == 0 {
            self.ticks.pause(limit_ns);
            return Ok(WaitResult::TimedOut);
        }
        self.memory.fence();
        let came = self.interrupts.wait(&self.config, Duration::from_nanos(limit_ns));
        self.ticks.sync();
        match came {
            Ok(true) => Ok(WaitResult::Raised { lines: LINE }),
            Ok(false) => Ok(WaitResult::TimedOut),
            Err(e) => self.gone(&e),
        }
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        self.ticks.pause(ns);
        Ok(())
    }

    #[inline]
    fn now_ns(&mut self) -> u64 {
        self.ticks.now_ns()
    }
}

impl Target for PciReplayDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        self.trouble = None;
        self.refused.clear();
        self.config.check_present()?;
        self.config.quiet()?;
        let address = self.function.address;
        match &self.vfio {
            // VFIO restores the windows after a reset.
            Some(vfio) => {
                let failed = |source| PciError::Vfio { address, source };
                if vfio.can_reset().map_err(failed)? {
                    vfio.reset().map_err(failed)?;
                    self.config.check_present()?;
                }
                self.config.quiet()?;
                self.config.command(decode_bits(&self.function), 0)?;
            }
            None => {
                if self.function.resets {
                    let path = format!("{}/reset", address.folder());
                    self.host
                        .write(path, "1")
                        .map_err(|source| PciError::Host { address, source })?;
                    self.config.check_present()?;
                }
                self.config.restore(&self.header)?;
            }
        }
        self.memory.clear()?;
        self.ticks.sync();
        Ok(())
    }
}

impl RegisterTarget for PciReplayDevice {
    fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), ReplayDeviceError> {
        self.memory.store_page(frame, page)
    }

    fn store_bytes(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), ReplayDeviceError> {
        self.memory.store(at, bytes)
    }

    fn load_page(&mut self, frame: u64, page: &mut Page) -> Result<(), ReplayDeviceError> {
        self.memory.load(frame, page)
    }

    fn content_frames(&mut self) -> Option<Vec<u64>> {
        self.memory.list_content_frames()
    }

    fn load_window(&mut self, number: u8, offset: u64, to: &mut [u8]) -> Result<(), ReplayDeviceError> {
        let loaded = match self.ways.get(usize::from(number)) {
            Some(Some(RegionAccess::Memory(mapping))) => mapping.load(offset, to),
            _ => None,
        };
        let end = offset.saturating_add(to.len() as u64);
        loaded.ok_or_else(|| {
            ReplayDeviceError::Failed(format!(
                "MMIO region {number} has no memory from {offset:#x} to {end:#x}"
            ))
        })
    }

    fn screen(&mut self) -> Result<Option<Picture>, ReplayDeviceError> {
        let Some(mut display) = self.display.take() else {
            return Ok(None);
        };
        let mode = display.read_mode(|offset, width| self.read(space::REGISTERS, offset.into(), width));
        let picture = mode.map_err(|e| ReplayDeviceError::Failed(format!("the display registers: {e:?}")));
        let picture = picture.and_then(|mode| {
            let name = display.framebuffer();
            let window = self.info.windows.iter().find(|w| w.name == name).cloned();
            let window =
                window.ok_or_else(|| ReplayDeviceError::Failed(format!("the device has no MMIO region {name}")))?;
            let load = |at: u64, row: &mut [u8]| self.load_window(window.number, at, row);
            let picture = display.picture(&mode, window.bytes, load);
            picture.map_err(|e| ReplayDeviceError::Failed(e.to_string()))
        });
        self.display = Some(display);
        picture.map(Some)
    }

    fn set_bus_mastering(&mut self, on: bool) -> Result<(), ReplayDeviceError> {
        self.memory.fence();
        if on {
            self.memory.note_device_writes();
            let name = self.function.address.to_string();
            let contained = self.info.containment == Containment::Iommu;
            self.log = contained.then(|| FaultLog::from_now(&self.host, &name)).flatten();
            self.config.command(command::MASTER, 0)?;
        } else {
            self.config.command(0, command::MASTER)?;
            self.refused = self.log.take().map(|mut log| log.read_faults()).unwrap_or_default();
        }
        Ok(())
    }

    fn refused_accesses(&mut self) -> Vec<String> {
        std::mem::take(&mut self.refused)
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    fn take_job_reports(&mut self) -> Vec<JobReport> {
        Vec::new()
    }
}

impl Drop for PciReplayDevice {
    /// The memory is freed with the target, so the function must not access it any more.
    fn drop(&mut self) {
        if let Err(e) = self.config.quiet() {
            tracing::error!("{e}");
        }
    }
}
