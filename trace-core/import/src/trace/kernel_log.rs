//! The combination of ftrace lines: virtual addresses become physical, accessor entries are joined with their returns,
//! interrupts are distinguished. The results are the rows of a recording and the description of the device.

mod findings;

use super::accessors::{self, AccessorCall};
use super::driver_jobs::DriverJobs;
use super::ftrace::Head;
use super::kernel::{self, Item, KernelEvent, ParsedLine};
use super::log::{Format, Log};
use super::mmio_regions::{Extent, MmioRegions, Owner, find_mapped_range};
use super::names::Names;
use super::placement::Placement;
use super::rows::{AccessTarget, Rows};
use super::text::{self, mask};
use std::collections::{BTreeMap, HashMap};
use trace_core::recording::{Clock, DmaKind, DmaMapRow, Identity, InterruptRow, UndecodedRow};
use trace_core::{BusAddr, PhysAddr, RegOffset};

/// Maximum number of open calls of a thread, of windows of accessors, and of names of interrupts.
const MAX_OPEN_CALLS: usize = 64;
const MAX_INSTANCES: usize = 16;
const MAX_IRQS: usize = 256;
/// Maximum number of ranges of virtual addresses.
const MAX_RANGES: usize = 1 << 16;

/// The parsed lines of a block, each by itself.
pub(super) struct Parsed {
    items: Vec<Item>,
    names: Names,
    /// Number of events of other subjects, by the number of their name.
    others: Vec<u64>,
    lines: u64,
    unusable: super::rows::UnusableLines,
}

/// The format, with the state of the log so far.
#[derive(Default)]
pub(super) struct KernelLog {
    /// The windows and functions that the user placed.
    known: Placement,
    region_names: Vec<String>,
    jobs: DriverJobs,
    /// Number of events of other subjects, by the number of their name.
    others: HashMap<u16, u64>,
    /// First and last addresses of the only ranges that count; empty: all count.
    only: Vec<(u64, u64)>,
    windows: MmioRegions,
    names: Names,
    /// Virtual ranges: last address and physical address by first address.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// Mapped physical ranges.
    mapped: Vec<(u64, u64)>,
    ioremaps: HashMap<u64, Vec<(u64, u64)>>,
    dmas: HashMap<u64, Vec<(bool, u64)>>,
    calls: HashMap<u64, Vec<AccessorCall>>,
    /// Loads in the driver's code without a value yet, by probe name.
    loads: HashMap<u64, Vec<(u16, u64)>>,
    /// Window of each device instance of a driver.
    instances: HashMap<u64, Option<u16>>,
    /// Windows of configuration spaces.
    configs: HashMap<u32, Option<u16>>,
    /// Interrupts by number: handler name and count.
    irqs: BTreeMap<u32, (Box<str>, u64)>,
    requested: Vec<u32>,
    /// Number of accesses by module.
    modules: HashMap<u16, u64>,
    /// The same for accesses to addresses that no mapping of the log explains.
    unmapped_modules: HashMap<u16, u64>,
    virtual_accesses: u64,
    instructions: u64,
    accessor_calls: u64,
    /// Number of accesses to addresses without a mapping, and of those that lie in no window that the user wants.
    unmapped: u64,
    unwanted: u64,
    ticks: bool,
    alone: u64,
    assumed_width: bool,
    /// Width in the name of each accessor, or 0, by the number of the name.
    widths: HashMap<u16, u8>,
    unplaced: u64,
}

/// Returns the caller of a function: a thread, or a CPU's idle task.
fn thread(head: &Head) -> u64 {
    match head.pid {
        0 => 1 << 32 | u64::from(head.cpu),
        pid => u64::from(pid),
    }
}

impl KernelLog {
    /// Creates a log with the windows that the user placed.
    pub(super) fn new(known: &Placement) -> Self {
        let mut windows = MmioRegions::default();
        let mut region_names = Vec::new();
        known.add_windows(&mut windows, &mut region_names);
        Self {
            known: known.clone(),
            windows,
            region_names,
            ..Self::default()
        }
    }

    /// Keeps only accesses to these windows, each a first address and a size; an empty list keeps all.
    pub(super) fn within(mut self, windows: &[(PhysAddr, u64)]) -> Self {
        let last = |first: PhysAddr, bytes: u64| Some(first.saturating_add(bytes.checked_sub(1)?).get());
        self.only = windows
            .iter()
            .filter_map(|(f, n)| Some((f.get(), last(*f, *n)?)))
            .collect();
        self
    }

