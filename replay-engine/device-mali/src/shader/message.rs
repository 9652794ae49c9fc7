//! Messages of a clause to other units: loads, stores, atomics, lane exchanges, barriers and branches.

use super::block::{AtomicOp, Message, NarrowAccess, Space};
use super::lanes::{LANES, RegisterFile};
use super::program::ShaderContext;
use super::warp;
use super::wave::{Mask, lane_indices};
use crate::compute::stop::Stop;
use crate::compute::trace::{AccessSource, Trace};
use crate::compute::view::View;
use trace_core::{GpuVa, PAGE_SIZE};

/// Number of lanes whose accesses are processed together.
const PART: usize = 8;
const ALL_OF_PART: Mask = (1 << PART) - 1;

/// Address layout of adjacent lanes.
enum Layout {
    /// All lanes have one address, or all are outside a uniform buffer.
    Same(Option<GpuVa>),
    /// The lanes access consecutive words within a page.
    Run(GpuVa),
    Scattered,
}

/// Effects of the messages of a clause on its lanes.
#[derive(Debug, Default)]
pub(crate) struct MessageEffects {
    /// Lanes that took the branch.
    pub branched: Mask,
    /// Whether the lanes wait at a workgroup barrier.
    pub barrier: bool,
}

/// Sender of the messages of a clause.
pub(crate) struct MessageSender<'r, 'v, 'm, 'j, T: Trace> {
    pub running: &'r ShaderContext<'j>,
    pub file: &'v mut RegisterFile,
    pub view: &'v mut View<'m, T>,
    pub group: [u32; 3],
    /// Number of the wave's first thread.
    pub first: u32,
    pub lanes: Mask,
    pub clause: GpuVa,
    pub tuple: u8,
}

impl AtomicOp {
    fn apply32(self, a: u32, b: u32) -> u32 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::SMin => (a as i32).min(b as i32) as u32,
            Self::SMax => (a as i32).max(b as i32) as u32,
            Self::UMin => a.min(b),
            Self::UMax => a.max(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }

