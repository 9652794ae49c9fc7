//! The GPU: address spaces, channels and groups of channels, and the doorbell.

pub mod address_space;
pub mod channel;
mod commands;
mod copies;
mod faults;
pub mod kernels;
mod launches;
pub mod memory;
mod semaphores;

use crate::settings::Settings;
use crate::shared_memory::SharedMemory;
use crate::system::{self, Errno};
use address_space::AddressSpace;
use channel::Channel;
use faults::{ChannelError, MmuFault, WarpError};
use kernels::KernelTable;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the user-mode page: the registers that programs may map.
pub const USER_MODE_BYTES: u64 = 0x1_0000;
/// Offsets of the GPU's time in the user-mode page, nanoseconds.
const TIME_0: u64 = 0x80;
const TIME_1: u64 = 0x84;
/// Offset of the doorbell in the user-mode page.
const DOORBELL: u64 = 0x90;
/// Value of the doorbell while no program rang it. No channel has this token.
const SILENT_DOORBELL: u32 = u32::MAX;
/// Engine type of the graphics and compute engine.
pub const ENGINE_GR0: u32 = 1;
/// Maximum number of MMU faults that a group keeps.
const MAX_MMU_FAULTS: usize = 4;
/// Value of the notifier's status after an error.
const NOTIFIER_ERROR: u16 = 0xffff;
/// Number of the graphics engine in a notifier.
const NOTIFIER_GR: u16 = 1;

/// Number of an address space of the GPU.
pub type SpaceId = u32;
/// Number of a channel of the GPU.
pub type ChannelId = u32;
/// Number of a group of channels.
pub type GroupId = u32;

/// A group of channels, which are scheduled together and fail together.
#[derive(Debug)]
pub struct Group {
    /// Address space of the channels without a context share.
    pub space: Option<SpaceId>,
    /// Type of the engine: 1 is GR0, 9 and more are copy engines.
    pub engine: u32,
    /// The entries of the channels are fetched.
    pub scheduled: bool,
    /// An error ended the group: nothing is fetched any more.
    pub dead: bool,
    /// MMU faults of the channels, the oldest first.
    pub mmu_faults: Vec<MmuFault>,
    /// Error of a warp.
    pub warp_error: Option<WarpError>,
}

/// The GPU.
#[derive(Debug)]
pub struct Gpu {
    /// The user-mode page.
    pub registers: Arc<SharedMemory>,
    pub spaces: BTreeMap<SpaceId, AddressSpace>,
    pub groups: BTreeMap<GroupId, Group>,
    pub channels: BTreeMap<ChannelId, Channel>,
    kernels: KernelTable,
    next_id: u32,
    /// Bytes of video memory in use.
    pub used_memory: u64,
    /// Physical address of the next video memory.
    next_memory: u64,
}

impl Gpu {
    /// Returns a GPU without objects.
    pub fn new() -> Result<Self, Errno> {
        let registers = SharedMemory::new(c"nvidia-registers", USER_MODE_BYTES)?;
        registers.store(DOORBELL, SILENT_DOORBELL);
        Ok(Self {
            registers: Arc::new(registers),
            spaces: BTreeMap::new(),
            groups: BTreeMap::new(),
            channels: BTreeMap::new(),
            kernels: KernelTable::embedded(),
            next_id: 8,
            used_memory: 0,
            next_memory: 0x20_0000,
        })
    }

    /// Returns a number that no other object of the GPU has.
    pub fn allocate_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    /// Reserves video memory. Returns its physical address, or `None` if too little is free.
    pub fn reserve_memory(&mut self, bytes: u64, alignment: u64, total: u64) -> Option<u64> {
        let used = self.used_memory.checked_add(bytes)?;
        if used > total {
            return None;
        }
        let address = self.next_memory.checked_next_multiple_of(alignment.max(1))?;
        self.next_memory = address.checked_add(bytes)?;
        self.used_memory = used;
        Some(address)
    }

    /// Gives video memory back.
    pub fn release_memory(&mut self, bytes: u64) {
        self.used_memory = self.used_memory.saturating_sub(bytes);
        if self.used_memory == 0 {
            self.next_memory = 0x20_0000;
        }
    }

    /// Returns whether the device has to observe the doorbell.
    pub fn has_scheduled_channels(&self) -> bool {
        self.channels
            .values()
            .any(|channel| self.groups.get(&channel.group).is_some_and(|g| g.scheduled && !g.dead))
    }

    /// Starts or stops the fetch of a group's entries.
    pub fn schedule(&mut self, group: GroupId, enable: bool) {
        if let Some(group) = self.groups.get_mut(&group) {
            group.scheduled = enable;
        }
        for channel in self.channels.values_mut().filter(|c| c.group == group) {
            channel.rung |= enable;
        }
    }

    /// Ends a group of channels: writes the notifier of each channel, and fetches nothing any more.
    fn fail_group(&mut self, id: GroupId, error: ChannelError) {
        let mut engine = NOTIFIER_GR;
        if let Some(group) = self.groups.get_mut(&id) {
            group.dead = true;
            if group.mmu_faults.len() < MAX_MMU_FAULTS {
                group.mmu_faults.extend(error.fault);
            }
            group.warp_error = error.warp.or(group.warp_error);
            if group.engine != ENGINE_GR0 {
                engine = group.engine as u16;
            }
        }
        let time = system::wall_clock_ns();
        for channel in self.channels.values().filter(|c| c.group == id) {
            if let Some(notifier) = &channel.notifier {
                notifier.write(0, &time.to_le_bytes());
                notifier.write(8, &(error.code as u32).to_le_bytes());
                // The status comes last: programs poll it.
                let end = u32::from(NOTIFIER_ERROR) << 16 | u32::from(engine);
                notifier.write(12, &end.to_le_bytes());
            }
        }
    }

    /// Runs what the doorbell announces, for a bounded time. Returns whether there was work.
    pub fn step(&mut self, settings: &mut Settings) -> bool {
        let now = system::wall_clock_ns();
        self.registers.store(TIME_0, now as u32);
        self.registers.store(TIME_1, (now >> 32) as u32);
        let token = self.registers.swap(DOORBELL, SILENT_DOORBELL);
        let known = self.channels.values().any(|c| Some(c.token) == token);
        if known {
            // A later ring replaces the token of an earlier one, so that each channel may have new entries.
            for channel in self.channels.values_mut() {
                channel.rung = true;
            }
        }
        let ids: Vec<ChannelId> = self.channels.keys().copied().collect();
        let mut worked = false;
        for id in ids {
            worked |= self.run_channel(id, settings);
        }
        worked
    }
}
