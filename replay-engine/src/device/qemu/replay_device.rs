//! A QEMU device as a target.

use super::error::QemuError;
use super::machine::{MEMORY_MIB, Machine, MappedBar};
use super::name::Name;
use super::process;
use super::qtest::AccessLocation;
use crate::device::windows::{FoundRegion, numbers};
use crate::device::{
    Arena, Containment, DeviceInfo, DeviceInterface, JobReport, RegisterFactory, RegisterTarget, ReplayDeviceError,
    Target, Window, space,
};
use replay_core::{Device, DeviceError, WaitResult};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trace_core::recording::{Hardware, Page, ZERO_PAGE};
use trace_core::registers::RegisterMap;
use trace_core::screen::Picture;
use trace_core::{PAGE_SIZE, PhysAddr};

/// Memory for plans: 64 MiB of the machine's memory, from 32 MiB on.
const ARENA: Arena = Arena {
    base: PhysAddr::new(32 << 20),
    pages: (64 << 20) / PAGE_SIZE as u64,
};
const _: () = assert!((96 << 20) <= MEMORY_MIB << 20, "the arena lies in memory");

/// The only interrupt line: the line of the function.
const LINE: u32 = 1;

/// Checks that QEMU is in this process's PATH.
///
/// # Errors
/// [`QemuError::Absent`], if it is not.
pub fn check_installed() -> Result<(), QemuError> {
    process::find(&search_path()).map(|_| ())
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// A window with its space number in plans.
#[derive(Clone, Copy, Debug)]
struct NumberedBar {
    number: u8,
    at: MappedBar,
}

/// A device in QEMU. It needs no guest, no kernel and no privileges, and starts in about a tenth of a second.
///
/// Immediate effects of a device model happen at an access. Effects that take time happen during waits: the machine's
/// clock runs from a wait or a pause to the next write, at the pace of real time ([`DeviceInfo::virtual_time`] is
/// false). [`Device::now_ns`] is that clock.
///
/// If QEMU ends or refuses an access, the device returns [`DeviceError::Gone`] until it is reset.
/// [`RegisterTarget::trouble`] returns the reason.
pub struct QemuReplayDevice {
    name: Name,
    /// The folders to search for programs.
    path: OsString,
    info: DeviceInfo,
    windows: Vec<NumberedBar>,
    /// `None` if it is gone, or was reset and not used since.
    machine: Option<Machine>,
    /// The reason why it is gone.
    trouble: Option<String>,
    /// Whether the machine is unchanged since its start.
    fresh: bool,
    /// Frames that may differ from zero, or `None` if the device may have written memory.
    written: Option<BTreeSet<u64>>,
    /// The last written frame.
    last: u64,
    answer_limit: Option<Duration>,
}

impl std::fmt::Debug for QemuReplayDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QemuReplayDevice({})", self.name.text())
    }
}

impl QemuReplayDevice {
    /// Starts QEMU with the device.
    ///
    /// # Errors
    /// If QEMU is not installed, does not start, does not know the device or a property, or the device is not a PCI
    /// function with a window.
    pub fn new(name: &Name) -> Result<Self, QemuError> {
        Self::with_path(name, &search_path())
    }

    /// Starts QEMU from one of the folders of `path`, with the device.
    ///
    /// # Errors
    /// Same as [`QemuReplayDevice::new`].
    pub fn with_path(name: &Name, path: &OsString) -> Result<Self, QemuError> {
        let machine = Machine::start(name, path)?;
        let map = RegisterMap::for_hardware(&Hardware::Pci(machine.function.clone()));
        let windows = windows(&machine, name, map)?;
        Ok(Self {
            name: name.clone(),
            path: path.clone(),
            info: info(&machine, name, &windows, map),
            windows,
            machine: Some(machine),
            trouble: None,
            fresh: true,
            written: Some(BTreeSet::new()),
            last: u64::MAX,
            answer_limit: None,
        })
    }

    /// Sets the maximum wait for an answer of QEMU. The default is 20 s, for a busy host.
    #[must_use]
    pub fn with_answer_limit(mut self, limit: Duration) -> Self {
        self.answer_limit = Some(limit);
        self
    }

    /// Returns a factory of such targets. The first one is created now.
    ///
    /// # Errors
    /// Same as [`QemuReplayDevice::new`].
    pub fn factory(name: &Name) -> Result<RegisterFactory, QemuError> {
        let first = Mutex::new(Some(Self::new(name)?));
        let name = name.clone();
        Ok(Arc::new(move || {
            let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let device = first.map_or_else(|| Self::new(&name), Ok)?;
            Ok(Box::new(device))
        }))
    }

