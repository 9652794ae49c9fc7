//! The device of a log: its function among those of the machine, and the spaces of its accesses.

use super::mmio_regions::{MmioRegion, Owner};
use crate::error::{FilePosition, ImportError};
use std::collections::HashMap;
use std::path::Path;
use trace_core::recording::{Bar, EXPANSION_ROM, Hardware, PciFunction, Space, SpaceKind};
use trace_core::registers::RegisterMap;

/// Maximum number of spaces of a recording: an event names its space in a byte.
const MAX_SPACES: usize = 255;
/// Offset that distinguishes x86 port numbers from memory addresses.
pub(super) const PORTS: u64 = 1 << 63;
/// Minimum size of a prefetchable BAR that counts as a framebuffer, bytes.
const FRAMEBUFFER_BYTES: u64 = 1 << 20;

/// A PCI function of the machine, and its driver if the log gives it.
#[derive(Clone, Debug, Default)]
pub(super) struct Function {
    pub(super) pci: PciFunction,
    pub(super) driver: String,
    /// Segment, bus, device and function as one number: that of its configuration space.
    pub(super) place: u32,
}

/// Formats the address of a function.
pub(super) fn address(place: u32) -> String {
    let (bus, slot, function) = (place >> 8 & 0xff, place >> 3 & 0x1f, place & 7);
    format!("{:04x}:{bus:02x}:{slot:02x}.{function}", place >> 16)
}

/// Returns the kind of the space of a BAR.
///
/// If a register map knows the device, the map says which BARs hold registers and which display memory. Otherwise a
/// prefetchable memory BAR (reads without side effects, as the function declares) of at least one MiB is display
/// memory, and any other BAR holds registers. The expansion ROM is memory. Prefetchable register BARs exist, virtio's
/// for example, and are small.
pub(super) fn space_kind(bar: &Bar, map: Option<&RegisterMap>) -> SpaceKind {
    let name = bar.space_name();
    match bar {
        Bar { ports: true, .. } => SpaceKind::Ports,
        Bar {
            number: EXPANSION_ROM, ..
        } => SpaceKind::Memory,
        _ if map.is_some_and(|m| m.space() == name) => SpaceKind::Registers,
        _ if map.is_some_and(|m| m.framebuffers().contains(&name)) => SpaceKind::Framebuffer,
        Bar {
            prefetchable: true,
            bytes: FRAMEBUFFER_BYTES..,
            ..
        } => SpaceKind::Framebuffer,
        _ => SpaceKind::Registers,
    }
}

/// Returns the register map of a function, if there is one.
fn map_of(f: &Function) -> Option<&'static RegisterMap> {
    RegisterMap::for_hardware(&Hardware::Pci(f.pci.clone()))
}

/// The device that a user names: `1002:5159`, its address `0000:00:03.0` or `00:03.0`, or the `compatible` string of a
/// device-tree device, `arm,mali-t860`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// Vendor and device id.
    Id(u16, u16),
    /// PCI address.
    Address(String),
    /// Device-tree `compatible` string.
    Compatible(String),
}

impl std::str::FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = |part: &str| u16::from_str_radix(part, 16).ok().filter(|_| part.len() == 4);
        if let Some((vendor, device)) = text.split_once(':')
            && let (Some(vendor), Some(device)) = (id(vendor), id(device))
        {
            return Ok(Self::Id(vendor, device));
        }
        let full = if text.matches(':').count() == 1 {
            format!("0000:{text}")
        } else {
            text.to_owned()
        };
        let shape = full.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b':',
            10 => b == b'.',
            11 => (b'0'..=b'7').contains(&b),
            _ => b.is_ascii_hexdigit(),
        });
        if shape && full.len() == 12 {
            return Ok(Self::Address(full.to_ascii_lowercase()));
        }
        if text.contains(',') && !text.contains(char::is_whitespace) {
            return Ok(Self::Compatible(text.to_owned()));
        }
        Err(format!(
            "'{text}' is not a device (expected VENDOR:DEVICE as in 1002:5159, an address as in 00:03.0, or the \
             compatible text as in arm,mali-t860)"
        ))
    }
}

