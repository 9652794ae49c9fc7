//! Tracking of a device with virtio split rings: its queues, their pending chains, and the memory that it may still
//! access.

use super::ranges::Ranges;
use super::tracking::{
    AddressUse, BusError, CompletionCheck, DeviceMemory, PollEnd, TakenAddresses, find_whole_register, is_part_of,
    read, spend,
};
use super::walk::Chain;
use crate::plan::RegisterAccess;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use trace_core::registers::{AddressRegister, QueueEngine, Role};
use trace_core::{BusAddr, RegOffset};

/// Offset of the index of the next entry, in both rings.
const INDEX_AT: u64 = 2;
/// The 32-bit feature words that must be written before a queue is used. Later words are written as 0 or not at all.
const FEATURE_WORDS: [u64; 2] = [0, 1];
/// Maximum number of queues of a device.
const MAX_QUEUES: u16 = 64;

/// The addresses of a queue's parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingAddresses {
    pub size: u64,
    pub descriptors: BusAddr,
    driver: BusAddr,
    device: BusAddr,
}

impl RingAddresses {
    fn table(&self) -> Range<BusAddr> {
        self.descriptors..self.descriptors.saturating_add(16 * self.size)
    }

    /// Returns the driver ring, including the word after it for interrupt suppression.
    fn driver_ring(&self) -> Range<BusAddr> {
        self.driver..self.driver.saturating_add(6 + 2 * self.size)
    }

    fn device_ring(&self) -> Range<BusAddr> {
        self.device..self.device.saturating_add(6 + 8 * self.size)
    }

    fn index(&self) -> Range<BusAddr> {
        let at = self.driver.saturating_add(INDEX_AT);
        at..at.saturating_add(2)
    }
}

/// A queue in use.
#[derive(Clone, Debug)]
struct Queue {
    parts: RingAddresses,
    /// Index up to which the driver ring was followed.
    next: u16,
    /// Index up to which the device is known to be done.
    done: u16,
    /// Number of descriptors in chains that are not known to be done.
    waiting: u64,
    /// Memory that the device may still read for pending chains: the memory named by descriptors.
    reads: Ranges,
    /// Memory that the device may still write for pending chains.
    writes: Ranges,
}

pub(super) fn overlap<T: PartialOrd>(a: &Range<T>, b: &Range<T>) -> bool {
    a.start < b.end && b.start < a.end
}

/// What is known about the contents of the device's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegisterKnowledge {
    /// Nothing: the device may hold addresses of its previous user.
    Nothing,
    /// A reset was requested and is not known to be complete.
    Resetting,
    /// Only the values written since the end of a reset.
    Written,
}

pub(crate) struct QueueBus<'m> {
    pub(super) engine: &'m QueueEngine,
    known: RegisterKnowledge,
    /// The queue that was selected since the reset. The device's own selection after a reset does not count.
    selected: Option<u16>,
    /// The feature word that was selected since the reset.
    feature_word: Option<u64>,
    /// The feature words that were written since the reset. A device may keep older ones.
    features: BTreeSet<u64>,
    /// The last values written to queue registers since the reset.
    values: BTreeMap<(u16, RegOffset), u64>,
    queues: BTreeMap<u16, Queue>,
    /// Memory that the device may have written after the CPU.
    unknown: Ranges,
}

impl<'m> QueueBus<'m> {
    pub fn new(engine: &'m QueueEngine) -> Self {
        Self {
            engine,
            known: RegisterKnowledge::Nothing,
            selected: None,
            feature_word: None,
            features: BTreeSet::new(),
            values: BTreeMap::new(),
            queues: BTreeMap::new(),
            unknown: Ranges::default(),
        }
    }

    pub fn selected_queue(&self) -> u16 {
        self.selected.unwrap_or(0)
    }

    /// Returns the steps of work for one scan of all queues.
    pub fn steps(&self) -> u64 {
        1 + self.queues.len() as u64
    }

    fn chosen(&self, touch: &RegisterAccess<'_>) -> Result<u16, BusError> {
        self.selected.ok_or_else(|| {
            BusError(format!(
                "{} is written, but no queue was selected since the reset, so the queue that it configures is not \
                 known",
                touch.name()
            ))
        })
    }

    fn value(&self, offset: RegOffset) -> Option<u64> {
        self.values.get(&(self.selected?, offset)).copied()
    }

    fn ours(&self, offset: RegOffset) -> bool {
        let e = self.engine;
        let plain = [e.status, e.feature_select, e.feature, e.select, e.size, e.enable];
        let address = [&e.descriptors, &e.driver, &e.device];
        plain.contains(&offset) || e.never.contains(&offset) || address.iter().any(|a| is_part_of(a, offset))
    }

