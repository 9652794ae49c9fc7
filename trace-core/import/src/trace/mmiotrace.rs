//! The importer of the kernel's mmiotrace log: accesses of x86 drivers to memory that they mapped after the tracer
//! started.
//!
//! ```text
//! VERSION 20070824
//! PCIDEV BUSDEVFN VENDORDEVICE IRQ  seven bases with flags in their low bits, seven sizes  [DRIVER]
//! MAP TIME ID PHYSICAL VIRTUAL BYTES PC PID
//! UNMAP TIME ID PC PID
//! R|W WIDTH TIME ID PHYSICAL VALUE PC PID
//! UNKNOWN TIME ID PHYSICAL OP,OP,OP PC PID
//! MARK TIME TEXT
//! LSPCI LINE OF lspci -v
//! ```
//!
//! Numbers are hexadecimal, except widths, ids and times; times are seconds of the kernel's trace clock. An `UNKNOWN`
//! line is an access whose instruction the tracer cannot decode, so it has an address and no value. Lost events give a
//! mark of time 0 with the text `Lost N events.`, and `CPU:0 [LOST N EVENTS]` at the gap. The second comes from the
//! log's pipe, the first from the tracer. Sources: the kernel's `Documentation/trace/mmiotrace.rst` and the logs
//! themselves.

use super::device::{Function, address};
use super::ftrace;
use super::log::{Format, Log};
use super::lspci::LspciReader;
use super::mmio_regions::{Extent, Finder, MmioRegions, Owner, find_mapped_range};
use super::placement::Placement;
use super::rows::{AccessTarget, Rows};
use super::score::LineScore;
use super::text::{self, Line};
use trace_core::recording::{Bar, EXPANSION_ROM, PciFunction, UndecodedRow};
use trace_core::{BusAddr, RegOffset};

/// Value of [`trace_core::recording::Identity::source`].
pub(super) const SOURCE: &str = "mmiotrace";
/// Flag bits of a BAR base: the low four bits. The lowest means port I/O, the highest prefetchable.
const FLAGS: u64 = 0xf;
const PORTS: u64 = 1;
const PREFETCHABLE: u64 = 8;
/// Flag of the expansion ROM BAR: reads return a copy that the firmware left in memory.
const SHADOW: u64 = 2;
/// Maximum number of functions that are taken from a log.
const MAX_FUNCTIONS: usize = 1024;

/// Returns how well a line fits the format.
pub(super) fn score(line: &[u8]) -> LineScore {
    let frame = |fits: bool| if fits { LineScore::Frame } else { LineScore::Foreign };
    let mut l = Line::new(line.trim_ascii_end());
    match l.word() {
        Some(b"VERSION") => frame(l.decimal().is_some()),
        Some(b"PCIDEV") => match function(l) {
            Some(_) => LineScore::Frame,
            None if l.hex().is_some() => {
                LineScore::Start("one of its numbers: place, ids, interrupt, 7 bases, 7 sizes")
            }
            None => LineScore::Foreign,
        },
        Some(b"MARK" | b"UNMAP") => frame(l.time().is_some()),
        Some(b"MAP") => match map(l) {
            Some(_) => LineScore::Frame,
            None if l.time().is_some() => LineScore::Start("the address or the size of the mapping"),
            None => LineScore::Foreign,
        },
        Some(b"#") => frame(l.rest().trim_ascii() == b"tracer: mmiotrace"),
        Some(b"R" | b"W") => match access(l) {
            Ok(_) => LineScore::Access,
            // Two words of the right form are close to an access.
            Err(missing) if begins_as_access(l, true) => LineScore::Near(missing),
            Err(missing) if begins_as_access(l, false) => LineScore::Start(missing),
            Err(_) => LineScore::Foreign,
        },
        Some(b"UNKNOWN") => match undecoded(l) {
            Some(_) => LineScore::Access,
            None if l.time().is_some() => LineScore::Start("the address or the first bytes of the instruction"),
            None => LineScore::Foreign,
        },
        _ => LineScore::Foreign,
    }
}

/// Whether the fields of a line begin as those of an access: with a width, and a time that is whole or cut.
fn begins_as_access(mut l: Line<'_>, is_whole: bool) -> bool {
    let width = l.decimal();
    if is_whole {
        return width.is_some() && l.time().is_some();
    }
    let is_width = matches!(width, Some(1 | 2 | 4 | 8));
    let is_digit = |b: &u8| b.is_ascii_digit() || *b == b'.';
    is_width
        && l.word()
            .is_none_or(|word| word.iter().all(is_digit) && l.word().is_none())
}

struct AccessLine {
    width: u8,
    time: u64,
    address: u64,
    value: u64,
}

