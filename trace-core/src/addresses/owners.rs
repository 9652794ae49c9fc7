//! Buffer ownership of addresses.

use super::pieces::{Piece, Pieces, Summary};
use crate::GpuVa;
use crate::recording::Buffer;
use std::collections::BTreeSet;

/// An address range owned by one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// First byte.
    pub va: GpuVa,
    /// Bytes.
    pub bytes: u64,
    /// Index of the buffer in the recording's list.
    pub buffer: u32,
}

/// The buffers that own a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerSummary {
    /// Number of bytes with an owner.
    pub bytes: u64,
    /// The buffer with the largest piece, and its bytes.
    pub main: Option<(u32, u64)>,
    /// Whether there is more than one buffer.
    pub several: bool,
}

impl Summary for OwnerSummary {
    fn join(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.several |= other.several;
        let Some(theirs) = other.main else { return };
        match &mut self.main {
            Some(mine) => {
                self.several |= mine.0 != theirs.0;
                // Of pieces of equal size the lower buffer counts, so that the order of joining does not matter.
                if (theirs.1, std::cmp::Reverse(theirs.0)) > (mine.1, std::cmp::Reverse(mine.0)) {
                    *mine = theirs;
                }
            }
            none => *none = Some(theirs),
        }
    }
}

impl Piece for Owner {
    type Summary = OwnerSummary;

    fn start(&self) -> GpuVa {
        self.va
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn summarize(&self, bytes: u64) -> OwnerSummary {
        OwnerSummary {
            bytes,
            main: (bytes > 0).then_some((self.buffer, bytes)),
            several: false,
        }
    }
}

/// Returns the buffers of an address space as pieces that do not overlap. If several cover an address, the smallest
/// owns it; of equal ones, the first in the list.
#[must_use]
pub fn find_owners(buffers: &[Buffer], space: u32) -> Pieces<Owner> {
    let mut borders: Vec<(u64, bool, (u64, u32))> = Vec::new();
    for (b, i) in buffers
        .iter()
        .zip(0u32..)
        .filter(|(b, _)| b.address_space == space && b.bytes > 0)
    {
        let rank = (b.bytes, i);
        borders.push((b.va.get(), true, rank));
        borders.push((b.va.get().saturating_add(b.bytes), false, rank));
    }
    borders.sort_unstable();
    let mut open: BTreeSet<(u64, u32)> = BTreeSet::new();
    let mut out: Vec<Owner> = Vec::new();
    let mut at = 0;
    for (border, opens, rank) in borders {
        if let Some((_, buffer)) = open.first().filter(|_| border > at) {
            let (va, bytes) = (GpuVa::new(at), border - at);
            match out.last_mut() {
                Some(last) if last.buffer == *buffer && last.end() == GpuVa::new(at) => {
                    last.bytes = last.bytes.saturating_add(bytes)
                }
                _ => out.push(Owner {
                    va,
                    bytes,
                    buffer: *buffer,
                }),
            }
        }
        if opens {
            open.insert(rank);
        } else {
            open.remove(&rank);
        }
        at = border;
    }
    Pieces::new(out)
}
