//! PCI functions of a machine from accesses to configuration space: their ids and BARs. The firmware reads the size
//! of a BAR by writing ones to it and reading back which bits stay; then it writes the base. Firmware and system may
//! write bases again, exchange them, write a 64-bit base in halves, and switch the decoding of addresses off meanwhile.
//! Source: the PCI Local Bus Specification, revision 3.0, chapter 6.

use super::device::{Function, address};
use std::collections::BTreeMap;
use trace_core::BusAddr;
use trace_core::recording::{Bar, EXPANSION_ROM, PciFunction};

/// Registers of configuration space: ids, command, class and revision, first base address register, number of BARs in bridges
/// and in others, subsystem, expansion ROM, interrupt line, and header type.
const ID: u32 = 0;
const COMMAND: u32 = 0x04;
const CLASS: u32 = 0x08;
const FIRST_BAR: u32 = 0x10;
const BARS: u32 = 6;
const SUBSYSTEM: u32 = 0x2c;
const ROM: u32 = 0x30;
const INTERRUPT: u32 = 0x3c;
/// Bits of the command: the function decodes addresses of ports, and of memory.
const PORT_DECODING: u16 = 1;
const MEMORY_DECODING: u16 = 2;
/// Maximum number of functions.
const MAX_FUNCTIONS: usize = 1024;

/// The state of a base address register.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    /// The last value written that was no size query.
    written: Option<u32>,
    /// Whether the last value written was a size query.
    asked: bool,
    /// The answer to a size query: bits that stay, with flags below.
    answer: Option<u32>,
}

impl Register {
    /// Whether a value is a size query: all ones except for the flags, which some firmware leaves unchanged.
    fn is_question(value: u32) -> bool {
        value | 0x7ff == u32::MAX
    }

    fn write(&mut self, value: u32) {
        self.asked = Self::is_question(value);
        if !self.asked {
            self.written = Some(value);
        }
    }

