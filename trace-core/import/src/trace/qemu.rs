//! The importer of QEMU's traces: accesses to the devices of the machine, `memory_region_ops_*`, and to the regions of
//! devices that are passed through, `vfio_region_*`. A trace is a log of the backends `log`, `syslog` or `ftrace`
//! ([`line`]), or a file of the backend `simple` ([`simple`]).
//!
//! The first have every access of the machine from the firmware's first on: memory and ports. Configuration space is
//! accessed by ports 0xcf8 and 0xcfc or by a memory window, and gives the BARs of each function; a BAR that moves is
//! followed. On a machine without PCI, each region that the trace names is a window of its own. Sources: QEMU's
//! `docs/devel/tracing.rst`, `system/trace-events`, and the traces themselves.

mod event_list;
mod line;
mod printed;
mod region_use;
mod simple;
mod simple_file;
mod vfio;

pub(super) use simple_file::read_simple;

use super::device::PORTS;
use super::log::{Format, Log};
use super::mmio_regions::{Extent, MmioRegions, Owner, find_mapped_range};
use super::names::Names;
use super::pci_config::{BarPlace, Functions};
use super::placement::Placement;
use super::rows::{AccessTarget, Rows, UnusableLines};
use super::score::LineScore;
use super::text;
use line::{CONFIG_REGION, Item, ParsedLine, QemuEvent};
use region_use::{RegionKey, RegionUse};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{Clock, InterruptRow};
use vfio::VfioDevices;

/// Value of [`trace_core::recording::Identity::source`].
const SOURCE: &str = "qemu-trace";
/// Port that selects a register of configuration space, and the four data ports.
const SELECT: u64 = 0xcf8;
const DATA: std::ops::Range<u64> = 0xcfc..0xd00;
/// QEMU's name of the memory window of configuration space: 4 KiB per function, at most 256 MiB, aligned to that. On
/// machines that access it through an alias, the addresses start at 0. Sources: QEMU's `hw/pci/pcie_host.c` and the
/// traces themselves.
const CONFIG_WINDOW: &str = "pcie-mmcfg-mmio";
/// Number of bytes of configuration space that are kept of a function: those that the ports reach.
const CONFIG_BYTES: u32 = 0x100;
/// Lower addresses are ports: no machine has memory-mapped devices there.
const MAX_PORTS: u64 = 0x1_0000;
/// Legacy addresses of PC display adapters besides their BARs: memory and ports.
const LEGACY_MEMORY: (u64, u64) = (0xa_0000, 0x2_0000);
const LEGACY_PORTS: (u64, u64) = (0x3b0, 0x30);
/// Maximum number of region names that are listed.
const MAX_NAMES: usize = 8;

/// Returns how well a line fits the format.
pub(super) fn score(line: &[u8]) -> LineScore {
    match line::parse_line(line, &mut Names::default()) {
        ParsedLine::Item(item) => match item.event {
            QemuEvent::Region { .. } | QemuEvent::Vfio { .. } => LineScore::Access,
            _ => LineScore::Frame,
        },
        ParsedLine::Other => LineScore::Frame,
        ParsedLine::Incomplete(missing) => LineScore::Near(missing),
        ParsedLine::Foreign => LineScore::Foreign,
    }
}

/// Whether these are the first bytes of a file of the backend `simple`.
pub(super) fn is_simple(head: &[u8]) -> bool {
    simple::version(head).is_some()
}

/// Returns the list of events of a trace file of the backend `simple` that numbers its events.
pub(super) fn event_list(path: &Path, head: &[u8]) -> Option<PathBuf> {
    let version = simple::version(head).filter(|v| simple::NUMBERED_VERSIONS.contains(v));
    version.map(|_| event_list::list_path(path))
}

/// The content of a block.
pub(super) struct Parsed {
    items: Vec<Item>,
    names: Names,
    lines: u64,
    unusable: UnusableLines,
    /// Losses: index of the item before which they are, and count.
    lost: Vec<(usize, u64)>,
}

/// The format, with the state of the trace so far.
pub(super) struct Qemu {
    windows: MmioRegions,
    functions: Functions,
    /// Function addresses in the order in which they get BARs.
    places: Vec<u32>,
    configs: HashMap<u32, Option<u16>>,
    /// Base and size of each BAR that decodes.
    placed: HashMap<(usize, u8), (u64, u64)>,
    selected: u32,
    names: Names,
    /// Number of accesses to other devices, by region name.
    others: HashMap<u16, u64>,
    /// Whether regions without a BAR are windows: the trace has no accesses to BARs.
    keeps_regions: bool,
    /// Windows of regions by the upper half of their address.
    regions: HashMap<(RegionKey, u64), Option<u16>>,
    region_names: Vec<String>,
    /// Accesses of each region to the BARs of each function.
    use_of_regions: RegionUse,
    vfio: VfioDevices,
    known: Placement,
    timed: bool,
    time: u64,
}

