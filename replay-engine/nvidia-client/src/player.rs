//! Plays the steps of a channel replay on a client: maps, writes, submits, waits, reads back.

use crate::play_error::MAX_SM_ERRORS;
use crate::player_objects::{CHANNELS, OwnMemory, RING_STEP, SMALL_BYTES, STAGING_BYTES, create_channels};
use crate::scheduler_pages::SchedulerPages;
use crate::steps::{EngineKind, PAGE_BYTES, Step};
use crate::{
    Channel, ChannelGroup, Client, ClientError, Control, ErrorNotifier, Kernel, Memory, Place, PlayError, PlayFault,
    SmError,
};

/// Offset of the player's own push buffers in its ring memory.
const PUSH_BUFFERS: usize = 0x10_0000;
/// Bytes of one push buffer of the player.
const SLOT_BYTES: usize = 0x100;
/// Number of push buffers of the player.
const SLOTS: usize = 0x1000;
/// Maximum time from an error to the addresses of its MMU faults, nanoseconds.
const FAULT_DETAILS_NS: u64 = 50_000_000;
/// Code of MMU faults.
const MMU_FAULT: u32 = 31;
/// Number of polls between two looks at the clock and the notifier.
const POLLS: u32 = 256;
/// Subchannel of copies, as NVIDIA's driver uses it.
pub(crate) const COPY_SUBCHANNEL: u32 = 4;

/// The engine that a player uses, by the index of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Compute, with copies by its own copy object.
    Compute,
    /// Copies of the recording.
    Copy,
    /// Copies of the player.
    Service,
}

impl From<EngineKind> for Engine {
    fn from(kind: EngineKind) -> Self {
        match kind {
            EngineKind::Compute => Self::Compute,
            EngineKind::Copy => Self::Copy,
        }
    }
}

/// A player. `memories` is the room for ranges of memory.
#[derive(Debug)]
pub struct Player<'m, K: Kernel> {
    client: Client<K>,
    pub(crate) memories: &'m mut [Option<Memory>],
    /// Index of the range that was used last: neighbours are used together.
    last: usize,
    pub(crate) own: OwnMemory,
    /// The group and its channels, or `None` after a fault.
    group: Option<ChannelGroup>,
    channels: [Channel; CHANNELS],
    /// Handle of the compute object.
    compute: u32,
    scheduler_pages: SchedulerPages,
    /// Value of the last semaphore.
    payload: u32,
    slot: usize,
    /// Maximum time of one submission, nanoseconds.
    limit_ns: u64,
    fault: Option<PlayFault>,
}

impl<'m, K: Kernel> Player<'m, K> {
    /// Creates the player's own memory and channels. `limit_ns` is the maximum time of one submission.
    ///
    /// # Errors
    /// What the driver refused. The client is closed then.
    pub fn new(
        mut client: Client<K>,
        control: Control,
        limit_ns: u64,
        memories: &'m mut [Option<Memory>],
    ) -> Result<Self, ClientError> {
        let created = OwnMemory::allocate(&mut client, control).and_then(|own| {
            match create_channels(&mut client, &own.ring, &own.notifier) {
                Ok(created) => Ok((own, created)),
                Err(e) => {
                    let _ = own.free(&mut client);
                    Err(e)
                }
            }
        });
        match created {
            Ok((own, created)) => Ok(Self {
                client,
                memories,
                last: 0,
                own,
                group: Some(created.group),
                channels: created.channels,
                compute: created.compute,
                scheduler_pages: SchedulerPages::default(),
                payload: 0,
                slot: 0,
                limit_ns,
                fault: None,
            }),
            Err(e) => {
                // All objects go with the client; the first error is the one to report.
                let _ = client.close();
                Err(e)
            }
        }
    }

    /// Returns what is known about the last submission that did not complete.
    #[must_use]
    pub fn fault(&self) -> Option<&PlayFault> {
        self.fault.as_ref()
    }

    /// Sets the maximum time of one submission, nanoseconds.
    pub fn set_limit(&mut self, limit_ns: u64) {
        self.limit_ns = limit_ns;
    }

    /// Returns the client.
    pub fn client(&mut self) -> &mut Client<K> {
        &mut self.client
    }

