//! The combination of ftrace lines: virtual addresses become physical, accessor entries are joined with their returns,
//! interrupts are distinguished. The results are the rows of a recording and the description of the device.

use super::device::Function;
use super::ftrace::Head;
use super::kernel::{self, Item, KernelEvent, Names, ParsedLine};
use super::log::{Format, Log};
use super::mmio_regions::{MmioRegions, Owner, find_mapped_range};
use super::rows::{AccessTarget, Rows};
use super::text;
use std::collections::{BTreeMap, HashMap};
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{DmaKind, DmaMapRow, InterruptRow, UndecodedRow};
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
    lines: u64,
    unusable: super::rows::UnusableLines,
}

/// A call that has not returned.
#[derive(Clone, Copy)]
struct Open {
    function: u16,
    module: u16,
    instance: u64,
    offset: u64,
}

/// The format, with the state of the log so far.
#[derive(Default)]
pub(super) struct KernelLog {
    /// The device from a file next to the log.
    function: Option<Function>,
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
    calls: HashMap<u64, Vec<Open>>,
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
    virtual_accesses: u64,
    instructions: u64,
    accessor_calls: u64,
    unmapped: u64,
    alone: u64,
    assumed_width: bool,
    unplaced: u64,
    last_time: u64,
}

/// Returns the caller of a function: a thread, or a CPU's idle task.
fn thread(head: &Head) -> u64 {
    match head.pid {
        0 => 1 << 32 | u64::from(head.cpu),
        pid => u64::from(pid),
    }
}

