//! Channels: rings of entries that name push buffers, and the doorbell.

use crate::argument::Argument;
use crate::client::class;
use crate::{Client, ClientError, ErrorNotifier, Kernel, Memory};
use core::sync::atomic::{Ordering, fence};

/// Number of entries in a ring.
pub const RING_ENTRIES: u32 = 1024;
/// Bytes of a ring.
const RING_BYTES: usize = RING_ENTRIES as usize * 8;
/// Bytes of a channel's user-visible state.
const USERD_BYTES: usize = 512;
/// Offset of `GPGet` in the state: the next entry that the GPU reads.
const GP_GET: usize = 0x88;
/// Offset of `GPPut` in the state: the next entry that the CPU writes.
const GP_PUT: usize = 0x8c;
/// Engine type of graphics and compute.
const ENGINE_GRAPHICS: u32 = 1;
/// Control command that returns a channel's doorbell token.
const GET_TOKEN: u32 = 0xc36f_0108;
/// Control command that schedules a channel group.
const SCHEDULE: u32 = 0xa06c_0101;

/// Places in memory that channels use.
#[derive(Clone, Copy, Debug)]
pub struct ChannelLayout {
    /// Offset of the ring; the state follows it.
    pub ring: usize,
}

impl ChannelLayout {
    /// Bytes that a channel uses from its ring on.
    pub const BYTES: usize = RING_BYTES + USERD_BYTES;

    fn state(self) -> usize {
        self.ring.saturating_add(RING_BYTES)
    }
}

/// A group of channels that the GPU schedules together. An error ends all of them.
#[derive(Debug)]
pub struct ChannelGroup {
    pub(crate) handle: u32,
    share: u32,
    /// The object that answers about faults, or why the driver refused it. `None` before [`Client::watch_faults`].
    pub(crate) debugger: Option<Result<u32, ClientError>>,
}

/// A channel.
#[derive(Debug)]
pub struct Channel {
    pub(crate) handle: u32,
    layout: ChannelLayout,
    put: u32,
    token: u32,
}

impl Channel {
    /// Returns the next entry that the CPU writes.
    #[must_use]
    pub fn put(&self) -> u32 {
        self.put
    }

    /// Returns the next entry that the GPU reads. `ring` is the memory of the channel.
    #[must_use]
    pub fn get(&self, ring: &Memory) -> u32 {
        let state = self.layout.state();
        let mapping = ring.mapping();
        mapping
            .and_then(|m| m.read_u32(state.saturating_add(GP_GET)))
            .unwrap_or(0)
    }
}

/// Returns the ring entry of a push buffer: address bits 39:2, length in words, level bit as NVIDIA's driver sets it.
#[must_use]
pub(crate) fn ring_entry(va: u64, words: u32) -> u64 {
    (va & 0xff_ffff_fffc) | u64::from(words) << 42 | 1 << 41
}

impl<K: Kernel> Client<K> {
    /// Creates a channel group on the graphics engine.
    ///
    /// # Errors
    /// What the driver refused. Nothing stays allocated.
    pub fn create_group(&mut self) -> Result<ChannelGroup, ClientError> {
        let (device, space) = (self.device, self.space);
        let mut parameters = Argument::<20>::new().with_u32(8, space).with_u32(12, ENGINE_GRAPHICS);
        let handle = self.calls.allocate(device, class::CHANNEL_GROUP, &mut parameters.0)?;
        let mut parameters = Argument::<12>::new().with_u32(0, space).with_u32(4, 1);
        let share = self.calls.allocate(handle, class::CONTEXT_SHARE, &mut parameters.0);
        let share = share.inspect_err(|_| {
            // The first error is the one to report.
            let _ = self.calls.free(device, handle);
        })?;
        Ok(ChannelGroup {
            handle,
            share,
            debugger: None,
        })
    }