impl Qemu {
    /// Returns the format with the windows that the user placed. `keeps_regions`: each region that lies in no BAR is a
    /// window too.
    pub(super) fn new(known: &Placement, keeps_regions: bool) -> Self {
        let mut windows = MmioRegions::default();
        let mut region_names = Vec::new();
        known.add_windows(&mut windows, &mut region_names);
        if !keeps_regions {
            windows.add(Owner::Legacy, LEGACY_MEMORY.0, LEGACY_MEMORY.1, Extent::Fixed);
            windows.add(Owner::Legacy, PORTS | LEGACY_PORTS.0, LEGACY_PORTS.1, Extent::Fixed);
        }
        Self {
            windows,
            functions: Functions::default(),
            // Functions that the user describes come first, with numbers that no function of the machine has.
            places: (0..known.functions.len()).map(|n| u32::MAX - n as u32).collect(),
            configs: HashMap::new(),
            placed: HashMap::new(),
            selected: 0,
            names: Names::default(),
            others: HashMap::new(),
            keeps_regions,
            regions: HashMap::new(),
            region_names,
            use_of_regions: RegionUse::default(),
            vfio: VfioDevices::default(),
            known: known.clone(),
            timed: false,
            time: 0,
        }
    }

    /// Handles an access to a register of a function's configuration space.
    fn config(&mut self, place: u32, register: u32, access: RegisterAccess, rows: &mut Rows) {
        let RegisterAccess {
            time,
            write,
            width,
            value,
        } = access;
        let mut is_changed = self
            .functions
            .access(place, write, register, width.min(4), value as u32);
        if width == 8 {
            is_changed |= self
                .functions
                .access(place, write, register + 4, 4, (value >> 32) as u32);
        }
        if is_changed && place & vfio::PLACE == 0 {
            self.place_bars(place);
        }
        let windows = &mut self.windows;
        let window = self.configs.entry(place).or_insert_with(|| {
            windows.add_separate(Owner::Config { place }, 0, u64::from(CONFIG_BYTES), Extent::Fixed)
        });
        if let Some(window) = *window {
            rows.access(write, time, AccessTarget::Window(window, register), width, value);
        }
    }

    /// Moves the windows of a function to where its BARs are.
    fn place_bars(&mut self, place: u32) {
        for bar in self.functions.places(place) {
            let function = number(&mut self.places, place);
            match bar {
                BarPlace::Placed(bar) => {
                    let base = if bar.ports {
                        PORTS | bar.base.get()
                    } else {
                        bar.base.get()
                    };
                    let now = (base, bar.bytes);
                    if self.placed.insert((function, bar.number), now) != Some(now) {
                        let owner = Owner::Bar {
                            function,
                            bar: bar.number,
                        };
                        self.windows.place(owner, base, bar.bytes);
                    }
                }
                BarPlace::Off(bar) => {
                    if self.placed.remove(&(function, bar)).is_some() {
                        self.windows.remove(Owner::Bar { function, bar });
                    }
                }
            }
        }
    }

    /// Handles an access to a region of the machine. `name` is its number in the list of the trace.
    fn region(
        &mut self,
        address: u64,
        access: RegisterAccess,
        (name, pointer): RegionKey,
        kind: RegionKind,
        rows: &mut Rows,
    ) {
        let RegisterAccess {
            time,
            write,
            width,
            value,
        } = access;
        if address == SELECT && width == 4 && kind.is_port {
            if write {
                self.selected = value as u32;
            }
            return;
        }
        if DATA.contains(&address) && self.selected >> 31 == 1 && kind.is_port {
            let register = self.selected & 0xfc | (address & 3) as u32;
            self.config(self.selected >> 8 & 0xffff, register, access, rows);
            return;
        }
        if kind.is_config_window && address & 0xfff < u64::from(CONFIG_BYTES) {
            let place = (address >> 12) as u32 & 0xffff;
            self.config(place, (address & 0xff) as u32, access, rows);
            return;
        }
        let is_port = address < MAX_PORTS && !self.keeps_regions;
        let placed = if is_port { PORTS | address } else { address };
        let target = match self.windows.find(placed) {
            Some((window, offset)) => {
                if !kind.is_nameless {
                    self.use_of_regions.add((name, pointer), window, &self.windows);
                }
                AccessTarget::Window(window, offset)
            }
            None if self.keeps_regions => {
                if kind.is_nameless {
                    AccessTarget::Address(address)
                } else {
                    match self.region_window((name, pointer), address >> 32) {
                        Some(window) => AccessTarget::Window(window, address as u32),
                        None => AccessTarget::Address(address),
                    }
                }
            }
            None => {
                *self.others.entry(name).or_insert(0) += 1;
                return;
            }
        };
        rows.access(write, time, target, width, value);
    }

