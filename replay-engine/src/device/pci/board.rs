//! A PCI function as a board.

use super::config::{Config, command};
use super::driver::{self, UIO};
use super::error::PciError;
use super::function::Function;
use super::interrupts::Interrupts;
use super::name::Name;
use crate::device::guard::{Guard, Taken};
use crate::device::host::Host;
use crate::device::mapped::Mapping;
use crate::device::memory::Memory;
use crate::device::ticks::Ticks;
use crate::device::windows::{Found, numbers};
use crate::device::{Board, BoardError, Containment, DeviceInfo, JobReport, Window, space};
use replay_core::{Device, DeviceError, WaitResult};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trace_core::PhysAddr;
use trace_core::recording::{Hardware, Page};
use trace_core::registers::RegisterMap;
use trace_core::screen::{LiveDisplay, Picture};

/// The only interrupt line: the function's.
const LINE: u32 = 1;

/// Makes a board, and makes it anew.
type Made = Arc<dyn Fn() -> Result<Box<dyn Board>, BoardError> + Send + Sync>;

/// How functions are opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a function may be taken from a driver.
    pub take: bool,
    /// Most bytes of memory for plans.
    pub memory: u64,
    /// How many devices, this one among them, the machine's free memory is still for.
    pub among: u64,
    /// Who makes the function quiet when this process ends.
    pub guard: Option<Guard>,
}

/// How accesses reach a window.
#[derive(Debug)]
enum Way {
    Memory(Mapping),
    Ports { file: File, bytes: u64 },
}

/// A PCI function of this machine.
///
/// [`Board::reset`] uses the kernel's reset of the function where it has one. Where it has none, the known state is: no
/// bus mastering, its interrupt masked, its windows decoded, memory for plans zero; registers and memory of the
/// function's own stay as they are.
pub struct PciBoard {
    host: Host,
    function: Function,
    info: DeviceInfo,
    config: Config,
    header: [u8; 64],
    interrupts: Interrupts,
    /// By their numbers in plans.
    ways: Vec<Option<Way>>,
    memory: Memory,
    display: Option<LiveDisplay>,
    ticks: Ticks,
    trouble: Option<String>,
}

impl std::fmt::Debug for PciBoard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PciBoard({})", self.function.address)
    }
}

impl PciBoard {
    /// Opens a function of a machine under the name `pci:NAME`.
    ///
    /// # Errors
    /// [`PciError`], when there is none or several of that name, a driver has it, or the kernel does not give it.
    pub fn open(host: &Host, name: &Name, options: &Options) -> Result<Self, PciError> {
        let found = Function::named(host, name)?;
        let address = found.address;
        if found.is_bridge() {
            return Err(PciError::Bridge { address });
        }
        let failed = |source| PciError::Host { address, source };
        let mut taken = Taken::default();
        // The guard knows before anything is changed, so that nothing is left behind whatever happens here.
        let watch = |taken: &Taken| {
            let watched = options.guard.as_ref().map(|g| g.watch_function(address, taken));
            watched.unwrap_or(Ok(())).map_err(PciError::Guard)
        };
        if let Some(from) = driver::may_take(&found, options.take)? {
            taken.from = Some(from.clone());
            watch(&taken)?;
            driver::unbind(host, address, &from)?;
        }
        let folder = address.folder();
        if found.driver.is_none() || taken.from.is_some() {
            taken.bound = Some(UIO.to_owned());
            watch(&taken)?;
            // Without the driver, or with a function that has no interrupt, its status tells of interrupts.
            if !driver::bind(host, address, UIO).unwrap_or(false) {
                taken.bound = None;
            }
        }
        if host.number(format!("{folder}/enable")).map_err(failed)? == 0 {
            taken.enabled = true;
            watch(&taken)?;
            host.write(format!("{folder}/enable"), "1").map_err(failed)?;
        }
        watch(&taken)?;
        let config = Config::new(address, host.open(format!("{folder}/config"), true).map_err(failed)?, 0);
        config.answers()?;
        config.quiet()?;
        // Enabled by the kernel, a function has addresses.
        let function = Function::read(host, address)?;
        let has = |ports: bool| function.pci.bars.iter().any(|b| b.ports == ports);
        let decoding = if has(true) { command::PORTS } else { 0 } | if has(false) { command::MEMORY } else { 0 };
        config.command(decoding, 0)?;
        let hardware = Hardware::Pci(function.pci.clone());
        let map = RegisterMap::for_hardware(&hardware);
        let (windows, ways) = windows(host, &function, map)?;
        let (memory, told) = match Memory::huge(host, options.memory, options.among) {
            Ok(memory) => {
                let arena = memory.arena();
                let told = format!("{} MiB of memory at {}", arena.pages >> 8, arena.base);
                (memory, told)
            }
            Err(why) => (Memory::none(), format!("no memory for DMA: {why}")),
        };
        let interrupts = Interrupts::open(host, address)?;
        let known = map.and_then(|m| m.hardware_name(&hardware)).map(str::to_owned);
        let what = known.clone().unwrap_or_else(|| "PCI function".to_owned());
        let info = DeviceInfo {
            name: format!("pci:{name}"),
            description: format!(
                "{what} ({}) at {address}; {}; {told}",
                function.ids(),
                interrupts.told()
            ),
            gpu_id: 0,
            gpu_name: known.unwrap_or_else(|| function.ids()),
            register_map: map.map_or_else(String::new, |m| m.name().to_owned()),
            containment: Containment::None,
            hardware: Some(hardware.clone()),
            windows,
            arena: memory.arena(),
            virtual_time: false,
            computes: false,
        };
        let registers = info.windows.iter().find(|w| w.number == space::REGISTERS);
        let display = LiveDisplay::new(&hardware).filter(|d| registers.is_some_and(|w| w.name == d.registers()));
        let header = config.header()?;
        Ok(Self {
            host: host.clone(),
            function,
            info,
            config,
            header,
            interrupts,
            ways,
            memory,
            display,
            ticks: Ticks::new(),
            trouble: None,
        })
    }

