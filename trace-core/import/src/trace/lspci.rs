//! The output of `lspci -v`, and the `LSPCI` lines of a log: functions with their ids, windows and drivers.
//!
//! ```text
//! 01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [10de:2206] (rev a1)
//!         Flags: bus master, fast devsel, latency 0, IRQ 125
//!         Memory at fa000000 (32-bit, non-prefetchable) [size=16M]
//!         Region 1: Memory at 1800000000 (64-bit, prefetchable) [size=256M]
//!         I/O ports at f000 [size=128]
//!         Expansion ROM at fb000000 [disabled] [size=512K]
//!         Kernel driver in use: nvidia
//! ```
//!
//! `-v` prints no numbers of BARs: they are counted, and a 64-bit BAR takes two. Source: pciutils' `lspci.man` and
//! output.

use super::device::{Function, address};
use super::text;
use memchr::memmem;
use trace_core::BusAddr;
use trace_core::recording::{Bar, EXPANSION_ROM, PciFunction};

/// Maximum number of functions.
const MAX_FUNCTIONS: usize = 1024;

/// A reader of the lines.
#[derive(Clone, Debug, Default)]
pub(super) struct LspciReader {
    functions: Vec<Function>,
    /// Number of the next BAR of the last function.
    next_bar: u8,
}

impl LspciReader {
    /// Reads a line. Returns whether it says something about a function.
    pub(super) fn line(&mut self, line: &[u8]) -> bool {
        let text = line.trim_ascii();
        if let Some((place, rest)) = place_of(text) {
            if self.functions.len() < MAX_FUNCTIONS {
                self.functions.push(header(place, rest));
                self.next_bar = 0;
            }
            return true;
        }
        let Some(function) = self.functions.last_mut() else {
            return false;
        };
        if let Some(driver) = text.strip_prefix(b"Kernel driver in use:") {
            function.driver = String::from_utf8_lossy(driver.trim_ascii()).into_owned();
            return true;
        }
        if let Some(ids) = text.strip_prefix(b"Subsystem:") {
            if let Some((vendor, device)) = ids_of(ids) {
                function.pci.subsystem_vendor = Some(vendor);
                function.pci.subsystem_device = Some(device);
            }
            return true;
        }
        if text.starts_with(b"Flags:") || text.starts_with(b"Interrupt:") {
            let irq = memmem::find(text, b"IRQ ").and_then(|at| text.get(at + 4..));
            let irq = irq.and_then(|t| super::ftrace::number(t.split(|b| !b.is_ascii_digit()).next()?));
            function.pci.irq = irq.and_then(|n| u32::try_from(n).ok()).or(function.pci.irq);
            return true;
        }
        let Some((numbered, bar)) = bar(text) else {
            return text.starts_with(b"Memory at ") || text.starts_with(b"Region ");
        };
        let number = match numbered {
            _ if bar.number == EXPANSION_ROM => EXPANSION_ROM,
            Some(number) => number,
            None => self.next_bar,
        };
        if bar.number != EXPANSION_ROM {
            self.next_bar = number.saturating_add(if is_wide(text) { 2 } else { 1 });
        }
        let known = function.pci.bars.iter().any(|b| b.number == number);
        if number <= EXPANSION_ROM && !known {
            function.pci.bars.push(Bar { number, ..bar });
        }
        true
    }

    /// Returns the functions.
    pub(super) fn functions(self) -> Vec<Function> {
        self.functions
    }
}

/// Parses the place at the begin of a function's line: `01:00.0` or `0000:01:00.0`, with or without a colon.
pub(super) fn place_of(text: &[u8]) -> Option<(u32, &[u8])> {
    let end = text.iter().position(|b| *b == b' ')?;
    let (place, rest) = text.split_at_checked(end)?;
    let place = place.strip_suffix(b":").unwrap_or(place);
    let mut parts = place.rsplit(|b| *b == b':');
    let (device, bus, segment) = (parts.next()?, parts.next()?, parts.next());
    let dot = memchr::memchr(b'.', device)?;
    let hex = |field: &[u8], digits: usize| {
        let value = text::hex(field).filter(|_| field.len() == digits)?;
        u32::try_from(value).ok()
    };
    let (slot, function) = (hex(device.get(..dot)?, 2)?, hex(device.get(dot + 1..)?, 1)?);
    let segment = match segment {
        Some(segment) => hex(segment, 4)?,
        None => 0,
    };
    let is_place = slot < 32 && function < 8 && parts.next().is_none();
    is_place.then_some((segment << 16 | hex(bus, 2)? << 8 | slot << 3 | function, rest))
}

/// Returns the last ids in brackets, `[10de:2206]`, or those of `lspci -n`, `0300: 10de:2206`.
fn ids_of(text: &[u8]) -> Option<(u16, u16)> {
    let id = |part: &[u8]| {
        let (vendor, device) = (part.get(..4)?, part.get(5..9)?);
        let is_form = part.get(4) == Some(&b':') && part.len() == 9;
        let number = |field| u16::try_from(text::hex(field)?).ok();
        is_form.then_some((number(vendor)?, number(device)?))
    };
    let words = text.split(|b| matches!(b, b' ' | b'[' | b']'));
    words.filter_map(id).next_back()
}

