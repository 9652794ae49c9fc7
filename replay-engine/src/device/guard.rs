//! Quiescing of devices when the agent ends for any reason: a guard process waits for the end of a pipe that only the
//! agent holds.
//!
//! The agent writes a line for each device that it opens. When the pipe closes, the guard disables bus mastering of
//! each PCI function and masks its interrupt. It returns every device to its original driver. The kernel also closes
//! the pipe of a killed process.

use super::host::Host;
use super::pci::{Address, restore_driver};
use super::platform;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of a line, bytes, and maximum number of lines.
const MAX_BYTES: u64 = 4096;
const MAX_LINES: usize = 4096;

/// Changes to a device's driver binding that must be undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DriverState {
    /// Whether the device was enabled.
    pub enabled: bool,
    /// The driver that it was bound to by the agent.
    pub bound: Option<String>,
    /// The driver that it was unbound from.
    pub from: Option<String>,
}

impl DriverState {
    /// Combines this state with an earlier report `before`. The later state counts, except for the original driver.
    fn after(self, before: Option<Self>) -> Self {
        let before = before.unwrap_or_default();
        Self {
            enabled: self.enabled || before.enabled,
            bound: self.bound.or(before.bound),
            from: before.from.or(self.from),
        }
    }
}

/// A device to restore at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GuardedDevice {
    /// `pci`, or the bus of a device-tree device.
    bus: String,
    /// Its name on the bus.
    name: String,
    taken: DriverState,
}

/// The agent's end of the pipe. Clones share it.
#[derive(Clone, Debug)]
pub struct Guard {
    pipe: Arc<Mutex<ChildStdin>>,
    /// Kept so that the agent can reap the process.
    _process: Arc<Mutex<Child>>,
}

impl Guard {
    /// Starts the guard process. `command` has to call [`run_guard`] with its standard input.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        // In its own process group: a terminal interrupt for the agent must not end the guard.
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut process = command.spawn()?;
        let pipe = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            pipe: Arc::new(Mutex::new(pipe)),
            _process: Arc::new(Mutex::new(process)),
        })
    }

    /// Registers a function to be quiesced and returned to its driver at the end.
    pub(super) fn watch_function(&self, address: Address, taken: &DriverState) -> io::Result<()> {
        self.watch("pci", address.to_string(), taken)
    }

    /// Registers a device of a bus to be returned to its driver at the end.
    pub(super) fn watch(&self, bus: &str, name: String, taken: &DriverState) -> io::Result<()> {
        let line = GuardedDevice {
            bus: bus.to_owned(),
            name,
            taken: taken.clone(),
        };
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.write_all(text.as_bytes())
    }
}

/// Runs the guard process: waits for the end of `pipe`, then quiesces every registered device and returns it to its
/// driver. Returns the errors, one sentence each.
#[must_use]
pub fn run_guard(mut pipe: impl BufRead, host: &Host) -> Vec<String> {
    let mut lines: Vec<GuardedDevice> = Vec::new();
    let mut wrong = Vec::new();
    loop {
        let mut text = Vec::new();
        match io::Read::take(&mut pipe, MAX_BYTES).read_until(b'\n', &mut text) {
            Ok(0) => break,
            Ok(_) => match serde_json::from_slice::<GuardedDevice>(&text) {
                Ok(line) if lines.len() < MAX_LINES => {
                    let same = |l: &GuardedDevice| (&l.bus, &l.name) == (&line.bus, &line.name);
                    let before = lines.iter().position(same).map(|at| lines.remove(at));
                    lines.push(GuardedDevice {
                        taken: line.taken.after(before.map(|l| l.taken)),
                        ..line
                    });
                }
                Ok(_) => wrong.push("more devices than can be watched".to_owned()),
                Err(e) => wrong.push(format!("a line has an unknown form: {e}")),
            },
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                wrong.push(format!("the pipe: {e}"));
                break;
            }
        }
    }
    for line in &lines {
        if line.bus != "pci" {
            wrong.extend(platform::restore_driver(host, &line.bus, &line.name, &line.taken));
        } else if let Some(address) = Address::parse(&line.name) {
            wrong.extend(restore_driver(host, address, &line.taken));
        } else {
            wrong.push(format!("`{}` is not an address", line.name));
        }
    }
    wrong
}