    /// Returns the window of a region that has no BAR, for 4 GiB of addresses.
    fn region_window(&mut self, region: RegionKey, upper: u64) -> Option<u16> {
        let Self {
            regions,
            windows,
            region_names,
            names,
            ..
        } = self;
        *regions.entry((region, upper)).or_insert_with(|| {
            let name = u16::try_from(region_names.len()).ok()?;
            let owner = Owner::Region { name, function: None };
            let window = windows.add_separate(owner, upper << 32, 1 << 32, Extent::Fitted)?;
            region_names.push(names.name(region.0));
            Some(window)
        })
    }

    fn item(&mut self, item: &Item, numbers: &[u16], kinds: &[RegionKind], rows: &mut Rows) {
        if let Some(time) = item.time {
            (self.timed, self.time) = (true, time);
        }
        let time = self.time;
        let of = |n: u16| numbers.get(usize::from(n)).copied().unwrap_or(0);
        let from = rows.len();
        match item.event {
            QemuEvent::Region {
                write,
                address,
                value,
                width,
                name,
                pointer,
            } => {
                let kind = kinds.get(usize::from(name)).copied().unwrap_or_default();
                let access = RegisterAccess {
                    time,
                    write,
                    width,
                    value,
                };
                self.region(address, access, (of(name), pointer), kind, rows);
            }
            QemuEvent::Vfio {
                device,
                region: CONFIG_REGION,
                write,
                offset,
                value,
                width,
            } => {
                let device = of(device);
                let place = VfioDevices::place(device);
                // The device exists from its first access on.
                let first = self.vfio_window(device, CONFIG_REGION, 0);
                self.configs.entry(place).or_insert(first.map(|f| f.0));
                if let Ok(register) = u32::try_from(offset)
                    && register < 0x1000
                {
                    let access = RegisterAccess {
                        time,
                        write,
                        width,
                        value,
                    };
                    self.config(place, register, access, rows);
                }
            }
            QemuEvent::Vfio {
                device,
                region,
                write,
                offset,
                value,
                width,
            } => {
                if let Some((window, offset)) = self.vfio_window(of(device), region, offset) {
                    rows.access(write, time, AccessTarget::Window(window, offset), width, value);
                } else {
                    rows.unusable.count += 1;
                }
            }
            QemuEvent::VfioSize { device, region, bytes } => {
                let (places, windows) = (&mut self.places, &mut self.windows);
                self.vfio
                    .set_size((of(device), region), bytes, windows, |place| number(places, place));
            }
            QemuEvent::VfioInterrupt { device, vector } => {
                let places = &mut self.places;
                let line = self.vfio.interrupt(of(device), vector, |place| number(places, place));
                if let Some(line) = line {
                    rows.interrupt(time, InterruptRow { line, status: 0 });
                }
            }
            QemuEvent::VfioMark { text } => rows.mark(time, self.names.name(of(text))),
        }
        if rows.len() > from {
            rows.thread_of_last(item.thread);
        }
    }

    fn vfio_window(&mut self, device: u16, region: u8, offset: u64) -> Option<(u16, u32)> {
        let (places, windows) = (&mut self.places, &mut self.windows);
        self.vfio
            .window((device, region), offset, windows, &mut self.region_names, |place| {
                number(places, place)
            })
    }
}

/// An access without its place.
#[derive(Clone, Copy, Debug)]
struct RegisterAccess {
    time: u64,
    write: bool,
    width: u8,
    value: u64,
}

/// What the name of a region says.
#[derive(Clone, Copy, Debug, Default)]
struct RegionKind {
    /// It is the memory window of configuration space.
    is_config_window: bool,
    /// It may be the ports of configuration space.
    is_port: bool,
    is_nameless: bool,
}

