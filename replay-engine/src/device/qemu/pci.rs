//! PCI set-up of the function: configuration space, window addresses, interrupt.
//!
//! No firmware runs in this QEMU, so its work is done here: windows are sized, addresses are assigned by one rule, and
//! decoding is enabled. Sources: PCI Local Bus Specification 3.0, section 6; the chipset's interrupt routing, Intel
//! 82371SB (PIIX3), registers PIRQRC at 0x60.

use super::error::QemuError;
use super::qtest::{AccessLocation, Qtest};
use trace_core::BusAddr;
use trace_core::recording::{Bar, PciFunction};

/// The slot of the device on bus 0.
pub(super) const SLOT: u32 = 3;
/// The slot of the chipset bridge that routes interrupts, function 0.
const BRIDGE: u32 = 1;
/// The I/O APIC line that the function's interrupt is routed to.
pub(super) const LINE: u32 = 11;

/// Address range for 32-bit windows: above all memory, below the chipset's own range.
const MEMORY: (u64, u64) = (0x8000_0000, 0xfe00_0000);
/// Address range for 64-bit windows that do not fit there.
const HIGH: (u64, u64) = (0x40_0000_0000, 0x80_0000_0000);
/// Address range for port windows.
const PORTS: (u64, u64) = (0xc000, 0xffff);

const COMMAND: u32 = 0x04;
const COMMAND_PORTS: u64 = 1 << 0;
const COMMAND_MEMORY: u64 = 1 << 1;
const COMMAND_MASTER: u64 = 1 << 2;

/// Names of windows, by the number of their base address register.
pub(super) const BAR_NAMES: [&str; 6] = ["bar0", "bar1", "bar2", "bar3", "bar4", "bar5"];

fn place(offset: u32) -> AccessLocation {
    AccessLocation {
        window: "configuration space",
        offset: u64::from(offset),
    }
}

/// Reads 1, 2 or 4 bytes of configuration space, through ports 0xcf8 and 0xcfc.
fn read(q: &mut Qtest, slot: u32, offset: u32, width: u8) -> Result<u64, QemuError> {
    let address = 0x8000_0000 | slot << 11 | offset & 0xfc;
    q.port_out(0xcf8, 4, u64::from(address), place(offset))?;
    q.port_in(0xcfc + u64::from(offset & 3), width, place(offset))
}

fn write(q: &mut Qtest, slot: u32, offset: u32, width: u8, value: u64) -> Result<(), QemuError> {
    let address = 0x8000_0000 | slot << 11 | offset & 0xfc;
    q.port_out(0xcf8, 4, u64::from(address), place(offset))?;
    q.port_out(0xcfc + u64::from(offset & 3), width, value, place(offset))
}

/// Finds the function, assigns its windows and enables decoding. Bus mastering stays off.
///
/// # Errors
/// If there is no function, its windows do not fit, or QEMU fails.
pub(super) fn set_up(q: &mut Qtest, device: &str) -> Result<PciFunction, QemuError> {
    let id = read(q, SLOT, 0, 4)?;
    if id & 0xffff == 0xffff || id == 0 {
        return Err(QemuError::NoFunction {
            device: device.to_owned(),
        });
    }
    let class = read(q, SLOT, 0x08, 4)?;
    let subsystem = read(q, SLOT, 0x2c, 4)?;
    // A bridge or a CardBus controller has another header, with fewer windows and without subsystem ids.
    let ordinary = read(q, SLOT, 0x0e, 1)? & 0x7f == 0;
    write(q, SLOT, COMMAND, 2, 0)?;
    let bars = assign(if ordinary { sizes(q)? } else { Vec::new() }, device)?;
    for bar in &bars {
        let register = 0x10 + 4 * u32::from(bar.number);
        write(q, SLOT, register, 4, bar.base.get() & 0xffff_ffff)?;
        if bar.base > BusAddr::new(0xffff_ffff) {
            write(q, SLOT, register + 4, 4, bar.base.get() >> 32)?;
        }
    }
    let pin = read(q, SLOT, 0x3d, 1)?;
    if (1..=4).contains(&pin) {
        // The pins of each slot are rotated by one relative to the previous slot.
        let route = 0x60 + ((SLOT - 1 + pin as u32 - 1) & 3);
        write(q, BRIDGE, route, 1, u64::from(LINE))?;
        write(q, SLOT, 0x3c, 1, u64::from(LINE))?;
    }
    let has = |ports: bool| bars.iter().any(|b| b.ports == ports);
    let decoding = if has(true) { COMMAND_PORTS } else { 0 } | if has(false) { COMMAND_MEMORY } else { 0 };
    write(q, SLOT, COMMAND, 2, decoding)?;
    q.settle()?;
    let halves = |v: u64| ((v & 0xffff) as u16, (v >> 16 & 0xffff) as u16);
    let (vendor, device) = halves(id);
    let (subsystem_vendor, subsystem_device) = halves(subsystem);
    Ok(PciFunction {
        address: format!("0000:00:{SLOT:02x}.0"),
        vendor,
        device,
        subsystem_vendor: ordinary.then_some(subsystem_vendor),
        subsystem_device: ordinary.then_some(subsystem_device),
        class: Some((class >> 8) as u32),
        revision: Some((class & 0xff) as u8),
        irq: (1..=4).contains(&pin).then_some(LINE),
        bars,
    })
}

