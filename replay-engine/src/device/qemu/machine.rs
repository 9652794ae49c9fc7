//! A QEMU machine with the device: started, its windows assigned, its clock stopped.
//!
//! The processor starts from 64 KiB of memory with one loop around `hlt`; it accesses nothing. QEMU starts stopped, so
//! its clock does not advance: device models execute accesses at once, but timers and transfers wait. The clock runs
//! from a wait or a pause to the next write, at the pace of real time. So the same writes and reads always meet the
//! same device state, however slow the host is.

use super::error::QemuError;
use super::monitor::Monitor;
use super::name::Name;
use super::process::{Process, pair};
use super::qtest::{AccessLocation, Qtest};
use super::{answer, pci};
use crate::device::windows::FoundRegion;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace_core::recording::{Bar, PciFunction};
use trace_core::screen::Picture;

/// Size of the machine's memory, MiB.
pub(super) const MEMORY_MIB: u64 = 128;
/// Size of the processor's start memory, bytes: the minimum that QEMU accepts.
const START_BYTES: usize = 64 << 10;
/// Maximum size of a picture file, bytes.
const PICTURE_BYTES: u64 = 512 << 20;
/// Offset of the processor's first instruction, and the loop: no interrupts, halt, again.
const START_AT: usize = 0xfff0;
const HALT: [u8; 4] = [0xfa, 0xf4, 0xeb, 0xfc];

/// A window of the function.
#[derive(Clone, Copy, Debug)]
pub(super) struct MappedBar {
    /// Number of its base address register.
    pub bar: u8,
    pub base: u64,
    pub bytes: u64,
    pub ports: bool,
    /// Whether it is plain memory.
    pub plain: bool,
}

impl MappedBar {
    /// Returns its name, `bar2`.
    pub fn name(&self) -> &'static str {
        pci::BAR_NAMES.get(usize::from(self.bar)).copied().unwrap_or("bar")
    }

    /// Returns the form that the window rule uses.
    pub fn as_found_region(&self) -> FoundRegion<'static> {
        FoundRegion {
            name: self.name(),
            bytes: self.bytes,
            ports: self.ports,
            plain: self.plain,
        }
    }
}

/// A running QEMU.
pub(super) struct Machine {
    pub qtest: Qtest,
    monitor: Monitor,
    process: Process,
    pub function: PciFunction,
    pub windows: Vec<MappedBar>,
    /// Start time of the running clock, or `None` while it is stopped.
    running: Option<Instant>,
    /// Total earlier run time of the clock.
    ran: Duration,
}

