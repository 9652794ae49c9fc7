//! One change of the machine: what it was before, and how it is undone. Undoing twice, or what was never done, does
//! nothing.

use crate::kernel::{Kernel, link_name, text};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::time::Duration;

/// Time between two tries of what the kernel says is busy, and how many there are: ten seconds.
const TICK: Duration = Duration::from_millis(50);
const TRIES: u32 = 200;
/// Tries after which a process that was asked to end is killed: three seconds.
const PATIENCE: u32 = 60;
/// What the kernel shows where no driver is prescribed.
pub(crate) const NO_OVERRIDE: &str = "(null)";

/// A change of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// Another text was written to a file of the kernel's.
    Written {
        /// The file.
        path: String,
        /// What is to be in it again.
        before: String,
    },
    /// A folder was made: an instance of the tracer.
    Folder {
        /// The folder.
        path: String,
    },
    /// A probe was put into the kernel.
    Probe {
        /// The file that lists probes.
        list: String,
        /// Its group and name, `kinescope/ioremap`.
        name: String,
    },
    /// A device was taken from its driver.
    Unbound {
        /// The folder of the bus, `/sys/bus/pci`.
        bus: String,
        /// The driver.
        driver: String,
        /// The device's name on the bus.
        device: String,
    },
    /// A device was given to a driver.
    Bound {
        /// The folder of the bus.
        bus: String,
        /// The driver.
        driver: String,
        /// The device's name on the bus.
        device: String,
    },
    /// A module was loaded.
    Module {
        /// Its name, with `_`.
        name: String,
    },
    /// A process was started.
    Process {
        /// Its number.
        pid: u32,
        /// When it was started, in the kernel's ticks: numbers are used again.
        started: u64,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written { path, before } => write!(f, "writing `{}` back to {path}", before.trim()),
            Self::Folder { path } => write!(f, "removing {path}"),
            Self::Probe { list, name } => write!(f, "taking the probe {name} out of {list}"),
            Self::Unbound { driver, device, .. } => write!(f, "binding {device} to {driver} again"),
            Self::Bound { driver, device, .. } => write!(f, "unbinding {device} from {driver}"),
            Self::Module { name } => write!(f, "taking the module {name} out"),
            Self::Process { pid, .. } => write!(f, "ending process {pid}"),
        }
    }
}

/// Whether the kernel says that something is used just now.
fn is_busy(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::BUSY | Errno::AGAIN)
    )
}

/// Tries until the kernel does not say that it is busy.
fn patiently(kernel: &dyn Kernel, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..TRIES {
        match work() {
            Err(e) if is_busy(&e) => kernel.pause(TICK),
            other => return other,
        }
    }
    work()
}

/// The driver that a device is bound to.
pub(crate) fn driver_of(kernel: &dyn Kernel, bus: &str, device: &str) -> Option<String> {
    link_name(kernel, &format!("{bus}/devices/{device}/driver"))
}

/// Whether a module is loaded.
pub(crate) fn is_loaded(kernel: &dyn Kernel, module: &str) -> bool {
    let all = kernel.read("/proc/modules").unwrap_or_default();
    all.lines().any(|l| l.split(' ').next() == Some(module))
}

/// When a process was started; `None` when it has ended.
pub(crate) fn started(kernel: &dyn Kernel, pid: u32) -> Option<u64> {
    let stat = text(kernel, &format!("/proc/{pid}/stat"))?;
    // Its name stands in brackets and may hold anything; the state is the first field behind it, the start the 20th.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

impl Change {
    /// Undoes it.
    ///
    /// # Errors
    /// When the kernel does not let it be undone; trying again later does no harm.
    pub fn undo(&self, kernel: &dyn Kernel) -> io::Result<()> {
        match self {
            Self::Written { path, before } => {
                let now = text(kernel, path);
                if now.is_some_and(|n| n == before.trim()) {
                    return Ok(());
                }
                let before = if before.trim() == NO_OVERRIDE { "\n" } else { before };
                patiently(kernel, || kernel.write(path, before))
            }
            Self::Folder { path } => match kernel.exists(path) {
                true => patiently(kernel, || kernel.remove_folder(path)),
                false => Ok(()),
            },
            Self::Probe { list, name } => {
                let there = kernel.read(list)?;
                let is_it = |l: &str| {
                    l.split_once(':')
                        .is_some_and(|(_, rest)| rest.split(' ').next() == Some(name))
                };
                if !there.lines().any(is_it) {
                    return Ok(());
                }
                patiently(kernel, || kernel.write(list, &format!("-:{name}\n")))
            }
            Self::Unbound { bus, driver, device } => match driver_of(kernel, bus, device) {
                Some(now) if now == *driver => Ok(()),
                Some(now) => Err(io::Error::other(format!("it is bound to {now}, by somebody else"))),
                None => patiently(kernel, || kernel.write(&format!("{bus}/drivers/{driver}/bind"), device)),
            },
            Self::Bound { bus, driver, device } => match driver_of(kernel, bus, device) {
                Some(now) if now == *driver => kernel.write(&format!("{bus}/drivers/{driver}/unbind"), device),
                _ => Ok(()),
            },
            Self::Module { name } => patiently(kernel, || match is_loaded(kernel, name) {
                true => kernel.unload(name),
                false => Ok(()),
            }),
            Self::Process { pid, started: at } => {
                for n in 0..TRIES {
                    if started(kernel, *pid) != Some(*at) {
                        return Ok(());
                    }
                    if n == 0 || n == PATIENCE {
                        match kernel.end(*pid, n > 0) {
                            Err(e) if e.raw_os_error() != Some(Errno::SRCH.raw_os_error()) => return Err(e),
                            _ => {}
                        }
                    }
                    kernel.pause(TICK);
                }
                Err(Errno::BUSY.into())
            }
        }
    }
}
