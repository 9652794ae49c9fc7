//! Objects of a player: its own memory, and its channels with their engines.

use crate::channel::ChannelLayout;
use crate::{Channel, ChannelGroup, Client, ClientError, Control, Kernel, Memory, Place};

/// Bytes of the memory with rings and push buffers, at the start of the window: video memory.
const RING_MEMORY_BYTES: u64 = 0x20_0000;
/// Offset of the semaphores in the window: system memory.
const SEMAPHORES: u64 = 0x40_0000;
/// Bytes of the semaphores, and of the notifier.
pub(crate) const SMALL_BYTES: u64 = 0x1_0000;
/// Offset of the error notifier in the window: system memory.
const NOTIFIER: u64 = 0x60_0000;
/// Offset of the staging memory in the window: system memory.
const STAGING: u64 = 0x80_0000;
/// Bytes of the staging memory.
pub(crate) const STAGING_BYTES: u64 = 0x40_0000;
/// Distance of the rings of two channels.
pub(crate) const RING_STEP: usize = 0x1_0000;
/// Number of channels: compute, copy, and the player's own copies.
pub(crate) const CHANNELS: usize = 3;

/// The player's own memory.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    pub ring: Memory,
    pub semaphores: Memory,
    pub notifier: Memory,
    pub staging: Memory,
}

impl OwnMemory {
    /// Allocates the memory in the window of `control`. Nothing stays after an error.
    pub fn allocate<K: Kernel>(client: &mut Client<K>, control: Control) -> Result<Self, ClientError> {
        let places = [
            (Place::Video, 0, RING_MEMORY_BYTES),
            (Place::System, SEMAPHORES, SMALL_BYTES),
            (Place::System, NOTIFIER, SMALL_BYTES),
            (Place::System, STAGING, STAGING_BYTES),
        ];
        let mut memories = [const { None::<Memory> }; 4];
        let mut failure = None;
        for (slot, (place, offset, bytes)) in memories.iter_mut().zip(places) {
            match client.allocate_memory(place, control.va.saturating_add(offset), bytes, true) {
                Ok(memory) => *slot = Some(memory),
                Err(e) => {
                    failure = Some(e);
                    break;
                }
            }
        }
        match memories {
            [Some(ring), Some(semaphores), Some(notifier), Some(staging)] => Ok(Self {
                ring,
                semaphores,
                notifier,
                staging,
            }),
            memories => {
                for memory in memories.into_iter().flatten() {
                    let _ = client.free_memory(memory);
                }
                Err(failure.unwrap_or(ClientError::NotMapped { va: control.va }))
            }
        }
    }

    /// Frees the memory. Returns the first error.
    pub fn free<K: Kernel>(self, client: &mut Client<K>) -> Result<(), ClientError> {
        let mut freed = Ok(());
        for memory in [self.ring, self.semaphores, self.notifier, self.staging] {
            freed = freed.and(client.free_memory(memory));
        }
        freed
    }
}

/// A group of channels with their engines.
#[derive(Debug)]
pub(crate) struct PlayerChannels {
    pub group: ChannelGroup,
    pub channels: [Channel; CHANNELS],
    /// Handle of the compute object.
    pub compute: u32,
}

/// Creates a group, its channels and their engines. Nothing stays after an error.
pub(crate) fn create_channels<K: Kernel>(
    client: &mut Client<K>,
    ring: &Memory,
    notifier: &Memory,
) -> Result<PlayerChannels, ClientError> {
    let mut group = client.create_group()?;
    match fill_group(client, &mut group, ring, notifier) {
        Ok((channels, compute)) => Ok(PlayerChannels {
            group,
            channels,
            compute,
        }),
        Err(e) => {
            // The channels go with their group; the first error is the one to report.
            let _ = client.free_group(group);
            Err(e)
        }
    }
}

/// Creates the channels of a group, starts them and watches their faults. Returns them and the compute object.
fn fill_group<K: Kernel>(
    client: &mut Client<K>,
    group: &mut ChannelGroup,
    ring: &Memory,
    notifier: &Memory,
) -> Result<([Channel; CHANNELS], u32), ClientError> {
    let classes = client.info().classes;
    let layout = |n: usize| ChannelLayout { ring: n * RING_STEP };
    let mut compute = client.create_channel(group, ring, layout(0), notifier)?;
    let object = client.create_engine(&compute, classes.compute)?;
    client.create_engine(&compute, classes.copy)?;
    let mut copy = client.create_channel(group, ring, layout(1), notifier)?;
    client.create_engine(&copy, classes.copy)?;
    let mut service = client.create_channel(group, ring, layout(2), notifier)?;
    client.create_engine(&service, classes.copy)?;
    for channel in [&mut compute, &mut copy, &mut service] {
        client.prepare_channel(channel)?;
    }
    client.schedule(group)?;
    // Without it, a fault has a code and no address: the group keeps why.
    let _ = client.watch_faults(group, object);
    Ok(([compute, copy, service], object))
}