    /// Returns the process id of QEMU, or `None` if it has ended, and after a reset until the device is used.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.machine.as_ref().and_then(Machine::process)
    }

    /// Returns the machine. Starts it if a reset ended it.
    fn ensure_started(&mut self) -> Result<&mut Machine, QemuError> {
        let mut machine = match self.machine.take() {
            Some(machine) => machine,
            None => Machine::start(&self.name, &self.path)?,
        };
        if let Some(limit) = self.answer_limit {
            machine.set_answer_limit(limit);
        }
        Ok(self.machine.insert(machine))
    }

    /// Runs an operation on the machine. If it fails, the machine is discarded.
    fn with<T>(&mut self, act: impl FnOnce(&mut Machine) -> Result<T, QemuError>) -> Result<T, DeviceError> {
        if self.trouble.is_some() {
            return Err(DeviceError::Gone);
        }
        self.fresh = false;
        let done = self.ensure_started().and_then(|m| act(m).map_err(|e| m.explain(e)));
        done.map_err(|e| {
            self.trouble = Some(e.to_string());
            self.machine = None;
            DeviceError::Gone
        })
    }

    /// The same for operations other than accesses.
    fn with_machine<T>(
        &mut self,
        act: impl FnOnce(&mut Machine) -> Result<T, QemuError>,
    ) -> Result<T, ReplayDeviceError> {
        self.with(act)
            .map_err(|_| ReplayDeviceError::Failed(self.describe_error()))
    }

    fn describe_error(&self) -> String {
        self.trouble.clone().unwrap_or_else(|| "QEMU is gone".to_owned())
    }

    /// Returns the destination of an access.
    fn find(&self, space: u8, offset: u64, width: u8) -> Result<AccessTarget, DeviceError> {
        let target = if space == space::ARENA {
            AccessTarget {
                at: ARENA.base.get(),
                bytes: ARENA.end() - ARENA.base,
                window: AccessLocation {
                    window: "memory",
                    offset,
                },
                ports: false,
                plain: true,
            }
        } else {
            let window = self.windows.iter().find(|w| w.number == space);
            let at = window.ok_or(DeviceError::NoSpace)?.at;
            AccessTarget {
                at: at.base,
                bytes: at.bytes,
                window: Machine::place(&at, offset),
                ports: at.ports,
                plain: at.plain,
            }
        };
        // Port accesses are at most 4 bytes wide.
        if !matches!((width, target.ports), (1 | 2 | 4, _) | (8, false)) {
            return Err(DeviceError::OutOfRange);
        }
        let end = offset.checked_add(u64::from(width));
        if end.is_none_or(|end| end > target.bytes) {
            return Err(DeviceError::OutOfRange);
        }
        if !offset.is_multiple_of(u64::from(width)) {
            return Err(DeviceError::Misaligned);
        }
        Ok(AccessTarget {
            at: target.at.saturating_add(offset),
            ..target
        })
    }

    /// Notes that a frame was written.
    fn note(&mut self, frame: u64) {
        if self.last != frame {
            self.last = frame;
            if let Some(written) = &mut self.written {
                written.insert(frame);
            }
        }
    }

    fn in_arena(frame: u64) -> Result<PhysAddr, ReplayDeviceError> {
        let at = frame.checked_mul(PAGE_SIZE as u64).map(PhysAddr::new);
        at.filter(|at| ARENA.contains(*at))
            .ok_or(ReplayDeviceError::OutsideArena { frame })
    }
}

/// The destination of an access.
#[derive(Clone, Copy)]
struct AccessTarget {
    /// Bus address, or port.
    at: u64,
    /// Length of the window, bytes.
    bytes: u64,
    window: AccessLocation,
    ports: bool,
    plain: bool,
}

/// Returns the function's windows with their space numbers.
fn windows(machine: &Machine, name: &Name, map: Option<&RegisterMap>) -> Result<Vec<NumberedBar>, QemuError> {
    let found: Vec<FoundRegion<'_>> = machine.windows.iter().map(MappedBar::as_found_region).collect();
    let numbers = numbers(&found, map).ok_or_else(|| QemuError::NoWindow {
        device: name.text().to_owned(),
    })?;
    let windows = machine.windows.iter().zip(numbers);
    let mut all: Vec<NumberedBar> = windows.map(|(at, number)| NumberedBar { number, at: *at }).collect();
    all.sort_by_key(|w| w.number);
    Ok(all)
}

fn info(machine: &Machine, name: &Name, windows: &[NumberedBar], map: Option<&RegisterMap>) -> DeviceInfo {
    let window = |w: &NumberedBar| Window {
        number: w.number,
        name: w.at.name().to_owned(),
        kind: w.at.as_found_region().kind(),
        bytes: w.at.bytes,
    };
    let f = &machine.function;
    DeviceInfo {
        name: name.text().to_owned(),
        description: format!(
            "{} ({:04x}:{:04x}) as QEMU {} emulates it",
            name.device(),
            f.vendor,
            f.device,
            machine.version()
        ),
        gpu_id: 0,
        gpu_name: name.device().to_owned(),
        register_map: map.map_or_else(String::new, |m| m.name().to_owned()),
        containment: Containment::Software,
        hardware: Some(Hardware::Pci(f.clone())),
        windows: windows.iter().map(window).collect(),
        arena: ARENA,
        interface: DeviceInterface::Registers,
        virtual_time: false,
        computes: false,
    }
}

