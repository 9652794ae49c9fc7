//! A channel: fetches the entries of its ring and the push buffers that they name.

use super::faults::{ChannelError, ErrorCode};
use super::memory::Memory;
use super::{ChannelId, Gpu, GroupId, SpaceId};
use crate::settings::Settings;
use nvidia_channel::command::Semaphore;
use nvidia_channel::gpfifo::{ControlOperation, ENTRY_BYTES, GpfifoEntry, Segment};
use nvidia_channel::push_buffer::{Method, PushBuffer};
use nvidia_channel::{Bindings, CommandReader, GpuVa};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Offsets of the next entry to fetch and of the end of the entries, in the channel's user data.
const GP_GET: u64 = 0x88;
const GP_PUT: u64 = 0x8c;
/// Maximum number of entries that a channel runs before others have their turn.
const MAX_ENTRIES_PER_TURN: usize = 64;

/// User data of a channel: its memory and offset.
#[derive(Debug, Clone)]
pub struct UserData {
    pub memory: Arc<Memory>,
    pub offset: u64,
}

/// A channel.
#[derive(Debug)]
pub struct Channel {
    pub group: GroupId,
    /// Address space of its context share, or of its group.
    pub space: Option<SpaceId>,
    /// Value that rings the doorbell for the channel.
    pub token: u32,
    /// First entry of the ring.
    pub ring: GpuVa,
    /// Number of entries in the ring.
    pub entries: u32,
    pub user_data: UserData,
    /// Memory whose start tells the program about an error.
    pub notifier: Option<Arc<Memory>>,
    /// Classes of the engine objects by handle.
    pub objects: BTreeMap<u32, u32>,
    /// The doorbell rang since the ring was last empty.
    pub rung: bool,
    /// A launch never ends.
    pub hung: bool,
    pub(super) bindings: Bindings,
    pub(super) reader: CommandReader,
    /// Index of the next entry.
    get: u32,
    /// Bits 56:40 of the addresses of segments.
    segment_base: u64,
    /// The methods of the current segment.
    segment: Option<FetchedSegment>,
    /// Semaphore that the channel waits for.
    pub(super) waits_for: Option<Semaphore>,
    /// Address of local memory of the compute engine.
    pub(super) local_memory: GpuVa,
    /// Descriptors that wait until others decrement their counters to 0.
    pub(super) waiting_launches: BTreeMap<GpuVa, u64>,
    /// Descriptors that wait until another one or a message schedules them.
    pub(super) held_launches: BTreeSet<GpuVa>,
}

/// A fetched segment of a push buffer.
#[derive(Debug)]
struct FetchedSegment {
    methods: std::vec::IntoIter<Method>,
    /// The segment is damaged after its methods.
    damaged: bool,
}

/// What a channel can do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It did something.
    Advanced,
    /// It waits for a semaphore or never ends.
    Blocked,
    /// It has no entries.
    Idle,
}

/// Properties of a new channel.
#[derive(Debug)]
pub struct ChannelRequest {
    pub class: u16,
    pub group: GroupId,
    pub space: Option<SpaceId>,
    pub ring: GpuVa,
    pub entries: u32,
    pub user_data: UserData,
    pub notifier: Option<Arc<Memory>>,
}

impl Gpu {
    /// Creates a channel of a group. Returns its number.
    pub fn create_channel(&mut self, request: ChannelRequest) -> ChannelId {
        let id = self.allocate_id();
        let engine = self.groups.get(&request.group).map_or(0, |group| group.engine);
        // The graphics engine has run list 0, copy engines have the following ones.
        let run_list = engine.saturating_sub(8);
        let channel = Channel {
            group: request.group,
            space: request.space,
            token: run_list << 16 | (id & 0xffff),
            ring: request.ring,
            entries: request.entries,
            user_data: request.user_data,
            notifier: request.notifier,
            objects: BTreeMap::new(),
            rung: false,
            hung: false,
            bindings: Bindings::new(request.class),
            reader: CommandReader::new(),
            get: 0,
            segment_base: 0,
            segment: None,
            waits_for: None,
            local_memory: GpuVa(0),
            waiting_launches: BTreeMap::new(),
            held_launches: BTreeSet::new(),
        };
        self.channels.insert(id, channel);
        id
    }