    /// Creates a channel of a group. Its ring is in `ring`, its error notifier at the start of `notifier`.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn create_channel(
        &mut self,
        group: &ChannelGroup,
        ring: &Memory,
        layout: ChannelLayout,
        notifier: &Memory,
    ) -> Result<Channel, ClientError> {
        let mut parameters = Argument::<368>::new()
            .with_u32(0, notifier.handle)
            .with_u32(4, ring.handle)
            .with_u64(8, ring.va.saturating_add(layout.ring as u64))
            .with_u32(16, RING_ENTRIES)
            .with_u32(24, group.share)
            .with_u32(32, ring.handle)
            .with_u64(64, layout.state() as u64);
        let class = u32::from(self.info().classes.channel);
        let handle = self.calls.allocate(group.handle, class, &mut parameters.0)?;
        Ok(Channel {
            handle,
            layout,
            put: 0,
            token: 0,
        })
    }

    /// Creates an engine's object on a channel, and returns its handle.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn create_engine(&mut self, channel: &Channel, class: u16) -> Result<u32, ClientError> {
        self.calls.allocate(channel.handle, u32::from(class), &mut [])
    }

    /// Creates the object that answers about faults of a compute object. It has to exist before the fault. The order that
    /// is proven on a GPU is: channels, [`Client::schedule`], then this call.
    ///
    /// # Errors
    /// What the driver refused; without it, faults have no addresses.
    pub fn watch_faults(&mut self, group: &mut ChannelGroup, compute: u32) -> Result<(), ClientError> {
        let (device, root) = (self.device, self.calls.root);
        let mut parameters = Argument::<12>::new().with_u32(4, root).with_u32(8, compute);
        let debugger = self.calls.allocate(device, class::DEBUGGER, &mut parameters.0);
        group.debugger = Some(debugger);
        debugger.map(|_| ())
    }

    /// Asks for the channel's doorbell token. It is known after its engine's object exists.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn prepare_channel(&mut self, channel: &mut Channel) -> Result<(), ClientError> {
        let mut token = Argument::<4>::new().with_u32(0, u32::MAX);
        self.calls.control(channel.handle, GET_TOKEN, &mut token.0)?;
        channel.token = token.u32(0);
        Ok(())
    }

    /// Starts the channels of a group. From here on, the GPU fetches their entries.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn schedule(&mut self, group: &ChannelGroup) -> Result<(), ClientError> {
        let mut parameters = [1u8, 0, 0];
        let sized = parameters
            .get_mut(..self.calls.branch.schedule_bytes())
            .unwrap_or_default();
        self.calls.control(group.handle, SCHEDULE, sized)
    }

    /// Frees a group with its channels.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn free_group(&mut self, group: ChannelGroup) -> Result<(), ClientError> {
        let device = self.device;
        if let Some(Ok(debugger)) = group.debugger {
            // The group decides: a debugger of channels that are gone has no use.
            let _ = self.calls.free(device, debugger);
        }
        self.calls.free(device, group.handle)
    }

    /// Submits push buffers, each an address and a number of words: writes their entries, then rings the doorbell once.
    /// `ring` is the memory of the channel. The caller leaves one entry of the ring free.
    ///
    /// # Errors
    /// If the ring is not mapped.
    pub fn submit(
        &mut self,
        channel: &mut Channel,
        ring: &mut Memory,
        push_buffers: &[(u64, u32)],
    ) -> Result<(), ClientError> {
        let not_mapped = ClientError::NotMapped { va: ring.va };
        let mapping = ring.mapping_mut().ok_or(not_mapped)?;
        let mut next = channel.put;
        let mut written = true;
        // The GPU may read the push buffers and the entries as soon as it sees `GPPut`.
        fence(Ordering::SeqCst);
        for (va, words) in push_buffers {
            let at = channel.layout.ring.saturating_add(next as usize * 8);
            written &= mapping.write_u64(at, ring_entry(*va, *words));
            next = (next + 1) % RING_ENTRIES;
        }
        fence(Ordering::SeqCst);
        written &= mapping.write_u32(channel.layout.state().saturating_add(GP_PUT), next);
        fence(Ordering::SeqCst);
        if !written {
            return Err(not_mapped);
        }
        channel.put = next;
        self.ring_doorbell(channel.token);
        Ok(())
    }

    /// Reads the error notifier at the start of `notifier`.
    #[must_use]
    pub fn read_notifier(notifier: &Memory) -> Option<ErrorNotifier> {
        let mut bytes = [0; 16];
        let read = notifier.mapping()?.read(0, &mut bytes);
        read.then(|| ErrorNotifier::parse(&bytes)).flatten()
    }
}