    /// Returns the physical address of a virtual one, if a mapping of the log has it.
    fn mapped_to(&self, at: u64) -> Option<u64> {
        let (first, (last, physical)) = self.ranges.range(..=at).next_back()?;
        physical.checked_add(at.checked_sub(*first).filter(|_| at <= *last)?)
    }

    /// Whether a physical address lies in a window that the user wants.
    fn is_wanted(&self, physical: u64) -> bool {
        self.only.is_empty()
            || self
                .only
                .iter()
                .any(|(first, last)| (first..=last).contains(&&physical))
    }

    /// Records a mapping; mappings that it overlaps end there.
    fn map(&mut self, at: u64, physical: u64, bytes: u64) {
        let (Some(more), true) = (bytes.checked_sub(1), self.ranges.len() < MAX_RANGES) else {
            return;
        };
        let last = at.saturating_add(more);
        let over: Vec<u64> = self
            .ranges
            .range(..=last)
            .rev()
            .take_while(|(_, r)| r.0 >= at)
            .map(|(first, _)| *first)
            .collect();
        over.iter().for_each(|first| {
            self.ranges.remove(first);
        });
        self.ranges.insert(at, (last, physical));
        self.mapped.push((physical, physical.saturating_add(more)));
    }

    fn config(&mut self, place: u32) -> Option<u16> {
        let windows = &mut self.windows;
        *self
            .configs
            .entry(place)
            .or_insert_with(|| windows.add_separate(Owner::Config { place }, 0, 0x1000, Extent::Fixed))
    }

    fn instance(&mut self, instance: u64) -> Option<u16> {
        let (windows, room) = (&mut self.windows, self.instances.len() < MAX_INSTANCES);
        match room {
            true => *self
                .instances
                .entry(instance)
                .or_insert_with(|| windows.add_separate(Owner::Accessors { function: None }, 0, 1, Extent::Growing)),
            false => self.instances.get(&instance).copied().flatten(),
        }
    }

    /// Handles a parsed line.
    fn item(&mut self, item: Item, modules: &[u16], rows: &mut Rows) {
        let head = item.head;
        self.ticks |= head.ticks;
        let number = |n: u16| modules.get(usize::from(n)).copied().unwrap_or(0);
        let from = rows.len();
        match item.event {
            KernelEvent::IrqEntry { irq, name } => {
                if self.irqs.len() < MAX_IRQS || self.irqs.contains_key(&irq) {
                    self.irqs.entry(irq).or_insert((name, 0)).1 += 1;
                }
                // Its line of the device, if any, is known at the end.
                rows.interrupt(head.time, InterruptRow { line: irq, status: 0 });
            }
            KernelEvent::Mmio {
                write,
                at,
                width,
                value,
                config,
                module,
            } => {
                self.virtual_accesses += 1;
                // Configuration spaces of a host bridge are contiguous: 4096 bytes for each function, from a multiple
                // of the megabyte of a bus.
                if config && self.mapped_to(at).is_none() {
                    if let Some(window) = self.config((at >> 12 & 0xff) as u32) {
                        let target = AccessTarget::Window(window, (at & 0xfff) as u32);
                        rows.access(write, head.time, target, width, value);
                    }
                } else {
                    self.virtual_access(&head, write, at, (width, value), number(module), rows);
                }
            }
            KernelEvent::Load { probe, at } => open(&mut self.loads, &head, (number(probe), at), &mut self.alone),
            KernelEvent::Loaded {
                probe,
                width,
                value,
                module,
            } => match close(&mut self.loads, &head, |o| o.0 == number(probe)) {
                Some((_, at)) => self.instruction(&head, false, at, (width, value), number(module), rows),
                None => self.alone += 1,
            },
            KernelEvent::Store {
                at,
                width,
                value,
                module,
            } => self.instruction(&head, true, at, (width, value), number(module), rows),
            KernelEvent::Ioremap { physical, bytes } => {
                rows.mark(head.time, format!("ioremap {physical:#x}, {bytes:#x} bytes"));
                open(&mut self.ioremaps, &head, (physical, bytes), &mut self.alone);
            }
            KernelEvent::IoremapDone { at } => match close(&mut self.ioremaps, &head, |_| true) {
                Some((physical, bytes)) if at != 0 => self.map(at, physical, bytes),
                Some(_) => {}
                None => self.alone += 1,
            },
            KernelEvent::Dma { allocated, bytes } => open(&mut self.dmas, &head, (allocated, bytes), &mut self.alone),
            KernelEvent::DmaDone { allocated, bus } => match close(&mut self.dmas, &head, |o| o.0 == allocated) {
                Some((_, bytes)) => {
                    let kind = if allocated { DmaKind::Allocated } else { DmaKind::Mapped } as u32;
                    rows.dma_map(
                        head.time,
                        DmaMapRow {
                            bus: BusAddr::new(bus.unwrap_or(DmaMapRow::UNKNOWN.get())),
                            bytes,
                            kind,
                            reserved: 0,
                        },
                    );
                }
                None => self.alone += 1,
            },
            KernelEvent::RequestIrq { irq } => {
                rows.mark(head.time, format!("request_irq {irq}"));
                if !self.requested.contains(&irq) && self.requested.len() < MAX_IRQS {
                    self.requested.push(irq);
                }
            }
            KernelEvent::Config {
                write,
                place,
                register,
                width,
                value,
            } => {
                if let Some(window) = self.config(place) {
                    let at = AccessTarget::Window(window, register);
                    match value {
                        Some(value) => rows.access(write, head.time, at, width, value),
                        None => rows.undecoded(
                            head.time,
                            at,
                            UndecodedRow::from_access(RegOffset::new(register), write, width),
                        ),
                    }
                }
            }
            KernelEvent::Enter(call) => {
                self.accessor_calls += 1;
                let call = AccessorCall {
                    function: number(call.function),
                    module: number(call.module),
                    ..call
                };
                match call.value {
                    Some(value) => self.accessor(&head, call, true, value, rows),
                    None => open(&mut self.calls, &head, call, &mut self.alone),
                }
            }
            KernelEvent::Return { function, value } => {
                match close(&mut self.calls, &head, |o| o.function == number(function)) {
                    Some(call) => self.accessor(&head, call, false, value, rows),
                    None => self.alone += 1,
                }
            }
            KernelEvent::Mark(text) => rows.mark(head.time, text.into()),
            KernelEvent::Driver(event) => {
                let first = self.known.functions.len();
                self.jobs
                    .take(head.time, event, modules, (&mut self.windows, first), rows);
            }
            KernelEvent::Lost(count, reason) => rows.lose(count, reason.into()),
            // Counted in the block.
            KernelEvent::Other(_) => {}
        }
        if rows.len() > from {
            rows.thread_of_last(head.pid);
        }
    }

