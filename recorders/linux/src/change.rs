//! One change of the machine: the earlier state, and how to restore it. An undo of a change that was already undone, or
//! never made, does nothing.

use crate::kernel::{Kernel, link_name, list_names, read_trimmed};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::time::Duration;

/// Time between two attempts when the kernel reports busy, and their maximum number: ten seconds.
const TICK: Duration = Duration::from_millis(50);
const TRIES: u32 = 200;
/// Time between two polls that find nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of attempts after which a process that was asked to end is killed: three seconds.
const TRIES_BEFORE_KILL: u32 = 60;
/// The kernel's text for a device without a driver override.
pub(crate) const NO_OVERRIDE: &str = "(null)";

/// A change of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// New text was written to a file of the kernel.
    Written {
        /// The file.
        path: String,
        /// The text to restore.
        before: String,
    },
    /// A folder was created: an instance of the tracer.
    Folder {
        /// The folder.
        path: String,
    },
    /// A probe was added to the kernel.
    Probe {
        /// The file that lists probes.
        list: String,
        /// Its group and name, `kinescope/ioremap`.
        name: String,
    },
    /// A device was unbound from its driver.
    Unbound {
        /// The folder of the bus, `/sys/bus/pci`.
        bus: String,
        /// The driver.
        driver: String,
        /// The device's name on the bus.
        device: String,
    },
    /// A device was bound to a driver.
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
        /// Its start time in the kernel's ticks, because process ids are reused.
        started: u64,
    },
    /// A command was started: it and every process that it starts have this mark in their environment.
    Command {
        /// Value of [`MARK`].
        mark: String,
    },
}

/// Environment variable that identifies the processes of a recorded command, whatever session, group or parent they
/// have.
pub const MARK: &str = "KINESCOPE_RECORDING";

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written { path, before } => write!(f, "writing `{}` back to {path}", before.trim()),
            Self::Folder { path } => write!(f, "removing {path}"),
            Self::Probe { list, name } => write!(f, "removing the probe {name} from {list}"),
            Self::Unbound { driver, device, .. } => write!(f, "binding {device} to {driver} again"),
            Self::Bound { driver, device, .. } => write!(f, "unbinding {device} from {driver}"),
            Self::Module { name } => write!(f, "unloading the module {name}"),
            Self::Process { pid, .. } => write!(f, "ending process {pid}"),
            Self::Command { .. } => f.write_str("ending the command and its child processes"),
        }
    }
}

/// Returns whether the error is the kernel's report that something is busy.
fn is_busy(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::BUSY | Errno::AGAIN)
    )
}

/// Repeats `work` until the kernel does not report busy.
fn retry_while_busy(kernel: &dyn Kernel, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..TRIES {
        match work() {
            Err(e) if is_busy(&e) => kernel.pause(TICK),
            other => return other,
        }
    }
    work()
}

/// Returns the driver that a device is bound to.
pub(crate) fn find_bound_driver(kernel: &dyn Kernel, bus: &str, device: &str) -> Option<String> {
    link_name(kernel, &format!("{bus}/devices/{device}/driver"))
}

/// Returns whether a module is loaded.
pub(crate) fn is_loaded(kernel: &dyn Kernel, module: &str) -> bool {
    let all = kernel.read("/proc/modules").unwrap_or_default();
    all.lines().any(|l| l.split(' ').next() == Some(module))
}

/// Returns the start time of a process, or `None` if it has ended.
pub(crate) fn find_start_time(kernel: &dyn Kernel, pid: u32) -> Option<u64> {
    let stat = read_trimmed(kernel, &format!("/proc/{pid}/stat"))?;
    // The name is in parentheses and can hold anything; the state is the first field after it, the start time the 20th.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Returns the running processes that have a mark in their environment.
fn list_marked_processes(kernel: &dyn Kernel, mark: &str) -> Vec<(u32, u64)> {
    let wanted = format!("{MARK}={mark}");
    let all = list_names(kernel, "/proc").into_iter().filter_map(|name| {
        let pid: u32 = name.parse().ok()?;
        // An ended process has none.
        let environment = kernel.read_bytes(&format!("/proc/{pid}/environ")).ok()?;
        let has = environment.split(|b| *b == 0).any(|v| v == wanted.as_bytes());
        has.then(|| Some((pid, find_start_time(kernel, pid)?)))?
    });
    all.collect()
}

/// Ends the processes that have a mark: asks each process once, and kills those that remain after a while. A process
/// can start another between two polls, so two polls in a row must find nothing.
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
    /// Undoes the change.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses; a later retry does no harm.
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
                Some(now) => Err(io::Error::other(format!(
                    "it is bound to {now}, which this recorder did not do"
                ))),
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
    use std::time::Instant;

    /// Time after which a test counts as hung.
    const HANG_LIMIT: Duration = Duration::from_secs(60);

    /// All processes of a command end with it. This includes an orphaned process that has its own session and ignores
    /// signals.
    #[test]
    fn all_descendants_of_a_command_are_killed() {
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
        // The process that ignores signals prints a line when it is ready.
        let mut line = [0];
        io::Read::read_exact(child.stderr.as_mut().unwrap(), &mut line).unwrap();
        let since = Instant::now();
        while list_marked_processes(&kernel, &mark).len() < 4 {
            let marked = list_marked_processes(&kernel, &mark);
            assert!(since.elapsed() < HANG_LIMIT, "{marked:?}");
            std::thread::sleep(TICK);
        }
        let reaped = std::thread::spawn(move || child.wait().unwrap());
        Change::Command { mark: mark.clone() }.undo(&kernel).unwrap();
        assert_eq!(list_marked_processes(&kernel, &mark), []);
        reaped.join().unwrap();
        // A second undo finds no process, and affects no other process.
        Change::Command { mark }.undo(&kernel).unwrap();
    }
}
