//! The buffer that is nearest to an address: the one that contains it, or the last one before or the first one after it.

use super::{DriverObject, DriverTrace};
use crate::GpuVa;
use crate::recording::ObjectKind;

/// Maximum distance of a buffer that is near, bytes. A pointer that is further off has no relation to the buffer.
const MAX_DISTANCE: u64 = 1 << 32;

/// The relation of an address to a buffer. The buffer is an index into [`DriverTrace::objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearestBuffer {
    /// The buffer contains the address.
    Inside {
        /// The buffer.
        object: usize,
        /// Offset in the buffer, bytes.
        offset: u64,
    },
    /// The buffer contained the address until an event.
    Freed {
        /// The buffer.
        object: usize,
        /// Offset in the buffer, bytes.
        offset: u64,
        /// Event that freed or unmapped it.
        event: u64,
    },
    /// The address is above the last byte of the buffer.
    Above {
        /// The buffer.
        object: usize,
        /// Distance to the end of the buffer, bytes.
        bytes: u64,
    },
    /// The address is below the first byte of the buffer.
    Below {
        /// The buffer.
        object: usize,
        /// Distance to the first byte of the buffer, bytes.
        bytes: u64,
    },
}

/// A range of addresses that a buffer has for a time.
pub(crate) struct PlacedBuffer {
    /// Index of the buffer in [`DriverTrace::objects`].
    pub object: usize,
    /// First address.
    pub va: GpuVa,
    /// Number of bytes.
    pub bytes: u64,
    /// Offset of the first byte in the buffer.
    pub offset: u64,
    /// Event from which on it has the addresses; `None` if it had them before.
    pub from: Option<u64>,
    /// Event up to which it has the addresses; `None` if it has them at the end.
    pub to: Option<u64>,
}

impl PlacedBuffer {
    /// Whether it has the addresses just before an event.
    pub fn exists_at(&self, event: u64) -> bool {
        self.from.is_none_or(|e| e < event) && self.to.is_none_or(|e| e >= event)
    }

    /// Returns the offset of an address in the buffer, or `None` if it is outside the range.
    pub fn offset_of(&self, va: GpuVa) -> Option<u64> {
        let within = va.offset_from(self.va).filter(|n| *n < self.bytes)?;
        within.checked_add(self.offset)
    }
}

impl DriverTrace {
    /// Returns the buffer that is nearest to an address just before an event, or `None` if none is within 4 GiB.
    #[must_use]
    pub fn find_nearest_buffer(&self, va: GpuVa, event: u64) -> Option<NearestBuffer> {
        if let Some((object, offset)) = self.find_buffer(va, event) {
            return Some(NearestBuffer::Inside { object, offset });
        }
        let ended = self.placed_buffers().filter_map(|p| {
            let end = p.to.filter(|end| *end < event)?;
            Some((p.object, p.offset_of(va)?, end))
        });
        if let Some((object, offset, event)) = ended.max_by_key(|(_, _, end)| *end) {
            return Some(NearestBuffer::Freed { object, offset, event });
        }
        let distances = self.placed_buffers().filter(|p| p.exists_at(event)).filter_map(|p| {
            let above = va.offset_from(p.va.saturating_add(p.bytes));
            let object = p.object;
            match (above, p.va.offset_from(va)) {
                (Some(bytes), _) => Some((bytes, NearestBuffer::Above { object, bytes })),
                (None, Some(bytes)) => Some((bytes, NearestBuffer::Below { object, bytes })),
                (None, None) => None,
            }
        });
        let nearest = distances.min_by_key(|(bytes, _)| *bytes);
        nearest
            .filter(|(bytes, _)| *bytes <= MAX_DISTANCE)
            .map(|(_, found)| found)
    }

    /// Returns the ranges of addresses of all buffers: their mappings, and the addresses of those whose mappings the
    /// source does not state.
    pub(crate) fn placed_buffers(&self) -> impl Iterator<Item = PlacedBuffer> + '_ {
        let mapped = self.mappings().iter().map(|m| PlacedBuffer {
            object: m.object,
            va: m.va,
            bytes: m.bytes,
            offset: m.offset,
            from: Some(m.map_event),
            to: m.unmap_event,
        });
        let mut has_mapping = vec![false; self.objects().len()];
        for m in self.mappings() {
            if let Some(has) = has_mapping.get_mut(m.object) {
                *has = true;
            }
        }
        let placed = self.objects().iter().enumerate().zip(has_mapping);
        let placed = placed.filter_map(|((object, o), has)| {
            let is_placed = o.kind == Some(ObjectKind::Buffer) && !has;
            Some(PlacedBuffer {
                object,
                va: o.address.filter(|_| is_placed)?,
                bytes: o.bytes?,
                offset: 0,
                from: o.alloc_event,
                to: o.free_event,
            })
        });
        mapped.chain(placed)
    }

    /// Describes the relation of an address to a buffer: `0x7f00000000 is 3.2 MiB above buffer 0xcaf00005`.
    #[must_use]
    pub fn describe_nearest(&self, va: GpuVa, nearest: Option<NearestBuffer>) -> String {
        let name = |object: usize| self.objects().get(object).map_or_else(String::new, |o| o.name(object));
        match nearest {
            Some(NearestBuffer::Inside { object, offset }) => {
                format!("{va} is in buffer {} + {offset:#x}", name(object))
            }
            Some(NearestBuffer::Freed { object, offset, event }) => format!(
                "{va} was in buffer {} + {offset:#x}, whose address ended at event {event}",
                name(object)
            ),
            Some(NearestBuffer::Above { object, bytes }) => {
                format!("{va} is {} above buffer {}", format_distance(bytes), name(object))
            }
            Some(NearestBuffer::Below { object, bytes }) => {
                format!("{va} is {} below buffer {}", format_distance(bytes), name(object))
            }
            None => format!("no buffer is mapped near {va}"),
        }
    }
}

impl DriverObject {
    /// Returns the name of an object with an index: its handle, or its number if the source states no handle.
    #[must_use]
    pub fn name(&self, index: usize) -> String {
        self.handle.map_or_else(|| format!("#{index}"), |h| format!("{h:#x}"))
    }
}

/// Formats a distance: `12 bytes`, `3.2 MiB`.
fn format_distance(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift != 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None if bytes == 1 => "1 byte".to_owned(),
        None => format!("{bytes} bytes"),
    }
}
