//! Lines of a kernel's boot log about PCI functions: ids and windows.
//!
//! ```text
//! pci 0000:01:00.0: [1002:5046] type 00 class 0x030000
//! pci 0000:01:00.0: reg 0x10: [mem 0xf0000000-0xf7ffffff pref]
//! pci 0000:01:00.0: BAR 2 [mem 0xfa000000-0xfaffffff 64bit]
//! pci 0000:01:00.0: BAR 2: assigned [mem 0xfb000000-0xfbffffff 64bit]
//! pci 0000:01:00.0: ROM [mem 0xfc000000-0xfc01ffff pref]
//! pci 0000:01:00.0: reg 10 32bit mmio: [0xf0000000-0xf7ffffff]
//! ```
//!
//! The last assignment of a window counts. Source: the kernel's `drivers/pci/probe.c` and `setup-res.c`, of several
//! versions.

use super::device::{Function, address};
use super::lspci::place_of;
use super::text;
use memchr::memmem;
use trace_core::BusAddr;
use trace_core::recording::{Bar, EXPANSION_ROM, PciFunction};

/// Maximum number of functions.
const MAX_FUNCTIONS: usize = 1024;
/// Offset of the first window and of the expansion ROM in configuration space.
const FIRST_BAR: u64 = 0x10;
const ROM: u64 = 0x30;

/// A reader of the lines.
#[derive(Clone, Debug, Default)]
pub(super) struct BootLogReader {
    functions: Vec<Function>,
}

impl BootLogReader {
    /// Reads a line. Returns whether it says something about a function.
    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        let Some(at) = memmem::find(line, b"pci 0") else {
            return false;
        };
        let Some((place, text)) = line.get(at + 4..).and_then(place_of) else {
            return false;
        };
        if let Some((vendor, device)) = ids(text) {
            let class = memmem::find(text, b"class ").and_then(|at| number(text.get(at + 6..)?));
            if let Some(f) = self.function(place) {
                (f.pci.vendor, f.pci.device) = (vendor, device);
                f.pci.class = class.and_then(|c| u32::try_from(c).ok()).or(f.pci.class);
            }
            return true;
        }
        let Some(bar) = bar(text) else {
            return false;
        };
        if let Some(f) = self.function(place) {
            f.pci.bars.retain(|b| b.number != bar.number);
            f.pci.bars.push(bar);
        }
        true
    }

    fn function(&mut self, place: u32) -> Option<&mut Function> {
        let known = self.functions.iter().position(|f| f.place == place);
        let at = match known {
            Some(at) => at,
            None if self.functions.len() >= MAX_FUNCTIONS => return None,
            None => {
                self.functions.push(Function {
                    pci: PciFunction {
                        address: address(place),
                        ..PciFunction::default()
                    },
                    driver: String::new(),
                    place,
                });
                self.functions.len() - 1
            }
        };
        self.functions.get_mut(at)
    }

    /// Returns the functions, with their windows in the order of their numbers.
    pub(super) fn functions(mut self) -> Vec<Function> {
        for f in &mut self.functions {
            f.pci.bars.sort_by_key(|b| b.number);
        }
        self.functions
    }
}

/// Parses the ids at the begin of a text: `[1002:5046] type 00 …`.
fn ids(text: &[u8]) -> Option<(u16, u16)> {
    let inner = text.trim_ascii_start().strip_prefix(b"[")?;
    let inner = inner.get(..memchr::memchr(b']', inner)?)?;
    let colon = memchr::memchr(b':', inner)?;
    let id = |field: &[u8]| u16::try_from(text::hex(field)?).ok().filter(|_| field.len() == 4);
    Some((id(inner.get(..colon)?)?, id(inner.get(colon + 1..)?)?))
}

/// Parses a number with or without `0x`, up to the first other character.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    let end = digits.iter().position(|b| !b.is_ascii_hexdigit());
    text::hex(digits.get(..end.unwrap_or(digits.len()))?)
}