impl RegionKind {
    fn new(name: &str) -> Self {
        Self {
            is_config_window: name == CONFIG_WINDOW,
            is_port: name.is_empty() || name.contains("pci") || name.contains("conf"),
            is_nameless: name.is_empty(),
        }
    }
}

/// Returns the number of a function.
fn number(places: &mut Vec<u32>, place: u32) -> usize {
    places.iter().position(|p| *p == place).unwrap_or_else(|| {
        places.push(place);
        places.len() - 1
    })
}

impl Format for Qemu {
    type Parsed = Parsed;

    fn parse(&self, block: &[u8]) -> Parsed {
        let mut parsed = Parsed {
            items: Vec::with_capacity(block.len() / 96),
            names: Names::default(),
            lines: 0,
            unusable: UnusableLines::default(),
            lost: Vec::new(),
        };
        for line in text::lines(block) {
            parsed.lines += 1;
            match line::parse_line(line, &mut parsed.names) {
                ParsedLine::Item(item) => parsed.items.push(item),
                ParsedLine::Other => {}
                ParsedLine::Incomplete(missing) => parsed.unusable.add_incomplete(parsed.lines, missing),
                ParsedLine::Foreign if super::ftrace::is_frame(line) => {}
                ParsedLine::Foreign => parsed.unusable.add(parsed.lines),
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
        let kinds: Vec<RegionKind> = numbers.iter().map(|n| RegionKind::new(&self.names.name(*n))).collect();
        let mut lost = parsed.lost.into_iter().peekable();
        for (at, item) in parsed.items.iter().enumerate() {
            while let Some((_, count)) = lost.next_if(|(before, _)| *before <= at) {
                rows.lose(Some(count), "QEMU's buffer was full".to_owned());
            }
            self.item(item, &numbers, &kinds, &mut rows);
        }
        for (_, count) in lost {
            rows.lose(Some(count), "QEMU's buffer was full".to_owned());
        }
        rows.settle(&mut self.windows, |address| find_mapped_range(&[], address));
        log.push(rows);
    }

    fn finish(mut self, log: &mut Log) {
        self.vfio.add_unused(&mut self.windows);
        // In the order of window numbers; functions without windows come after them.
        let mut all = self.functions.functions();
        let mut functions = Vec::new();
        for (n, place) in self.places.iter().enumerate() {
            if let Some(known) = self.known.functions.get(n) {
                functions.push(known.clone());
                continue;
            }
            let passed = self.vfio.function(*place, &self.functions, &self.names);
            let at = all.iter().position(|f| f.place == *place);
            let seen = at.map(|at| all.remove(at));
            functions.push(passed.or(seen).unwrap_or_default());
        }
        functions.extend(all.into_iter().filter(|f| f.place & vfio::PLACE == 0));
        log.findings
            .extend(self.use_of_regions.contradictions(&functions, &self.names));
        let count: u64 = self.others.values().sum();
        if count > 0 {
            let mut names: Vec<(u64, String)> = self
                .others
                .iter()
                .map(|(name, n)| (*n, self.names.name(*name)))
                .collect();
            names.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            let messages: Vec<String> = names
                .iter()
                .take(MAX_NAMES)
                .map(|(n, name)| format!("{name} {n}"))
                .collect();
            let more = if names.len() > MAX_NAMES { " …" } else { "" };
            let message = format!(
                "{count} accesses to regions of other devices were not imported: {}{more}",
                messages.join(", ")
            );
            log.findings
                .push(Finding::new(FindingKind::NotUsed, "other devices", message));
            log.has_other_regions = true;
        }
        if !self.timed {
            let message = "the trace holds no times; every event has the time 0";
            log.findings.push(Finding::new(FindingKind::Assumed, "times", message));
            log.clock = Clock::SinceStart;
        }
        if self.keeps_regions && !self.regions.is_empty() {
            let message = "the trace has no accesses to windows of a PCI function, so each region that it names is a \
                           space. It does not say where a region begins: each space begins at the page of its lowest \
                           access";
            log.findings.push(Finding::new(FindingKind::Assumed, "spaces", message));
            // A function without windows is not the device of these regions.
            functions.clear();
        }
        log.requested = self.vfio.lines();
        log.names = self.region_names;
        log.functions = functions;
        log.windows = self.windows;
        log.source = SOURCE;
        log.tool = if self.vfio.is_empty() {
            "QEMU trace"
        } else {
            "QEMU trace of VFIO"
        }
        .to_owned();
    }
}
