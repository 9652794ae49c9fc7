//! The objects of the resource manager that exist at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use trace_core::recording::ObjectKind;

/// What an import knows of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownObject {
    pub parent: u32,
    pub class: u32,
    pub kind: ObjectKind,
    /// Size in bytes, [`trace_core::recording::ObjectRow::UNKNOWN`] if unknown.
    pub bytes: u64,
    /// Handle of its address space, 0 if unknown.
    pub space: u32,
    /// Flags of [`trace_core::recording::ObjectRow`].
    pub flags: u32,
}

/// The objects of all clients.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Objects by client and handle.
    all: BTreeMap<(u32, u32), KnownObject>,
    /// Client, parent and handle of each object.
    children: BTreeSet<(u32, u32, u32)>,
    /// The client that last created an object with a handle: some records have no client.
    clients: HashMap<u32, u32>,
}

impl Objects {
    /// Adds an object. An older one with its handle is removed first.
    pub fn add(&mut self, client: u32, handle: u32, object: KnownObject) {
        self.remove(client, handle);
        self.all.insert((client, handle), object);
        self.children.insert((client, object.parent, handle));
        self.clients.insert(handle, client);
    }

    /// Returns an object.
    pub fn get(&self, client: u32, handle: u32) -> Option<&KnownObject> {
        self.all.get(&(client, handle))
    }

    /// Returns the client of the last object with a handle.
    pub fn client_of(&self, handle: u32) -> Option<u32> {
        self.clients.get(&handle).copied()
    }

    /// Returns the last object with a handle, of any client.
    pub fn find(&self, handle: u32) -> Option<&KnownObject> {
        self.get(self.client_of(handle)?, handle)
    }

    /// Returns the handle of the address space of an object: its own one, or that of the nearest parent that has one.
    pub fn space_of(&self, client: u32, handle: u32) -> u32 {
        // Channels, groups, devices, clients: parents are few. A damaged log may make them a circle.
        const MAX_PARENTS: usize = 8;
        let mut handle = handle;
        for _ in 0..MAX_PARENTS {
            match self.get(client, handle) {
                Some(object) if object.space != 0 => return object.space,
                Some(object) => handle = object.parent,
                None => return 0,
            }
        }
        0
    }

    /// Removes an object and all objects below it, and returns it.
    pub fn remove(&mut self, client: u32, handle: u32) -> Option<KnownObject> {
        let removed = self.all.get(&(client, handle)).copied()?;
        let mut doomed = vec![handle];
        while let Some(handle) = doomed.pop() {
            if let Some(object) = self.all.remove(&(client, handle)) {
                self.children.remove(&(client, object.parent, handle));
            }
            if self.clients.get(&handle) == Some(&client) {
                self.clients.remove(&handle);
            }
            let below = self.children.range((client, handle, 0)..=(client, handle, u32::MAX));
            doomed.extend(below.map(|(_, _, child)| *child).filter(|child| *child != handle));
        }
        Some(removed)
    }
}

/// Returns the kind of the objects of a class.
pub(super) fn kind_of_class(class: u32) -> ObjectKind {
    match class {
        0x0 | 0x1 | 0x41 => ObjectKind::Client,
        0x80 => ObjectKind::Device,
        0x2080 => ObjectKind::Subdevice,
        0x90f1 | 0xf2 | 0xfc => ObjectKind::AddressSpace,
        0xa06c => ObjectKind::ChannelGroup,
        0x9067 => ObjectKind::Context,
        0x5 | 0x78 | 0x79 | 0x7e => ObjectKind::Event,
        0x3e | 0x3f | 0x40 | 0x42 | 0x71 | 0x76 | 0x81 | 0x82 | 0xc2 | 0xf3 | 0xf8 | 0xf9 | 0xfb | 0xfd => {
            ObjectKind::Buffer
        }
        // The last byte of the other classes names their kind, since Tesla.
        0x5000.. => match class & 0xff {
            0x6f => ObjectKind::Channel,
            0x61 => ObjectKind::Registers,
            // 2D, memory to memory, inline to memory, 3D, video decoder, copy, video encoder, compute, JPEG, optical flow.
            0x2d | 0x39 | 0x40 | 0x97 | 0xb0 | 0xb5 | 0xb7 | 0xc0 | 0xd1 | 0xfa => ObjectKind::Engine,
            _ => ObjectKind::Other,
        },
        // Among them: 0x70 is a part of an address space that mappings name, and no memory.
        _ => ObjectKind::Other,
    }
}
