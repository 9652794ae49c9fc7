//! The importer of QEMU's trace of device accesses: `-trace enable=memory_region_ops_*,file=…`. It has every access of
//! the machine from the firmware's first on: memory and ports. Configuration space is accessed by ports 0xcf8 and 0xcfc
//! or by a memory window. It has no times unless requested. The BARs of functions are learnt from the accesses to
//! configuration space.
//!
//! ```text
//! [PID@SECONDS.MICROSECONDS:]memory_region_ops_read|write cpu N mr POINTER addr ADDRESS value VALUE size N name 'NAME'
//! ```
//!
//! Sources: QEMU's `docs/devel/tracing.rst`, `system/trace-events`, and the traces themselves.

use super::device::PORTS;
use super::kernel::{Names, mask};
use super::log::{Format, Log};
use super::mmio_regions::{MmioRegions, Owner};
use super::pci_config::Functions;
use super::rows::{AccessTarget, Rows, UnusableLines};
use super::text::{self, Line};
use std::collections::HashMap;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::Clock;

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

/// An access of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    time: u64,
    address: u64,
    value: u64,
    write: bool,
    width: u8,
    name: u16,
}

/// Whether a line is one of this format.
pub(super) fn is_line(line: &[u8]) -> bool {
    item(line, &mut Names::default()).is_some()
}

fn item(line: &[u8], names: &mut Names) -> Option<Item> {
    let mut time = 0;
    let mut l = Line::new(line);
    l.blanks();
    if l.rest().first()?.is_ascii_digit() {
        let at = memchr::memchr(b'@', l.rest())?;
        let stamp = l.rest().get(at + 1..)?;
        let end = memchr::memchr(b':', stamp)?;
        time = Line::new(stamp.get(..end)?).time()?;
        l = Line::new(stamp.get(end + 1..)?);
    }
    l.tag(b"memory_region_ops_")?;
    let write = match l.word()? {
        b"read" => false,
        b"write" => true,
        _ => return None,
    };
    l.tag(b" cpu ")?;
    l.word()?;
    l.tag(b" mr ")?;
    l.word()?;
    l.tag(b" addr ")?;
    let address = l.hex()?;
    l.tag(b" value ")?;
    let value = l.hex()?;
    l.tag(b" size ")?;
    let width = match l.decimal()? {
        w @ (1 | 2 | 4 | 8) => w as u8,
        _ => return None,
    };
    let name = match l.tag(b" name '") {
        Some(()) => l.rest().strip_suffix(b"'")?,
        None => b"",
    };
    Some(Item {
        time,
        address,
        value: value & mask(width),
        write,
        width,
        name: names.number(name),
    })
}

/// The content of a block.
pub(super) struct Parsed {
    items: Vec<Item>,
    names: Names,
    lines: u64,
    unusable: UnusableLines,
}

/// The format, with the state of the trace so far.
pub(super) struct Qemu {
    windows: MmioRegions,
    functions: Functions,
    /// Function addresses in the order in which they get BARs.
    places: Vec<u32>,
    configs: HashMap<u32, Option<u16>>,
    selected: u32,
    names: Names,
    /// Number of accesses to other devices, by region name.
    others: HashMap<u16, u64>,
    timed: bool,
}

impl Default for Qemu {
    fn default() -> Self {
        let mut windows = MmioRegions::default();
        windows.add(Owner::Legacy, LEGACY_MEMORY.0, LEGACY_MEMORY.1);
        windows.add(Owner::Legacy, PORTS | LEGACY_PORTS.0, LEGACY_PORTS.1);
        Self {
            windows,
            functions: Functions::default(),
            places: Vec::new(),
            configs: HashMap::new(),
            selected: 0,
            names: Names::default(),
            others: HashMap::new(),
            timed: false,
        }
    }
}

impl Qemu {
    fn number(&mut self, place: u32) -> usize {
        let at = self.places.iter().position(|p| *p == place);
        at.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        })
    }

    /// Handles an access to a register of a function's configuration space.
    fn config(&mut self, place: u32, register: u32, item: &Item, rows: &mut Rows) {
        let is_reported = self
            .functions
            .access(place, item.write, register, item.width, item.value as u32);
        if is_reported {
            let function = self.number(place);
            for bar in self.functions.bars(place) {
                let base = if bar.ports {
                    PORTS | bar.base.get()
                } else {
                    bar.base.get()
                };
                self.windows.add(
                    Owner::Bar {
                        function,
                        bar: bar.number,
                    },
                    base,
                    bar.bytes,
                );
            }
        }
        let windows = &mut self.windows;
        let window = self
            .configs
            .entry(place)
            .or_insert_with(|| windows.add_separate(Owner::Config { place }, u64::from(CONFIG_BYTES)));
        if let Some(window) = *window {
            rows.access(
                item.write,
                item.time,
                AccessTarget::Window(window, register),
                item.width,
                item.value,
            );
        }
    }
}