    /// Runs entries of a channel, for a bounded time. Returns whether there was work.
    pub(super) fn run_channel(&mut self, id: ChannelId, settings: &mut Settings) -> bool {
        let Some(mut channel) = self.channels.remove(&id) else {
            return false;
        };
        let runs = self.groups.get(&channel.group).is_some_and(|g| g.scheduled && !g.dead);
        let mut worked = false;
        let mut error = None;
        if runs && channel.rung && !channel.hung {
            for _ in 0..MAX_ENTRIES_PER_TURN {
                match self.advance(&mut channel, settings) {
                    Ok(Progress::Advanced) => worked = true,
                    Ok(Progress::Blocked) => break,
                    Ok(Progress::Idle) => {
                        channel.rung = false;
                        break;
                    }
                    Err(failure) => {
                        error = Some(failure);
                        break;
                    }
                }
            }
        }
        let group = channel.group;
        self.channels.insert(id, channel);
        if let Some(error) = error {
            self.fail_group(group, error);
        }
        worked
    }

    /// Fetches an entry, or runs the methods of the current segment.
    fn advance(&self, channel: &mut Channel, settings: &mut Settings) -> Result<Progress, ChannelError> {
        if channel.segment.is_none() {
            return self.fetch(channel);
        }
        loop {
            if !self.semaphore_is_ready(channel)? {
                return Ok(Progress::Blocked);
            }
            if channel.hung {
                return Ok(Progress::Blocked);
            }
            let Some(segment) = &mut channel.segment else {
                return Ok(Progress::Advanced);
            };
            match segment.methods.next() {
                Some(method) => self.execute_method(channel, &method, settings)?,
                None if segment.damaged => return Err(ChannelError::new(ErrorCode::PushBuffer)),
                None => {
                    channel.segment = None;
                    return Ok(Progress::Advanced);
                }
            }
        }
    }

    /// Fetches the next entry of the ring and its segment.
    fn fetch(&self, channel: &mut Channel) -> Result<Progress, ChannelError> {
        let damaged = ChannelError::new(ErrorCode::PushBuffer);
        let user_data = &channel.user_data;
        let at = |offset: u64| user_data.offset.checked_add(offset).ok_or(damaged);
        let put = user_data.memory.read_word(at(GP_PUT)?).ok_or(damaged)?;
        if put == channel.get {
            return Ok(Progress::Idle);
        }
        if put >= channel.entries {
            return Err(damaged);
        }
        let space = self.space_of(channel)?;
        let offset = u64::from(channel.get) * ENTRY_BYTES as u64;
        let entry_address = channel.ring.checked_add(offset).ok_or(damaged)?;
        let entry = GpfifoEntry::decode(u64::from_le_bytes(space.read_array(entry_address)?));
        channel.get = (channel.get + 1) % channel.entries;
        let get = channel.get.to_le_bytes();
        user_data.memory.write(at(GP_GET)?, &get);
        match entry {
            GpfifoEntry::Segment(segment) => {
                channel.segment = Some(fetch_segment(space, channel, segment)?);
            }
            GpfifoEntry::Control(control) => match control.operation {
                ControlOperation::SetSegmentExtendedBase => {
                    channel.segment_base = control.extended_base().map_or(0, |base| base.0);
                }
                ControlOperation::Illegal | ControlOperation::Unknown(_) => return Err(damaged),
                ControlOperation::Nop | ControlOperation::GpCrc | ControlOperation::PbCrc => {}
            },
        }
        Ok(Progress::Advanced)
    }

    /// Returns the address space of a channel.
    pub(super) fn space_of(&self, channel: &Channel) -> Result<&super::address_space::AddressSpace, ChannelError> {
        let space = channel.space.and_then(|id| self.spaces.get(&id));
        space.ok_or(ChannelError::new(ErrorCode::MmuFault))
    }
}

/// Reads the words of a segment and decodes its methods.
fn fetch_segment(
    space: &super::address_space::AddressSpace,
    channel: &mut Channel,
    segment: Segment,
) -> Result<FetchedSegment, ChannelError> {
    let address = GpuVa(segment.address.0 | channel.segment_base);
    let bytes = space.read_vec(address, segment.words as usize * 4)?;
    let mut methods = Vec::new();
    let mut damaged = false;
    for method in PushBuffer::new(&bytes).methods(&mut channel.bindings) {
        match method {
            Ok(method) => methods.push(method),
            Err(_) => damaged = true,
        }
    }
    Ok(FetchedSegment {
        methods: methods.into_iter(),
        damaged,
    })
}
