//! Pairing of the buffers of two recordings, by how often calls use them at the same positions.
//!
//! Addresses, the order of allocations and the names derived from it differ between runs.

use crate::api_trace::{BufferLocation, Buffers};
use crate::recording::ElementType;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Pairs of matching buffers.
#[derive(Debug, Default)]
pub(super) struct BufferPairs {
    /// Number of times that two buffers were used at the same position: by calls, and in snapshots, whose order is
    /// that of addresses.
    met: HashMap<(u32, u32), (u64, u64)>,
    /// The matching buffer of the second recording for one of the first, and the reverse map.
    there: HashMap<u32, u32>,
    back: HashMap<u32, u32>,
    /// Element types by buffer of the first recording, from signatures; `None` if they disagree.
    elements: HashMap<u32, Option<ElementType>>,
}

impl BufferPairs {
    /// Counts that two locations were used at corresponding positions.
    pub fn count_match(&mut self, a: BufferLocation, b: BufferLocation) {
        if a.offset == b.offset {
            self.met.entry((a.buffer, b.buffer)).or_default().0 += 1;
        }
    }

    /// Counts that two buffers of the same size are at the same position of a snapshot.
    pub fn count_snapshot_match(&mut self, a: BufferLocation, b: BufferLocation) {
        if a.offset == b.offset {
            self.met.entry((a.buffer, b.buffer)).or_default().1 += 1;
        }
    }

    /// Sets the element type of a buffer of the first recording, from a signature.
    pub fn set_element_type(&mut self, buffer: u32, element: ElementType) {
        let kept = self.elements.entry(buffer).or_insert(Some(element));
        if *kept != Some(element) {
            *kept = None;
        }
    }

    /// Decides which buffers match: first by the number of common uses, then by name, then by order.
    pub fn pair_buffers(&mut self, a: &Buffers, b: &Buffers) {
        let mut all: Vec<((u32, u32), (u64, u64))> = std::mem::take(&mut self.met).into_iter().collect();
        let named = |(x, y): (u32, u32)| a.get(x).map(|b| &b.name) == b.get(y).map(|b| &b.name);
        all.sort_unstable_by_key(|(pair, times)| (Reverse(*times), !named(*pair), pair.0, pair.1));
        for ((x, y), _) in all {
            if !self.there.contains_key(&x) && !self.back.contains_key(&y) {
                self.there.insert(x, y);
                self.back.insert(y, x);
            }
        }
    }

    /// Returns the location in the second recording that matches one in the first.
    pub fn map_to_second(&self, a: BufferLocation) -> Option<BufferLocation> {
        let buffer = *self.there.get(&a.buffer)?;
        Some(BufferLocation { buffer, ..a })
    }

    /// Returns the location in the first recording that matches one in the second.
    pub fn map_to_first(&self, b: BufferLocation) -> Option<BufferLocation> {
        let buffer = *self.back.get(&b.buffer)?;
        Some(BufferLocation { buffer, ..b })
    }

    /// Returns whether two locations match; also true if neither is known.
    pub fn is_same_location(&self, a: Option<BufferLocation>, b: Option<BufferLocation>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => a.offset == b.offset && self.there.get(&a.buffer) == Some(&b.buffer),
            (None, None) => true,
            _ => false,
        }
    }

    /// Returns the element type at two locations, if signatures give it and the locations match.
    pub fn element_type(&self, a: Option<BufferLocation>, b: Option<BufferLocation>) -> Option<ElementType> {
        let (a, b) = (a?, b?);
        let element = self.elements.get(&a.buffer).copied().flatten()?;
        let at = a.offset.is_multiple_of(element.bytes() as u64);
        (at && self.is_same_location(Some(a), Some(b))).then_some(element)
    }
}