fn access(mut l: Line<'_>) -> Result<AccessLine, &'static str> {
    let width = l.decimal().ok_or("the width")?;
    let time = l.time().ok_or("the time")?;
    l.decimal().ok_or("the number of the mapping")?;
    let address = l.hex().ok_or("the address")?;
    let value = l.hex().ok_or("the value")?;
    l.hex().ok_or("the address of the code, behind the value")?;
    let width = match width {
        1 | 2 | 4 | 8 => width as u8,
        _ => return Err("a width of 1, 2, 4 or 8 bytes"),
    };
    // A value wider than the access is invalid.
    let fits = width == 8 || value >> (8 * u32::from(width)) == 0;
    fits.then_some(AccessLine {
        width,
        time,
        address,
        value,
    })
    .ok_or("a value that fits its width")
}

struct UndecodedLine {
    time: u64,
    address: u64,
    /// The instruction's first three bytes, the first in bits 16 to 23.
    code: u32,
}

fn undecoded(mut l: Line<'_>) -> Option<UndecodedLine> {
    let time = l.time()?;
    l.decimal()?;
    let address = l.hex()?;
    let mut code = 0;
    for byte in l.word()?.split(|b| *b == b',') {
        code = code << 8 | u32::try_from(text::hex(byte).filter(|b| *b < 256)?).ok()?;
    }
    l.hex()?;
    Some(UndecodedLine {
        time,
        address,
        code: code & 0xff_ffff,
    })
}

struct MapLine {
    time: u64,
    id: u32,
    address: u64,
    bytes: u64,
}

fn map(mut l: Line<'_>) -> Option<MapLine> {
    let (time, id) = (l.time()?, l.decimal()?);
    let address = l.hex()?;
    l.hex()?;
    let bytes = l.hex()?;
    Some(MapLine {
        time,
        id,
        address,
        bytes,
    })
}

fn function(mut l: Line<'_>) -> Option<Function> {
    let place = u32::try_from(l.hex()?).ok()?;
    let id = u32::try_from(l.hex()?).ok()?;
    let irq = u32::try_from(l.hex()?).ok()?;
    let mut bases = [0; 7];
    let mut sizes = [0; 7];
    for slot in bases.iter_mut().chain(&mut sizes) {
        *slot = l.hex()?;
    }
    let driver = l
        .word()
        .map(|w| String::from_utf8_lossy(w).into_owned())
        .unwrap_or_default();
    let mut bars = Vec::new();
    for (number, (base, bytes)) in (0u8..).zip(bases.into_iter().zip(sizes)) {
        let rom = number == EXPANSION_ROM;
        // A ROM copy is in memory, not in a BAR of the function; a size of 0 is no BAR.
        if bytes == 0 || base & !FLAGS == 0 && base & PORTS == 0 || rom && base & SHADOW != 0 {
            continue;
        }
        let ports = !rom && base & PORTS != 0;
        bars.push(Bar {
            number,
            base: BusAddr::new(base & if ports { !3 } else { !FLAGS }),
            bytes,
            ports,
            prefetchable: !rom && !ports && base & PREFETCHABLE != 0,
        });
    }
    let pci = PciFunction {
        address: address(place),
        vendor: (id >> 16) as u16,
        device: id as u16,
        irq: (irq != 0).then_some(irq),
        bars,
        ..PciFunction::default()
    };
    (place <= 0xffff).then_some(Function { pci, driver, place })
}

/// The content of a block.
pub(super) struct Parsed {
    rows: Rows,
    maps: Vec<(u64, u64)>,
    functions: Vec<Function>,
    /// Lines of `lspci -v`.
    lspci: Vec<Vec<u8>>,
    version: Option<u32>,
}

/// Maximum number of lines of `lspci` in a log.
const MAX_LSPCI_LINES: usize = 1 << 14;

/// The format, with the state of the log so far.
pub(super) struct Mmiotrace {
    windows: MmioRegions,
    functions: Vec<Function>,
    names: Vec<String>,
    lspci: LspciReader,
    maps: Vec<(u64, u64)>,
    version: Option<u32>,
}

impl Mmiotrace {
    /// Returns the format with the windows that the user placed.
    pub(super) fn new(known: &Placement) -> Self {
        let (mut windows, mut names) = (MmioRegions::default(), Vec::new());
        known.add_windows(&mut windows, &mut names);
        Self {
            windows,
            functions: known.functions.clone(),
            names,
            lspci: LspciReader::default(),
            maps: Vec::new(),
            version: None,
        }
    }

    fn add_function(&mut self, f: Function) {
        if self.functions.len() >= MAX_FUNCTIONS {
            return;
        }
        for bar in f.pci.bars.iter().filter(|b| !b.ports) {
            let owner = Owner::Bar {
                function: self.functions.len(),
                bar: bar.number,
            };
            self.windows.add(owner, bar.base.get(), bar.bytes, Extent::Fixed);
        }
        self.functions.push(f);
    }
}

impl Parsed {
    /// Handles a line. Returns `None` for other lines.
    fn line(&mut self, line: &[u8], finder: &mut Finder<'_>) -> Option<()> {
        let at = |finder: &mut Finder<'_>, address| match finder.find(address) {
            Some((window, offset)) => AccessTarget::Window(window, offset),
            None => AccessTarget::Address(address),
        };
        let mut l = Line::new(line);
        match line {
            [way @ (b'R' | b'W'), b' ', ..] => {
                l.word();
                let a = access(l).ok()?;
                self.rows
                    .access(*way == b'W', a.time, at(finder, a.address), a.width, a.value);
            }
            [b'U', b'N', b'K', ..] => {
                l.tag(b"UNKNOWN ")?;
                let u = undecoded(l)?;
                let row = UndecodedRow::from_instruction(RegOffset::ZERO, u.code);
                self.rows.undecoded(u.time, at(finder, u.address), row);
            }
            _ => self.rare(line)?,
        }
        Some(())
    }

    fn rare(&mut self, line: &[u8]) -> Option<()> {
        let mut l = Line::new(line);
        match l.word().unwrap_or_default() {
            b"VERSION" => self.version = Some(l.decimal()?),
            b"PCIDEV" => self.functions.push(function(l)?),
            b"MAP" => {
                let m = map(l)?;
                if let Some(bytes) = m.bytes.checked_sub(1) {
                    self.maps.push((m.address, m.address.saturating_add(bytes)));
                }
                self.rows
                    .mark(m.time, format!("map {}: {:#x}, {:#x} bytes", m.id, m.address, m.bytes));
            }
            b"UNMAP" => {
                let (time, id) = (l.time()?, l.decimal()?);
                self.rows.mark(time, format!("unmap {id}"));
            }
            b"LSPCI" if self.lspci.len() < MAX_LSPCI_LINES => {
                // The blanks in front belong to the line.
                let rest = l.rest();
                self.lspci.push(rest.strip_prefix(b" ").unwrap_or(rest).to_vec());
            }
            b"MARK" => {
                let time = l.time()?;
                l.blanks();
                let text = String::from_utf8_lossy(l.rest()).trim_end().to_owned();
                match lost(l) {
                    Some(count) if time == 0 => self.rows.lose(Some(count), text),
                    _ => self.rows.mark(time, text),
                }
            }
            // The form of the kernel's other tracers.
            b if b.starts_with(b"CPU:") => {
                let text = String::from_utf8_lossy(l.rest()).trim().to_owned();
                let count = ftrace::lost(line)?;
                self.rows.lose(count, text);
            }
            _ if ftrace::is_frame(line) => {}
            _ => return None,
        }
        Some(())
    }
}

