//! Semaphores that recorded work waits for although no recorded work is known to release them: the program's CPU wrote
//! their values, which no request shows.

use nvidia_channel::command::{Command, Semaphore, SemaphoreOperation, Upload};
use nvidia_channel::launch::Launch;
use nvidia_channel::qmd::Qmd;
use std::collections::{HashMap, HashSet};
use std::fmt;
use trace_core::GpuVa;

/// Maximum number of bytes of an upload whose words are values of semaphores.
const MAX_VALUE_BYTES: usize = 64;
/// Name of the reduction that adds.
const ADD: &str = "RED_ADD";
/// Field of descriptors that wait until a kernel or another descriptor schedules them.
const REQUIRE_SCHEDULING: &str = "REQUIRE_SCHEDULING_PCAS";

/// Waits for values that are not known to be written. Such a submission may never complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownWaits {
    /// Event of the first submission that waits.
    pub event: u64,
    va: GpuVa,
    value: u64,
    /// Number of waits.
    count: u64,
}

impl fmt::Display for UnknownWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { va, value, count, .. } = self;
        write!(
            f,
            "values that the program's CPU wrote to semaphores are not recorded: {count} waits, the first for {value:#x} at \
             {va}, may never end"
        )
    }
}

/// Follows the values of semaphores through submissions, one after another.
#[derive(Debug, Default)]
pub(crate) struct SemaphoreValues {
    /// Values that are known, by address.
    known: HashMap<u64, u64>,
    /// Semaphores that launches count in which kernels schedule: no command shows when they run again.
    scheduled: HashSet<u64>,
    unknown: Option<UnknownWaits>,
}

impl SemaphoreValues {
    /// Takes the commands of the next submission.
    pub fn follow(&mut self, event: u64, commands: &[Command]) {
        for command in commands {
            match command {
                Command::Semaphore(semaphore) => self.take(event, semaphore),
                Command::Copy(copy) => copy.semaphore.iter().for_each(|s| self.take(event, s)),
                Command::Upload(upload) => {
                    self.write(upload);
                    upload.semaphore.iter().for_each(|s| self.take(event, s));
                }
                Command::Launch(launch) => self.launch(launch),
                Command::UnreadableLaunch(_) => {}
            }
        }
    }

    /// Returns the waits for values that are not known, or `None` without such a wait.
    pub fn unknown(&self) -> Option<UnknownWaits> {
        self.unknown
    }

    /// Takes the words of a short upload: graphs of CUDA's driver set their counters so.
    fn write(&mut self, upload: &Upload) {
        if upload.lines != 1 || upload.bytes.len() > MAX_VALUE_BYTES {
            return;
        }
        let addresses = (upload.address.0..).step_by(4);
        for (address, word) in addresses.zip(upload.bytes.as_chunks::<4>().0) {
            self.known.insert(address, u64::from(u32::from_le_bytes(*word)));
        }
    }

    fn launch(&mut self, launch: &Launch) {
        let descriptor = Qmd::parse(&launch.descriptor, Some(launch.class)).ok();
        let is_scheduled = descriptor.and_then(|d| d.field(REQUIRE_SCHEDULING)) == Some(1);
        for release in &launch.releases {
            let address = release.address.0;
            let before = self.known.get(&address).copied().unwrap_or(0);
            let value = match (release.reduction, release.words) {
                (None, _) => Some(release.payload),
                (Some(ADD), 1) => Some(u64::from((before as u32).wrapping_add(release.payload as u32))),
                (Some(ADD), _) => Some(before.wrapping_add(release.payload)),
                (Some(_), _) => None,
            };
            if is_scheduled && release.reduction.is_some() {
                self.scheduled.insert(address);
            }
            match value {
                Some(value) => self.known.insert(address, value),
                None => self.known.remove(&address),
            };
        }
    }

    fn take(&mut self, event: u64, semaphore: &Semaphore) {
        let (address, payload) = (semaphore.address.0, semaphore.payload);
        if semaphore.is_acquire() {
            // Memory is zero at first.
            let known = self.known.get(&address).copied().unwrap_or(0);
            if !is_satisfied(semaphore, known) && self.scheduled.contains(&address) {
                self.known.insert(address, payload);
            } else if !is_satisfied(semaphore, known) {
                let first = UnknownWaits {
                    event,
                    va: GpuVa::new(address),
                    value: payload,
                    count: 0,
                };
                self.unknown.get_or_insert(first).count += 1;
                self.known.insert(address, payload);
            }
            return;
        }
        match semaphore.operation {
            SemaphoreOperation::Release => self.known.insert(address, payload),
            _ => self.known.remove(&address),
        };
    }
}

/// Whether the wait for a semaphore ends with this value.
fn is_satisfied(semaphore: &Semaphore, value: u64) -> bool {
    let payload = semaphore.payload;
    match semaphore.operation {
        SemaphoreOperation::Acquire => value == payload,
        SemaphoreOperation::AcquireGreaterEqual => value >= payload,
        SemaphoreOperation::AcquireCircularGreaterEqual if semaphore.wide => {
            value.wrapping_sub(payload).cast_signed() >= 0
        }
        SemaphoreOperation::AcquireCircularGreaterEqual => {
            (value as u32).wrapping_sub(payload as u32).cast_signed() >= 0
        }
        SemaphoreOperation::AcquireAnd => value & payload != 0,
        SemaphoreOperation::AcquireNor => value | payload == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