/// Parses a window.
fn bar(text: &[u8]) -> Option<Bar> {
    let text = text.trim_ascii_start();
    let number_of = if let Some(rest) = text.strip_prefix(b"reg ") {
        match number(rest)? {
            ROM => EXPANSION_ROM,
            at => u8::try_from(at.checked_sub(FIRST_BAR)? / 4).ok()?,
        }
    } else if let Some(rest) = text.strip_prefix(b"BAR ") {
        u8::try_from(number(rest)?).ok()?
    } else if text.starts_with(b"ROM ") || text.starts_with(b"ROM:") {
        EXPANSION_ROM
    } else {
        return None;
    };
    // `can't assign` and `failed to assign` name a window that the function does not have.
    let is_failure = [&b"can't"[..], b"fail", b"no space"]
        .iter()
        .any(|w| memmem::find(text, w).is_some());
    let open = memchr::memchr(b'[', text)?;
    let inner = text.get(open + 1..)?;
    let inner = inner.get(..memchr::memchr(b']', inner)?)?;
    let range = inner.split(|b| *b == b' ').find(|w| w.starts_with(b"0x"))?;
    let dash = memchr::memchr(b'-', range)?;
    let (low, high) = (text::hex(range.get(..dash)?)?, text::hex(range.get(dash + 1..)?)?);
    let bytes = high.checked_sub(low)?.checked_add(1)?;
    let has = |word: &[u8]| memmem::find(text, word).is_some();
    let is_valid = number_of <= EXPANSION_ROM && low > 0 && !is_failure;
    is_valid.then_some(Bar {
        number: number_of,
        base: BusAddr::new(low),
        bytes,
        ports: inner.starts_with(b"io") || has(b" io port"),
        prefetchable: has(b"pref") && number_of != EXPANSION_ROM,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_lines_of_every_kernel_give_windows() {
        let text = "\
[    0.31] pci 0000:01:00.0: [1002:5046] type 00 class 0x030000
[    0.31] pci 0000:01:00.0: reg 0x10: [mem 0xf0000000-0xf7ffffff pref]
[    0.31] pci 0000:01:00.0: reg 0x14: [io  0xd000-0xd0ff]
[    0.31] pci 0000:01:00.0: BAR 2 [mem 0xf8000000-0xf8003fff 64bit]
[    0.31] pci 0000:01:00.0: reg 0x30: [mem 0x00000000-0x0001ffff pref]
[    0.40] pci 0000:01:00.0: BAR 2: assigned [mem 0xf9000000-0xf9003fff 64bit]
[    0.40] pci 0000:01:00.0: BAR 0 [mem 0xe0000000-0xe7ffffff pref]: failed to assign
[    0.41] pci 0000:01:00.0: ROM [mem 0xfa000000-0xfa01ffff pref]: assigned
[    0.41] pci 0000:02:00.0: reg 10 32bit mmio: [0xfb000000-0xfb0fffff]
[    0.41] pci 0000:02:00.0: supports D1 D2
";
        let mut reader = BootLogReader::default();
        let read = text.lines().filter(|l| reader.line(l.as_bytes())).count();
        assert_eq!(read, 7);
        let functions = reader.functions();
        let pci = &functions[0].pci;
        assert_eq!((pci.vendor, pci.device, pci.class), (0x1002, 0x5046, Some(0x3_0000)));
        let bars: Vec<_> = pci
            .bars
            .iter()
            .map(|b| (b.number, b.base.get(), b.bytes, b.ports))
            .collect();
        assert_eq!(
            bars,
            [
                (0, 0xf000_0000, 0x800_0000, false),
                (1, 0xd000, 0x100, true),
                (2, 0xf900_0000, 0x4000, false),
                (6, 0xfa00_0000, 0x2_0000, false)
            ]
        );
        assert_eq!(functions[1].pci.bars[0].base.get(), 0xfb00_0000);
        for other in [
            "",
            "pci 0",
            "pci 0000:01:00.0: reg 0x10: [mem",
            "pci_bus 0000:01: resource 1",
        ] {
            assert!(!BootLogReader::default().line(other.as_bytes()), "{other}");
        }
    }
}