    /// A factory of such boards. The first one is made now.
    ///
    /// # Errors
    /// As [`PciBoard::open`].
    pub fn factory(host: &Host, name: &Name, options: &Options) -> Result<Made, PciError> {
        let first = Mutex::new(Some(Self::open(host, name, options)?));
        let (host, name, options) = (host.clone(), *name, options.clone());
        Ok(Arc::new(move || {
            let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let board = first.map_or_else(|| Self::open(&host, &name, &options), Ok)?;
            Ok(Box::new(board))
        }))
    }

    /// Why an access was refused.
    #[cold]
    fn refusal(&self, number: u8, offset: u64, width: u8) -> DeviceError {
        let bytes = match number {
            space::ARENA => Some(self.info.arena.end() - self.info.arena.base.0),
            _ => self.info.windows.iter().find(|w| w.number == number).map(|w| w.bytes),
        };
        let Some(bytes) = bytes else {
            return DeviceError::NoSpace;
        };
        let inside = offset.checked_add(width.into()).is_some_and(|end| end <= bytes);
        let ports = matches!(self.ways.get(usize::from(number)), Some(Some(Way::Ports { .. })));
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

/// The function's windows, and how each is reached.
fn windows(
    host: &Host,
    function: &Function,
    map: Option<&RegisterMap>,
) -> Result<(Vec<Window>, Vec<Option<Way>>), PciError> {
    let address = function.address;
    let bars: Vec<_> = function.pci.bars.iter().filter(|b| b.base != 0).collect();
    let names: Vec<String> = bars.iter().map(|b| b.space_name()).collect();
    let found: Vec<Found<'_>> = bars
        .iter()
        .zip(&names)
        .map(|(b, name)| Found {
            name,
            bytes: b.bytes,
            ports: b.ports,
            // What the map does not call a framebuffer is none; without a map, what the function says of itself counts.
            plain: match map {
                Some(map) => map.framebuffers().contains(name),
                None => b.prefetchable,
            },
        })
        .collect();
    let numbers = numbers(&found, map).ok_or(PciError::NoWindow { address })?;
    let mut windows = Vec::new();
    let mut ways: Vec<Option<Way>> = Vec::new();
    for ((bar, found), number) in bars.iter().zip(&found).zip(numbers) {
        let path = format!("{}/resource{}", address.folder(), bar.number);
        let file = host
            .open(path, true)
            .map_err(|source| PciError::Host { address, source })?;
        let way = if bar.ports {
            let bytes = bar.bytes;
            Way::Ports { file, bytes }
        } else {
            // The kernel maps whole pages; a window that begins inside one does so in the mapping, too.
            let mapped = Mapping::of(&file, bar.base % trace_core::PAGE_SIZE as u64, bar.bytes);
            Way::Memory(mapped.map_err(|source| PciError::Map {
                address,
                bar: bar.number,
                source,
            })?)
        };
        let at = usize::from(number);
        if ways.len() <= at {
            ways.resize_with(at + 1, || None);
        }
        if let Some(place) = ways.get_mut(at) {
            *place = Some(way);
        }
        windows.push(Window {
            number,
            name: found.name.to_owned(),
            kind: found.kind(),
            bytes: bar.bytes,
        });
    }
    windows.sort_by_key(|w| w.number);
    Ok((windows, ways))
}

/// Reads a port; `None` where it is not one of the window's.
fn port_in(file: &File, bytes: u64, offset: u64, width: u8) -> Option<std::io::Result<u64>> {
    let mut value = [0; 8];
    let to = value.get_mut(..port(bytes, offset, width)?)?;
    Some(file.read_exact_at(to, offset).map(|()| u64::from_le_bytes(value)))
}

fn port_out(file: &File, bytes: u64, offset: u64, width: u8, value: u64) -> Option<std::io::Result<()>> {
    let value = value.to_le_bytes();
    let from = value.get(..port(bytes, offset, width)?)?;
    Some(file.write_all_at(from, offset))
}

/// Bytes of an access to a port that is aligned and in its window.
fn port(bytes: u64, offset: u64, width: u8) -> Option<usize> {
    let end = offset.checked_add(width.into())?;
    let sound = matches!(width, 1 | 2 | 4) && end <= bytes && offset.is_multiple_of(width.into());
    sound.then_some(width.into())
}

impl Device for PciBoard {
    #[inline]
    fn read(&mut self, number: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        if number == space::ARENA {
            let value = self.memory.read(offset, width);
            return value.ok_or_else(|| self.refusal(number, offset, width));
        }
        self.memory.settle();
        let value = match self.ways.get(usize::from(number)) {
            Some(Some(Way::Memory(mapping))) => mapping.read(offset, width),
            Some(Some(Way::Ports { file, bytes })) => match port_in(file, *bytes, offset, width) {
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
            Some(Some(Way::Memory(mapping))) => mapping.write(offset, width, value),
            Some(Some(Way::Ports { file, bytes })) => match port_out(file, *bytes, offset, width, value) {
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
        self.memory.order();
        let came = self.interrupts.wait(&self.config, Duration::from_nanos(limit_ns));
        self.ticks.look();
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

impl Board for PciBoard {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn reset(&mut self) -> Result<(), BoardError> {
        self.trouble = None;
        self.config.answers()?;
        self.config.quiet()?;
        if self.function.resets {
            let address = self.function.address;
            let path = format!("{}/reset", address.folder());
            self.host
                .write(path, "1")
                .map_err(|source| PciError::Host { address, source })?;
            self.config.answers()?;
        }
        self.config.restore(&self.header)?;
        self.memory.clear()?;
        self.ticks.look();
        Ok(())
    }

    fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), BoardError> {
        self.memory.store_page(frame, page)
    }

    fn store_bytes(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), BoardError> {
        self.memory.store(at, bytes)
    }

    fn load_page(&mut self, frame: u64, page: &mut Page) -> Result<(), BoardError> {
        self.memory.load(frame, page)
    }

    fn content_frames(&mut self) -> Option<Vec<u64>> {
        self.memory.content()
    }

    fn load_window(&mut self, number: u8, offset: u64, to: &mut [u8]) -> Result<(), BoardError> {
        let loaded = match self.ways.get(usize::from(number)) {
            Some(Some(Way::Memory(mapping))) => mapping.load(offset, to),
            _ => None,
        };
        let end = offset.saturating_add(to.len() as u64);
        loaded.ok_or_else(|| BoardError::Failed(format!("window {number} has no memory from {offset:#x} to {end:#x}")))
    }

    fn screen(&mut self) -> Result<Option<Picture>, BoardError> {
        let Some(mut display) = self.display.take() else {
            return Ok(None);
        };
        let mode = display.look(|offset, width| self.read(space::REGISTERS, offset.into(), width));
        let picture = mode.map_err(|e| BoardError::Failed(format!("the display registers: {e:?}")));
        let picture = picture.and_then(|mode| {
            let name = display.framebuffer();
            let window = self.info.windows.iter().find(|w| w.name == name).cloned();
            let window = window.ok_or_else(|| BoardError::Failed(format!("the device has no window {name}")))?;
            let load = |at: u64, row: &mut [u8]| self.load_window(window.number, at, row);
            let picture = display.picture(&mode, window.bytes, load);
            picture.map_err(|e| BoardError::Failed(e.to_string()))
        });
        self.display = Some(display);
        picture.map(Some)
    }

    fn set_bus_mastering(&mut self, on: bool) -> Result<(), BoardError> {
        self.memory.order();
        if on {
            self.memory.reached();
            self.config.command(command::MASTER, 0)?;
        } else {
            self.config.command(0, command::MASTER)?;
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

impl Drop for PciBoard {
    /// The memory goes with the board: the function must not reach it any more.
    fn drop(&mut self) {
        if let Err(e) = self.config.quiet() {
            tracing::error!("{e}");
        }
    }
}
