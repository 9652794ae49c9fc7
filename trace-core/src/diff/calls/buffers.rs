//! Which buffers of two recordings go together: those that calls have at the same places most often. Addresses, the order of
//! allocations and names that follow from it are every run's own.

use crate::calls::{BufferLocation, Buffers};
use crate::recording::ElementType;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Buffers that go together.
#[derive(Debug, Default)]
pub(super) struct BufferPairs {
    /// How often two were met at one place: by what is done with them, and in snapshots, whose order is that of addresses.
    met: HashMap<(u32, u32), (u64, u64)>,
    /// The buffer of the second that goes with one of the first, and the other way.
    there: HashMap<u32, u32>,
    back: HashMap<u32, u32>,
    /// Types of elements by buffer of the first, as signatures tell them; `None`: not all tell the same.
    elements: HashMap<u32, Option<ElementType>>,
}

impl BufferPairs {
    /// Two places were met where the same is expected.
    pub fn count_match(&mut self, a: BufferLocation, b: BufferLocation) {
        if a.offset == b.offset {
            self.met.entry((a.buffer, b.buffer)).or_default().0 += 1;
        }
    }

    /// Two buffers of one size stand at the same place of a snapshot.
    pub fn count_snapshot_match(&mut self, a: BufferLocation, b: BufferLocation) {
        if a.offset == b.offset {
            self.met.entry((a.buffer, b.buffer)).or_default().1 += 1;
        }
    }

    /// A signature tells the type of the elements of a buffer of the first.
    pub fn set_element_type(&mut self, buffer: u32, element: ElementType) {
        let kept = self.elements.entry(buffer).or_insert(Some(element));
        if *kept != Some(element) {
            *kept = None;
        }
    }

    /// Decides which go together: those that were met most often first, then those of the same name, then by their order.
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

    /// The place of the second that goes with one of the first.
    pub fn map_to_second(&self, a: BufferLocation) -> Option<BufferLocation> {
        let buffer = *self.there.get(&a.buffer)?;
        Some(BufferLocation { buffer, ..a })
    }

    /// The place of the first that goes with one of the second.
    pub fn map_to_first(&self, b: BufferLocation) -> Option<BufferLocation> {
        let buffer = *self.back.get(&b.buffer)?;
        Some(BufferLocation { buffer, ..b })
    }

    /// Whether two places are the same; also where neither is known.
    pub fn is_same_location(&self, a: Option<BufferLocation>, b: Option<BufferLocation>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => a.offset == b.offset && self.there.get(&a.buffer) == Some(&b.buffer),
            (None, None) => true,
            _ => false,
        }
    }

    /// The type of the elements at two places, where signatures tell it and both go together.
    pub fn element_type(&self, a: Option<BufferLocation>, b: Option<BufferLocation>) -> Option<ElementType> {
        let (a, b) = (a?, b?);
        let element = self.elements.get(&a.buffer).copied().flatten()?;
        let at = a.offset.is_multiple_of(element.bytes() as u64);
        (at && self.is_same_location(Some(a), Some(b))).then_some(element)
    }
}
