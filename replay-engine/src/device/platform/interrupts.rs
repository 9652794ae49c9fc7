//! The interrupts of a device-tree device: forwarded by the kernel, or polled in its status registers.

use crate::device::mapping::Mapping;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};
use trace_core::registers::{RegisterMap, Role};

/// Polling interval of a status register.
const STEP: Duration = Duration::from_micros(100);

/// How a device's interrupts are received.
#[derive(Debug)]
pub(super) enum Interrupts {
    /// Through a file that becomes readable on an interrupt. Writing 1 to it unmasks the interrupt. It is line 0.
    File(File),
    /// By polling registers that show the unmasked state of a line. Each entry is the line and the register offset.
    Status(Vec<(u32, u32)>),
    /// Not available.
    None,
}

/// Returns the registers of a map that show whether a line is active.
pub(super) fn status_registers(map: &RegisterMap) -> Vec<(u32, u32)> {
    let line = |role: &Role| match role {
        Role::IrqStatus(line) => Some(*line as u32),
        Role::InterruptStatus => Some(0),
        _ => None,
    };
    map.registers()
        .filter_map(|r| Some((line(r.replay.role.as_ref()?)?, r.offset.get())))
        .collect()
}

impl Interrupts {
    /// Returns a description for the user.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::File(_) => "interrupts by UIO",
            Self::Status(_) => "interrupts by polling its status registers",
            Self::None => "no interrupts",
        }
    }

    /// Returns the requested lines that are active now.
    fn up(list: &[(u32, u32)], registers: &Mapping, lines: u32) -> u32 {
        let mut up = 0;
        for (line, offset) in list {
            let bit = 1u32.checked_shl(*line).unwrap_or(0);
            if bit & lines != 0 && registers.read(u64::from(*offset), 4).is_some_and(|v| v != 0) {
                up |= bit;
            }
        }
        up
    }

    /// Waits until one of the lines is active, at most `limit`. Returns the active lines, or none after the limit.
    pub fn wait(&self, registers: &Mapping, lines: u32, limit: Duration) -> std::io::Result<u32> {
        let start = Instant::now();
        let left = || limit.saturating_sub(start.elapsed());
        match self {
            Self::File(file) if lines & 1 != 0 => {
                let mut count = [0; 4];
                // Earlier interrupts are unmasked; a line that is still active is reported again.
                (&*file).write_all(&1i32.to_ne_bytes())?;
                loop {
                    let timeout = Timespec::try_from(left()).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
                    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&timeout)) {
                        Err(Errno::INTR) => {}
                        Err(e) => return Err(e.into()),
                        Ok(0) => return Ok(0),
                        Ok(_) => {
                            (&*file).read_exact(&mut count)?;
                            return Ok(1);
                        }
                    }
                }
            }
            Self::Status(list) => loop {
                let up = Self::up(list, registers, lines);
                if up != 0 || left().is_zero() {
                    return Ok(up);
                }
                std::thread::sleep(STEP.min(left()));
            },
            _ => {
                std::thread::sleep(limit);
                Ok(0)
            }
        }
    }
}