/// Returns the number of lost events in a mark's text.
fn lost(mut l: Line<'_>) -> Option<u64> {
    l.tag(b"Lost ")?;
    let count = l.decimal()?;
    l.blanks();
    l.tag(b"events")?;
    Some(u64::from(count))
}

impl Format for Mmiotrace {
    type Parsed = Parsed;

    fn parse(&self, block: &[u8]) -> Parsed {
        let mut parsed = Parsed {
            rows: Rows::default(),
            maps: Vec::new(),
            functions: Vec::new(),
            lspci: Vec::new(),
            version: None,
        };
        let mut finder = Finder::new(&self.windows);
        parsed.rows.reserve(block.len() / 36);
        for line in text::lines(block) {
            parsed.rows.lines += 1;
            if parsed.line(line, &mut finder).is_none() {
                let number = parsed.rows.lines;
                match score(line) {
                    LineScore::Near(missing) | LineScore::Start(missing) => {
                        parsed.rows.unusable.add_incomplete(number, missing);
                    }
                    _ => parsed.rows.unusable.add(number),
                }
            }
        }
        parsed
    }

    fn take(&mut self, parsed: Parsed, log: &mut Log) {
        let Parsed {
            mut rows,
            maps,
            functions,
            lspci,
            version,
        } = parsed;
        self.version = self.version.or(version);
        for f in functions {
            self.add_function(f);
        }
        if !lspci.is_empty() {
            for line in &lspci {
                self.lspci.line(line);
            }
            // What PCIDEV lines say of a function counts; they come first.
            for f in self.lspci.clone().functions() {
                if !self.functions.iter().any(|known| known.place == f.place) && !f.pci.bars.is_empty() {
                    self.add_function(f);
                }
            }
        }
        self.maps.extend(maps);
        let Self { windows, maps, .. } = self;
        rows.settle(windows, |address| find_mapped_range(maps, address));
        log.push(rows);
    }

    fn finish(self, log: &mut Log) {
        log.source = SOURCE;
        log.tool = self
            .version
            .map_or_else(|| SOURCE.to_owned(), |v| format!("{SOURCE} {v}"));
        log.windows = self.windows;
        log.functions = self.functions;
        log.names = self.names;
        // The mark is written as soon as the tracer knows, before events that are older than the loss. The pipe's line
        // about the same loss is at the gap.
        log.lost_once(|l| l.starts_with("Lost "), |l| l.starts_with("[LOST"));
    }
}