    /// Plays a step. `page` returns the page image of a number, from 1 on. [`Step::Read`] is for the caller, who has the
    /// room for the bytes: see [`Player::read`].
    ///
    /// # Errors
    /// Why the step cannot be played. After [`PlayError::Fault`], [`Player::recover`] creates new channels.
    pub fn play<'p>(
        &mut self,
        step: &Step<'_>,
        page: impl FnMut(u32) -> Option<&'p [u8; PAGE_BYTES]>,
    ) -> Result<(), PlayError> {
        match *step {
            Step::Map { place, va, bytes } => self.map(place, va, bytes),
            Step::MapScheduler { va } => self.scheduler_pages.map(&mut self.client, self.compute, va),
            Step::Write { va, data } => self.write(va, data),
            Step::WritePages { va, bytes, pages } => self.write_pages(va, bytes, pages, page),
            Step::Submit {
                event,
                engine,
                va,
                words,
            } => self.submit(event, engine.into(), va, words),
            Step::Read { .. } => Ok(()),
        }
    }

    /// Maps zeroed memory. The CPU gets video memory with the first write to it: most of it is for the GPU alone. Memory that
    /// the CPU cannot map is written by copies.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn map(&mut self, place: Place, va: u64, bytes: u64) -> Result<(), PlayError> {
        let free = self.memories.iter().position(Option::is_none);
        let free = free.ok_or(PlayError::TooManyRanges)?;
        let memory = self.client.allocate_memory(place, va, bytes, place == Place::System)?;
        if let Some(slot) = self.memories.get_mut(free) {
            *slot = Some(memory);
        }
        Ok(())
    }

    /// Frees every range of memory that was mapped. An error does not end it.
    ///
    /// # Errors
    /// The first that the driver refused.
    pub fn unmap_all(&mut self) -> Result<(), PlayError> {
        let mut freed = Ok(());
        for slot in self.memories.iter_mut() {
            if let Some(memory) = slot.take() {
                freed = freed.and(self.client.free_memory(memory));
            }
        }
        Ok(freed?)
    }

    /// Returns the index of the range that holds an address.
    fn find(&mut self, va: u64) -> Option<usize> {
        let holds = |m: &Option<Memory>| m.as_ref().is_some_and(|m| m.offset_of(va).is_some());
        if !self.memories.get(self.last).is_some_and(holds) {
            self.last = self.memories.iter().position(holds)?;
        }
        Some(self.last)
    }

    /// Returns the part of a range that the memory at its start holds: index, offset, bytes.
    pub(crate) fn piece(&mut self, va: u64, bytes: usize) -> Result<(usize, usize, usize), PlayError> {
        let unmapped = PlayError::Unmapped {
            va,
            bytes: bytes as u64,
        };
        let index = self.find(va).ok_or(unmapped)?;
        let memory = self.memories.get(index).and_then(Option::as_ref).ok_or(unmapped)?;
        let offset = memory.offset_of(va).ok_or(unmapped)?;
        let left = memory.bytes.saturating_sub(offset as u64);
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(bytes);
        Ok((index, offset, now))
    }

    /// Writes bytes to mapped memory.
    ///
    /// # Errors
    /// If a part is not mapped, or a copy does not complete.
    pub fn write(&mut self, va: u64, data: &[u8]) -> Result<(), PlayError> {
        let mut at = va;
        let mut rest = data;
        while !rest.is_empty() {
            let (index, offset, now) = self.piece(at, rest.len())?;
            let (part, behind) = rest.split_at(now);
            let memory = self.memories.get_mut(index).and_then(Option::as_mut);
            let mapping = memory.and_then(|memory| {
                self.client.map_for_writes(memory);
                memory.mapping_mut()
            });
            match mapping {
                Some(mapping) => {
                    mapping.write(offset, part);
                }
                None => self.write_by_copies(at, part)?,
            }
            at = at.wrapping_add(now as u64);
            rest = behind;
        }
        Ok(())
    }

    fn write_pages<'p>(
        &mut self,
        va: u64,
        bytes: u64,
        pages: &[[u8; 4]],
        mut page: impl FnMut(u32) -> Option<&'p [u8; PAGE_BYTES]>,
    ) -> Result<(), PlayError> {
        const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
        let mut at = va;
        let mut left = bytes;
        for number in pages {
            let image = u32::from_le_bytes(*number);
            let content = match image {
                0 => &ZEROS,
                image => page(image).ok_or(PlayError::NoPage { image })?,
            };
            let from = (at % PAGE_BYTES as u64) as usize;
            let now = left.min((PAGE_BYTES - from) as u64);
            let part = content.get(from..from + now as usize).unwrap_or_default();
            self.write(at, part)?;
            at = at.wrapping_add(now);
            left -= now;
        }
        Ok(())
    }

    /// Reads bytes of mapped memory. Video memory is copied by the GPU first: the CPU reads it a thousand times slower.
    ///
    /// # Errors
    /// If a part is not mapped, or a copy does not complete.
    pub fn read(&mut self, va: u64, to: &mut [u8]) -> Result<(), PlayError> {
        let mut at = va;
        let mut rest = to;
        while !rest.is_empty() {
            let (index, offset, now) = self.piece(at, rest.len())?;
            let now = now.min(STAGING_BYTES as usize);
            let (part, behind) = rest.split_at_mut(now);
            let memory = self.memories.get(index).and_then(Option::as_ref);
            let in_system = memory.filter(|m| m.place == Place::System);
            match in_system.and_then(Memory::mapping) {
                Some(mapping) => {
                    let _ = mapping.read(offset, part);
                }
                None => {
                    let staging = self.own.staging.va;
                    self.copy(at, staging, now as u32)?;
                    let _ = self.own.staging.mapping().is_some_and(|m| m.read(0, part));
                }
            }
            at = at.wrapping_add(now as u64);
            rest = behind;
        }
        Ok(())
    }

    fn write_by_copies(&mut self, va: u64, data: &[u8]) -> Result<(), PlayError> {
        let mut at = va;
        for part in data.chunks(STAGING_BYTES as usize) {
            if let Some(mapping) = self.own.staging.mapping_mut() {
                mapping.write(0, part);
            }
            let staging = self.own.staging.va;
            self.copy(staging, at, part.len() as u32)?;
            at = at.wrapping_add(part.len() as u64);
        }
        Ok(())
    }

    /// Copies bytes by the player's own copy engine.
    pub(crate) fn copy(&mut self, from: u64, to: u64, bytes: u32) -> Result<(), PlayError> {
        const OFFSET_IN: u32 = 0x400;
        const LINE_LENGTH_IN: u32 = 0x418;
        const LAUNCH_DMA: u32 = 0x300;
        // Not pipelined, flushed, both sides in lines of bytes.
        const LAUNCH: u32 = 2 | 1 << 2 | 1 << 7 | 1 << 8;
        let class = u32::from(self.client.info().classes.copy);
        let high = |va: u64| (va >> 32) as u32;
        let words = [
            header(COPY_SUBCHANNEL, 0, 1),
            class,
            header(COPY_SUBCHANNEL, OFFSET_IN, 4),
            high(from),
            from as u32,
            high(to),
            to as u32,
            header(COPY_SUBCHANNEL, LINE_LENGTH_IN, 2),
            bytes,
            1,
            header(COPY_SUBCHANNEL, LAUNCH_DMA, 1),
            LAUNCH,
        ];
        self.submit_service(&words)
    }

    /// Submits words of at most one push buffer slot to the player's own copy engine, and waits until they are executed.
    pub(crate) fn submit_service(&mut self, words: &[u32]) -> Result<(), PlayError> {
        let push_buffer = self.put_words(words)?;
        self.submit(u64::MAX, Engine::Service, push_buffer, words.len() as u32)
    }

    /// Puts words into the next push buffer of the player, and returns its address.
    fn put_words(&mut self, words: &[u32]) -> Result<u64, PlayError> {
        let offset = PUSH_BUFFERS + self.slot * SLOT_BYTES;
        self.slot = (self.slot + 1) % SLOTS;
        let va = self.own.ring.va.saturating_add(offset as u64);
        let not_mapped = ClientError::NotMapped { va };
        let mapping = self.own.ring.mapping_mut().ok_or(not_mapped)?;
        for (n, word) in words.iter().enumerate() {
            if !mapping.write_u32(offset + 4 * n, *word) {
                return Err(not_mapped.into());
            }
        }
        Ok(va)
    }

    /// Submits a push buffer and a semaphore behind it, and waits for the semaphore.
    ///
    /// # Errors
    /// If the submission does not complete in time, or the GPU reports an error.
    pub fn submit(&mut self, event: u64, engine: Engine, va: u64, words: u32) -> Result<(), PlayError> {
        const SEMAPHORE_ADDRESS: u32 = 0x5c;
        // Release after all work before it, with a time stamp.
        const EXECUTE: u32 = 1 | 1 << 20 | 1 << 25;
        self.payload = self.payload.wrapping_add(1);
        let at = self.own.semaphores.va;
        let release = [
            header(0, SEMAPHORE_ADDRESS, 5),
            at as u32,
            (at >> 32) as u32,
            self.payload,
            0,
            EXECUTE,
        ];
        let release_va = self.put_words(&release)?;
        let index = match engine {
            Engine::Compute => 0,
            Engine::Copy => 1,
            Engine::Service => 2,
        };
        let channel = self.channels.get_mut(index);
        let channel = channel.ok_or(ClientError::NotMapped { va: at })?;
        let first = channel.put();
        let start = self.client.kernel().now_ns();
        self.client.submit(
            channel,
            &mut self.own.ring,
            &[(va, words), (release_va, release.len() as u32)],
        )?;
        self.wait(event, index, first, start)
    }

    fn wait(&mut self, event: u64, channel: usize, first: u32, start: u64) -> Result<(), PlayError> {
        loop {
            for _ in 0..POLLS {
                let value = self.own.semaphores.mapping().and_then(|m| m.read_u32(0));
                if value == Some(self.payload) {
                    return Ok(());
                }
                core::hint::spin_loop();
            }
            let after_ns = self.client.kernel().now_ns().saturating_sub(start);
            let notifier = Client::<K>::read_notifier(&self.own.notifier);
            if notifier.is_none() && after_ns < self.limit_ns {
                continue;
            }
            self.fault = Some(self.read_fault(event, channel, first, notifier, after_ns));
            let code = notifier.map(|n| n.code);
            return Err(PlayError::Fault { event, code });
        }
    }

    fn read_fault(
        &mut self,
        event: u64,
        channel: usize,
        first: u32,
        notifier: Option<ErrorNotifier>,
        after_ns: u64,
    ) -> PlayFault {
        let mut fault = PlayFault {
            event,
            notifier,
            after_ns,
            mmu_faults: [None; 4],
            sm_errors: [None; MAX_SM_ERRORS],
            refused: None,
            scheduler_refusal: self.scheduler_pages.refusal,
            fetched: false,
        };
        let Some(channel) = self.channels.get(channel) else {
            return fault;
        };
        fault.fetched = channel.get(&self.own.ring) != first;
        let Some(group) = self.group.as_ref().filter(|_| notifier.is_some()) else {
            return fault;
        };
        // The driver answers these only for some faults; a refusal leaves the code as the only fact.
        let mut found = [SmError::default(); MAX_SM_ERRORS];
        let handle = channel.handle;
        let count = self.client.read_sm_errors(group, handle, 0, &mut found).unwrap_or(0);
        for (slot, error) in fault.sm_errors.iter_mut().zip(found).take(count) {
            *slot = Some(error);
        }
        let start = self.client.kernel().now_ns();
        loop {
            match self.client.read_mmu_faults(group) {
                Ok(faults) => fault.mmu_faults = faults,
                Err(e) => {
                    fault.refused = Some(e);
                    return fault;
                }
            }
            let is_known = fault.mmu_faults.iter().any(Option::is_some);
            let is_mmu_fault = notifier.is_some_and(|n| n.code == MMU_FAULT);
            let waited = self.client.kernel().now_ns().saturating_sub(start);
            if is_known || !is_mmu_fault || waited > FAULT_DETAILS_NS {
                return fault;
            }
            core::hint::spin_loop();
        }
    }

    /// Creates new channels after a fault, which ended the old ones. Memory stays, and so do pages of the compute
    /// scheduler.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn recover(&mut self) -> Result<(), ClientError> {
        if let Some(group) = self.group.take() {
            self.client.free_group(group)?;
        }
        if let Some(mapping) = self.own.notifier.mapping_mut() {
            mapping.clear(0, SMALL_BYTES as usize);
        }
        if let Some(mapping) = self.own.ring.mapping_mut() {
            mapping.clear(0, CHANNELS * RING_STEP);
        }
        let created = create_channels(&mut self.client, &self.own.ring, &self.own.notifier)?;
        self.group = Some(created.group);
        self.channels = created.channels;
        self.compute = created.compute;
        self.scheduler_pages.map_again(&mut self.client, self.compute);
        Ok(())
    }

    /// Frees everything, and closes the client. Errors before the last step do not end it.
    ///
    /// # Errors
    /// The first that the driver refused.
    pub fn close(mut self) -> Result<(), PlayError> {
        let unmapped = self.unmap_all();
        let mut freed = Ok(());
        if let Some(group) = self.group.take() {
            freed = self.client.free_group(group);
        }
        let freed = freed.and(self.own.free(&mut self.client));
        let closed = self.client.close();
        unmapped?;
        Ok(freed.and(closed)?)
    }
}

/// Returns the header of `count` words for consecutive methods from `method` on.
pub(crate) fn header(subchannel: u32, method: u32, count: u32) -> u32 {
    1 << 29 | count << 16 | subchannel << 13 | method >> 2
}
