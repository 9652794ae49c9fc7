//! A device-tree device as a target: a bus device operated through its windows, or a GPU, whose plans contain page
//! tables.

use super::driver;
use super::error::PlatformError;
use super::interrupts::{Interrupts, status_registers};
use super::name::Name;
use super::node::{Iommu, PlatformNode};
use super::tree_gpu::{TreeGpu, TreeGpus};
use crate::device::guard::Guard;
use crate::device::host::Host;
use crate::device::mapping::Mapping;
use crate::device::memory::Memory;
use crate::device::ticks::Ticks;
use crate::device::windows::{FoundRegion, numbers};
use crate::device::{
    Containment, DeviceInfo, DeviceInterface, JobReport, RegisterFactory, RegisterTarget, ReplayDeviceError, Target,
    Window, space,
};
use replay_core::{Device, DeviceError, WaitResult};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trace_core::recording::{Hardware, Page, PlatformWindow};
use trace_core::registers::RegisterMap;
use trace_core::{BusAddr, PAGE_SIZE, PhysAddr};

/// The options for opening devices.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a device may be unbound from a driver.
    pub take: bool,
    /// Maximum size of memory for plans, bytes.
    pub memory: u64,
    /// The guard that returns the device when this process ends.
    pub guard: Option<Guard>,
    /// The GPUs of the families, from [`crate::tree_gpus`].
    pub gpus: TreeGpus,
}

/// A device of this machine's device tree.
///
/// [`Target::reset`] resets a GPU by its own command. For another device the known state is: its interrupt as it
/// was, memory for plans zero. Its registers are unchanged, because no reset method is known.
pub struct PlatformReplayDevice {
    info: DeviceInfo,
    gpu: Option<&'static dyn TreeGpu>,
    interrupts: Interrupts,
    /// By space number in plans.
    windows: Vec<Option<Mapping>>,
    memory: Memory,
    ticks: Ticks,
    trouble: Option<String>,
}

impl std::fmt::Debug for PlatformReplayDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PlatformReplayDevice({})", self.info.name)
    }
}

/// The file that a device's windows are mapped from.
struct Source {
    file: File,
    /// Path of the file.
    path: String,
    /// The UIO device, if it is one.
    uio: Option<String>,
}

/// Returns the UIO file of a device, or `/dev/mem`.
fn source(host: &Host, of: &PlatformNode) -> Result<Source, PlatformError> {
    let failed = |source| PlatformError::Host {
        device: of.name.clone(),
        source,
    };
    let base = of.device.windows.first().map(|w| w.base);
    let is = |uio: &String| {
        let number = uio.strip_prefix("uio").unwrap_or_default();
        let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        plain && host.number(format!("sys/class/uio/{uio}/maps/map0/addr")).ok() == base.map(PhysAddr::get)
    };
    let uio = host.list("sys/class/uio").into_iter().find(is);
    let path = uio.as_ref().map_or("dev/mem".to_owned(), |uio| format!("dev/{uio}"));
    let file = host.open_sync(&path).map_err(failed)?;
    Ok(Source { file, path, uio })
}

/// Maps a window of a device. UIO has the nth window at the nth page of its file.
fn map(source: &Source, of: &PlatformNode, at: usize, window: &PlatformWindow) -> Result<Mapping, PlatformError> {
    let page = PAGE_SIZE as u64;
    let place = match source.uio {
        Some(_) => at as u64 * page + window.base.get() % page,
        None => window.base.get(),
    };
    Mapping::map_file(&source.file, place, window.bytes).map_err(|e| PlatformError::Map {
        device: of.name.clone(),
        base: window.base,
        file: format!("/{}", source.path),
        source: e,
    })
}

