//! One change of the machine: what it was before, and how it is undone. Undoing twice, or what was never done, does
//! nothing.

use crate::kernel::{Kernel, link_name, list_names, read_trimmed};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::time::Duration;

/// Time between two tries of what the kernel says is busy, and how many there are: ten seconds.
const TICK: Duration = Duration::from_millis(50);
const TRIES: u32 = 200;
/// Time between two looks that find nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Tries after which a process that was asked to end is killed: three seconds.
const TRIES_BEFORE_KILL: u32 = 60;
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
    /// A command was started: it and every process that comes of it have this mark in their environment.
    Command {
        /// What [`MARK`] is set to.
        mark: String,
    },
}

/// Variable of the environment by which the processes of a recorded command are known, whatever session or group they
/// are in and whose children they have become.
pub const MARK: &str = "KINESCOPE_RECORDING";

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
            Self::Command { .. } => f.write_str("ending the command and what it started"),
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
fn retry_while_busy(kernel: &dyn Kernel, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..TRIES {
        match work() {
            Err(e) if is_busy(&e) => kernel.pause(TICK),
            other => return other,
        }
    }
    work()
}

/// The driver that a device is bound to.
pub(crate) fn find_bound_driver(kernel: &dyn Kernel, bus: &str, device: &str) -> Option<String> {
    link_name(kernel, &format!("{bus}/devices/{device}/driver"))
}

/// Whether a module is loaded.
pub(crate) fn is_loaded(kernel: &dyn Kernel, module: &str) -> bool {
    let all = kernel.read("/proc/modules").unwrap_or_default();
    all.lines().any(|l| l.split(' ').next() == Some(module))
}

/// When a process was started; `None` when it has ended.
pub(crate) fn find_start_time(kernel: &dyn Kernel, pid: u32) -> Option<u64> {
    let stat = read_trimmed(kernel, &format!("/proc/{pid}/stat"))?;
    // Its name stands in brackets and may hold anything; the state is the first field behind it, the start the 20th.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The living processes that have a mark in their environment.
fn list_marked_processes(kernel: &dyn Kernel, mark: &str) -> Vec<(u32, u64)> {
    let wanted = format!("{MARK}={mark}");
    let all = list_names(kernel, "/proc").into_iter().filter_map(|name| {
        let pid: u32 = name.parse().ok()?;
        // One that has ended has none.
        let environment = kernel.read_bytes(&format!("/proc/{pid}/environ")).ok()?;
        let has = environment.split(|b| *b == 0).any(|v| v == wanted.as_bytes());
        has.then(|| Some((pid, find_start_time(kernel, pid)?)))?
    });
    all.collect()
}

/// Ends what has a mark: asks each process once, and kills what is still there after a while. A process that is about to
/// start another may have done so between two looks, so nothing must be found twice.
fn end_marked_processes(kernel: &dyn Kernel, mark: &str) -> io::Result<()> {
    let mut asked = Vec::new();
    let mut quiet = 0;
    for n in 0..TRIES {
        let living = list_marked_processes(kernel, mark);
        quiet = if living.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 {
            return Ok(());
        }
        for process in living {
            let kill = n >= TRIES_BEFORE_KILL;
            if !kill && asked.contains(&process) {
                continue;
            }
            asked.push(process);
            match kernel.end_process(process.0, kill) {
                Err(e) if e.raw_os_error() != Some(Errno::SRCH.raw_os_error()) => return Err(e),
                _ => {}
            }
        }
        kernel.pause(if quiet > 0 { POLL_INTERVAL } else { TICK });
    }
    Err(Errno::BUSY.into())
}

impl Change {
    /// Undoes it.
    ///
    /// # Errors
    /// When the kernel does not let it be undone; trying again later does no harm.
    pub fn undo(&self, kernel: &dyn Kernel) -> io::Result<()> {
        match self {
            Self::Written { path, before } => {
                let now = read_trimmed(kernel, path);
                if now.is_some_and(|n| n == before.trim()) {
                    return Ok(());
                }
                let before = if before.trim() == NO_OVERRIDE { "\n" } else { before };
                retry_while_busy(kernel, || kernel.write(path, before))
            }
            Self::Folder { path } => match kernel.exists(path) {
                true => retry_while_busy(kernel, || kernel.remove_folder(path)),
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
                retry_while_busy(kernel, || kernel.write(list, &format!("-:{name}\n")))
            }
            Self::Unbound { bus, driver, device } => match find_bound_driver(kernel, bus, device) {
                Some(now) if now == *driver => Ok(()),
                Some(now) => Err(io::Error::other(format!("it is bound to {now}, by somebody else"))),
                None => retry_while_busy(kernel, || kernel.write(&format!("{bus}/drivers/{driver}/bind"), device)),
            },
            Self::Bound { bus, driver, device } => match find_bound_driver(kernel, bus, device) {
                Some(now) if now == *driver => kernel.write(&format!("{bus}/drivers/{driver}/unbind"), device),
                _ => Ok(()),
            },
            Self::Module { name } => retry_while_busy(kernel, || match is_loaded(kernel, name) {
                true => kernel.unload(name),
                false => Ok(()),
            }),
            Self::Command { mark } => end_marked_processes(kernel, mark),
            Self::Process { pid, started: at } => {
                for n in 0..TRIES {
                    if find_start_time(kernel, *pid) != Some(*at) {
                        return Ok(());
                    }
                    if n == 0 || n == TRIES_BEFORE_KILL {
                        match kernel.end_process(*pid, n > 0) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Machine;
    use std::process::{Command, Stdio};

    /// Whatever a command started goes with it: in a session of its own, as nobody's child, deaf to requests.
    #[test]
    fn all_that_a_command_started_is_ended_with_it() {
        let kernel = Machine::default();
        let mark = format!("test-{}", std::process::id());
        let script =
            "setsid sh -c 'trap \"\" TERM; echo >&2; while :; do sleep 1; done' & (sleep 600 &) ; exec sleep 600";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .env(MARK, &mark)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The deaf one says when it is.
        let mut line = [0];
        io::Read::read_exact(child.stderr.as_mut().unwrap(), &mut line).unwrap();
        for _ in 0..200 {
            if list_marked_processes(&kernel, &mark).len() >= 4 {
                break;
            }
            std::thread::sleep(TICK);
        }
        assert!(
            list_marked_processes(&kernel, &mark).len() >= 4,
            "{:?}",
            list_marked_processes(&kernel, &mark)
        );
        let reaped = std::thread::spawn(move || child.wait().unwrap());
        Change::Command { mark: mark.clone() }.undo(&kernel).unwrap();
        assert_eq!(list_marked_processes(&kernel, &mark), []);
        reaped.join().unwrap();
        // Nothing is left to do, and nobody else is meant.
        Change::Command { mark }.undo(&kernel).unwrap();
    }
}
