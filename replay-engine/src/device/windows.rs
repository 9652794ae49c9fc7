//! Numbers and kinds of a device's windows in plans: one rule for all backends, so that the same plan runs on every one
//! of them.

use super::space;
use std::cmp::Reverse;
use trace_core::recording::SpaceKind;
use trace_core::registers::RegisterMap;

/// A window as a backend finds it.
#[derive(Clone, Debug)]
pub(super) struct FoundRegion<'a> {
    /// Name of its access space: `bar2`, `reg0`.
    pub name: &'a str,
    pub bytes: u64,
    pub ports: bool,
    /// Whether it is plain memory, where stores have no side effects.
    pub plain: bool,
}

impl FoundRegion<'_> {
    /// Returns its kind in plans and recordings.
    pub fn kind(&self) -> SpaceKind {
        match (self.plain, self.ports) {
            (true, _) => SpaceKind::Framebuffer,
            (_, true) => SpaceKind::Ports,
            _ => SpaceKind::Registers,
        }
    }
}

/// Returns the space number of each window, in their order. The register window is [`space::REGISTERS`], the others
/// start at [`space::FIRST_OTHER`]. Returns `None` for a device without windows.
///
/// The register window is the one that the map names. Otherwise it is the largest window that is not plain memory, with
/// memory before ports: tables of message-signalled interrupts and similar windows are smaller.
pub(super) fn numbers(windows: &[FoundRegion<'_>], map: Option<&RegisterMap>) -> Option<Vec<u8>> {
    let reported = windows.iter().position(|w| map.is_some_and(|m| m.space() == w.name));
    let rank = |(at, w): &(usize, &FoundRegion<'_>)| (!w.plain && !w.ports, !w.plain, w.bytes, Reverse(*at));
    let guessed = || windows.iter().enumerate().max_by_key(rank).map(|(at, _)| at);
    let registers = reported.or_else(guessed)?;
    let mut next = space::FIRST_OTHER;
    let number = |at: usize| {
        if at == registers {
            return space::REGISTERS;
        }
        next = next.saturating_add(1);
        next - 1
    };
    Some((0..windows.len()).map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str, bytes: u64, ports: bool, plain: bool) -> FoundRegion<'_> {
        FoundRegion {
            name,
            bytes,
            ports,
            plain,
        }
    }

    #[test]
    fn register_region_is_the_maps_or_the_largest_without_ram() {
        let ati = [
            region("bar0", 16 << 20, false, true),
            region("bar1", 256, true, false),
            region("bar2", 0x4000, false, false),
        ];
        assert_eq!(numbers(&ati, RegisterMap::by_name("rv100")), Some(vec![2, 3, 0]));
        assert_eq!(numbers(&ati, None), Some(vec![2, 3, 0]));
        let kinds: Vec<_> = ati.iter().map(FoundRegion::kind).collect();
        assert_eq!(kinds, [SpaceKind::Framebuffer, SpaceKind::Ports, SpaceKind::Registers]);
        let tables = [
            region("bar1", 0x1000, false, false),
            region("bar4", 0x4000, false, false),
        ];
        assert_eq!(numbers(&tables, None), Some(vec![2, 0]));
        assert_eq!(numbers(&[region("bar0", 64, false, true)], None), Some(vec![0]));
        assert_eq!(numbers(&[], None), None);
    }
}