impl PlatformReplayDevice {
    /// Opens a device of a machine under the name `platform:NAME`.
    ///
    /// # Errors
    /// [`PlatformError`], if no device or several have that name, a driver is bound to it, or the kernel refuses
    /// access.
    pub fn open(host: &Host, name: &Name, options: &Options) -> Result<Self, PlatformError> {
        let of = PlatformNode::find(host, name, options.gpus)?;
        driver::take(host, &of, options.take, options.guard.as_ref())?;
        let source = source(host, &of)?;
        let way = match source.uio {
            Some(_) => "its registers through UIO",
            None => "its registers through /dev/mem, because no UIO driver of this kernel is bound to it",
        };
        let (memory, message) = memory(host, &of, options.memory);
        let hardware = Hardware::Platform(of.device.clone());
        let mut device = Self {
            info: DeviceInfo {
                name: format!("platform:{name}"),
                description: String::new(),
                gpu_id: 0,
                gpu_name: hardware.id(),
                register_map: String::new(),
                containment: Containment::None,
                hardware: None,
                windows: Vec::new(),
                arena: memory.arena(),
                interface: DeviceInterface::Registers,
                virtual_time: false,
                computes: false,
            },
            gpu: of.gpu.map(|g| g.0),
            interrupts: Interrupts::None,
            windows: Vec::new(),
            memory,
            ticks: Ticks::new(),
            trouble: None,
        };
        let map = match device.gpu {
            Some(gpu) => Some(device.become_gpu(gpu, &of, &source)?),
            None => device.become_bus(&of, &source, hardware)?,
        };
        let list = map.map(status_registers).unwrap_or_default();
        device.interrupts = match &source.uio {
            // One file forwards one interrupt; a GPU has several.
            Some(_) if device.gpu.is_none() => Interrupts::File(source.file),
            _ if !list.is_empty() => Interrupts::Status(list),
            _ => Interrupts::None,
        };
        let iommu = of.iommu.as_ref();
        let iommu = iommu.map_or_else(String::new, |i| format!("; {}", i.describe()));
        device.info.description = format!(
            "{} at {:#x}; {way}; {}; {message}{iommu}",
            device.info.gpu_name,
            of.device.windows.first().map_or(0, |w| w.base.get()),
            device.interrupts.describe()
        );
        Ok(device)
    }

    /// Returns a factory of such targets. The first one is created now.
    ///
    /// # Errors
    /// Same as [`PlatformReplayDevice::open`].
    pub fn factory(host: &Host, name: &Name, options: &Options) -> Result<RegisterFactory, PlatformError> {
        let first = Mutex::new(Some(Self::open(host, name, options)?));
        let (host, name, options) = (host.clone(), name.clone(), options.clone());
        Ok(Arc::new(move || {
            let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let device = first.map_or_else(|| Self::open(&host, &name, &options), Ok)?;
            Ok(Box::new(device))
        }))
    }

    /// Sets up a GPU: one window, the model of its id register, contained by its page tables.
    fn become_gpu(
        &mut self,
        gpu: &dyn TreeGpu,
        of: &PlatformNode,
        source: &Source,
    ) -> Result<&'static RegisterMap, PlatformError> {
        let none = |id| PlatformError::NoGpu {
            device: of.name.clone(),
            family: gpu.name(),
            id,
        };
        let window = of.device.windows.first().ok_or_else(|| none(0))?;
        let registers = map(source, of, 0, window)?;
        let id = gpu.read_id(&registers);
        let map = RegisterMap::for_gpu(id).ok_or_else(|| none(id))?;
        self.info.gpu_id = id;
        self.info.gpu_name = map.gpu_name(id).unwrap_or(gpu.name()).to_owned();
        self.info.register_map = map.name().to_owned();
        self.info.containment = Containment::PageTables;
        self.info.windows = Window::registers(window.bytes);
        self.info.computes = true;
        self.windows = vec![Some(registers)];
        Ok(map)
    }

    /// Sets up a bus device: its windows by name.
    fn become_bus(
        &mut self,
        of: &PlatformNode,
        source: &Source,
        hardware: Hardware,
    ) -> Result<Option<&'static RegisterMap>, PlatformError> {
        let register_map = RegisterMap::for_hardware(&hardware);
        let found: Vec<FoundRegion<'_>> = of
            .device
            .windows
            .iter()
            .map(|w| FoundRegion {
                name: &w.name,
                bytes: w.bytes,
                ports: false,
                plain: register_map.is_some_and(|m| m.framebuffers().contains(&w.name)),
            })
            .collect();
        for ((at, window), (found, number)) in of
            .device
            .windows
            .iter()
            .enumerate()
            .zip(found.iter().zip(numbers(&found, register_map).unwrap_or_default()))
        {
            let place = usize::from(number);
            if self.windows.len() <= place {
                self.windows.resize_with(place + 1, || None);
            }
            let mapping = map(source, of, at, window)?;
            if let Some(slot) = self.windows.get_mut(place) {
                *slot = Some(mapping);
            }
            self.info.windows.push(Window {
                number,
                name: found.name.to_owned(),
                kind: found.kind(),
                bytes: window.bytes,
            });
        }
        self.info.windows.sort_by_key(|w| w.number);
        if let Some(map) = register_map {
            self.info.register_map = map.name().to_owned();
            if let Some(name) = map.hardware_name(&hardware) {
                self.info.gpu_name = name.to_owned();
            }
        }
        self.info.hardware = Some(hardware);
        Ok(register_map)
    }

    fn registers(&self) -> Option<&Mapping> {
        self.windows.first()?.as_ref()
    }

    #[cold]
    fn refusal(&self, number: u8, offset: u64, width: u8) -> DeviceError {
        let bytes = match number {
            space::ARENA => self.info.arena.end() - self.info.arena.base,
            _ => match self.info.windows.iter().find(|w| w.number == number) {
                Some(window) => window.bytes,
                None => return DeviceError::NoSpace,
            },
        };
        let inside = offset.checked_add(width.into()).is_some_and(|end| end <= bytes);
        match matches!(width, 1 | 2 | 4 | 8) && inside {
            true => DeviceError::Misaligned,
            false => DeviceError::OutOfRange,
        }
    }

    /// Resets the GPU, if it is one. Returns whether it is.
    fn reset_gpu(&self) -> Result<bool, ReplayDeviceError> {
        let failed = |what: &str| ReplayDeviceError::Failed(format!("{}: {what}", self.info.name));
        let Some(gpu) = self.gpu else { return Ok(false) };
        let registers = self.registers().ok_or_else(|| failed("it has no registers"))?;
        gpu.reset(registers).map_err(failed)?;
        Ok(true)
    }
}