fn header(place: u32, rest: &[u8]) -> Function {
    let (vendor, device) = ids_of(rest).unwrap_or_default();
    let class = || {
        let at = memmem::find(rest, b"[").map(|at| rest.get(at + 1..).unwrap_or_default());
        let field = at.unwrap_or(rest.trim_ascii_start()).get(..4)?;
        let class = text::hex(field).and_then(|c| u32::try_from(c).ok())?;
        Some(class << 8)
    };
    Function {
        pci: PciFunction {
            address: address(place),
            vendor,
            device,
            class: class(),
            ..PciFunction::default()
        },
        driver: String::new(),
        place,
    }
}

fn is_wide(text: &[u8]) -> bool {
    memmem::find(text, b"64-bit").is_some()
}

/// Parses a window: its number if the line has it, and the BAR; a ROM has the number of the expansion ROM.
fn bar(text: &[u8]) -> Option<(Option<u8>, Bar)> {
    let (numbered, text) = match text.strip_prefix(b"Region ") {
        Some(rest) => {
            let colon = memchr::memchr(b':', rest)?;
            let number = super::ftrace::number(rest.get(..colon)?)?;
            (Some(u8::try_from(number).ok()?), rest.get(colon + 1..)?.trim_ascii())
        }
        None => (None, text),
    };
    let (rom, ports, rest) = if let Some(rest) = text.strip_prefix(b"Memory at ") {
        (false, false, rest)
    } else if let Some(rest) = text.strip_prefix(b"I/O ports at ") {
        (false, true, rest)
    } else {
        (true, false, text.strip_prefix(b"Expansion ROM at ")?)
    };
    let base = text::hex(rest.split(|b| *b == b' ').next()?)?;
    let at = memmem::find(rest, b"[size=")? + 6;
    let size = rest.get(at..)?;
    let size = size.get(..memchr::memchr(b']', size)?)?;
    let digits = size.iter().take_while(|b| b.is_ascii_digit()).count();
    let unit = match size.get(digits..)? {
        b"" => 0,
        b"K" => 10,
        b"M" => 20,
        b"G" => 30,
        b"T" => 40,
        _ => return None,
    };
    let bytes = super::ftrace::number(size.get(..digits)?)?.checked_mul(1 << unit)?;
    let is_prefetchable =
        memmem::find(rest, b"prefetchable").is_some() && memmem::find(rest, b"non-prefetchable").is_none();
    let bar = Bar {
        number: if rom { EXPANSION_ROM } else { 0 },
        base: BusAddr::new(base),
        bytes,
        ports,
        prefetchable: is_prefetchable && !rom,
    };
    (bytes > 0 && base.checked_add(bytes - 1).is_some()).then_some((numbered, bar))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Function> {
        let mut reader = LspciReader::default();
        for line in text.lines() {
            reader.line(line.as_bytes());
        }
        reader.functions()
    }

    #[test]
    fn functions_and_windows_of_lspci_are_read() {
        let functions = read(
            "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce] [10de:2206] (rev a1)\n\
             \tSubsystem: Gigabyte [1458:403f]\n\
             \tFlags: bus master, fast devsel, latency 0, IRQ 125\n\
             \tMemory at fa000000 (32-bit, non-prefetchable) [size=16M]\n\
             \tMemory at 1800000000 (64-bit, prefetchable) [size=256M]\n\
             \tMemory at 1810000000 (64-bit, prefetchable) [size=32M]\n\
             \tI/O ports at f000 [size=128]\n\
             \tExpansion ROM at fb000000 [disabled] [size=512K]\n\
             \tKernel driver in use: nvidia\n\
             0001:02:1f.7 0403: 10de:1aef (rev a1)\n\
             \tRegion 4: Memory at <ignored> (32-bit, non-prefetchable)\n\
             \tRegion 3: Memory at fb080000 (32-bit, non-prefetchable) [size=16K]\n",
        );
        let gpu = &functions[0].pci;
        assert_eq!(
            (
                &gpu.address[..],
                gpu.vendor,
                gpu.device,
                gpu.class,
                gpu.irq,
                &functions[0].driver[..]
            ),
            ("0000:01:00.0", 0x10de, 0x2206, Some(0x03_0000), Some(125), "nvidia")
        );
        assert_eq!(
            (gpu.subsystem_vendor, gpu.subsystem_device),
            (Some(0x1458), Some(0x403f))
        );
        let bars: Vec<_> = gpu
            .bars
            .iter()
            .map(|b| (b.number, b.base.get(), b.bytes, b.ports, b.prefetchable))
            .collect();
        assert_eq!(
            bars,
            [
                (0, 0xfa00_0000, 16 << 20, false, false),
                (1, 0x18_0000_0000, 256 << 20, false, true),
                (3, 0x18_1000_0000, 32 << 20, false, true),
                (5, 0xf000, 128, true, false),
                (6, 0xfb00_0000, 512 << 10, false, false)
            ]
        );
        let audio = &functions[1].pci;
        assert_eq!(
            (&audio.address[..], audio.device, audio.class),
            ("0001:02:1f.7", 0x1aef, Some(0x04_0300))
        );
        assert_eq!((audio.bars.len(), audio.bars[0].number), (1, 3));
        for other in [
            "01:00.0",
            "01:20.0 x",
            "what",
            "",
            "Memory at 0 [size=1M]",
            "00:00.0 x\nMemory at ffffffffffffffff [size=9999999999999T]",
        ] {
            assert!(read(other).iter().all(|f| f.pci.bars.is_empty()), "{other}");
        }
    }
}
