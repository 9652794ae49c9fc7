//! Memory that a program maps itself: reserved addresses, physical memory, and the mappings between them.
//!
//! Reservations are served from one range after the window, so that a replay finds the same addresses free.

use super::window::{WINDOW_BASE, WINDOW_BYTES, reserve_at};
use crate::trace::Trace;
use cuda_driver::{CuDevice, CuMemHandle};
use cuda_session::{Backing, GRANULE, PhysicalMappings, Relation, Window};
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use trace_core::GpuVa;
use trace_core::recording::CallWindow;

/// First address of the range for reservations.
const RESERVED_BASE: GpuVa = WINDOW_BASE.wrapping_add(WINDOW_BYTES);
/// Size of that range if the driver grants it, bytes. PyTorch reserves more than the device's memory for each of its
/// segments.
const RESERVED_BYTES: u64 = 4 << 40;
/// Minimum size of the range, bytes.
const MIN_RESERVED: u64 = 64 << 30;

/// Gap between two reservations, bytes, so that mappings in different reservations are never adjacent.
const GAP: u64 = GRANULE;

/// A backing without memory: reservations are only addresses.
struct AddressesOnly;

impl Backing for AddressesOnly {
    type Error = Infallible;

    fn map(&mut self, _: GpuVa, _: u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn unmap(&mut self, _: GpuVa, _: u64) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Physical memory that the program has a handle of.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhysicalMemory {
    /// Distinguishes it from earlier memory with the same handle.
    number: u64,
    /// Its device; `None` if it is the host's or another process's.
    device: Option<CuDevice>,
}

/// State of the program's own mappings.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    range: Option<Window>,
    tried: bool,
    made: u64,
    handles: HashMap<CuMemHandle, PhysicalMemory>,
    /// Current mappings by first address: size in bytes, and whether a row recorded them.
    now: BTreeMap<GpuVa, (u64, bool)>,
    /// Addresses of each memory's mappings.
    places: PhysicalMappings,
}

/// A mapping that the program made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewMapping {
    /// It maps memory that a recording does not hold: the host's, another device's or another process's.
    Elsewhere,
    /// It maps memory of this device, which is related to earlier mappings.
    Own(CuDevice, Relation),
}

impl Mappings {
    /// Adds physical memory that the program has a handle of; no device for the host's or another process's.
    pub fn add_memory(&mut self, handle: CuMemHandle, device: Option<CuDevice>) -> PhysicalMemory {
        self.made += 1;
        let number = self.made;
        let physical = PhysicalMemory { number, device };
        self.handles.insert(handle, physical);
        physical
    }

    /// Reserves `bytes` bytes of addresses, or returns `None` if the driver must.
    pub fn reserve(&mut self, trace: &Trace, bytes: u64) -> Option<GpuVa> {
        if !std::mem::replace(&mut self.tried, true)
            && let Ok(length) = reserve_at(RESERVED_BASE, RESERVED_BYTES, MIN_RESERVED)
        {
            self.range = Some(Window::new(RESERVED_BASE, length));
            let mut tables = trace.session.tables();
            tables.metadata.reserved = CallWindow {
                base: RESERVED_BASE,
                bytes: length,
            };
            tables.mark_changed();
        }
        let range = self.range.as_mut()?;
        range.allocate(bytes.checked_add(GAP)?, &mut AddressesOnly).ok()
    }

    /// Frees a reservation. Returns whether it was one without mappings, or `None` if it is the driver's.
    pub fn free(&mut self, at: GpuVa, bytes: u64) -> Option<bool> {
        let range = self.range.as_mut().filter(|range| range.contains(at))?;
        let is_used = self.now.range(at..at.saturating_add(bytes)).next().is_some();
        if is_used || range.find(at) != bytes.checked_add(GAP).map(|whole| (at, whole)) {
            return Some(false);
        }
        let _ = range.free(at, &mut AddressesOnly);
        Some(true)
    }

    /// Adds a mapping of memory at an offset. `first`: the recorded device, if it is known; `own`: the calling thread's,
    /// which memory with an unknown handle is assumed to belong to.
    pub fn map(
        &mut self,
        (at, bytes): (GpuVa, u64),
        offset: usize,
        handle: CuMemHandle,
        first: Option<CuDevice>,
        own: Option<CuDevice>,
    ) -> NewMapping {
        let physical = match self.handles.get(&handle) {
            Some(physical) => *physical,
            None => self.add_memory(handle, own),
        };
        let is_seen = physical.device.is_some() && (first.is_none() || physical.device == first) && offset == 0;
        self.now.insert(at, (bytes, is_seen));
        if !is_seen {
            return NewMapping::Elsewhere;
        }
        let relation = self.places.relate(at, bytes, physical.number);
        NewMapping::Own(physical.device.unwrap_or(0), relation)
    }

    /// Removes the mappings that start in a range. Returns those that rows recorded, with their sizes in bytes.
    pub fn unmap(&mut self, at: GpuVa, end: GpuVa) -> Vec<(GpuVa, u64)> {
        let all: Vec<GpuVa> = self.now.range(at..end).map(|(first, _)| *first).collect();
        let recorded = all.into_iter().filter_map(|first| match self.now.remove(&first) {
            Some((length, true)) => Some((first, length)),
            _ => None,
        });
        recorded.collect()
    }
}
