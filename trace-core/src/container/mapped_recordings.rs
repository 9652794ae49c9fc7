//! Registry of mapped recordings, which names the file when one of its pages cannot be read.
//!
//! A signal handler queries it, so a query takes no lock and allocates no memory. The registry consists of atomics
//! and cells that are written once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of registered maps, and of distinct names: more than a session opens. Further maps work, but have
/// no name.
const SLOTS: usize = 256;
/// Value of [`Slot::start`] while a slot is being filled; real maps start at page boundaries.
const TAKEN: usize = 1;
/// Name of a map for which no name slot was free.
const UNNAMED: &str = "a recording";

struct Slot {
    /// First address, 0 if the slot is free.
    start: AtomicUsize,
    end: AtomicUsize,
    /// Index in [`NAMES`].
    name: AtomicUsize,
}

static MAPS: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        name: AtomicUsize::new(0),
    }
}; SLOTS];
static NAMES: [OnceLock<String>; SLOTS] = [const { OnceLock::new() }; SLOTS];

/// A registered map; it stays registered as long as this value lives.
pub(super) struct MapRegistration(Option<usize>);

impl MapRegistration {
    /// Registers that `bytes` are mapped from the file of this name.
    pub fn new(name: &str, bytes: &[u8]) -> Self {
        let start = bytes.as_ptr().addr();
        if start <= TAKEN || bytes.is_empty() {
            return Self(None);
        }
        // A name is kept forever: the next map of the same file reuses it.
        let named = NAMES.iter().position(|n| n.get_or_init(|| name.to_owned()) == name);
        let free = MAPS.iter().position(|s| {
            s.start
                .compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        if let Some(slot) = free.and_then(|at| MAPS.get(at)) {
            slot.end.store(start.saturating_add(bytes.len()), Ordering::Relaxed);
            slot.name.store(named.unwrap_or(SLOTS), Ordering::Relaxed);
            slot.start.store(start, Ordering::Release);
        }
        Self(free)
    }
}

impl Drop for MapRegistration {
    fn drop(&mut self) {
        if let Some(slot) = self.0.and_then(|at| MAPS.get(at)) {
            slot.start.store(0, Ordering::Release);
        }
    }
}

/// Returns the name of the recording that is mapped at an address, as its opener gave it. Safe to call in a signal
/// handler.
#[must_use]
pub fn recording_at(address: usize) -> Option<&'static str> {
    MAPS.iter().find_map(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        // The whole last page belongs to the map.
        let end = slot
            .end
            .load(Ordering::Relaxed)
            .checked_next_multiple_of(crate::PAGE_SIZE)?;
        if start <= TAKEN || !(start..end).contains(&address) {
            return None;
        }
        let name = NAMES.get(slot.name.load(Ordering::Relaxed)).and_then(OnceLock::get);
        Some(name.map_or(UNNAMED, String::as_str))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_recording_is_found_by_address_until_dropped() {
        let bytes = vec![0u8; 3 * crate::PAGE_SIZE];
        let at = bytes.as_ptr().addr();
        let known = MapRegistration::new("/x/mapped-test.kine", &bytes);
        assert_eq!(recording_at(at), Some("/x/mapped-test.kine"));
        assert_eq!(recording_at(at + bytes.len() - 1), Some("/x/mapped-test.kine"));
        drop(known);
        assert_ne!(recording_at(at), Some("/x/mapped-test.kine"));
        let again = MapRegistration::new("/x/mapped-test.kine", &bytes);
        assert_eq!(recording_at(at + 5), Some("/x/mapped-test.kine"));
        drop(again);
    }
}
