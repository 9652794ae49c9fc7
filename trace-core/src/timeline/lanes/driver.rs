//! The lanes of a driver trace: one for each channel, objects, saved memory, requests.

use crate::channel_names::ChannelNames;
use crate::recording::{EventKind, Events, ObjectAction, Recording};
use std::collections::HashMap;

/// Maximum number of channels with their own lane; the others share that of the last one.
const MAX_CHANNELS: usize = 32;
/// Lane of objects of the kernel driver: created and mapped ones count as writes.
const OBJECTS: &str = "objects";
/// Lane of memory that the recorder saved.
const SAVED: &str = "saved memory";
/// Lane of requests to the kernel driver.
const REQUESTS: &str = "requests";

/// The lanes of a driver trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DriverLanes {
    /// Lane of each channel, by client and handle.
    channels: HashMap<(u32, u32), u8>,
    objects: u8,
    saved: u8,
    requests: u8,
}

/// Whether the names of lanes are those of an earlier version of the program, which named channels by their handles.
pub(super) fn has_handle_lanes(recording: &Recording, names: &[String]) -> bool {
    let by_handle = |n: &String| n.starts_with("ch ") || n.starts_with("CE");
    recording.driver_trace().is_some() && names.iter().any(by_handle)
}

impl DriverLanes {
    /// Creates the lanes, and adds their names.
    pub(super) fn new(recording: &Recording, names: &mut Vec<String>) -> Self {
        let mut next = |name: String| {
            names.push(name);
            // There are far fewer lanes than numbers.
            u8::try_from(names.len() - 1).unwrap_or(u8::MAX)
        };
        let mut channels: HashMap<(u32, u32), u8> = HashMap::new();
        let mut last = u8::MAX;
        for name in ChannelNames::from_recording(recording).list() {
            if channels.len() < MAX_CHANNELS {
                last = next(name.format());
            }
            channels.insert((name.client, name.handle), last);
        }
        Self {
            channels,
            objects: next(OBJECTS.to_owned()),
            saved: next(SAVED.to_owned()),
            requests: next(REQUESTS.to_owned()),
        }
    }

    /// Returns the numbers of all lanes, for another numbering.
    pub(super) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut u8> {
        let own = [&mut self.objects, &mut self.saved, &mut self.requests];
        self.channels.values_mut().chain(own)
    }

    /// Returns the lane of an event of a driver trace, if it is in one, and whether it counts as a write; `None` for other
    /// events.
    pub(super) fn lane_of(&self, events: &Events, kind: EventKind, payload: u32) -> Option<(Option<u8>, bool)> {
        let row = payload as usize;
        Some(match kind {
            EventKind::Object => {
                let action = events.objects.get(row).and_then(|o| ObjectAction::from_raw(o.action));
                let is_new = matches!(action, Some(ObjectAction::Create | ObjectAction::Map));
                (Some(self.objects), is_new)
            }
            EventKind::RingEntry => {
                let key = events.ring_entries.get(row).map(|r| (r.client, r.channel));
                let lane = key.and_then(|key| self.channels.get(&key).copied());
                (lane, true)
            }
            EventKind::SavedMemory => (Some(self.saved), true),
            EventKind::Call => (Some(self.requests), false),
            _ => return None,
        })
    }
}
