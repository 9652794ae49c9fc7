//! Descriptions of the events of driver traces.

use super::{DriverTraceMetadata, ObjectAction, ObjectKind, ObjectRow, SaveReason};
use crate::recording::{EventKind, Recording};

impl EventKind {
    /// Returns the name in JSON, tables and filters of the kinds that only driver traces have; `None` for others.
    #[must_use]
    pub fn driver_name(self) -> Option<&'static str> {
        Some(match self {
            Self::Object => "object",
            Self::RingEntry => "ring-entry",
            Self::SavedMemory => "saved-memory",
            _ => return None,
        })
    }
}

impl ObjectRow {
    /// Describes it: `created buffer 0xcaf00005 of class 0x40, 2097152 bytes at 0x1000400000, asked for by gmalloc`.
    #[must_use]
    pub fn describe(&self, metadata: Option<&DriverTraceMetadata>) -> String {
        let kind = ObjectKind::from_raw(self.kind).map_or("object of an unknown kind", ObjectKind::name);
        let kind = kind.replace('-', " ");
        let mut text = match ObjectAction::from_raw(self.action) {
            Some(ObjectAction::Create) => format!("created {kind}"),
            Some(ObjectAction::Free) => format!("freed {kind}"),
            Some(ObjectAction::Map) => format!("mapped {kind}"),
            Some(ObjectAction::Unmap) => format!("unmapped {kind}"),
            None => format!("changed {kind}"),
        };
        if self.handle != 0 {
            text.push_str(&format!(" {:#x}", self.handle));
        }
        if self.class != 0 {
            text.push_str(&format!(" of class {:#x}", self.class));
        }
        let is_channel = self.kind == ObjectKind::Channel as u32;
        let place = match (self.known_bytes(), self.known_address()) {
            (Some(bytes), Some(at)) => format!("{bytes} bytes at {at}"),
            (Some(bytes), None) => format!("{bytes} bytes"),
            (None, Some(at)) => format!("at {at}"),
            (None, None) => String::new(),
        };
        match (place.is_empty(), is_channel) {
            (true, _) => {}
            (false, true) => text.push_str(&format!(", push buffer of {place}")),
            (false, false) => text.push_str(&format!(", {place}")),
        }
        if let Some(ring) = self.known_second().filter(|_| is_channel) {
            text.push_str(&format!(", ring at {ring:#x}"));
        }
        if self.flags & Self::HOST_MEMORY != 0 {
            text.push_str(", in host memory");
        }
        if let Some(caller) = metadata.and_then(|m| m.name(self.caller)) {
            text.push_str(&format!(", asked for by {caller}"));
        }
        if self.result != 0 {
            text.push_str(&format!(", failed with {:#x}", self.result));
        }
        text
    }
}

impl Recording {
    /// Describes an event that only driver traces have, or a request to the kernel driver; `None` for others.
    #[must_use]
    pub fn describe_driver_event(&self, event: usize) -> Option<String> {
        let events = &self.events;
        let metadata = self.driver_trace();
        let row = events.payload.get(event)? as usize;
        Some(match events.kind(event)? {
            EventKind::Object => events.objects.get(row)?.describe(metadata),
            EventKind::RingEntry => {
                let r = events.ring_entries.get(row)?;
                let content = if events.stored_content(event)?.rows().is_some() {
                    ""
                } else {
                    ", not recorded"
                };
                format!(
                    "channel {:#x}, entry {}: {} bytes of commands at {}{content}",
                    r.channel, r.index, r.bytes, r.va
                )
            }
            EventKind::SavedMemory => {
                let s = events.saved_memory.get(row)?;
                let why = SaveReason::from_raw(s.reason).map_or("memory", SaveReason::name);
                format!("{why}, {} bytes at {}", s.bytes, s.va)
            }
            EventKind::Call if self.api().is_none() => {
                let c = events.calls.get(row)?;
                let name = self.call_name(&c).unwrap_or("request");
                match c.result {
                    0 => name.to_owned(),
                    result => format!("{name}, failed with {result:#x}"),
                }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuVa;
    use crate::recording::{EventsBuilder, NO_CONTENT, RingEntryRow, SavedMemoryRow, TraceKind};

    #[test]
    fn descriptions_are_readable() {
        let mut metadata = DriverTraceMetadata::default();
        let caller = metadata.add_name("gmalloc");
        let mut b = EventsBuilder::new();
        let buffer = ObjectRow {
            action: ObjectAction::Create as u32,
            kind: ObjectKind::Buffer as u32,
            handle: 0xcaf0_0005,
            class: 0x40,
            bytes: 4096,
            caller,
            flags: ObjectRow::HOST_MEMORY,
            ..ObjectRow::default()
        };
        b.object(0, 1, buffer);
        let channel = ObjectRow {
            kind: ObjectKind::Channel as u32,
            handle: 0,
            class: 0,
            bytes: 0x1_0000,
            address: GpuVa::new(0x103f_5000),
            second: 0x1040_5000,
            caller: ObjectRow::NO_NAME,
            flags: 0,
            result: 0x51,
            ..buffer
        };
        b.object(1, 1, channel);
        let entry = RingEntryRow {
            va: GpuVa::new(0x1000),
            bytes: 8,
            pages_at: NO_CONTENT,
            channel: 3,
            index: 2,
            ..RingEntryRow::default()
        };
        b.ring_entry(2, 1, entry);
        let saved = SavedMemoryRow {
            va: GpuVa::new(0x2000),
            bytes: 16,
            reason: SaveReason::CopySource as u32,
            ..SavedMemoryRow::default()
        };
        b.saved_memory(3, 1, saved);
        let mut r = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        r.metadata.kind = TraceKind::Driver(metadata);
        let texts: Vec<String> = (0..4).filter_map(|e| r.describe_driver_event(e)).collect();
        assert_eq!(
            texts,
            [
                "created buffer 0xcaf00005 of class 0x40, 4096 bytes, in host memory, asked for by gmalloc",
                "created channel, push buffer of 65536 bytes at 0x103f5000, ring at 0x10405000, failed with 0x51",
                "channel 0x3, entry 2: 8 bytes of commands at 0x1000, not recorded",
                "copy source, 16 bytes at 0x2000",
            ]
        );
    }
}
