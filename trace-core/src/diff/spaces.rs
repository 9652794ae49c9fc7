//! Which address space of one recording goes with which of another.

use crate::mmu::root_from_register;
use crate::recording::{AddressSpace, Recording};
use crate::registers::{Half, Register};

/// An address space of either side, as an index into its list, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpacePair {
    pub number: u8,
    pub a: Option<usize>,
    pub b: Option<usize>,
}

/// Address spaces that go together: the first of a number with the first of that number, the second with the second.
/// In the order of numbers.
pub(super) fn pairs(a: &Recording, b: &Recording) -> Vec<SpacePair> {
    let of = |r: &Recording, number: u8| -> Vec<usize> {
        let spaces = r.facts.address_spaces.iter().enumerate();
        spaces.filter(|(_, s)| s.number == number).map(|(i, _)| i).collect()
    };
    let mut numbers: Vec<u8> = [a, b]
        .iter()
        .flat_map(|r| r.facts.address_spaces.iter().map(|s| s.number))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut out = Vec::new();
    for number in numbers {
        let (x, y) = (of(a, number), of(b, number));
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

/// Whether a value written to half a root register is that half of an address space's root.
fn is_root(space: &AddressSpace, register: &Register, value: u64) -> bool {
    let root = space.root.0;
    match register.pair {
        Some(Half::High { .. }) => value == root >> 32,
        // The low bits are no part of the address; both formats mask them away.
        _ => root_from_register(space.format, value).0 == root & 0xffff_ffff,
    }
}

/// Whether the values that both sides wrote to half a root register are the roots of address spaces that go together.
pub(super) fn same_tables(
    a: &Recording,
    b: &Recording,
    pairs: &[SpacePair],
    register: &Register,
    values: (u64, u64),
) -> bool {
    let of = |r: &Recording, index: Option<usize>, value: u64| {
        index
            .and_then(|i| r.facts.address_spaces.get(i))
            .is_some_and(|s| is_root(s, register, value))
    };
    pairs.iter().any(|p| of(a, p.a, values.0) && of(b, p.b, values.1))
}
