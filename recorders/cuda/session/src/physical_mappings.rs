//! Physical memory that a program maps, and which of it is mapped at several addresses.

use std::collections::{BTreeMap, HashMap, HashSet};
use trace_core::GpuVa;

/// The relation of a mapping to earlier ones, for a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Memory of its own.
    Separate,
    /// The memory that was mapped at this address before.
    SameAs(GpuVa),
    /// Memory that a replay cannot distinguish from other memory.
    Ambiguous,
}

/// Addresses of each mapped physical memory, by the memory's number.
#[derive(Debug, Default)]
pub struct PhysicalMappings {
    /// The last mapping at each address: size in bytes and the memory's number.
    first: BTreeMap<GpuVa, (u64, u64)>,
    /// First mapped address of each memory.
    places: HashMap<u64, GpuVa>,
    /// Memory that was mapped at several addresses.
    shared: HashSet<u64>,
}

impl PhysicalMappings {
    /// Adds a mapping of memory `number` at an address. Returns its relation for a replay, which maps each range once.
    pub fn relate(&mut self, at: GpuVa, bytes: u64, number: u64) -> Relation {
        let end = at.saturating_add(bytes);
        let over = |(from, (length, _)): (&GpuVa, &(u64, u64))| from.saturating_add(*length) > at;
        let before: Vec<(GpuVa, u64, u64)> = self
            .first
            .range(..end)
            .rev()
            .take_while(|entry| over(*entry))
            .map(|(from, (length, number))| (*from, *length, *number))
            .collect();
        let replaces = before.iter().any(|(.., n)| *n != number);
        let was = self.places.get(&number).copied().filter(|place| *place != at);
        if let Some(place) = was {
            self.shared.insert(number);
            return match replaces {
                true => Relation::Ambiguous,
                false => {
                    self.first.insert(at, (bytes, number));
                    Relation::SameAs(place)
                }
            };
        }
        // A replay sees other memory that was mapped here earlier as the same memory: it must not be shared with
        // another address.
        if before.iter().any(|(.., n)| *n != number && self.shared.contains(n)) {
            return Relation::Ambiguous;
        }
        self.places.insert(number, at);
        self.first.insert(at, (bytes, number));
        Relation::Separate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GRANULE;

    #[test]
    fn remapped_memory_is_distinguished_from_double_mappings() {
        let mut m = PhysicalMappings::default();
        let [a, b, c] = [0x1000_0000, 0x2000_0000, 0x3000_0000].map(GpuVa::new);
        assert_eq!(m.relate(a, GRANULE, 1), Relation::Separate);
        // Other memory at the same address counts as separate, because it was never mapped elsewhere.
        assert_eq!(m.relate(a, GRANULE, 2), Relation::Separate);
        assert_eq!(m.relate(b, GRANULE, 2), Relation::SameAs(a));
        assert_eq!(
            m.relate(a, GRANULE, 2),
            Relation::Separate,
            "a mapping at the first address counts as separate"
        );
        // The address belongs to memory that is also mapped elsewhere.
        assert_eq!(m.relate(b, GRANULE, 3), Relation::Ambiguous);
        assert_eq!(m.relate(c, GRANULE, 4), Relation::Separate);
        assert_eq!(m.relate(c, GRANULE, 2), Relation::Ambiguous);
    }
}
