//! Clients and trees of objects: creation of clients, look-up and release.

use crate::files::State;
use crate::gpu::SpaceId;
use crate::gpu::memory::{Memory, MemoryKind};
use crate::objects::{Body, Client, Object};
use crate::status::{RmResult, RmStatus};
use std::os::fd::RawFd;
use std::sync::Arc;

/// First handle of clients.
const FIRST_CLIENT: u32 = 0xc1d0_0000;

impl State {
    /// Creates a client of a file. `handle` 0 lets the driver choose.
    pub fn create_client(&mut self, file: RawFd, handle: u32) -> RmResult<u32> {
        let handle = match handle {
            0 => loop {
                self.next_client = self.next_client.wrapping_add(1);
                let handle = FIRST_CLIENT.wrapping_add(self.next_client);
                if !self.clients.contains_key(&handle) {
                    break handle;
                }
            },
            handle if self.clients.contains_key(&handle) => return Err(RmStatus::DUPLICATE_NAME),
            handle => handle,
        };
        self.clients.insert(handle, Client::new(file));
        Ok(handle)
    }

    /// Returns a client.
    ///
    /// # Errors
    /// `INVALID_CLIENT` for an unknown handle.
    pub fn client(&self, handle: u32) -> RmResult<&Client> {
        self.clients.get(&handle).ok_or(RmStatus::INVALID_CLIENT)
    }

    /// Returns an object of a client.
    ///
    /// # Errors
    /// `INVALID_CLIENT` or `OBJECT_NOT_FOUND` for unknown handles.
    pub fn object(&self, client: u32, handle: u32) -> RmResult<&Object> {
        let object = self.client(client)?.object(handle);
        object.ok_or(RmStatus::OBJECT_NOT_FOUND)
    }

    /// Returns a memory object.
    ///
    /// # Errors
    /// As [`State::object`], and `INVALID_OBJECT` for another object.
    pub fn memory(&self, client: u32, handle: u32) -> RmResult<&Arc<Memory>> {
        match &self.object(client, handle)?.body {
            Body::Memory(memory) => Ok(memory),
            _ => Err(RmStatus::INVALID_OBJECT),
        }
    }

    /// Returns what an address of the GPU can be mapped to: a memory object, or the page of a compute scheduler.
    ///
    /// # Errors
    /// As [`State::memory`].
    pub fn mappable(&self, client: u32, handle: u32) -> RmResult<&Arc<Memory>> {
        match &self.object(client, handle)?.body {
            Body::Compute(page) => Ok(page),
            _ => self.memory(client, handle),
        }
    }

    /// Returns an address space by its handle.
    ///
    /// # Errors
    /// As [`State::object`], and `INVALID_OBJECT` for another object.
    pub fn space(&self, client: u32, handle: u32) -> RmResult<SpaceId> {
        match self.object(client, handle)?.body {
            Body::AddressSpace(space) => Ok(space),
            _ => Err(RmStatus::INVALID_OBJECT),
        }
    }

    /// Frees an object with all objects below it, or a client. The driver accepts unknown handles of a client.
    ///
    /// # Errors
    /// `INVALID_CLIENT` for an unknown client.
    pub fn free(&mut self, client: u32, handle: u32) -> RmResult {
        self.client(client)?;
        if handle == client {
            self.free_client(client);
            return Ok(());
        }
        self.free_tree(client, handle);
        Ok(())
    }

    /// Frees a client with all its objects.
    pub fn free_client(&mut self, handle: u32) {
        let roots: Vec<u32> = match self.clients.get(&handle) {
            Some(client) => client.objects.keys().copied().collect(),
            None => return,
        };
        for object in roots {
            self.free_tree(handle, object);
        }
        self.clients.remove(&handle);
    }

    /// Frees an object after all objects below it.
    fn free_tree(&mut self, client: u32, handle: u32) {
        let Some(tree) = self.clients.get(&client) else {
            return;
        };
        // An object is allocated after its parent, but handles are in any order.
        let mut order = vec![handle];
        let mut next = 0;
        while let Some(parent) = order.get(next).copied() {
            let children = tree.objects.iter().filter(|(_, object)| object.parent == parent);
            order.extend(children.map(|(handle, _)| *handle));
            next += 1;
        }
        for handle in order.into_iter().rev() {
            let tree = self.clients.get_mut(&client);
            if let Some(object) = tree.and_then(|tree| tree.objects.remove(&handle)) {
                self.release(client, handle, &object);
            }
        }
    }

    /// Takes a freed object from the device.
    fn release(&mut self, client: u32, handle: u32, object: &Object) {
        match &object.body {
            Body::Memory(memory) => {
                for space in self.gpu.spaces.values_mut() {
                    space.unmap_memory(memory);
                }
                if memory.kind == MemoryKind::Video {
                    self.gpu.release_memory(memory.bytes);
                }
            }
            Body::AddressSpace(space) => _ = self.gpu.spaces.remove(space),
            Body::Group(group) => _ = self.gpu.groups.remove(group),
            Body::Channel(channel) => _ = self.gpu.channels.remove(channel),
            Body::Compute(page) => {
                for space in self.gpu.spaces.values_mut() {
                    space.unmap_memory(page);
                }
                self.leave_channel(client, handle, object);
            }
            Body::Plain => self.leave_channel(client, handle, object),
            Body::VirtualMemory(_) | Body::ContextShare(_) | Body::Debugger { .. } => {}
        }
    }

    /// Takes an engine object from its channel.
    fn leave_channel(&mut self, client: u32, handle: u32, object: &Object) {
        if let Ok(Object {
            body: Body::Channel(channel),
            ..
        }) = self.object(client, object.parent)
        {
            let channel = *channel;
            if let Some(channel) = self.gpu.channels.get_mut(&channel) {
                channel.objects.remove(&handle);
            }
        }
    }
}