/// Returns the memory that the machine reserves for the device, with a description.
fn memory(host: &Host, of: &PlatformNode, max: u64) -> (Memory, String) {
    let none = |why: String| (Memory::none(), format!("no memory for DMA: {why}"));
    let Some((base, bytes)) = of.memory else {
        return none("its node in the device tree names no memory-region".to_owned());
    };
    if of.iommu.as_ref().is_some_and(Iommu::translates) {
        return none("its IOMMU blocks memory at physical addresses".to_owned());
    }
    let bytes = bytes.min(max) / PAGE_SIZE as u64 * PAGE_SIZE as u64;
    if bytes == 0 || base.in_page() != 0 {
        return none("its memory-region has no whole pages, or none was requested".to_owned());
    }
    let mapped = host.open_sync("dev/mem").map_err(|e| e.to_string());
    let mapped = mapped.and_then(|file| Mapping::map_file(&file, base.get(), bytes).map_err(|e| e.to_string()));
    match mapped {
        Ok(mapping) => {
            let message = format!("{} MiB of reserved memory at {base:#x}", bytes >> 20);
            let mut memory = Memory::at_bus_address(BusAddr::new(base.get()), mapping);
            // The previous contents are unknown.
            memory.note_device_writes();
            (memory, message)
        }
        Err(why) => none(format!("its memory-region cannot be mapped: {why}")),
    }
}

impl Device for PlatformReplayDevice {
    #[inline]
    fn read(&mut self, number: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        let value = if number == space::ARENA {
            self.memory.read(offset, width)
        } else {
            self.memory.settle();
            let window = self.windows.get(usize::from(number)).and_then(Option::as_ref);
            window.and_then(|w| w.read(offset, width))
        };
        value.ok_or_else(|| self.refusal(number, offset, width))
    }

    #[inline]
    fn write(&mut self, number: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        let done = if number == space::ARENA {
            self.memory.write(offset, width, value)
        } else {
            self.memory.settle();
            let window = self.windows.get(usize::from(number)).and_then(Option::as_ref);
            window.and_then(|w| w.write(offset, width, value))
        };
        done.ok_or_else(|| self.refusal(number, offset, width))
    }

    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        self.memory.fence();
        let limit = Duration::from_nanos(limit_ns);
        let came = match self.registers() {
            Some(registers) => self.interrupts.wait(registers, lines, limit),
            None => Ok(0),
        };
        self.ticks.sync();
        match came {
            Ok(0) => Ok(WaitResult::TimedOut),
            Ok(lines) => Ok(WaitResult::Raised { lines }),
            Err(e) => {
                self.trouble = Some(format!("{}: waiting for its interrupt: {e}", self.info.name));
                Err(DeviceError::Gone)
            }
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

impl Target for PlatformReplayDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        self.trouble = None;
        if self.reset_gpu()? {
            // Jobs may have written anywhere in it.
            self.memory.note_device_writes();
        }
        self.memory.clear()?;
        self.ticks.sync();
        Ok(())
    }
}

impl RegisterTarget for PlatformReplayDevice {
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
        match self.gpu {
            Some(_) => None,
            None => self.memory.list_content_frames(),
        }
    }

    fn no_interrupts(&self) -> Option<String> {
        let why = "no UIO driver is bound to it, and its register map names no status register to poll instead";
        matches!(self.interrupts, Interrupts::None).then(|| why.to_owned())
    }

    fn set_bus_mastering(&mut self, on: bool) -> Result<(), ReplayDeviceError> {
        // The device has no such switch. From now on its writes are not tracked.
        if on {
            self.memory.note_device_writes();
        }
        Ok(())
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    fn take_job_reports(&mut self) -> Vec<JobReport> {
        Vec::new()
    }
}

impl Drop for PlatformReplayDevice {
    fn drop(&mut self) {
        if let Err(e) = self.reset_gpu() {
            tracing::error!("{e}");
        }
    }
}
