//! Names of channels for people: `compute 0`, `copy 1`.

use crate::driver_trace::{ChannelEngine, ChannelKind, DriverObject};
use crate::families::find_channel_kinds;
use crate::recording::{ObjectAction, ObjectKind, Recording};
use std::collections::{BTreeMap, HashMap};

/// Client and handle of a channel; 0 if the recording does not state it.
type ChannelKey = (u32, u32);

/// The name of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelName {
    /// Handle of its client, or 0 if unknown.
    pub client: u32,
    /// Its handle, or 0 if unknown.
    pub handle: u32,
    /// What its commands do.
    pub kind: ChannelKind,
    /// Number among the channels of its kind, from 0.
    pub number: u32,
    /// The engine that runs its commands, if known.
    pub engine: Option<ChannelEngine>,
}

impl ChannelName {
    /// Returns the name: `compute 0`.
    #[must_use]
    pub fn format(&self) -> String {
        format!("{} {}", self.kind.name(), self.number)
    }

    /// Describes the channel with its name, handle and engine: `compute 0: channel 0x5c00001c, graphics and compute`.
    #[must_use]
    pub fn describe(&self) -> String {
        let handle = match self.handle {
            0 => "channel without a handle".to_owned(),
            handle => format!("channel {handle:#x}"),
        };
        let engine = self
            .engine
            .map_or_else(String::new, |engine| format!(", {}", engine.describe()));
        format!("{}: {handle}{engine}", self.format())
    }
}

/// The names of the channels of a recording, in display order: those of copy engines come last, in the order of the
/// engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelNames {
    list: Vec<ChannelName>,
    by_key: HashMap<ChannelKey, usize>,
}

impl ChannelNames {
    /// Names the channels that a recording creates or uses. Takes time proportional to the number of objects, ring entries
    /// and requests.
    #[must_use]
    pub fn from_recording(recording: &Recording) -> Self {
        let kinds = find_channel_kinds(recording);
        let events = &recording.events;
        let is_created = |kind: u32, action: u32, result: u32| {
            result == 0 && kind == ObjectKind::Channel as u32 && action == ObjectAction::Create as u32
        };
        let created = events.objects.iter();
        let created = created.filter(|o| is_created(o.kind, o.action, o.result));
        let created = created.map(|o| (o.client, o.handle));
        let used = events.ring_entries.iter().map(|r| (r.client, r.channel));
        let mut out = Self::default();
        for key in created.chain(used) {
            let list = &mut out.list;
            out.by_key.entry(key).or_insert_with(|| {
                let (kind, engine) = kinds.get(&key).copied().unwrap_or((ChannelKind::Unknown, None));
                list.push(ChannelName {
                    client: key.0,
                    handle: key.1,
                    kind,
                    number: 0,
                    engine,
                });
                list.len() - 1
            });
        }
        out.list.sort_by_key(|name| match (name.kind, name.engine) {
            (ChannelKind::Copy, Some(ChannelEngine::Copy(number))) => (1, number),
            (ChannelKind::Copy, _) => (1, None),
            _ => (0, None),
        });
        let mut counts: BTreeMap<ChannelKind, u32> = BTreeMap::new();
        for (n, name) in out.list.iter_mut().enumerate() {
            let count = counts.entry(name.kind).or_default();
            name.number = *count;
            *count = count.saturating_add(1);
            out.by_key.insert((name.client, name.handle), n);
        }
        out
    }

    /// Returns the names in display order.
    #[must_use]
    pub fn list(&self) -> &[ChannelName] {
        &self.list
    }

    /// Returns the name of the channel of a client with a handle.
    #[must_use]
    pub fn find(&self, client: u32, handle: u32) -> Option<&ChannelName> {
        self.list.get(*self.by_key.get(&(client, handle))?)
    }

    /// Returns the name of the channel that an object is.
    #[must_use]
    pub fn find_object(&self, object: &DriverObject) -> Option<&ChannelName> {
        self.find(object.client.unwrap_or(0), object.handle.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