    fn apply64(self, a: u64, b: u64) -> u64 {
        match self {
            Self::Add => a.wrapping_add(b),
            Self::SMin => (a as i64).min(b as i64) as u64,
            Self::SMax => (a as i64).max(b as i64) as u64,
            Self::UMin => a.min(b),
            Self::UMax => a.max(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }

    /// Returns the operand that changes nothing.
    fn neutral(self) -> u32 {
        match self {
            Self::Add | Self::Or | Self::Xor | Self::UMax => 0,
            Self::And | Self::UMin => u32::MAX,
            Self::SMin => i32::MAX as u32,
            Self::SMax => i32::MIN as u32,
        }
    }
}

/// Calls the variant of a method that is compiled for one to four words.
macro_rules! by_words {
    ($words:expr, $this:ident.$method:ident($($argument:expr),*)) => {
        match $words {
            1 => $this.$method::<1>($($argument),*),
            2 => $this.$method::<2>($($argument),*),
            3 => $this.$method::<3>($($argument),*),
            _ => $this.$method::<4>($($argument),*),
        }
    };
}

impl<T: Trace> MessageSender<'_, '_, '_, '_, T> {
    /// Sends a message for all lanes, in ascending order.
    pub(crate) fn send(&mut self, message: &Message, sent: &mut MessageEffects) -> Result<(), Stop> {
        match message {
            Message::Load {
                space,
                words,
                narrow,
                address,
                staging,
            } => match narrow {
                Some(n) => self.load_narrow(*space, *n, *address, *staging),
                None => by_words!(*words, self.load(*space, *address, *staging)),
            },
            Message::Store {
                space,
                words,
                narrow,
                address,
                staging,
            } => match narrow {
                Some(n) => self.store_narrow(*space, *n, *address, *staging),
                None => by_words!(*words, self.store(*space, *address, *staging)),
            },
            Message::Atomic {
                op,
                operand,
                returns,
                wide,
                address,
                staging,
            } => self.atomic(*op, *operand, *returns, *wide, *address, *staging),
            Message::Exchange {
                space,
                compare,
                returns,
                wide,
                address,
                staging,
            } => self.exchange(*space, *compare, *returns, *wide, *address, *staging),
            Message::Permute { .. } | Message::Ballot { .. } => {
                warp::exchange(self.file, message, self.lanes);
                Ok(())
            }
            Message::Clock { cycles, staging } => {
                let [nanoseconds, counted] = self.running.clock;
                let value = if *cycles { counted } else { nanoseconds };
                for lane in lane_indices(self.lanes) {
                    self.put(*staging, 0, lane, value as u32);
                    self.put(*staging, 1, lane, (value >> 32) as u32);
                }
                Ok(())
            }
            Message::DescriptorOp {
                op: what,
                from,
                staging,
            } => self.run_descriptor_op(what, *from, *staging),
            Message::Barrier => {
                sent.barrier = true;
                Ok(())
            }
            Message::Branch { condition, .. } => {
                sent.branched = match condition {
                    None => self.lanes,
                    Some(place) => {
                        let words = self.file.at(*place);
                        let bits = words
                            .iter()
                            .enumerate()
                            .fold(0, |m, (i, w)| m | u32::from(*w != 0) << i);
                        bits & self.lanes
                    }
                };
                Ok(())
            }
        }
    }

    #[inline(always)]
    pub(super) fn word(&self, place: u16, lane: usize) -> u32 {
        self.file.at(place)[lane % LANES]
    }

    #[inline(always)]
    pub(super) fn put(&mut self, staging: u8, n: u16, lane: usize, word: u32) {
        self.file.at_mut((u16::from(staging) + n) % 64)[lane % LANES] = word;
    }

    #[inline(always)]
    pub(super) fn staging_word(&self, staging: u8, n: u16, lane: usize) -> u32 {
        self.word((u16::from(staging) + n) % 64, lane)
    }

    /// Sets the trace's access source to a lane.
    #[inline(always)]
    pub(super) fn set_access_source(&mut self, lane: usize) {
        if T::ON {
            let who = AccessSource {
                group: self.group,
                thread: self.first + lane as u32,
                pc: self.clause,
                tuple: self.tuple,
            };
            self.view.set_access_source(who);
        }
    }

    /// Sets the access source to a lane, if the trace records reads.
    #[inline(always)]
    fn set_read_source(&mut self, lane: usize) {
        if T::READS {
            self.set_access_source(lane);
        }
    }

    /// Returns the GPU address of an access, or `None` if it is outside a uniform buffer, where it reads zeros.
    #[inline(always)]
    fn address(&self, space: Space, address: [u16; 2], lane: usize, bytes: u32) -> Option<GpuVa> {
        let low = self.word(address[0], lane);
        Some(match space {
            Space::Global => GpuVa::new(u64::from(low) | u64::from(self.word(address[1], lane)) << 32),
            Space::Shared => self.running.job.storage.group_base.wrapping_add(u64::from(low)),
            Space::Local => {
                let base = self.running.job.storage.thread_va(self.first + lane as u32);
                base.wrapping_add(u64::from(low))
            }
            Space::Uniform => {
                let number = self.word(address[1], lane) as usize;
                let buffer = self.running.job.uniform_buffers.get(number)?;
                let end = low.checked_add(bytes)?;
                if end > buffer.bytes {
                    return None;
                }
                buffer.va.wrapping_add(u64::from(low))
            }
        })
    }

    fn load<const N: usize>(&mut self, space: Space, address: [u16; 2], staging: u8) -> Result<(), Stop> {
        if !T::READS && self.lanes == Mask::MAX && self.is_same_address(space, address) {
            let words = match self.address(space, address, 0, 4 * N as u32) {
                Some(va) => self.view.load::<N>(va)?,
                None => [0; N],
            };
            for (n, word) in (0u16..).zip(words) {
                *self.file.at_mut((u16::from(staging) + n) % 64) = [word; LANES];
            }
            return Ok(());
        }
        for part in 0..LANES / PART {
            let lanes = self.lanes >> (part * PART) & ALL_OF_PART;
            if lanes == ALL_OF_PART && !T::READS {
                match self.layout(space, address, part, 4 * N as u32) {
                    Layout::Same(va) => {
                        let words = match va {
                            Some(va) => self.view.load::<N>(va)?,
                            None => [0; N],
                        };
                        for (n, word) in (0u16..).zip(words) {
                            *self.part_mut(staging, n, part) = [word; PART];
                        }
                        continue;
                    }
                    Layout::Run(va) if N == 1 => {
                        *self.part_mut(staging, 0, part) = self.view.load::<PART>(va)?;
                        continue;
                    }
                    Layout::Run(_) | Layout::Scattered => {}
                }
            }
            for lane in lane_indices(lanes).map(|l| l + part * PART) {
                self.set_read_source(lane);
                let words = match self.address(space, address, lane, 4 * N as u32) {
                    Some(va) => self.view.load::<N>(va)?,
                    None => [0; N],
                };
                for (n, word) in (0u16..).zip(words) {
                    self.put(staging, n, lane, word);
                }
            }
        }
        Ok(())
    }

    fn store<const N: usize>(&mut self, space: Space, address: [u16; 2], staging: u8) -> Result<(), Stop> {
        for part in 0..LANES / PART {
            let lanes = self.lanes >> (part * PART) & ALL_OF_PART;
            if N == 1
                && lanes == ALL_OF_PART
                && let Layout::Run(va) = self.layout(space, address, part, 4)
            {
                let words = *self.part_mut(staging, 0, part);
                self.set_access_source(part * PART);
                self.view.store_run::<PART>(va, words)?;
                continue;
            }
            for lane in lane_indices(lanes).map(|l| l + part * PART) {
                self.set_access_source(lane);
                let Some(va) = self.address(space, address, lane, 4 * N as u32) else {
                    continue;
                };
                let words = std::array::from_fn(|n| self.staging_word(staging, n as u16, lane));
                self.view.store::<N>(va, words)?;
            }
        }
        Ok(())
    }

    /// Returns the words of a register for the lanes of a part.
    #[inline(always)]
    fn part_mut(&mut self, staging: u8, n: u16, part: usize) -> &mut [u32; PART] {
        let parts = self
            .file
            .at_mut((u16::from(staging) + n) % 64)
            .as_chunks_mut::<PART>()
            .0;
        &mut parts[part % (LANES / PART)]
    }

    /// Returns whether all lanes have the same address, which is common for uniform buffers.
    #[inline(always)]
    fn is_same_address(&self, space: Space, address: [u16; 2]) -> bool {
        let same = |place: u16| {
            let words = self.file.at(place);
            // The last lane detects most differences.
            words[0] == words[LANES - 1] && words.iter().fold(0, |all, w| all | w ^ words[0]) == 0
        };
        match space {
            Space::Global | Space::Uniform => same(address[0]) && same(address[1]),
            Space::Shared => same(address[0]),
            // Each thread has its own local memory.
            Space::Local => false,
        }
    }

    /// Returns the address layout of a part's lanes, for accesses of this many bytes each.
    #[inline(always)]
    fn layout(&self, space: Space, address: [u16; 2], part: usize, bytes: u32) -> Layout {
        let of = |place: u16| self.file.at(place).as_chunks::<PART>().0[part % (LANES / PART)];
        let low = of(address[0]);
        let high = match space {
            Space::Global | Space::Uniform => of(address[1]),
            Space::Shared => [0; PART],
            // Each thread has its own local memory.
            Space::Local => return Layout::Scattered,
        };
        let (mut same, mut run, mut apart) = (0, 0, 0);
        for i in 0..PART {
            same |= low[i] ^ low[0];
            run |= low[i] ^ low[0].wrapping_add(4 * i as u32);
            apart |= high[i] ^ high[0];
        }
        if apart != 0 || same != 0 && run != 0 {
            return Layout::Scattered;
        }
        let of_lane = |i: usize| match space {
            Space::Global => Some(GpuVa::new(u64::from(low[i]) | u64::from(high[i]) << 32)),
            _ => self.address(space, address, part * PART + i, bytes),
        };
        let first = of_lane(0);
        if same == 0 {
            return Layout::Same(first);
        }
        match first {
            // Within a page, a fault reports the first lane's address, as if the lanes ran one after another.
            Some(va)
                if va.in_page() <= PAGE_SIZE - 4 * PART && of_lane(PART - 1) == Some(va + 4 * (PART as u64 - 1)) =>
            {
                Layout::Run(va)
            }
            _ => Layout::Scattered,
        }
    }

    fn load_narrow(&mut self, space: Space, n: NarrowAccess, address: [u16; 2], staging: u8) -> Result<(), Stop> {
        let count = usize::from(n.bytes).min(16);
        for lane in lane_indices(self.lanes) {
            self.set_read_source(lane);
            let mut bytes = [0; 16];
            if let Some(va) = self.address(space, address, lane, count as u32) {
                match count {
                    1 => bytes[0] = self.view.load_u8(va)?,
                    2 => bytes[..2].copy_from_slice(&self.view.load_u16(va)?.to_le_bytes()),
                    _ => self.view.read(va, bytes.get_mut(..count).unwrap_or(&mut []))?,
                }
            }
            let word = |k: usize| bytes.as_chunks::<4>().0.get(k).map_or(0, |b| u32::from_le_bytes(*b));
            if count > 4 {
                for k in 0..count.div_ceil(4) {
                    self.put(staging, k as u16, lane, word(k));
                }
                continue;
            }
            let unused = 32 - 8 * count as u32;
            let value = if n.signed {
                ((word(0) << unused) as i32 >> unused) as u32
            } else {
                word(0)
            };
            let old = self.staging_word(staging, 0, lane);
            self.put(staging, 0, lane, old & !n.replaced | value << n.shift & n.replaced);
            if n.double {
                self.put(staging, 1, lane, if n.signed { (value as i32 >> 31) as u32 } else { 0 });
            }
        }
        Ok(())
    }

    fn store_narrow(&mut self, space: Space, n: NarrowAccess, address: [u16; 2], staging: u8) -> Result<(), Stop> {
        let count = usize::from(n.bytes).min(16);
        for lane in lane_indices(self.lanes) {
            self.set_access_source(lane);
            let Some(va) = self.address(space, address, lane, count as u32) else {
                continue;
            };
            let mut bytes = [0; 16];
            for (k, to) in bytes
                .as_chunks_mut::<4>()
                .0
                .iter_mut()
                .enumerate()
                .take(count.div_ceil(4))
            {
                *to = self.staging_word(staging, k as u16, lane).to_le_bytes();
            }
            match count {
                1 => self.view.store_u8(va, bytes[0])?,
                2 => self.view.store_u16(va, u16::from_le_bytes([bytes[0], bytes[1]]))?,
                _ => self.view.write(va, bytes.get(..count).unwrap_or(&[]))?,
            }
        }
        Ok(())
    }

    /// Executes an atomic. The hardware combines the accesses of a warp's lanes to one word and returns each lane its
    /// share. `ATOM_POST` adds the share to the old memory value. Here lanes run one after another, and each share is
    /// neutral.
    fn atomic(
        &mut self,
        op: AtomicOp,
        operand: Option<u64>,
        returns: bool,
        wide: bool,
        address: [u16; 2],
        staging: u8,
    ) -> Result<(), Stop> {
        for lane in lane_indices(self.lanes) {
            self.set_access_source(lane);
            let va = u64::from(self.word(address[0], lane)) | u64::from(self.word(address[1], lane)) << 32;
            let va = GpuVa::new(va);
            let low = self.staging_word(staging, 0, lane);
            let old = if wide {
                let staged = u64::from(low) | u64::from(self.staging_word(staging, 1, lane)) << 32;
                self.view
                    .atomic64(va, |old| op.apply64(old, operand.unwrap_or(staged)))?
            } else {
                let operand = operand.map_or(low, |o| o as u32);
                u64::from(self.view.atomic(va, |old| op.apply32(old, operand))?)
            };
            if returns {
                self.put(staging, 0, lane, old as u32);
                self.put(staging, 1, lane, if wide { (old >> 32) as u32 } else { op.neutral() });
            }
        }
        Ok(())
    }

    /// Executes an exchange: always, or if memory equals the upper staging registers.
    fn exchange(
        &mut self,
        space: Space,
        compare: bool,
        returns: bool,
        wide: bool,
        address: [u16; 2],
        staging: u8,
    ) -> Result<(), Stop> {
        let count = if wide { 2 } else { 1 };
        for lane in lane_indices(self.lanes) {
            self.set_access_source(lane);
            let Some(va) = self.address(space, address, lane, 4 * u32::from(count)) else {
                continue;
            };
            let staged = |at: u16| {
                let high = if wide {
                    self.staging_word(staging, at + 1, lane)
                } else {
                    0
                };
                u64::from(self.staging_word(staging, at, lane)) | u64::from(high) << 32
            };
            let (new, expected) = (staged(0), staged(count));
            let change = |old: u64| if !compare || old == expected { new } else { old };
            let old = if wide {
                self.view.atomic64(va, change)?
            } else {
                u64::from(self.view.atomic(va, |old| change(u64::from(old)) as u32)?)
            };
            if returns {
                self.put(staging, 0, lane, old as u32);
                if wide {
                    self.put(staging, 1, lane, (old >> 32) as u32);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
