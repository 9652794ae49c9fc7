//! Device memory: its allocations, their addresses, and their end.

use crate::codes::OUT_OF_MEMORY;
use crate::memory::piece::Piece;
use crate::memory::table::{Kind, READ_WRITE, Range, insert, ranges_mut};
use crate::{Answer, lock};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Alignment of allocations, bytes.
const STEP: u64 = 512;
/// Size of the address range for allocations, bytes.
const ARENA: u64 = 64 << 30;

/// Addresses for allocations, accessible only through the table.
struct Arena {
    addresses: Option<Piece>,
    /// Used parts by their start address.
    used: BTreeMap<u64, u64>,
}

static ALLOCATED: Mutex<Arena> = Mutex::new(Arena {
    addresses: None,
    used: BTreeMap::new(),
});

impl Arena {
    /// Returns the first gap of this size, so that freed addresses are reused.
    fn take(&mut self, bytes: u64) -> Answer<u64> {
        if self.addresses.is_none() {
            self.addresses = Piece::addresses(ARENA, super::GRANULE);
        }
        let base = self.addresses.as_ref().ok_or(OUT_OF_MEMORY)?.at();
        let mut from = base;
        for (at, used) in &self.used {
            if at - from >= bytes {
                break;
            }
            from = at + used;
        }
        if base + ARENA - from < bytes {
            return Err(OUT_OF_MEMORY);
        }
        self.used.insert(from, bytes);
        Ok(from)
    }
}

/// Allocates device memory.
pub fn take(kind: Kind, bytes: u64, context: usize) -> Answer<u64> {
    let memory = Arc::new(Piece::of_device(bytes)?);
    let host = memory.at();
    // Managed memory is also accessible to the host, at the same address.
    let at = if kind == Kind::Managed {
        host
    } else {
        let rounded = bytes.max(1).checked_next_multiple_of(STEP).ok_or(OUT_OF_MEMORY)?;
        lock(&ALLOCATED).take(rounded)?
    };
    insert(Range {
        at,
        bytes: bytes.max(1),
        kind,
        host,
        memory: Some(memory),
        access: READ_WRITE,
        context,
        is_freed_in_stream: false,
    });
    Ok(at)
}

/// Frees the address of a range that was removed from the table.
pub fn end(range: &Range) {
    lock(&ALLOCATED).used.remove(&range.at);
}

/// Removes an allocation.
pub fn give_back(at: u64) {
    let removed = ranges_mut().remove(&at);
    if let Some(range) = removed {
        end(&range);
    }
}

/// Removes everything that is destroyed with a context.
pub fn forget(context: usize) {
    let gone: Vec<Range> = {
        let mut ranges = ranges_mut();
        let all: Vec<u64> = ranges.values().filter(|r| r.context == context).map(|r| r.at).collect();
        all.iter().filter_map(|at| ranges.remove(at)).collect()
    };
    for range in gone {
        end(&range);
    }
}
