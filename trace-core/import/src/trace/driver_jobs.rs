//! Jobs of GPU drivers from their trace events: submits and ends become events of the recording, which name one
//! another.

use super::device::Function;
use super::driver::Driver;
use super::driver_events::DriverEvent;
use super::mmio_regions::{Extent, MmioRegions, Owner};
use super::names::Names;
use super::rows::{AccessTarget, Rows};
use std::collections::HashMap;
use trace_core::GpuVa;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{InterruptLine, InterruptRow, PciFunction, SubmitRow};

/// Bit of an interrupt line that distinguishes the interrupts of driver events from those of the machine.
pub(super) const DRIVER_LINE: u32 = 1 << 31;
/// Start of a note about a reset.
const RESET: &str = trace_core::recording::Identity::RESET_NOTE;
/// Maximum number of rings, of devices, and of jobs that have not ended.
const MAX_RINGS: usize = 250;
const MAX_DEVICES: usize = 64;
const MAX_RUNNING: usize = 1 << 20;
/// Start of a note about a job that hangs.
const HANG: &str = trace_core::recording::Identity::HANG_NOTE;
/// Maximum number of incidents whose times are listed.
const MAX_TIMES: usize = 8;

/// A device whose registers a driver accesses.
#[derive(Clone, Debug)]
struct RegisterDevice {
    driver: Driver,
    /// Device id and the number of its name, as the events have them.
    id: (u16, Option<u16>),
    window: Option<u16>,
    function: Function,
}

/// Resets, hangs or faults: the times of the first ones, and their number.
#[derive(Clone, Debug, Default)]
struct Incidents {
    times: Vec<u64>,
    count: u64,
}

impl Incidents {
    fn add(&mut self, time: u64) {
        self.count += 1;
        if self.times.len() < MAX_TIMES {
            self.times.push(time);
        }
    }

    /// Returns a finding about them, or `None` if there are none. `singular` and `plural` say what they are.
    fn finding(&self, singular: &str, plural: &str, is_ticks: bool) -> Option<Finding> {
        let of = |t: &u64| match is_ticks {
            true => format!("tick {t}"),
            false => format!("{}.{:06} s", t / 1_000_000_000, t / 1000 % 1_000_000),
        };
        let all: Vec<String> = self.times.iter().map(of).collect();
        let more = if self.count > all.len() as u64 { " …" } else { "" };
        let subject = if self.count == 1 { singular } else { plural };
        let message = format!("{} {subject}, at {}{more}", self.count, all.join(", "));
        (self.count > 0).then(|| Finding::new(FindingKind::DriverError, "jobs", message))
    }
}

/// The jobs and devices of a log so far.
#[derive(Clone, Debug, Default)]
pub(super) struct DriverJobs {
    /// Rings by the number of the job slot.
    rings: Vec<(Driver, u16)>,
    /// Numbers of the jobs that have not ended, by key.
    running: HashMap<u64, u32>,
    submits: u32,
    interrupts: u64,
    /// Ends of jobs that the log does not begin.
    unknown_ends: u64,
    devices: Vec<RegisterDevice>,
    /// Number of events by driver.
    drivers: HashMap<Driver, u64>,
    resets: Incidents,
    hangs: Incidents,
    faults: Incidents,
}

impl DriverJobs {
    /// Whether the log has jobs, or events about them.
    pub(super) fn is_empty(&self) -> bool {
        let incidents = self.resets.count + self.hangs.count + self.faults.count;
        self.submits == 0 && incidents == 0 && self.interrupts == 0 && self.unknown_ends == 0
    }