/// Creates a folder that only this user can access. It is deleted on drop.
fn private_folder() -> Result<TempDir, QemuError> {
    let made = tempfile::Builder::new()
        .prefix("kinescope-qemu-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir();
    made.map_err(|source| QemuError::System {
        doing: "no temporary folder could be made",
        source,
    })
}

fn arguments(name: &Name, start: &OsStr) -> Vec<OsString> {
    let memory = MEMORY_MIB.to_string();
    let device = format!("{},id=device,addr={:02x}.0", name.text(), pci::SLOT);
    let mut all: Vec<OsString> = [
        "-no-user-config",
        "-nodefaults",
        "-no-reboot",
        "-S",
        "-machine",
        "pc,pit=off,hpet=off,usb=off",
        "-accel",
        "tcg,thread=single",
        "-cpu",
        "qemu64",
        "-smp",
        "1",
        "-m",
        &memory,
        "-vga",
        "none",
        "-display",
        "none",
        "-nic",
        "none",
        // A device model with a vulnerability can then start no program and gain no privileges.
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        "-chardev",
        "socket,id=qtest,fd=0",
        "-qtest",
        "chardev:qtest",
        "-qtest-log",
        "none",
        "-chardev",
        "socket,id=monitor,fd=1",
        "-mon",
        "chardev=monitor,mode=control",
        "-device",
        &device,
        "-bios",
    ]
    .map(OsString::from)
    .to_vec();
    all.push(start.to_owned());
    all
}

impl Machine {
    /// Starts QEMU with the device. `path` holds the folders to search for programs.
    pub fn start(name: &Name, path: &OsStr) -> Result<Self, QemuError> {
        let folder = private_folder()?;
        let start = folder.path().join("halt.bin");
        let mut bytes = vec![0; START_BYTES];
        if let Some(at) = bytes.get_mut(START_AT..START_AT + HALT.len()) {
            at.copy_from_slice(&HALT);
        }
        std::fs::write(&start, &bytes).map_err(|source| QemuError::System {
            doing: "the start code of QEMU's processor could not be written",
            source,
        })?;
        let (qtest, theirs) = pair()?;
        let (monitor, theirs_too) = pair()?;
        let arguments = arguments(name, start.as_os_str());
        let process = Process::start(path, name.text(), arguments, folder.path(), theirs, theirs_too)?;
        // QEMU has read its files when its monitor answers. The folder is deleted at the end of this function.
        let met = || -> Result<_, QemuError> {
            let monitor = Monitor::new(monitor)?;
            let mut qtest = Qtest::new(qtest)?;
            qtest.intercept()?;
            let function = pci::set_up(&mut qtest, name.text())?;
            Ok((monitor, qtest, function))
        };
        let (monitor, qtest, function) = met().map_err(|e| explained(e, &process))?;
        let mut machine = Self {
            qtest,
            monitor,
            process,
            function,
            windows: Vec::new(),
            running: None,
            ran: Duration::ZERO,
        };
        let listing = machine
            .monitor
            .execute("human-monitor-command", &json!({ "command-line": "info mtree -f" }))
            .map_err(|e| machine.explain(e))?;
        let plain = answer::list_plain_ranges(listing.as_str().unwrap_or_default());
        let inside = |b: &Bar| {
            !b.ports
                && plain
                    .iter()
                    .any(|p| p.start.get() <= b.base.get() && b.end().get() <= p.end.get())
        };
        let mapped = |b: &Bar| MappedBar {
            bar: b.number,
            base: b.base.get(),
            bytes: b.bytes,
            ports: b.ports,
            plain: inside(b),
        };
        machine.windows = machine.function.bars.iter().map(mapped).collect();
        Ok(machine)
    }

    /// Sets the maximum wait for an answer.
    pub fn set_answer_limit(&mut self, limit: Duration) {
        self.qtest.set_answer_limit(limit);
        self.monitor.set_answer_limit(limit);
    }

    /// Returns QEMU's version, `10.0.2`.
    pub fn version(&self) -> &str {
        self.monitor.version()
    }

    /// Returns the process id of QEMU, or `None` if it has ended.
    pub fn process(&self) -> Option<u32> {
        self.process.id()
    }

    /// Extends an error with the process's own messages about its end.
    pub fn explain(&self, e: QemuError) -> QemuError {
        explained(e, &self.process)
    }

    /// Returns the total run time of the clock, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        let now = self.running.map_or(Duration::ZERO, |since| since.elapsed());
        u64::try_from(self.ran.saturating_add(now).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Starts the clock after all pending commands.
    pub fn run_clock(&mut self) -> Result<(), QemuError> {
        if self.running.is_none() {
            self.qtest.settle()?;
            self.monitor.execute("cont", &json!({}))?;
            self.running = Some(Instant::now());
        }
        Ok(())
    }

    /// Stops the clock, and reads the interrupts that QEMU reported while it ran.
    pub fn stop_clock(&mut self) -> Result<(), QemuError> {
        if let Some(since) = self.running.take() {
            self.monitor.execute("stop", &json!({}))?;
            self.ran = self.ran.saturating_add(since.elapsed());
            self.qtest.settle()?;
            self.qtest.wait(pci::LINE, Duration::ZERO)?;
        }
        Ok(())
    }

    /// Waits until the function's interrupt is raised, at most `limit`. The clock runs meanwhile, and continues after a
    /// timeout.
    pub fn wait_interrupt(&mut self, limit: Duration) -> Result<bool, QemuError> {
        self.qtest.settle()?;
        if self.qtest.wait(pci::LINE, Duration::ZERO)? {
            return Ok(true);
        }
        self.run_clock()?;
        let raised = self.qtest.wait(pci::LINE, limit)?;
        if raised {
            self.stop_clock()?;
        }
        Ok(raised)
    }

    /// Switches bus mastering on or off.
    pub fn set_bus_mastering(&mut self, on: bool) -> Result<(), QemuError> {
        self.stop_clock()?;
        pci::set_bus_mastering(&mut self.qtest, on)
    }

    /// Returns the picture that the device shows, or `None` if it has no screen.
    pub fn screen(&mut self) -> Result<Option<Picture>, QemuError> {
        self.stop_clock()?;
        self.qtest.settle()?;
        let folder = private_folder()?;
        let file = folder.path().join("screen.ppm");
        // The monitor uses JSON, whose strings are Unicode.
        let name = file.to_str().ok_or_else(|| QemuError::System {
            doing: "the temporary folder's name",
            source: std::io::Error::new(ErrorKind::InvalidInput, "it is not Unicode"),
        })?;
        match self.monitor.execute("screendump", &json!({ "filename": name })) {
            Ok(_) => {}
            Err(QemuError::Monitor { reason, .. }) if reason.contains("no console") => return Ok(None),
            Err(e) => return Err(e),
        }
        let mut bytes = Vec::new();
        let read = File::open(&file).and_then(|f| f.take(PICTURE_BYTES).read_to_end(&mut bytes));
        read.map_err(|source| QemuError::System {
            doing: "the picture of the screen could not be read",
            source,
        })?;
        Ok(Some(Picture::from_ppm(&bytes)?))
    }

    /// Returns the location of an access, for messages.
    pub fn place(window: &MappedBar, offset: u64) -> AccessLocation {
        AccessLocation {
            window: window.name(),
            offset,
        }
    }
}

fn explained(e: QemuError, process: &Process) -> QemuError {
    match e {
        QemuError::Ended { .. } => process.end(),
        e => e,
    }
}