    /// Returns whether a write must come after the end of a reset.
    pub fn needs_reset_end(&self, touch: &RegisterAccess<'_>, value: u64) -> bool {
        let again = value == 0 && touch.registers().any(|r| r.offset == self.engine.status);
        let named = touch
            .registers()
            .any(|r| self.ours(r.offset) || r.replay.role == Some(Role::Doorbell));
        self.known == RegisterKnowledge::Resetting && named && !again
    }

    pub fn write(
        &mut self,
        touch: &RegisterAccess<'_>,
        value: u64,
        ground: &dyn DeviceMemory,
    ) -> Result<TakenAddresses, BusError> {
        let doorbell = touch.registers().any(|r| r.replay.role == Some(Role::Doorbell));
        let offset = find_whole_register(touch, |o| self.ours(o))?.filter(|o| self.ours(*o));
        let early = doorbell || offset.is_some_and(|o| o != self.engine.status || value != 0);
        match self.known {
            RegisterKnowledge::Nothing if early => {
                return BusError::new(format!(
                    "{} is written before the device was reset, so the content of its registers is not known. The \
                     plan must begin with a reset and wait for its end",
                    touch.name()
                ));
            }
            RegisterKnowledge::Resetting if early => {
                return BusError::new(format!(
                    "{} is written before the reset is known to be over",
                    touch.name()
                ));
            }
            _ => {}
        }
        if doorbell {
            return self.publish(ground);
        }
        let Some(offset) = offset else {
            return Ok(TakenAddresses::default());
        };
        let e = self.engine;
        if e.never.contains(&offset) {
            return BusError::new(format!(
                "{} is written, but its effect on a queue is not supported",
                touch.name()
            ));
        }
        match offset {
            o if o == e.status => {
                if value == 0 {
                    self.known = RegisterKnowledge::Resetting;
                }
            }
            o if o == e.feature_select => self.feature_word = Some(value),
            o if o == e.feature => self.features(touch, value)?,
            o if o == e.select => {
                let queue = u16::try_from(value).ok().filter(|q| *q < MAX_QUEUES);
                let queue = queue.ok_or_else(|| {
                    BusError(format!("queue {value} is selected; at most {MAX_QUEUES} are supported"))
                })?;
                self.selected = Some(queue);
            }
            o if o == e.enable => {
                let number = self.chosen(touch)?;
                return self.enable(number, value, ground);
            }
            o => {
                let number = self.chosen(touch)?;
                if self.queues.contains_key(&number) {
                    return BusError::new(format!("{} is written while queue {number} is in use", touch.name()));
                }
                self.values.insert((number, o), value);
            }
        }
        Ok(TakenAddresses::default())
    }

    fn features(&mut self, touch: &RegisterAccess<'_>, value: u64) -> Result<(), BusError> {
        let Some(word) = self.feature_word else {
            return BusError::new(format!(
                "{} is written, but no word of features was selected since the reset, so the word that it sets is \
                 not known",
                touch.name()
            ));
        };
        let shift = word.saturating_mul(32);
        let taken = u32::try_from(shift).ok().and_then(|s| value.checked_shl(s));
        let other = taken.map_or(value, |t| t & !self.engine.features);
        if other != 0 || taken.is_some_and(|t| t == 0 && value != 0) {
            return BusError::new(format!(
                "features {value:#x} of word {word} are accepted; with them, addresses may be where the map does not \
                 declare them"
            ));
        }
        // Other words are not stored: the plan controls their number.
        if FEATURE_WORDS.contains(&word) {
            self.features.insert(word);
        }
        Ok(())
    }

    /// Returns the address in a register, or `None` if not all of it was written since the reset.
    fn address(&self, register: &AddressRegister) -> Option<BusAddr> {
        let low = self.value(register.low)?;
        Some(BusAddr::new(match register.high {
            Some(high) => low & 0xffff_ffff | self.value(high)? << 32,
            None => low,
        }))
    }