impl Format for Qemu {
    type Parsed = Parsed;

    fn parse(&self, block: &[u8]) -> Parsed {
        let mut parsed = Parsed {
            items: Vec::with_capacity(block.len() / 96),
            names: Names::default(),
            lines: 0,
            unusable: UnusableLines::default(),
        };
        for line in text::lines(block) {
            parsed.lines += 1;
            match item(line, &mut parsed.names) {
                Some(item) => parsed.items.push(item),
                None => parsed.unusable.add(parsed.lines),
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
        let by_window: Vec<bool> = numbers.iter().map(|n| self.names.name(*n) == CONFIG_WINDOW).collect();
        for item in parsed.items {
            self.timed |= item.time != 0;
            if item.address == SELECT && item.width == 4 {
                if item.write {
                    self.selected = item.value as u32;
                }
            } else if DATA.contains(&item.address) && self.selected >> 31 == 1 {
                let register = self.selected & 0xfc | (item.address & 3) as u32;
                self.config(self.selected >> 8 & 0xffff, register, &item, &mut rows);
            } else if by_window.get(usize::from(item.name)) == Some(&true)
                && item.address & 0xfff < u64::from(CONFIG_BYTES)
            {
                let place = (item.address >> 12) as u32 & 0xffff;
                self.config(place, (item.address & 0xff) as u32, &item, &mut rows);
            } else {
                let address = if item.address < MAX_PORTS {
                    PORTS | item.address
                } else {
                    item.address
                };
                match self.windows.find(address) {
                    Some((window, offset)) => {
                        rows.access(
                            item.write,
                            item.time,
                            AccessTarget::Window(window, offset),
                            item.width,
                            item.value,
                        );
                    }
                    None => {
                        let name = numbers.get(usize::from(item.name)).copied().unwrap_or(0);
                        *self.others.entry(name).or_insert(0) += 1;
                    }
                }
            }
        }
        // Every window is known: accesses without one were counted above.
        rows.settle(&mut self.windows, |address| (address, address, false));
        log.push(rows);
    }

    fn finish(self, log: &mut Log) {
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
        }
        if !self.timed {
            let message = "the trace holds no times; every event has the time 0";
            log.findings.push(Finding::new(FindingKind::Assumed, "times", message));
            log.clock = Clock::SinceStart;
        }
        // In the order of window numbers; functions without windows come after them.
        let mut all = self.functions.functions();
        all.sort_by_key(|f| self.places.iter().position(|p| *p == f.place).unwrap_or(usize::MAX));
        let mut functions = Vec::new();
        for place in &self.places {
            let at = all.iter().position(|f| f.place == *place);
            functions.push(at.map(|at| all.remove(at)).unwrap_or_default());
        }
        functions.extend(all);
        log.functions = functions;
        log.windows = self.windows;
        log.source = SOURCE;
        log.tool = "QEMU trace".to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_trace_line_parses_as_an_access() {
        let mut names = Names::default();
        let line = b"memory_region_ops_write cpu -1 mr 0x55f9c3e560a0 addr 0xfee00000 value 0x1122334455 size 4 name 'apic-msi'";
        let a = item(line, &mut names).unwrap();
        assert_eq!(
            (a.write, a.address, a.value, a.width, a.time),
            (true, 0xfee0_0000, 0x2233_4455, 4, 0)
        );
        assert_eq!(names.name(a.name), "apic-msi");
        let line = b"1234@1700000000.000001:memory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0 size 1";
        assert_eq!(item(line, &mut names).unwrap().time, 1_700_000_000_000_001_000);
        for invalid in [
            "memory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0 size 3 name 'x'",
            "memory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0",
            "memory_region_ops_look cpu 0 mr 0x1 addr 0x71 value 0x0 size 1 name 'x'",
            "1234:memory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0 size 1",
            "memory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0 size 1 name 'x",
            "",
        ] {
            assert_eq!(item(invalid.as_bytes(), &mut names), None, "{invalid}");
        }
    }
}
