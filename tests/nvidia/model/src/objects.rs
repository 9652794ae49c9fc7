//! Clients of the resource manager and their objects.

use crate::gpu::memory::Memory;
use crate::gpu::{ChannelId, GroupId, SpaceId};
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;

/// First handle that the driver chooses in a client.
const FIRST_HANDLE: u32 = 0xcaf0_0000;

/// What an object is, beyond its class.
#[derive(Debug, Clone)]
pub enum Body {
    /// Nothing but its class.
    Plain,
    AddressSpace(SpaceId),
    /// Addresses of a space that memory can be mapped at.
    VirtualMemory(SpaceId),
    Memory(Arc<Memory>),
    /// Object of a compute engine, with the page of its scheduler.
    Compute(Arc<Memory>),
    Group(GroupId),
    ContextShare(SpaceId),
    Channel(ChannelId),
    /// Debugger of an engine object of a client.
    Debugger {
        client: u32,
        object: u32,
    },
}

/// An object.
#[derive(Debug, Clone)]
pub struct Object {
    pub parent: u32,
    pub class: u32,
    pub body: Body,
}

/// A client: the root of a tree of objects.
#[derive(Debug)]
pub struct Client {
    /// File that the client was allocated with: the client ends with it.
    pub file: RawFd,
    pub objects: BTreeMap<u32, Object>,
    next_handle: u32,
}

impl Client {
    /// Returns a client of a file, without objects.
    pub fn new(file: RawFd) -> Self {
        Self {
            file,
            objects: BTreeMap::new(),
            next_handle: FIRST_HANDLE,
        }
    }

    /// Returns a handle that no object has.
    pub fn choose_handle(&mut self) -> u32 {
        loop {
            let handle = self.next_handle;
            self.next_handle = handle.wrapping_add(1);
            if !self.objects.contains_key(&handle) {
                return handle;
            }
        }
    }

    /// Returns an object. `None` stands for an unknown handle.
    pub fn object(&self, handle: u32) -> Option<&Object> {
        self.objects.get(&handle)
    }
}
