//! Matching of the address spaces of two recordings.

use crate::mmu::root_from_register;
use crate::recording::{AddressSpace, Recording};
use crate::registers::{Half, Register};

/// An address space of either or both sides, as an index into each list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpacePair {
    pub number: u8,
    pub a: Option<usize>,
    pub b: Option<usize>,
}

/// Returns the address spaces of a recording that have a number, as indices into its list.
fn spaces_with_number(r: &Recording, number: u8) -> Vec<usize> {
    let spaces = r.metadata.address_spaces.iter().enumerate();
    spaces.filter(|(_, s)| s.number == number).map(|(i, _)| i).collect()
}

/// Returns matching address spaces in the order of numbers: the nth space of a number on one side matches the nth of
/// that number on the other.
pub(super) fn pairs(a: &Recording, b: &Recording) -> Vec<SpacePair> {
    let mut numbers: Vec<u8> = [a, b]
        .iter()
        .flat_map(|r| r.metadata.address_spaces.iter().map(|s| s.number))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut out = Vec::new();
    for number in numbers {
        let (x, y) = (spaces_with_number(a, number), spaces_with_number(b, number));
        for i in 0..x.len().max(y.len()) {
            out.push(SpacePair {
                number,
                a: x.get(i).copied(),
                b: y.get(i).copied(),
            });
        }
    }
    out
}

/// The table roots of a recording's address spaces, each with an identity that both sides share.
pub(super) struct Roots {
    /// Number of the address space, and the count of earlier spaces with that number.
    spaces: Vec<((u8, usize), AddressSpace)>,
}

/// Returns the roots of a recording.
pub(super) fn table_roots(r: &Recording) -> Roots {
    let spaces = r.metadata.address_spaces.iter().enumerate();
    let named = spaces.map(|(i, s)| {
        let before = spaces_with_number(r, s.number).iter().filter(|n| **n < i).count();
        ((s.number, before), s.clone())
    });
    Roots {
        spaces: named.collect(),
    }
}

impl Roots {
    /// Returns the value that represents half a root register in both recordings: it identifies the address space of
    /// the tables. Returns `None` if the value is not a root.
    pub fn number(&self, register: &Register, value: u64) -> Option<u64> {
        let found = self.spaces.iter().find(|(_, s)| is_root(s, register, value));
        // No register value has the highest bit set and so few others.
        found.map(|((number, before), _)| 1 << 63 | (*before as u64) << 8 | u64::from(*number))
    }
}

/// Returns whether a value written to half a root register is that half of an address space's root.
fn is_root(space: &AddressSpace, register: &Register, value: u64) -> bool {
    let root = space.root.get();
    match register.pair {
        Some(Half::High { .. }) => value == root >> 32,
        // The low bits are not part of the address; both formats mask them.
        _ => root_from_register(space.format, value).get() == root & 0xffff_ffff,
    }
}
