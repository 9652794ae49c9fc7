//! The device that a log is of: which of the machine's functions it is, and which spaces its accesses go to.

use super::super::error::{ImportError, Place};
use super::windows::{Owner, Window};
use crate::recording::{Bar, EXPANSION_ROM, PciFunction, Space, SpaceKind};
use std::path::Path;

/// Most spaces of a recording: an event names its space in a byte.
const MOST_SPACES: usize = 255;
/// Fewest bytes of a prefetchable window that is taken for a framebuffer.
const FRAMEBUFFER_BYTES: u64 = 1 << 20;

/// A PCI function of the machine, and its driver as far as the log tells it.
#[derive(Clone, Debug, Default)]
pub(super) struct Function {
    pub(super) pci: PciFunction,
    pub(super) driver: String,
}

/// What the accesses to a window of a device are to.
///
/// A window of memory whose reads have no side effects (the function says so: prefetchable) and that has a MiB or more is
/// display memory, any other one registers; the expansion ROM is memory to read. Prefetchable windows of registers
/// exist, virtio's for one, and are small.
pub(super) fn space_kind(bar: &Bar) -> SpaceKind {
    match bar {
        Bar { ports: true, .. } => SpaceKind::Ports,
        Bar {
            number: EXPANSION_ROM, ..
        } => SpaceKind::Memory,
        Bar {
            prefetchable: true,
            bytes: FRAMEBUFFER_BYTES..,
            ..
        } => SpaceKind::Framebuffer,
        _ => SpaceKind::Registers,
    }
}

/// The device that a person named: `1002:5159`, or where it is, `0000:00:03.0` or `00:03.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// Vendor and device id.
    Id(u16, u16),
    /// Where it is.
    Address(String),
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
        Err(format!(
            "'{text}' names no PCI device (expected VENDOR:DEVICE as in 1002:5159, or an address as in 00:03.0)"
        ))
    }
}

impl DeviceName {
    fn names(&self, f: &PciFunction) -> bool {
        match self {
            Self::Id(vendor, device) => (f.vendor, f.device) == (*vendor, *device),
            Self::Address(address) => f.address == *address,
        }
    }
}

/// The functions of a log and the accesses to each: the named one, or the one whose registers are accessed most.
///
/// # Errors
/// When a device was named and is not there.
pub(super) fn choose(
    path: &Path,
    functions: &[Function],
    windows: &[Window],
    named: Option<&DeviceName>,
) -> Result<Option<usize>, ImportError> {
    let mut scores = vec![(0u64, 0u64); functions.len()];
    for w in windows {
        let Owner::Bar { function, bar } = w.owner else {
            continue;
        };
        let kind = functions
            .get(function)
            .and_then(|f| bar_of(&f.pci, bar))
            .map(space_kind);
        if let (Some(score), Some(kind)) = (scores.get_mut(function), kind) {
            score.0 += if kind == SpaceKind::Registers { w.accesses } else { 0 };
            score.1 += w.accesses;
        }
    }
    let best = |fits: &dyn Fn(usize) -> bool| {
        let all = scores.iter().enumerate().filter(|(i, _)| fits(*i));
        // The first of those that are alike.
        all.rev().max_by_key(|(_, s)| **s).map(|(i, _)| i)
    };
    let Some(named) = named else {
        return Ok(best(&|i| scores.get(i).is_some_and(|s| s.1 > 0)));
    };
    let found = best(&|i| functions.get(i).is_some_and(|f| named.names(&f.pci)));
    found.map(Some).ok_or_else(|| {
        let all: Vec<String> = functions.iter().map(name_of).collect();
        let told = if all.is_empty() {
            "tells of none".to_owned()
        } else {
            format!("tells of {}", all.join(", "))
        };
        ImportError::malformed(
            path,
            Place::Whole,
            format!("the device that was asked for is not in the log, which {told}"),
        )
    })
}

/// A function, for a person: `0000:00:03.0 (1002:5159)`.
pub(super) fn name_of(f: &Function) -> String {
    format!("{} ({:04x}:{:04x})", f.pci.address, f.pci.vendor, f.pci.device)
}

fn bar_of(f: &PciFunction, number: u8) -> Option<&Bar> {
    f.bars.iter().find(|b| b.number == number)
}

/// The spaces of a recording, and which of them each window is; windows of other devices are none.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    pub(super) spaces: Vec<Space>,
    /// By number of a window.
    pub(super) of_window: Vec<Option<u8>>,
}

/// Makes the spaces of a device out of the windows of a log: its registers first, the most used before the others,
/// then display memory, and then what lies beside the device. Windows of memory that belong to no device are its
/// registers where the log tells of no function, unless they lie in the first MiB, where PCs have their BIOS.
pub(super) fn spaces(functions: &[Function], chosen: Option<usize>, windows: &[Window]) -> Spaces {
    struct Made {
        order: (u8, std::cmp::Reverse<u64>, usize),
        window: usize,
        space: Space,
    }
    let mut made = Vec::new();
    for (number, w) in windows.iter().enumerate() {
        let bytes = (w.last - w.first).saturating_add(1);
        let space = |name: String, kind| Space { name, kind, bytes };
        let space = match w.owner {
            Owner::Bar { function, bar } if Some(function) == chosen => {
                let Some(bar) = functions.get(function).and_then(|f| bar_of(&f.pci, bar)) else {
                    continue;
                };
                let first = w.first == bar.base;
                if w.accesses == 0 && !(first && bar.number != EXPANSION_ROM && !bar.ports) {
                    continue;
                }
                // What offsets do not reach is a space of its own.
                let name = if first {
                    bar.space_name()
                } else {
                    format!("{}+{:#x}", bar.space_name(), w.first - bar.base)
                };
                space(name, space_kind(bar))
            }
            Owner::Bar { .. } => continue,
            Owner::Memory if w.accesses > 0 => {
                let kind = match chosen {
                    None if w.first >= 1 << 20 => SpaceKind::Registers,
                    _ => SpaceKind::Memory,
                };
                space(format!("memory@{:#x}", w.first), kind)
            }
            Owner::Memory => continue,
        };
        let class = match space.kind {
            SpaceKind::Registers => 0,
            SpaceKind::Framebuffer => 1,
            SpaceKind::Memory => 2,
            SpaceKind::Config => 3,
            SpaceKind::Ports => 4,
        };
        let used = if class == 0 { w.accesses } else { 0 };
        made.push(Made {
            order: (class, std::cmp::Reverse(used), number),
            window: number,
            space,
        });
    }
    made.sort_by_key(|m| m.order);
    made.truncate(MOST_SPACES);
    let mut of_window = vec![None; windows.len()];
    let mut all = Vec::new();
    for m in made {
        if let Some(slot) = of_window.get_mut(m.window) {
            *slot = u8::try_from(all.len()).ok();
        }
        all.push(m.space);
    }
    Spaces { spaces: all, of_window }
}