    /// Handles a load or store in the driver's code once its value is known.
    fn instruction(&mut self, head: &Head, write: bool, at: u64, of: (u8, u64), module: u16, rows: &mut Rows) {
        self.instructions += 1;
        self.virtual_access(head, write, at, of, module, rows);
    }

    /// Adds an access at a virtual address: at the physical one if the log maps it, otherwise at the virtual one.
    fn virtual_access(&mut self, head: &Head, write: bool, at: u64, of: (u8, u64), module: u16, rows: &mut Rows) {
        let (modules, address) = match self.mapped_to(at) {
            Some(physical) if self.is_wanted(physical) => (&mut self.modules, physical),
            None if self.only.is_empty() => {
                self.unmapped += 1;
                (&mut self.unmapped_modules, at)
            }
            _ => {
                self.unwanted += 1;
                return;
            }
        };
        *modules.entry(module).or_insert(0) += 1;
        rows.access(write, head.time, AccessTarget::Address(address), of.0, of.1);
    }

    /// Handles an access by a driver function once its value is known.
    fn accessor(&mut self, head: &Head, call: AccessorCall, write: bool, value: u64, rows: &mut Rows) {
        let names = &self.names;
        let of = |function| accessors::width_of(&names.name(function));
        let width = match *self.widths.entry(call.function).or_insert_with_key(|f| of(*f)) {
            0 => {
                self.assumed_width = true;
                4
            }
            w => w,
        };
        let value = value & mask(width);
        if call.is_address {
            self.virtual_access(head, write, call.offset, (width, value), call.module, rows);
            return;
        }
        *self.modules.entry(call.module).or_insert(0) += 1;
        match (self.instance(call.instance), u32::try_from(call.offset)) {
            (Some(window), Ok(offset)) => {
                rows.access(write, head.time, AccessTarget::Window(window, offset), width, value);
            }
            _ => self.unplaced += 1,
        }
    }
}