impl DeviceName {
    fn names(&self, f: &PciFunction) -> bool {
        match self {
            Self::Id(vendor, device) => (f.vendor, f.device) == (*vendor, *device),
            Self::Address(address) => f.address == *address,
            Self::Compatible(_) => false,
        }
    }
}

/// Returns the function of a log: the named one, or the one whose registers are accessed most. Names that no bus
/// provides select nothing: [`DeviceName::Compatible`], and ids if the only function of the log has none.
///
/// # Errors
///
/// When the named device is missing.
pub(super) fn choose(
    path: &Path,
    functions: &[Function],
    windows: &[MmioRegion],
    named: Option<&DeviceName>,
) -> Result<Option<usize>, ImportError> {
    let mut scores = vec![(0u64, 0u64); functions.len()];
    let maps: Vec<_> = functions.iter().map(map_of).collect();
    for w in windows {
        let (function, registers) = match w.owner {
            Owner::Bar { function, bar } => {
                let of = functions.get(function).zip(maps.get(function));
                let kind = of.and_then(|(f, map)| Some(space_kind(bar_of(&f.pci, bar)?, *map)));
                (Some(function), kind == Some(SpaceKind::Registers))
            }
            Owner::Config { place } => (functions.iter().position(|f| f.place == place), false),
            Owner::Accessors { function } => (function, true),
            Owner::Region { function, .. } => (function, false),
            _ => (None, false),
        };
        if let Some(score) = function.and_then(|f| scores.get_mut(f)) {
            score.0 += if registers { w.accesses } else { 0 };
            score.1 += w.accesses;
        }
    }
    let best = |fits: &dyn Fn(usize) -> bool| {
        let all = scores.iter().enumerate().filter(|(i, _)| fits(*i));
        // The first of equal ones.
        all.rev().max_by_key(|(_, s)| **s).map(|(i, _)| i)
    };
    let unnamed = functions.iter().all(|f| (f.pci.vendor, f.pci.device) == (0, 0));
    match named {
        None => Ok(best(&|i| scores.get(i).is_some_and(|s| s.1 > 0))),
        Some(DeviceName::Id(..) | DeviceName::Compatible(_)) if unnamed => Ok((!functions.is_empty()).then_some(0)),
        Some(named) => {
            let found = best(&|i| functions.get(i).is_some_and(|f| named.names(&f.pci)));
            found.map(Some).ok_or_else(|| {
                let all: Vec<String> = functions.iter().map(name_of).collect();
                let text = match all.is_empty() {
                    true => "names none".to_owned(),
                    false => format!("names {}", all.join(", ")),
                };
                let message = format!("the requested device is not in the log, which {text}");
                ImportError::malformed(path, FilePosition::Whole, message)
            })
        }
    }
}

/// Formats a function for display: `0000:00:03.0 (1002:5159)`.
pub(super) fn name_of(f: &Function) -> String {
    format!("{} ({:04x}:{:04x})", f.pci.address, f.pci.vendor, f.pci.device)
}

fn bar_of(f: &PciFunction, number: u8) -> Option<&Bar> {
    f.bars.iter().find(|b| b.number == number)
}

/// The spaces of a recording, and the space of each window; windows of other devices have none.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    pub(super) spaces: Vec<Space>,
    /// By number of a window.
    pub(super) of_window: Vec<Option<u8>>,
    /// Ranges of addresses of the spaces that belong to no function.
    pub(super) ranges: Vec<SpaceRange>,
}

/// The range of addresses of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpaceRange {
    /// Index of the space.
    pub(super) space: usize,
    pub(super) base: u64,
    /// Whether the space is named by its address.
    pub(super) is_named_by_address: bool,
    /// Whether a mapping in the log gives the range, and no access or option alone.
    pub(super) is_mapped: bool,
    /// Whether an access alone suggests the range.
    pub(super) is_guessed: bool,
}