    fn enable(&mut self, number: u16, value: u64, ground: &dyn DeviceMemory) -> Result<TakenAddresses, BusError> {
        let e = self.engine;
        if value != 1 || self.queues.contains_key(&number) {
            return BusError::new(format!(
                "queue {number} is enabled with the value {value} or twice; only a reset disables it"
            ));
        }
        if let Some(word) = FEATURE_WORDS.into_iter().find(|w| !self.features.contains(w)) {
            return BusError::new(format!(
                "queue {number} is enabled, but word {word} of the features was not written since the reset, so the \
                 agreed features are not known"
            ));
        }
        let size = self.value(e.size).unwrap_or(0);
        if !size.is_power_of_two() || size > u64::from(e.most_entries) {
            return BusError::new(format!(
                "queue {number} is enabled with {size} entries; the number must be set, and be a power of two up to {}",
                e.most_entries
            ));
        }
        spend(ground, self.steps())?;
        let mut taken = TakenAddresses::default();
        let mut places = [BusAddr::ZERO; 3];
        let parts = [
            (&e.descriptors, 16, 16 * size),
            (&e.driver, 2, 6 + 2 * size),
            (&e.device, 4, 6 + 8 * size),
        ];
        for ((register, align, bytes), to) in parts.into_iter().zip(&mut places) {
            let Some(at) = self.address(register) else {
                return BusError::new(format!(
                    "queue {number} is enabled, but not all of {} was written since the reset, so its value is not \
                     known",
                    register.name
                ));
            };
            if !at.is_aligned(align) || !ground.holds(at, bytes) {
                return BusError::new(format!(
                    "queue {number} has {} = {at:#x}: its {bytes} bytes are not completely in the device's memory, \
                     or not aligned to {align}",
                    register.name
                ));
            }
            *to = at;
            taken.registers.push(AddressUse {
                queue: number,
                low: register.low,
                high: register.high,
                value: at,
            });
        }
        let [descriptors, driver, device] = places;
        let parts = RingAddresses {
            size,
            descriptors,
            driver,
            device,
        };
        let queue = Queue {
            parts,
            next: 0,
            done: 0,
            waiting: 0,
            reads: Ranges::default(),
            writes: Ranges::default(),
        };
        let reads = [parts.table(), parts.driver_ring()];
        let written = parts.device_ring();
        let mut others = self.queues.values().map(|q| q.parts);
        let clash = reads.iter().any(|r| overlap(r, &written))
            || others.any(|q| {
                let theirs = [q.table(), q.driver_ring(), q.device_ring()];
                theirs.iter().any(|t| overlap(t, &written)) || reads.iter().any(|r| overlap(r, &q.device_ring()))
            })
            || self.pending(&written);
        if clash {
            return BusError::new(format!(
                "the ring that the device fills for queue {number} overlaps memory that the device reads addresses from"
            ));
        }
        // The completion index must not be in place before the device has done any work.
        let at = device.saturating_add(INDEX_AT);
        if self.is_known(&(at..at.saturating_add(2))) && read::<2>(ground, at) == Some([0; 2]) {
            self.unknown.add(written);
            self.queues.insert(number, queue);
            let more = self.publish(ground)?;
            taken.words = more.words;
            return Ok(taken);
        }
        BusError::new(format!(
            "the ring that the device fills for queue {number} does not begin at 0, or the device may have written it"
        ))
    }

    /// Returns whether memory is as the CPU left it.
    pub(super) fn is_known(&self, range: &Range<BusAddr>) -> bool {
        !self.unknown.overlaps(range)
    }

    /// Returns whether the device may still read any of these bytes for a pending chain in any queue.
    fn pending(&self, range: &Range<BusAddr>) -> bool {
        self.queues.values().any(|q| q.reads.overlaps(range))
    }