    /// Whether the log has register accesses of a driver's own events.
    pub(super) fn has_registers(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Handles an event. `numbers` are those of its names in the list of the log; `first_function` is the number of the
    /// first function of these devices.
    pub(super) fn take(
        &mut self,
        time: u64,
        event: DriverEvent,
        numbers: &[u16],
        (windows, first_function): (&mut MmioRegions, usize),
        rows: &mut Rows,
    ) {
        let of = |n: u16| numbers.get(usize::from(n)).copied().unwrap_or(0);
        let mut count = |driver: Driver| *self.drivers.entry(driver).or_insert(0) += 1;
        match event {
            DriverEvent::Register {
                driver,
                write,
                offset,
                width,
                value,
                id,
                device,
            } => {
                count(driver);
                let id = (id, device.map(of));
                let window = self.window(driver, id, windows, first_function);
                if let Some(window) = window {
                    rows.access(write, time, AccessTarget::Window(window, offset), width, value);
                } else {
                    rows.unusable.count += 1;
                }
            }
            DriverEvent::Submit {
                driver,
                ring,
                key,
                head,
            } => {
                count(driver);
                let ring = (driver, of(ring));
                let slot = self.rings.iter().position(|r| *r == ring).unwrap_or_else(|| {
                    if self.rings.len() < MAX_RINGS {
                        self.rings.push(ring);
                    }
                    self.rings.len() - 1
                });
                rows.submit(
                    time,
                    SubmitRow {
                        head_va: GpuVa::new(head),
                        address_space: 0,
                        slot: slot as u32,
                    },
                );
                if self.running.len() < MAX_RUNNING {
                    self.running.insert(key, self.submits);
                }
                self.submits = self.submits.saturating_add(1);
            }
            DriverEvent::End { driver, key, text } => match self.running.remove(&key) {
                Some(number) => {
                    count(driver);
                    rows.interrupt(
                        time,
                        InterruptRow {
                            line: DRIVER_LINE | InterruptLine::Job as u32,
                            status: number,
                        },
                    );
                }
                // Fences of other drivers end no job.
                None if driver == Driver::Scheduler && text.starts_with("dma_fence") => {}
                None => {
                    count(driver);
                    self.unknown_ends += 1;
                    rows.mark(time, text.into());
                }
            },
            DriverEvent::Interrupt { driver, status } => {
                count(driver);
                self.interrupts += 1;
                let line = DRIVER_LINE | InterruptLine::Gpu as u32;
                rows.interrupt(time, InterruptRow { line, status });
            }
            DriverEvent::Reset { driver, text } => {
                count(driver);
                self.resets.add(time);
                rows.mark(time, format!("{RESET}{text}"));
            }
            DriverEvent::Hang { driver, key, text } => {
                count(driver);
                self.hangs.add(time);
                match self.running.remove(&key) {
                    Some(number) => rows.mark(time, format!("{HANG}{number}: {text}")),
                    None => rows.mark(time, text.into()),
                }
            }
            DriverEvent::Fault { driver, text } => {
                count(driver);
                self.faults.add(time);
                rows.mark(time, text.into());
            }
            DriverEvent::Note { driver, text } => {
                count(driver);
                rows.mark(time, text.into());
            }
        }
    }

    /// Returns the window of the registers of a device.
    fn window(
        &mut self,
        driver: Driver,
        id: (u16, Option<u16>),
        windows: &mut MmioRegions,
        first_function: usize,
    ) -> Option<u16> {
        let known = self.devices.iter().position(|d| d.driver == driver && d.id == id);
        let at = known.or_else(|| {
            if self.devices.len() >= MAX_DEVICES {
                return None;
            }
            let function = Some(first_function + self.devices.len());
            let window = windows.add_separate(Owner::Accessors { function }, 0, 1, Extent::Growing);
            self.devices.push(RegisterDevice {
                driver,
                id,
                window,
                function: Function {
                    pci: PciFunction {
                        // Without the id of the device, the vendor alone names nothing.
                        vendor: if id.0 == 0 { 0 } else { driver.vendor() },
                        device: id.0,
                        ..PciFunction::default()
                    },
                    driver: driver.name().to_owned(),
                    ..Function::default()
                },
            });
            Some(self.devices.len() - 1)
        })?;
        self.devices.get(at)?.window
    }

    /// Returns the driver with the most events.
    pub(super) fn driver(&self) -> Option<Driver> {
        let all = self.drivers.iter().filter(|(d, _)| **d != Driver::Scheduler);
        all.max_by_key(|(d, n)| (**n, d.name())).map(|(d, _)| *d)
    }

    /// Returns the functions of the devices whose registers are accessed.
    pub(super) fn functions(&self, names: &Names) -> Vec<Function> {
        let of = |d: &RegisterDevice| {
            let mut function = d.function.clone();
            function.pci.address = d.id.1.map(|n| names.name(n)).unwrap_or_default();
            function
        };
        self.devices.iter().map(of).collect()
    }

    /// Returns the names of the queues, by slot.
    pub(super) fn queues(&self, names: &Names) -> Vec<String> {
        self.rings.iter().map(|(_, ring)| names.name(*ring)).collect()
    }

    /// Returns what is worth knowing about the jobs. `is_ticks`: the clock counts ticks.
    pub(super) fn findings(&self, is_ticks: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !self.rings.is_empty() {
            let message = "jobs are those that the driver's events name; their slots are the driver's queues";
            findings.push(Finding::new(FindingKind::Assumed, "jobs", message));
        }
        findings.extend(self.resets.finding("reset of the GPU", "resets of the GPU", is_ticks));
        findings.extend(self.hangs.finding("job hung", "jobs hung", is_ticks));
        findings.extend(self.faults.finding("fault of a queue", "faults of queues", is_ticks));
        if self.unknown_ends > 0 {
            let message = format!(
                "{} jobs ended that the log does not begin; they are notes",
                self.unknown_ends
            );
            findings.push(Finding::new(FindingKind::NotUsed, "jobs", message));
        }
        findings
    }
}
