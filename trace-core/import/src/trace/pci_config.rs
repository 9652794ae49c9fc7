//! PCI functions of a machine from accesses to configuration space: their ids and BARs. The firmware reads the size
//! of a BAR by writing ones to it and reading back which bits stay; then it writes the base. Source: the PCI Local Bus
//! Specification, revision 3.0, chapter 6.

use super::device::{Function, address};
use std::collections::BTreeMap;
use trace_core::BusAddr;
use trace_core::recording::{Bar, EXPANSION_ROM, PciFunction};

/// Registers of configuration space: ids, class and revision, first base address register, number of BARs in bridges
/// and in others, subsystem, expansion ROM, interrupt line, and header type.
const ID: u32 = 0;
const CLASS: u32 = 0x08;
const FIRST_BAR: u32 = 0x10;
const BARS: u32 = 6;
const SUBSYSTEM: u32 = 0x2c;
const ROM: u32 = 0x30;
const INTERRUPT: u32 = 0x3c;
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
            (ROM, 4, _) => return Self::apply_access(&mut c.rom, write, value),
            (r, 4, _) if r % 4 == 0 && (FIRST_BAR..FIRST_BAR + 4 * BARS).contains(&r) => {
                if let Some(bar) = c.bars.get_mut(((r - FIRST_BAR) / 4) as usize) {
                    return Self::apply_access(bar, write, value);
                }
            }
            _ => {}
        }
        false
    }

    fn apply_access(register: &mut Register, write: bool, value: u32) -> bool {
        if write {
            register.write(value);
            !register.asked
        } else {
            register.read(value);
            false
        }
    }

    /// Returns the known BARs of a function.
    pub(super) fn bars(&self, place: u32) -> Vec<Bar> {
        self.all.get(&place).map(bars).unwrap_or_default()
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
                    bars: bars(c),
                },
                driver: String::new(),
                place,
            })
            .collect()
    }
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
}