impl Device for QemuReplayDevice {
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        let t = self.find(space, offset, width)?;
        let value = self.with(|m| match t.ports {
            true => m.qtest.port_in(t.at, width, t.window),
            false => m.qtest.read(PhysAddr::new(t.at), width, t.window),
        })?;
        Ok(value & replay_core::width_mask(width))
    }

    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        let t = self.find(space, offset, width)?;
        if space == space::ARENA {
            self.note(PhysAddr::new(t.at).frame());
        }
        let value = value & replay_core::width_mask(width);
        self.with(|m| {
            m.stop_clock()?;
            if t.ports {
                m.qtest.port_out(t.at, width, value, t.window)
            } else if t.plain {
                let bytes = value.to_le_bytes();
                m.qtest.store(
                    PhysAddr::new(t.at),
                    bytes.get(..usize::from(width)).unwrap_or_default(),
                    t.window,
                )
            } else {
                m.qtest.write(PhysAddr::new(t.at), width, value, t.window)
            }
        })
    }

    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        let limit = Duration::from_nanos(limit_ns);
        if lines & LINE == 0 {
            self.pause(limit_ns)?;
            return Ok(WaitResult::TimedOut);
        }
        Ok(match self.with(|m| m.wait_interrupt(limit))? {
            true => WaitResult::Raised { lines: LINE },
            false => WaitResult::TimedOut,
        })
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        self.with(Machine::run_clock)?;
        std::thread::sleep(Duration::from_nanos(ns));
        Ok(())
    }

    fn now_ns(&mut self) -> u64 {
        self.machine.as_ref().map_or(0, Machine::now_ns)
    }
}

impl Target for QemuReplayDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    /// Ends QEMU. It starts again at the next use. The reset of a device model itself keeps memory and some registers.
    /// A machine that was not used since its start is kept.
    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        let alive = self.process().is_some();
        if self.fresh && alive {
            return Ok(());
        }
        self.machine = None;
        self.trouble = None;
        self.written = Some(BTreeSet::new());
        self.last = u64::MAX;
        Ok(())
    }
}

impl RegisterTarget for QemuReplayDevice {
    fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), ReplayDeviceError> {
        self.store_bytes(Self::in_arena(frame)?, page)
    }

    fn store_bytes(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), ReplayDeviceError> {
        let frame = at.frame();
        Self::in_arena(frame)?;
        if at.in_page().saturating_add(bytes.len()) > PAGE_SIZE {
            return Err(ReplayDeviceError::OutsideArena {
                frame: frame.saturating_add(1),
            });
        }
        self.note(frame);
        let place = AccessLocation {
            window: "memory",
            offset: at.get().saturating_sub(ARENA.base.get()),
        };
        self.with_machine(|m| {
            m.stop_clock()?;
            m.qtest.store(at, bytes, place)
        })
    }

    fn load_page(&mut self, frame: u64, page: &mut Page) -> Result<(), ReplayDeviceError> {
        let at = Self::in_arena(frame)?;
        if self.trouble.is_none() && self.written.as_ref().is_some_and(|w| !w.contains(&frame)) {
            *page = ZERO_PAGE;
            return Ok(());
        }
        let place = AccessLocation {
            window: "memory",
            offset: at.get().saturating_sub(ARENA.base.get()),
        };
        self.with_machine(|m| m.qtest.load(at, page, place))
    }

    fn content_frames(&mut self) -> Option<Vec<u64>> {
        self.written.as_ref().map(|w| w.iter().copied().collect())
    }

    fn load_window(&mut self, number: u8, offset: u64, to: &mut [u8]) -> Result<(), ReplayDeviceError> {
        let bytes = to.len() as u64;
        let failed =
            |e| ReplayDeviceError::Failed(format!("MMIO region {number}, {bytes} bytes at {offset:#x}: {e:?}"));
        let Some(last) = bytes.checked_sub(1).and_then(|n| offset.checked_add(n)) else {
            return Ok(());
        };
        // Both ends are in the window, so everything between them is too.
        let t = self.find(number, offset, 1).map_err(failed)?;
        self.find(number, last, 1).map_err(failed)?;
        if !t.plain {
            return Err(failed(DeviceError::NoSpace));
        }
        self.with_machine(|m| {
            m.stop_clock()?;
            m.qtest.load(PhysAddr::new(t.at), to, t.window)
        })
    }

    fn screen(&mut self) -> Result<Option<Picture>, ReplayDeviceError> {
        self.with_machine(Machine::screen)
    }

    fn set_bus_mastering(&mut self, on: bool) -> Result<(), ReplayDeviceError> {
        if on {
            self.written = None;
        } else if self.machine.is_none() {
            // A machine that is gone or was reset does no bus mastering.
            return Ok(());
        }
        self.with_machine(|m| m.set_bus_mastering(on))
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    fn take_job_reports(&mut self) -> Vec<JobReport> {
        Vec::new()
    }
}
