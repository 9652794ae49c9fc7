//! The pass over the events that finds objects, mappings, channels and submissions.

use super::{DriverChannel, DriverObject, DriverTrace, Mapping, Submission};
use crate::GpuVa;
use crate::recording::{EventKind, ObjectAction, ObjectKind, ObjectRow, Recording, RingEntryRow, SpaceKind};
use std::collections::{BTreeMap, HashMap};

/// Name of the space of doorbells.
const DOORBELLS: &str = "usermode";

/// Client, address space and first address of a mapping.
type MappingKey = (u32, u32, GpuVa);

/// What the pass has found so far.
#[derive(Default)]
pub(super) struct Builder {
    trace: DriverTrace,
    /// Current objects by client and handle.
    by_handle: HashMap<(u32, u32), usize>,
    /// Current objects of a source without handles, by their address.
    by_address: HashMap<GpuVa, usize>,
    /// Children of objects that have some.
    children: HashMap<usize, Vec<usize>>,
    /// Current mappings by client, address space and address.
    mapped: BTreeMap<MappingKey, usize>,
    /// The keys of the mappings of an object, current or not.
    mappings_of: HashMap<usize, Vec<MappingKey>>,
    /// Channels by object.
    channels: HashMap<usize, usize>,
    /// The newest channel by its handle, for sources that do not state the client.
    channel_by_handle: HashMap<u32, usize>,
    /// Submissions that no doorbell has announced.
    waiting: Vec<usize>,
}

impl Builder {
    pub(super) fn add_event(&mut self, recording: &Recording, event: usize) {
        let number = event as u64;
        match recording.events.kind(event) {
            Some(EventKind::Object) => {
                // A refused request made and freed nothing.
                if let Some(row) = recording.events.object(event).filter(|r| r.result == 0) {
                    self.add_object_event(number, &row);
                }
            }
            Some(EventKind::RingEntry) => {
                if let Some(row) = recording.events.ring_entry(event) {
                    self.submit(number, &row);
                }
            }
            Some(EventKind::Write) => {
                let space = recording.events.space.get(event).map_or(0, usize::from);
                let space = recording.metadata.spaces.get(space);
                if space.is_some_and(|s| s.kind == SpaceKind::Registers && s.name == DOORBELLS) {
                    self.ring_doorbell(number);
                }
            }
            _ => {}
        }
    }

    pub(super) fn finish(self) -> DriverTrace {
        self.trace
    }

    fn add_object_event(&mut self, event: u64, row: &ObjectRow) {
        match ObjectAction::from_raw(row.action) {
            Some(ObjectAction::Create) => {
                self.create(row, Some(event));
            }
            Some(ObjectAction::Free) => self.free(event, row),
            Some(ObjectAction::Map) => self.map(event, row),
            Some(ObjectAction::Unmap) => self.unmap(event, row),
            None => {}
        }
    }

    fn create(&mut self, row: &ObjectRow, event: Option<u64>) -> usize {
        let parent = self.find(row.client, row.parent);
        let index = self.trace.objects.len();
        self.trace.objects.push(DriverObject::new(row, parent, event));
        if let Some(parent) = parent {
            self.children.entry(parent).or_default().push(index);
        }
        if row.handle != 0 {
            self.by_handle.insert((row.client, row.handle), index);
        } else if row.address != ObjectRow::UNKNOWN_ADDRESS {
            self.by_address.insert(row.address, index);
        }
        if row.kind == ObjectKind::Channel as u32 {
            self.channels.insert(index, self.trace.channels.len());
            self.channel_by_handle.insert(row.handle, index);
            self.trace.channels.push(DriverChannel {
                object: index,
                submits: 0,
                doorbells: 0,
            });
        }
        index
    }

    fn find(&self, client: u32, handle: u32) -> Option<usize> {
        (handle != 0).then(|| self.by_handle.get(&(client, handle)).copied())?
    }