/// Switches bus mastering on or off.
pub(super) fn set_bus_mastering(q: &mut Qtest, on: bool) -> Result<(), QemuError> {
    let command = read(q, SLOT, COMMAND, 2)?;
    let wanted = if on {
        command | COMMAND_MASTER
    } else {
        command & !COMMAND_MASTER
    };
    write(q, SLOT, COMMAND, 2, wanted)?;
    q.settle()
}

/// A window without an address.
struct UnassignedBar {
    bar: Bar,
    /// Whether it may be above 4 GiB.
    wide: bool,
}

/// Returns the windows and their sizes. Of all ones written to a base address register, only address bits read back as
/// ones.
fn sizes(q: &mut Qtest) -> Result<Vec<UnassignedBar>, QemuError> {
    let mut bars = Vec::new();
    let mut number = 0u8;
    while number < 6 {
        let register = 0x10 + 4 * u32::from(number);
        let mut mask = ask(q, register)?;
        let flags = mask & 0xf;
        let ports = flags & 1 != 0;
        let wide = !ports && flags >> 1 & 3 == 2;
        mask &= if ports { 0xffff_fffc } else { 0xffff_fff0 };
        if wide && number < 5 {
            mask |= ask(q, register + 4)? << 32;
        } else if mask != 0 {
            // Bits above the register width count as set.
            mask |= if ports { !0xffff } else { !0xffff_ffff };
        }
        if mask != 0 {
            let bar = Bar {
                number,
                base: BusAddr::ZERO,
                bytes: mask & mask.wrapping_neg(),
                ports,
                prefetchable: !ports && flags & 8 != 0,
            };
            bars.push(UnassignedBar { bar, wide });
        }
        number = number.saturating_add(if wide { 2 } else { 1 });
    }
    Ok(bars)
}

fn ask(q: &mut Qtest, register: u32) -> Result<u64, QemuError> {
    write(q, SLOT, register, 4, 0xffff_ffff)?;
    let mask = read(q, SLOT, register, 4)?;
    write(q, SLOT, register, 4, 0)?;
    Ok(mask)
}

/// Assigns each window an address that is a multiple of its size. The largest is first, so that there are no gaps.
fn assign(mut asked: Vec<UnassignedBar>, device: &str) -> Result<Vec<Bar>, QemuError> {
    asked.sort_by_key(|a| (std::cmp::Reverse(a.bar.bytes), a.bar.number));
    let (mut memory, mut high, mut ports) = (MEMORY, HIGH, PORTS);
    let mut bars = Vec::new();
    for UnassignedBar { bar, wide } in asked {
        let base = match (bar.ports, wide) {
            (true, _) => take(&mut ports, bar.bytes),
            (false, false) => take(&mut memory, bar.bytes),
            (false, true) => take(&mut memory, bar.bytes).or_else(|| take(&mut high, bar.bytes)),
        };
        let base = base.ok_or_else(|| QemuError::Room {
            device: device.to_owned(),
            bar: bar.number,
            bytes: bar.bytes,
        })?;
        bars.push(Bar {
            base: BusAddr::new(base),
            ..bar
        });
    }
    bars.sort_by_key(|b| b.number);
    Ok(bars)
}

/// Takes a piece from the start of a range.
fn take(from: &mut (u64, u64), bytes: u64) -> Option<u64> {
    let base = from.0.checked_next_multiple_of(bytes)?;
    let end = base.checked_add(bytes).filter(|end| *end <= from.1)?;
    from.0 = end;
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unassigned(number: u8, bytes: u64, ports: bool, wide: bool) -> UnassignedBar {
        let bar = Bar {
            number,
            bytes,
            ports,
            ..Bar::default()
        };
        UnassignedBar { bar, wide }
    }

    fn bases(unassigned: Vec<UnassignedBar>) -> Vec<u64> {
        assign(unassigned, "d").unwrap().iter().map(|b| b.base.get()).collect()
    }

    #[test]
    fn bars_are_size_aligned_and_do_not_overlap() {
        let ati = vec![
            unassigned(0, 16 << 20, false, false),
            unassigned(1, 256, true, false),
            unassigned(2, 0x4000, false, false),
        ];
        assert_eq!(bases(ati), [0x8000_0000, 0xc000, 0x8100_0000]);
        let mixed = vec![
            unassigned(0, 0x1000, false, false),
            unassigned(1, 1 << 20, false, false),
            unassigned(2, 0x4000, false, true),
        ];
        assert_eq!(bases(mixed), [0x8010_4000, 0x8000_0000, 0x8010_0000]);
    }

    #[test]
    fn large_bars_go_above_4_gib_if_they_are_64_bit() {
        assert_eq!(bases(vec![unassigned(0, 8 << 30, false, true)]), [0x40_0000_0000]);
        for (bytes, ports) in [(1 << 31, false), (0x1_0000, true)] {
            let e = assign(vec![unassigned(0, bytes, ports, false)], "d").unwrap_err();
            assert!(matches!(e, QemuError::Room { bar: 0, .. }), "{e}");
        }
    }
}
