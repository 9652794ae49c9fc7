//! The `resource` file of a PCI function in sysfs, stored next to a log without windows. Each line has first address,
//! last address and flags, for the six base address registers and the expansion ROM. Sources: the kernel's
//! `Documentation/PCI/sysfs-pci.rst` and `include/linux/ioport.h`.

use super::device::Function;
use super::text::{self, Line};
use trace_core::BusAddr;
use trace_core::recording::{Bar, EXPANSION_ROM, PciFunction};

/// Flags of a BAR: x86 ports, and memory whose reads have no side effects.
const PORTS: u64 = 0x100;
const PREFETCHABLE: u64 = 0x2000;

/// Whether a line has the form of this file.
pub(super) fn is_line(line: &[u8]) -> bool {
    let words = line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
    let numbers = words.map(|w| w.starts_with(b"0x") && text::hex(w).is_some());
    numbers.clone().count() == 3 && numbers.clone().all(|is| is)
}

/// Parses the file's text; the error is the number of the malformed line.
pub(super) fn parse(bytes: &[u8]) -> Result<Function, u64> {
    let mut bars = Vec::new();
    for ((number, line), at) in (0u8..=EXPANSION_ROM).zip(text::lines(bytes)).zip(1..) {
        let mut l = Line::new(line);
        let (Some(first), Some(last), Some(flags)) = (l.hex(), l.hex(), l.hex()) else {
            return Err(at);
        };
        if flags == 0 && last == 0 {
            continue;
        }
        let bytes = last.checked_sub(first).and_then(|n| n.checked_add(1)).ok_or(at)?;
        bars.push(Bar {
            number,
            base: BusAddr::new(first),
            bytes,
            ports: flags & PORTS != 0,
            prefetchable: flags & PREFETCHABLE != 0 && number != EXPANSION_ROM,
        });
    }
    let pci = PciFunction {
        bars,
        ..PciFunction::default()
    };
    Ok(Function {
        pci,
        ..Function::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_resource_lines_are_parsed_or_refused() {
        let text = b"0x0000000010000000 0x0000000010ffffff 0x0000000000042208\n\
            0x0000000000001000 0x00000000000010ff 0x0000000000040101\n\
            0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
        let bars = parse(text).unwrap().pci.bars;
        let entries: Vec<_> = bars
            .iter()
            .map(|b| (b.number, b.base.get(), b.bytes, b.ports, b.prefetchable))
            .collect();
        assert_eq!(
            entries,
            [
                (0, 0x1000_0000, 0x100_0000, false, true),
                (1, 0x1000, 0x100, true, false)
            ]
        );
        assert_eq!(parse(b"0x1 0x2\n").unwrap_err(), 1);
        assert_eq!(parse(b"0x0 0x0 0x0\n0x2 0x1 0x200\n").unwrap_err(), 2);
        assert_eq!(parse(b"0x0 0xffffffffffffffff 0x200\n").unwrap_err(), 1);
        assert!(parse(b"").unwrap().pci.bars.is_empty());
    }
}