/// Creates the spaces of a device from the windows of a log. Its registers come first, the most used before the others,
/// then display memory, then other memory of the machine. If the log has no function, memory windows without a device
/// are registers, except in the first MiB, where PCs have their BIOS. `names` are those of regions and placed windows.
/// With `omits_guessed`, ranges that an access alone suggests have no space.
pub(super) fn spaces(
    functions: &[Function],
    chosen: Option<usize>,
    windows: &[MmioRegion],
    names: &[String],
    omits_guessed: bool,
) -> Spaces {
    struct SpaceCandidate {
        order: (u8, bool, std::cmp::Reverse<u64>, usize),
        window: usize,
        space: Space,
        range: Option<SpaceRange>,
    }
    let function = chosen.and_then(|c| functions.get(c));
    let map = function.and_then(map_of);
    let busiest = |fits: &dyn Fn(&Owner) -> bool| {
        let all = windows
            .iter()
            .enumerate()
            .filter(|(_, w)| fits(&w.owner) && w.accesses > 0);
        all.rev().max_by_key(|(_, w)| w.accesses).map(|(n, _)| n)
    };
    // Accessors of one device only, and the configuration space of a device whose function is unknown.
    let accessors = busiest(&|o| matches!(o, Owner::Accessors { function: f } if f.is_none() || *f == chosen));
    let config = match function {
        Some(f) => busiest(&|o| *o == Owner::Config { place: f.place }),
        None => busiest(&|o| matches!(o, Owner::Config { .. })),
    };
    let mut made: Vec<SpaceCandidate> = Vec::new();
    for (number, w) in windows.iter().enumerate() {
        let bytes = w.last.saturating_sub(w.first).saturating_add(1);
        let by_address = || format!("memory@{:#x}", w.first);
        let space = |name: String, kind| Space { name, kind, bytes };
        let used = w.accesses > 0;
        let space = match w.owner {
            Owner::Bar { function: f, bar } if Some(f) == chosen => {
                let Some(bar) = function.and_then(|f| bar_of(&f.pci, bar)) else {
                    continue;
                };
                let base = if bar.ports {
                    bar.base.get() | PORTS
                } else {
                    bar.base.get()
                };
                let first = w.first == base || w.separate;
                let always = first && bar.number != EXPANSION_ROM && !bar.ports;
                if !used && !always {
                    continue;
                }
                // A part beyond the offset range, or at an earlier BAR address, is a space of its own.
                let name = match w.first.checked_sub(base) {
                    _ if w.separate => bar.space_name(),
                    Some(0) => bar.space_name(),
                    Some(more) if more < bar.bytes => format!("{}+{more:#x}", bar.space_name()),
                    _ => format!("{}@{:#x}", bar.space_name(), w.first & !PORTS),
                };
                space(name, space_kind(bar, map))
            }
            Owner::Accessors { .. } if Some(number) == accessors => space("registers".to_owned(), SpaceKind::Registers),
            Owner::Region { name, function: f } if used && (f.is_none() || f == chosen) => {
                let name = names.get(usize::from(name)).cloned().unwrap_or_default();
                space(name, SpaceKind::Registers)
            }
            Owner::Placed { name } if used => {
                let name = name.and_then(|n| names.get(usize::from(n)).cloned());
                space(name.unwrap_or_else(by_address), SpaceKind::Registers)
            }
            Owner::Config { .. } if Some(number) == config => space("config".to_owned(), SpaceKind::Config),
            Owner::Legacy if used && function.is_some_and(is_display) => match w.first.checked_sub(PORTS) {
                Some(port) => space(format!("ports@{port:#x}"), SpaceKind::Ports),
                None => space(by_address(), SpaceKind::Memory),
            },
            Owner::Memory if used && !(omits_guessed && w.guessed) => {
                let kind = match function {
                    None if w.first >= 1 << 20 => SpaceKind::Registers,
                    _ => SpaceKind::Memory,
                };
                space(by_address(), kind)
            }
            _ => continue,
        };
        let class = match space.kind {
            SpaceKind::Registers => 0,
            SpaceKind::Framebuffer => 1,
            SpaceKind::Memory => 2,
            SpaceKind::Config => 3,
            SpaceKind::Ports => 4,
        };
        let max = match class {
            0 if map.is_some_and(|m| m.space() == space.name) => u64::MAX,
            0 => w.accesses,
            _ => 0,
        };
        let has_range = function.is_none()
            && space.kind == SpaceKind::Registers
            && matches!(w.owner, Owner::Memory | Owner::Placed { .. } | Owner::Region { .. });
        let is_named_by_address = space.name == by_address();
        let range = has_range.then_some(SpaceRange {
            space: 0,
            base: w.first,
            is_named_by_address,
            is_mapped: w.owner == Owner::Memory && !w.guessed,
            is_guessed: w.guessed,
        });
        // Registers of a known window come before those that an access alone suggests.
        made.push(SpaceCandidate {
            order: (class, w.guessed, std::cmp::Reverse(max), number),
            window: number,
            space,
            range,
        });
    }
    made.sort_by_key(|m| m.order);
    made.truncate(MAX_SPACES);
    let mut taken: HashMap<String, u64> = HashMap::new();
    for m in &made {
        *taken.entry(m.space.name.clone()).or_insert(0) += 1;
    }
    let mut ranges = Vec::new();
    let mut of_window = vec![None; windows.len()];
    let mut all = Vec::new();
    for mut m in made {
        if let Some(slot) = of_window.get_mut(m.window) {
            *slot = u8::try_from(all.len()).ok();
        }
        if taken.get(&m.space.name).is_some_and(|n| *n > 1) {
            // Two regions of one name, such as two serial ports.
            let first = windows.get(m.window).map_or(0, |w| w.first & !PORTS);
            m.space.name = format!("{}@{first:#x}", m.space.name);
        }
        ranges.extend(m.range.map(|r| SpaceRange { space: all.len(), ..r }));
        all.push(m.space);
    }
    make_unique(&mut all);
    Spaces {
        spaces: all,
        of_window,
        ranges,
    }
}