    /// Frees an object and everything below it. A source without handles frees the object at an address, or its newest
    /// object of the kind.
    fn free(&mut self, event: u64, row: &ObjectRow) {
        let newest = || {
            let is_it = |o: &DriverObject| o.kind == ObjectKind::from_raw(row.kind) && o.free_event.is_none();
            self.trace.objects.iter().rposition(is_it)
        };
        let first = match (row.handle, row.address) {
            (0, ObjectRow::UNKNOWN_ADDRESS) => newest(),
            (0, address) => self.by_address.remove(&address),
            (handle, _) => self.find(row.client, handle),
        };
        let mut gone: Vec<usize> = first.into_iter().collect();
        while let Some(index) = gone.pop() {
            gone.extend(self.children.remove(&index).unwrap_or_default());
            let Some(object) = self.trace.objects.get_mut(index) else {
                continue;
            };
            if object.free_event.is_some() {
                continue;
            }
            object.free_event = Some(event);
            if let (Some(client), Some(handle)) = (object.client, object.handle)
                && self.by_handle.get(&(client, handle)) == Some(&index)
            {
                self.by_handle.remove(&(client, handle));
            }
            for key in self.mappings_of.remove(&index).unwrap_or_default() {
                self.end_mapping(event, key, Some(index));
            }
        }
    }

    fn map(&mut self, event: u64, row: &ObjectRow) {
        let (Some(va), Some(bytes)) = (row.known_address(), row.known_bytes()) else {
            return;
        };
        let object = match self.find(row.client, row.handle) {
            Some(object) => object,
            // The buffer of another client, or one from before the recording.
            None => self.create(row, None),
        };
        self.end_mappings(event, (row.client, row.space), va, bytes);
        let key = (row.client, row.space, va);
        self.mapped.insert(key, self.trace.mappings.len());
        self.mappings_of.entry(object).or_default().push(key);
        self.trace.mappings.push(Mapping {
            object,
            space: (row.space != 0).then_some(row.space),
            va,
            bytes,
            offset: row.known_second().unwrap_or(0),
            map_event: event,
            unmap_event: None,
        });
        if let Some(object) = self.trace.objects.get_mut(object) {
            object.address.get_or_insert(va);
        }
    }

    fn unmap(&mut self, event: u64, row: &ObjectRow) {
        if let Some(va) = row.known_address() {
            self.end_mappings(event, (row.client, row.space), va, row.known_bytes().unwrap_or(1));
        }
    }

    /// Ends the mappings that begin in a range: a later mapping replaces them.
    fn end_mappings(&mut self, event: u64, (client, space): (u32, u32), va: GpuVa, bytes: u64) {
        let range = (client, space, va)..(client, space, va.saturating_add(bytes.max(1)));
        let ended: Vec<MappingKey> = self.mapped.range(range).map(|(key, _)| *key).collect();
        for key in ended {
            self.end_mapping(event, key, None);
        }
    }

    /// Ends the current mapping of a key; with `object`, only if it is one of this object.
    fn end_mapping(&mut self, event: u64, key: MappingKey, object: Option<usize>) {
        let mapping = self.mapped.get(&key).and_then(|m| self.trace.mappings.get_mut(*m));
        if let Some(mapping) = mapping.filter(|m| object.is_none_or(|o| o == m.object)) {
            mapping.unmap_event.get_or_insert(event);
            self.mapped.remove(&key);
        }
    }

    fn submit(&mut self, event: u64, row: &RingEntryRow) {
        let of_handle = || self.channel_by_handle.get(&row.channel).copied();
        let object = self.find(row.client, row.channel).or_else(of_handle);
        let object = object.unwrap_or_else(|| {
            let channel = ObjectRow {
                client: row.client,
                handle: row.channel,
                kind: ObjectKind::Channel as u32,
                ..ObjectRow::default()
            };
            self.create(&channel, None)
        });
        let Some(channel) = self.channels.get(&object).copied() else {
            return;
        };
        if let Some(c) = self.trace.channels.get_mut(channel) {
            c.submits += 1;
        }
        self.waiting.push(self.trace.submissions.len());
        self.trace.submissions.push(Submission {
            index: u32::try_from(self.trace.submissions.len()).unwrap_or(u32::MAX),
            event,
            channel,
            va: row.va,
            bytes: row.bytes,
            doorbell: None,
        });
    }

    /// A doorbell announces the entries since the last one. They are of one channel.
    fn ring_doorbell(&mut self, event: u64) {
        let mut channel = None;
        for n in self.waiting.drain(..) {
            if let Some(s) = self.trace.submissions.get_mut(n) {
                s.doorbell = Some(event);
                channel = Some(s.channel);
            }
        }
        if let Some(c) = channel.and_then(|c| self.trace.channels.get_mut(c)) {
            c.doorbells += 1;
        }
    }
}