    /// Returns the memory that the device must not write: the sources of its addresses, and the completion indices.
    pub(super) fn structures(&self) -> impl Iterator<Item = Range<BusAddr>> + '_ {
        let of = |q: &Queue| [q.parts.table(), q.parts.driver_ring(), q.parts.device_ring()];
        self.queues.values().flat_map(of)
    }

    /// Follows the new entries in the driver rings.
    fn publish(&mut self, ground: &dyn DeviceMemory) -> Result<TakenAddresses, BusError> {
        let mut taken = TakenAddresses::default();
        let numbers: Vec<u16> = self.queues.keys().copied().collect();
        for number in numbers {
            spend(ground, 1)?;
            let Some((parts, mut next)) = self.queues.get(&number).map(|q| (q.parts, q.next)) else {
                continue;
            };
            let ring = |at: BusAddr| {
                let range = at..at.saturating_add(2);
                let bytes = read::<2>(ground, at).filter(|_| self.is_known(&range));
                bytes.map(u16::from_le_bytes).ok_or_else(|| {
                    BusError(format!(
                        "the ring of queue {number} is memory that the device may have written"
                    ))
                })
            };
            let index = ring(parts.driver.saturating_add(INDEX_AT))?;
            let new = index.wrapping_sub(next);
            if u64::from(new) > parts.size {
                return BusError::new(format!(
                    "queue {number} of {} entries receives {new} at once: its index goes from {next} to {index}",
                    parts.size
                ));
            }
            let mut heads = BTreeSet::new();
            let mut in_order = Vec::with_capacity(usize::from(new));
            for n in 0..new {
                spend(ground, 1)?;
                let slot = u64::from(next.wrapping_add(n)) % parts.size;
                let head = ring(parts.driver.saturating_add(4 + 2 * slot))?;
                if !heads.insert(head) {
                    return BusError::new(format!(
                        "queue {number} receives the chain from descriptor {head} twice at once"
                    ));
                }
                in_order.push(head);
            }
            let mut written = Vec::new();
            for head in in_order {
                let chain = Chain::walk(self, number, &parts, head, ground)?;
                next = next.wrapping_add(1);
                taken.words.extend(chain.words);
                written.extend(chain.writes);
                let Some(q) = self.queues.get_mut(&number) else {
                    continue;
                };
                q.next = next;
                q.waiting = q.waiting.saturating_add(chain.descriptors);
                if q.waiting > parts.size {
                    return BusError::new(format!(
                        "queue {number} of {} descriptors has {} of them waiting at once; the plan must wait until \
                         the device is done with some before it adds more",
                        parts.size, q.waiting
                    ));
                }
                chain.reads.into_iter().for_each(|r| q.reads.add(r));
            }
            for range in written {
                spend(ground, self.steps())?;
                // If another chain of the same batch reads it, its contents would be unknown.
                if self.pending(&range) {
                    return BusError::new(format!(
                        "a buffer of queue {number} that the device writes, at {:#x}, overlaps one that it reads",
                        range.start
                    ));
                }
                self.unknown.add(range.clone());
                if let Some(q) = self.queues.get_mut(&number) {
                    q.writes.add(range);
                }
            }
        }
        Ok(taken)
    }

    pub fn may_change(&self, at: BusAddr, bytes: u64) -> Result<(), BusError> {
        let range = at..at.saturating_add(bytes);
        for (number, q) in &self.queues {
            if overlap(&range, &q.parts.device_ring()) {
                return BusError::new(format!(
                    "a change at {at:#x} is in the ring that the device fills for queue {number}"
                ));
            }
            let (index, entries) = (
                q.parts.index(),
                q.parts.driver.saturating_add(4)..q.parts.driver_ring().end,
            );
            if overlap(&range, &index) && overlap(&range, &entries) {
                return BusError::new(format!(
                    "a change at {at:#x} covers both queue {number}'s ring and its index: the device could see one \
                     before the other"
                ));
            }
            let busy = q.done != q.next || self.known == RegisterKnowledge::Resetting;
            let structure = overlap(&range, &q.parts.table()) || overlap(&range, &q.parts.driver_ring());
            if busy && (structure || q.reads.overlaps(&range)) {
                return BusError::new(format!(
                    "a change at {at:#x} is in memory that the device reads addresses from, while it is not known to \
                     be done with queue {number}"
                ));
            }
        }
        Ok(())
    }

    pub fn changed(&mut self, at: BusAddr, bytes: u64, ground: &dyn DeviceMemory) -> Result<TakenAddresses, BusError> {
        let range = at..at.saturating_add(bytes);
        self.unknown.remove(range.clone());
        // Memory that the device has still to write stays unknown, whatever the CPU writes there.
        spend(ground, self.steps())?;
        for again in self.queues.values().flat_map(|q| q.writes.within(range.clone())) {
            spend(ground, 1)?;
            self.unknown.add(again);
        }
        if self.queues.values().any(|q| overlap(&range, &q.parts.index())) {
            return self.publish(ground);
        }
        Ok(TakenAddresses::default())
    }

    pub fn indices(&self) -> Vec<Range<BusAddr>> {
        self.queues.values().map(|q| q.parts.index()).collect()
    }

    pub fn settle(&self) -> Vec<CompletionCheck> {
        if self.known == RegisterKnowledge::Resetting {
            return vec![CompletionCheck::Register {
                offset: self.engine.status,
                width: 1,
                mask: 0xff,
                expected: 0,
            }];
        }
        let busy = self.queues.values().filter(|q| q.done != q.next);
        let of = |q: &Queue| CompletionCheck::Memory {
            at: q.parts.device.saturating_add(INDEX_AT),
            expected: q.next,
        };
        busy.map(of).collect()
    }

    pub fn observe_poll(&mut self, polled: PollEnd) -> bool {
        match polled {
            PollEnd::Register { offset, mask, expected } => {
                let over = offset == self.engine.status && mask & 0xff == 0xff && expected == 0;
                if over && self.known == RegisterKnowledge::Resetting {
                    self.known = RegisterKnowledge::Written;
                    self.queues.clear();
                    self.values.clear();
                    self.features.clear();
                    (self.selected, self.feature_word) = (None, None);
                }
                over
            }
            PollEnd::Memory {
                at,
                width,
                mask,
                expected,
            } => {
                let of =
                    |q: &&mut Queue| q.parts.device.saturating_add(INDEX_AT) == at && u64::from(q.next) == expected;
                match self.queues.values_mut().find(of) {
                    Some(q) if width == 2 && mask == 0xffff => {
                        q.done = q.next;
                        q.waiting = 0;
                        q.reads = Ranges::default();
                        q.writes = Ranges::default();
                        true
                    }
                    _ => false,
                }
            }
        }
    }
}