/// Numbers spaces whose names are still the same.
fn make_unique(spaces: &mut [Space]) {
    let mut seen: HashMap<String, u64> = HashMap::new();
    for space in spaces {
        let count = seen.entry(space.name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            space.name = format!("{}#{count}", space.name);
        }
    }
}

/// Whether a function is a display controller, by its class.
fn is_display(f: &Function) -> bool {
    f.pci.class.is_some_and(|c| c >> 16 == 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::BusAddr;

    #[test]
    fn a_device_is_named_by_id_or_address_or_compatible() {
        assert_eq!("1002:5159".parse(), Ok(DeviceName::Id(0x1002, 0x5159)));
        for text in ["00:03.0", "0000:00:03.0"] {
            assert_eq!(text.parse(), Ok(DeviceName::Address("0000:00:03.0".into())), "{text}");
        }
        assert_eq!(
            "arm,mali-t860".parse(),
            Ok(DeviceName::Compatible("arm,mali-t860".into()))
        );
        for invalid in [
            "",
            "1002",
            "1002:515",
            "0:3.0",
            "00:03.8",
            "0000-00:03.0",
            "a, b",
            "0000:00:03.00",
        ] {
            assert!(invalid.parse::<DeviceName>().is_err(), "{invalid}");
        }
        assert_eq!(address(0x0001_021d), "0001:02:03.5");
    }

    #[test]
    fn register_map_decides_the_kind_of_each_bar() {
        let pci = PciFunction {
            vendor: 0x1234,
            device: 0x1111,
            ..PciFunction::default()
        };
        let map = RegisterMap::for_hardware(&Hardware::Pci(pci)).unwrap();
        let bar = |number| Bar {
            number,
            bytes: 0x1000,
            ..Bar::default()
        };
        assert_eq!(map.space(), "bar2");
        let kinds = [0, 1, 2].map(|n| space_kind(&bar(n), Some(map)));
        assert_eq!(
            kinds,
            [SpaceKind::Framebuffer, SpaceKind::Registers, SpaceKind::Registers]
        );
    }

    #[test]
    fn large_prefetchable_bars_are_framebuffers() {
        let bar = |number, bytes, ports, prefetchable| Bar {
            number,
            base: BusAddr::ZERO,
            bytes,
            ports,
            prefetchable,
        };
        for (bar, kind) in [
            (bar(0, 0x100_0000, false, true), SpaceKind::Framebuffer),
            (bar(0, 0x100_0000, false, false), SpaceKind::Registers),
            (bar(4, 0x4000, false, true), SpaceKind::Registers),
            (bar(1, 0x100, true, false), SpaceKind::Ports),
            (bar(EXPANSION_ROM, 0x2_0000, false, false), SpaceKind::Memory),
        ] {
            assert_eq!(space_kind(&bar, None), kind, "{bar:?}");
        }
    }
}