    fn read(&mut self, value: u32) {
        if self.asked {
            self.answer = Some(value);
        } else if self.written.is_none() && value != u32::MAX {
            self.written = Some(value);
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Config {
    id: Option<(u16, u16)>,
    class: Option<u32>,
    revision: Option<u8>,
    subsystem: Option<(u16, u16)>,
    irq: Option<u32>,
    bars: [Register; BARS as usize],
    rom: Register,
    /// The command; `None`: not known, and decoding counts as on.
    command: Option<u16>,
    /// Bits of the BARs whose lower half was written after the upper one: their base is not complete.
    halves: u8,
    /// The last base of each BAR and of the ROM, so that a function keeps its windows when they end.
    last: [Option<Bar>; BARS as usize + 1],
}

impl Config {
    /// Whether the function decodes addresses of a BAR.
    fn decodes(&self, ports: bool) -> bool {
        let bit = if ports { PORT_DECODING } else { MEMORY_DECODING };
        self.command.is_none_or(|c| c & bit != 0)
    }

    /// Handles an access to the command. Returns whether decoding changed.
    fn access_command(&mut self, write: bool, low: Option<u8>, high: Option<u8>) -> bool {
        let before = self.command;
        let [old_low, old_high] = before.unwrap_or(0).to_le_bytes();
        let command = u16::from_le_bytes([low.unwrap_or(old_low), high.unwrap_or(old_high)]);
        if low.is_none() && before.is_none() {
            return false;
        }
        self.command = Some(command);
        if write && command & MEMORY_DECODING != 0 {
            // The system has written what it wanted to.
            self.halves = 0;
            return true;
        }
        before != self.command
    }

    /// Whether a BAR is the lower half of a 64-bit one.
    fn is_wide(&self, number: usize) -> bool {
        let answer = self.bars.get(number).and_then(|b| b.answer);
        answer.is_some_and(|a| a & 7 == 4)
    }

    /// Handles an access to a BAR by its number. Returns whether its base may have changed.
    fn access_bar(&mut self, number: usize, write: bool, value: u32) -> bool {
        let upper_of = number.checked_sub(1).filter(|n| self.is_wide(*n));
        let is_lower = self.is_wide(number);
        let Some(register) = self.bars.get_mut(number) else {
            return false;
        };
        if !write {
            register.read(value);
            return false;
        }
        // All ones are a base of a BAR that the function sizes, and no upper half of a base.
        register.write(value);
        if register.asked {
            return false;
        }
        match upper_of {
            Some(lower) => self.halves &= !(1 << lower),
            None if is_lower => {
                self.halves |= 1 << number;
                return false;
            }
            None => {}
        }
        true
    }
}

/// A BAR of a function at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BarPlace {
    /// The function decodes its addresses.
    Placed(Bar),
    /// The function decodes no addresses of this BAR, by its number.
    Off(u8),
}

/// The functions of a machine, by bus, device and function.
#[derive(Clone, Debug, Default)]
pub(super) struct Functions {
    all: BTreeMap<u32, Config>,
}

impl Functions {
    /// Records an access. Returns whether it may have changed the function's BARs.
    pub(super) fn access(&mut self, place: u32, write: bool, register: u32, width: u8, value: u32) -> bool {
        if self.all.len() >= MAX_FUNCTIONS && !self.all.contains_key(&place) {
            return false;
        }
        // A function that answers with ones is missing.
        if !write && register == ID && value & 0xffff == 0xffff {
            return false;
        }
        let c = self.all.entry(place).or_default();
        let (low, high) = (value as u16, (value >> 16) as u16);
        match (register, width, write) {
            (ID, 4, false) => c.id = Some((low, high)),
            (ID, 2, false) => c.id = Some((low, c.id.map_or(0, |i| i.1))),
            (2, 2, false) => c.id = Some((c.id.map_or(0, |i| i.0), low)),
            (CLASS, 4, false) => (c.class, c.revision) = (Some(value >> 8), Some(value as u8)),
            (10, 2, false) => c.class = Some(u32::from(low) << 8 | c.class.unwrap_or(0) & 0xff),
            (SUBSYSTEM, 4, false) => c.subsystem = Some((low, high)),
            (SUBSYSTEM, 2, false) => c.subsystem = Some((low, c.subsystem.map_or(0, |s| s.1))),
            (0x2e, 2, false) => c.subsystem = Some((c.subsystem.map_or(0, |s| s.0), low)),
            (INTERRUPT, ..) => c.irq = Some(value & 0xff),
            (COMMAND, 4 | 2, _) => {
                let [low, high] = low.to_le_bytes();
                return c.access_command(write, Some(low), Some(high));
            }
            (COMMAND, 1, _) => return c.access_command(write, Some(low as u8), None),
            (5, 1, _) => return c.access_command(write, None, Some(low as u8)),
            (ROM, 4, true) => {
                c.rom.write(value);
                return !c.rom.asked;
            }
            (ROM, 4, false) => c.rom.read(value),
            (r, 4, _) if r % 4 == 0 && (FIRST_BAR..FIRST_BAR + 4 * BARS).contains(&r) => {
                return c.access_bar(((r - FIRST_BAR) / 4) as usize, write, value);
            }
            _ => {}
        }
        false
    }

    /// Returns the places of the BARs of a function. A 64-bit BAR of which the lower half alone was written is absent:
    /// it stays where it is.
    pub(super) fn places(&mut self, place: u32) -> Vec<BarPlace> {
        let Some(c) = self.all.get_mut(&place) else {
            return Vec::new();
        };
        let all = bars(c);
        let mut places = Vec::with_capacity(all.len());
        for number in 0..=EXPANSION_ROM {
            if c.halves >> number & 1 == 1 {
                continue;
            }
            match all.iter().find(|b| b.number == number && c.decodes(b.ports)) {
                Some(bar) => {
                    places.push(BarPlace::Placed(bar.clone()));
                    if let Some(last) = c.last.get_mut(usize::from(number)) {
                        *last = Some(bar.clone());
                    }
                }
                None if c.last.get(usize::from(number)).is_some_and(Option::is_some) => {
                    places.push(BarPlace::Off(number));
                }
                None => {}
            }
        }
        places
    }

    /// Returns all functions with known ids.
    pub(super) fn functions(&self) -> Vec<Function> {
        let known = self.all.iter().filter_map(|(place, c)| Some((*place, c, c.id?)));
        known
            .map(|(place, c, (vendor, device))| Function {
                pci: PciFunction {
                    address: address(place),
                    vendor,
                    device,
                    subsystem_vendor: c.subsystem.map(|s| s.0),
                    subsystem_device: c.subsystem.map(|s| s.1),
                    class: c.class,
                    revision: c.revision,
                    irq: c.irq.filter(|i| (1..0xff).contains(i)),
                    bars: last_bars(c),
                },
                driver: String::new(),
                place,
            })
            .collect()
    }
}

/// Returns the BARs of a function where they were last.
fn last_bars(c: &Config) -> Vec<Bar> {
    let now = bars(c);
    let of = |n: u8| {
        let last = c.last.get(usize::from(n)).cloned().flatten();
        last.or_else(|| now.iter().find(|b| b.number == n).cloned())
    };
    (0..=EXPANSION_ROM).filter_map(of).collect()
}

fn bars(c: &Config) -> Vec<Bar> {
    let mut all = Vec::new();
    let mut registers = (0u8..).zip(&c.bars);
    while let Some((number, r)) = registers.next() {
        let Some(answer) = r.answer.filter(|a| *a != 0) else {
            continue;
        };
        let low = r.written.unwrap_or(0);
        let (ports, wide) = (answer & 1 != 0, answer & 7 == 4);
        let flags = if ports { 3 } else { 0xf };
        let upper = if wide { registers.next().map(|(_, r)| *r) } else { None };
        let (mut mask, mut base) = (u64::from(answer & !flags), u64::from(low & !flags));
        mask |= match upper {
            Some(u) => u64::from(u.answer.unwrap_or(u32::MAX)) << 32,
            None => 0xffff_ffff << 32,
        };
        // A port BAR may answer with 16 bits only.
        if ports && mask & 0xffff_0000 == 0 {
            mask |= 0xffff_0000;
        }
        base |= upper.and_then(|u| u.written).map_or(0, |v| u64::from(v) << 32);
        let bytes = (!mask).wrapping_add(1);
        if bytes == 0 || base == 0 || !bytes.is_power_of_two() {
            continue;
        }
        let prefetchable = !ports && answer & 8 != 0;
        all.push(Bar {
            number,
            base: BusAddr::new(base),
            bytes,
            ports,
            prefetchable,
        });
    }
    if let (Some(answer), Some(written)) = (c.rom.answer.filter(|a| *a != 0), c.rom.written) {
        let bytes = u64::from((!(answer & !0x7ff)).wrapping_add(1));
        let base = u64::from(written & !0x7ff);
        if base != 0 && bytes.is_power_of_two() {
            all.push(Bar {
                number: EXPANSION_ROM,
                base: BusAddr::new(base),
                bytes,
                ports: false,
                prefetchable: false,
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_sizes_and_bases_come_from_config_space_probing() {
        let mut f = Functions::default();
        let at = 0x18;
        f.access(at, false, 0, 4, 0x5159_1002);
        f.access(at, false, 8, 4, 0x0300_0002);
        for (register, answer, base) in [
            (0x10, 0xff00_0008, 0xfd00_0000),
            (0x14, 0xffff_ff01, 0xc001),
            (0x18, 0xffff_c000, 0xfebf_0000),
        ] {
            f.access(at, true, register, 4, u32::MAX);
            f.access(at, false, register, 4, answer);
            assert!(f.access(at, true, register, 4, base));
        }
        f.access(at, true, 0x30, 4, 0xffff_f800);
        f.access(at, false, 0x30, 4, 0xfffe_0000);
        f.access(at, true, 0x30, 4, 0xfeb0_0001);
        f.access(at, true, 0x3c, 1, 11);
        // A missing function, and a 64-bit one.
        f.access(0x20, false, 0, 4, u32::MAX);
        f.access(0x10, false, 0, 4, 0x1050_1af4);
        for (register, answer, base) in [(0x20, 0xffff_c00c, 0xfe00_0000), (0x24, 0xffff_ffff, 0x80)] {
            f.access(0x10, true, register, 4, u32::MAX);
            f.access(0x10, false, register, 4, answer);
            f.access(0x10, true, register, 4, base);
        }
        let all = f.functions();
        assert_eq!(all.len(), 2);
        let (gpu, rv100) = (&all[0].pci, &all[1].pci);
        assert_eq!(
            (rv100.vendor, rv100.device, rv100.class, rv100.irq),
            (0x1002, 0x5159, Some(0x03_0000), Some(11))
        );
        let entries: Vec<_> = rv100
            .bars
            .iter()
            .map(|b| (b.number, b.base.get(), b.bytes, b.ports, b.prefetchable))
            .collect();
        assert_eq!(
            entries,
            [
                (0, 0xfd00_0000, 0x100_0000, false, true),
                (1, 0xc000, 0x100, true, false),
                (2, 0xfebf_0000, 0x4000, false, false),
                (6, 0xfeb0_0000, 0x2_0000, false, false)
            ]
        );
        let report: Vec<_> = gpu.bars.iter().map(|b| (b.number, b.base.get(), b.bytes)).collect();
        assert_eq!(report, [(4, 0x80_fe00_0000, 0x4000)]);
    }

    #[test]
    fn a_base_in_halves_is_placed_when_both_are_written() {
        let mut f = Functions::default();
        let at = 0x20;
        let base = |f: &mut Functions| match f.places(at)[..] {
            [BarPlace::Placed(ref b)] => Some(b.base.get()),
            [BarPlace::Off(0)] => Some(0),
            [] => None,
            ref other => panic!("{other:?}"),
        };
        f.access(at, false, 0, 4, 0x1111_1af4);
        for (register, answer) in [(0x10, 0xffff_0004), (0x14, u32::MAX)] {
            f.access(at, true, register, 4, u32::MAX);
            f.access(at, false, register, 4, answer);
        }
        assert!(!f.access(at, true, 0x10, 4, 0xfe00_0004));
        assert_eq!(base(&mut f), None);
        assert!(f.access(at, true, 0x14, 4, 0x80));
        assert_eq!(base(&mut f), Some(0x80_fe00_0000));
        // Decoding off ends the window; on, it lies where the registers say.
        assert!(f.access(at, true, 4, 2, 0));
        assert_eq!(base(&mut f), Some(0));
        f.access(at, true, 0x10, 4, 0xfc00_0004);
        assert!(f.access(at, true, 4, 1, 6));
        assert_eq!(base(&mut f), Some(0x80_fc00_0000));
        assert!(f.access(at, true, 4, 2, 0));
        assert_eq!(f.functions()[0].pci.bars[0].base.get(), 0x80_fc00_0000);
    }
}