impl KernelLog {
    /// Creates a log of a device with known windows.
    pub(super) fn new(function: Option<Function>) -> Self {
        let mut windows = MmioRegions::default();
        for bar in function.iter().flat_map(|f| &f.pci.bars).filter(|b| !b.ports) {
            windows.add(
                Owner::Bar {
                    function: 0,
                    bar: bar.number,
                },
                bar.base.get(),
                bar.bytes,
            );
        }
        Self {
            function,
            windows,
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

    fn mapped_to(&self, at: u64) -> Option<u64> {
        let (first, (last, physical)) = self.ranges.range(..=at).next_back()?;
        let physical = physical.checked_add(at.checked_sub(*first).filter(|_| at <= *last)?)?;
        let counts = self.only.is_empty()
            || self
                .only
                .iter()
                .any(|(first, last)| (first..=last).contains(&&physical));
        counts.then_some(physical)
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
            .or_insert_with(|| windows.add_separate(Owner::Config { place }, 0x1000))
    }

    fn instance(&mut self, instance: u64) -> Option<u16> {
        let (windows, room) = (&mut self.windows, self.instances.len() < MAX_INSTANCES);
        match room {
            true => *self
                .instances
                .entry(instance)
                .or_insert_with(|| windows.add_separate(Owner::Accessors, 1)),
            false => self.instances.get(&instance).copied().flatten(),
        }
    }

    /// Handles a parsed line.
    fn item(&mut self, item: Item, modules: &[u16], rows: &mut Rows) {
        let head = item.head;
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
            KernelEvent::Enter {
                function,
                module,
                instance,
                offset,
                value,
            } => {
                self.accessor_calls += 1;
                let call = Open {
                    function: number(function),
                    module: number(module),
                    instance,
                    offset,
                };
                match value {
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
            KernelEvent::Lost(count, reason) => rows.lose(Some(count), reason.into()),
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

    /// Adds an access at a virtual address, if a device is mapped there.
    fn virtual_access(&mut self, head: &Head, write: bool, at: u64, of: (u8, u64), module: u16, rows: &mut Rows) {
        match self.mapped_to(at) {
            Some(physical) => {
                *self.modules.entry(module).or_insert(0) += 1;
                rows.access(write, head.time, AccessTarget::Address(physical), of.0, of.1);
            }
            None => self.unmapped += 1,
        }
    }

    /// Handles an access by a driver function once its value is known.
    fn accessor(&mut self, head: &Head, call: Open, write: bool, value: u64, rows: &mut Rows) {
        let name = self.names.name(call.function);
        let width = match kernel::width_of(&name) {
            0 => {
                self.assumed_width = true;
                4
            }
            w => w,
        };
        *self.modules.entry(call.module).or_insert(0) += 1;
        match (self.instance(call.instance), u32::try_from(call.offset)) {
            (Some(window), Ok(offset)) => {
                self.windows.extend(window, u64::from(offset) + u64::from(width) - 1);
                rows.access(
                    write,
                    head.time,
                    AccessTarget::Window(window, offset),
                    width,
                    value & kernel::mask(width),
                );
            }
            _ => self.unplaced += 1,
        }
    }

    /// Returns the module with the most accesses.
    fn driver(&self) -> String {
        let named = self
            .modules
            .iter()
            .map(|(m, n)| (*n, self.names.name(*m)))
            .filter(|(_, name)| !name.is_empty());
        named.max().map(|(_, name)| name).unwrap_or_default()
    }

    fn report_findings(&self, log: &mut Log) {
        let mut note = |count: u64, place: &str, message: String| {
            if count > 0 {
                log.findings.push(Finding::new(FindingKind::NotUsed, place, message));
            }
        };
        let n = self.unmapped;
        note(
            n,
            if self.virtual_accesses > 0 { "rwmmio" } else { "probes" },
            format!(
                "{n} register accesses to addresses that no ioremap in the log maps were not imported; they belong to \
                 other devices"
            ),
        );
        let open: usize = self.calls.values().map(Vec::len).sum::<usize>()
            + self.ioremaps.values().map(Vec::len).sum::<usize>()
            + self.dmas.values().map(Vec::len).sum::<usize>()
            + self.loads.values().map(Vec::len).sum::<usize>();
        let n = self.alone + open as u64;
        note(
            n,
            "probes",
            format!("{n} entries or returns of probed functions have no counterpart and were not imported"),
        );
        let n = self.unplaced;
        note(
            n,
            "probes",
            format!(
                "{n} calls of accessors were not imported: their offsets exceed 32 bits, or they belong to too many \
                 devices"
            ),
        );
        if self.assumed_width {
            let message = "the name of an accessor does not state the width of its accesses; 4 bytes are assumed";
            log.findings.push(Finding::new(FindingKind::Assumed, "probes", message));
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
            lines: 0,
            unusable: super::rows::UnusableLines::default(),
        };
        for line in text::lines(block) {
            parsed.lines += 1;
            match kernel::parse_line(line, &mut parsed.names) {
                ParsedLine::Item(item) => parsed.items.push(item),
                ParsedLine::Nothing => {}
                ParsedLine::Unusable => parsed.unusable.add(parsed.lines),
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
        for item in parsed.items {
            self.last_time = item.head.time;
            self.item(item, &numbers, &mut rows);
        }
        let mapped = &self.mapped;
        rows.settle(&mut self.windows, |address| find_mapped_range(mapped, address));
        log.push(rows);
    }

    fn finish(self, log: &mut Log) {
        self.report_findings(log);
        log.source = match (self.virtual_accesses, self.accessor_calls + self.instructions) {
            (0, 0) => "ftrace",
            (0, _) => "kprobe",
            _ => "rwmmio",
        };
        log.tool = log.source.to_owned();
        log.driver = self.driver();
        // Configuration space gives the device's address if nothing else does.
        let mut function = self.function;
        let busiest = self
            .windows
            .all()
            .iter()
            .filter(|w| matches!(w.owner, Owner::Config { .. }))
            .max_by_key(|w| w.accesses);
        if let (Some(f), Some(Owner::Config { place })) = (&mut function, busiest.map(|w| w.owner)) {
            f.place = place;
            if f.pci.address.is_empty() && self.virtual_accesses + self.instructions == 0 {
                f.pci.address = super::device::address(place);
            }
        }
        log.functions.extend(function);
        log.requested = self.requested;
        log.irqs = self
            .irqs
            .into_iter()
            .map(|(irq, (name, count))| (irq, name.into_string(), count))
            .collect();
        log.windows = self.windows;
    }
}