/// Records a call that has not returned yet.
fn open<T>(calls: &mut HashMap<u64, Vec<T>>, head: &Head, call: T, alone: &mut u64) {
    let of = calls.entry(thread(head)).or_default();
    if of.len() >= MAX_OPEN_CALLS {
        of.remove(0);
        *alone += 1;
    }
    of.push(call);
}

/// Removes and returns the last call of a thread that matches and has not returned yet.
fn close<T>(calls: &mut HashMap<u64, Vec<T>>, head: &Head, is_same: impl Fn(&T) -> bool) -> Option<T> {
    let of = calls.get_mut(&thread(head))?;
    let at = of.iter().rposition(is_same)?;
    Some(of.remove(at))
}

impl Format for KernelLog {
    type Parsed = Parsed;

    fn parse(&self, block: &[u8]) -> Parsed {
        let mut parsed = Parsed {
            items: Vec::with_capacity(block.len() / 160),
            names: Names::default(),
            others: Vec::new(),
            lines: 0,
            unusable: super::rows::UnusableLines::default(),
        };
        for line in text::lines(block) {
            parsed.lines += 1;
            match kernel::parse_line(line, &mut parsed.names) {
                ParsedLine::Item(Item {
                    event: KernelEvent::Other(name),
                    ..
                }) => {
                    let at = usize::from(name);
                    if parsed.others.len() <= at {
                        parsed.others.resize(at + 1, 0);
                    }
                    if let Some(count) = parsed.others.get_mut(at) {
                        *count += 1;
                    }
                }
                ParsedLine::Item(item) => parsed.items.push(item),
                ParsedLine::Nothing => {}
                ParsedLine::Unusable(missing) => match super::ftrace::event(line) {
                    Some(_) => parsed.unusable.add_incomplete(parsed.lines, missing),
                    None => parsed.unusable.add(parsed.lines),
                },
            }
        }
        parsed
    }

    fn take(&mut self, parsed: Parsed, log: &mut Log) {
        let numbers = parsed.names.numbers_in(&mut self.names);
        let mut rows = Rows {
            lines: parsed.lines,
            unusable: parsed.unusable,
            ..Rows::default()
        };
        rows.reserve(parsed.items.len());
        for (number, count) in numbers.iter().zip(&parsed.others).filter(|(_, n)| **n > 0) {
            *self.others.entry(*number).or_insert(0) += count;
        }
        for item in parsed.items {
            self.item(item, &numbers, &mut rows);
        }
        let mapped = &self.mapped;
        rows.settle(&mut self.windows, |address| find_mapped_range(mapped, address));
        log.push(rows);
    }

    fn finish(mut self, log: &mut Log) {
        self.report_findings(log);
        log.findings.extend(self.jobs.findings(self.ticks));
        log.job_queues = self.jobs.queues(&self.names);
        log.others = self.describe_others();
        log.omits_guessed = self.has_device_accesses();
        let is_driver = self.jobs.has_registers() || !self.jobs.is_empty();
        log.source = match (self.virtual_accesses, self.accessor_calls + self.instructions) {
            (0, 0) if is_driver => Identity::DRIVER_EVENTS,
            (0, 0) => "ftrace",
            (0, _) => "kprobe",
            _ => "rwmmio",
        };
        log.tool = match is_driver && log.source == Identity::DRIVER_EVENTS {
            true => "ftrace, events of the driver".to_owned(),
            false => log.source.to_owned(),
        };
        if self.ticks {
            log.clock = Clock::Ticks;
        }
        log.driver = self.driver();
        log.has_work = !self.jobs.is_empty();
        log.gpu_name = self.jobs.driver().map(|d| d.gpu().to_owned()).unwrap_or_default();
        // Configuration space gives the device's address if nothing else does.
        let busiest = self
            .windows
            .all()
            .iter()
            .filter(|w| matches!(w.owner, Owner::Config { .. }))
            .max_by_key(|w| w.accesses);
        let mut functions = std::mem::take(&mut self.known.functions);
        if let ([f], Some(Owner::Config { place })) = (&mut functions[..], busiest.map(|w| w.owner)) {
            f.place = place;
            if f.pci.address.is_empty() && self.virtual_accesses + self.instructions == 0 {
                f.pci.address = super::device::address(place);
            }
        }
        functions.extend(self.jobs.functions(&self.names));
        log.functions.extend(functions);
        log.names = self.region_names;
        log.requested = self.requested;
        log.irqs = self
            .irqs
            .into_iter()
            .map(|(irq, (name, count))| (irq, name.into_string(), count))
            .collect();
        log.windows = self.windows;
    }
}
