//! A device that follows virtio's split rings: which queues it has, what waits in them, and what it may still read.

use super::ranges::Ranges;
use super::walk::Chain;
use super::{Ground, Polled, Settle, Taken, Trouble, Used, is, read, whole};
use crate::plan::Touch;
use std::collections::BTreeMap;
use std::ops::Range;
use trace_core::registers::{AddressRegister, QueueEngine, Role};

/// Where in both rings the index of the next entry stands.
const INDEX_AT: u64 = 2;
/// Most queues of a device.
const MOST_QUEUES: u16 = 64;

/// A queue that is in use.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub size: u64,
    pub descriptors: u64,
    pub driver: u64,
    pub device: u64,
    /// Index up to which the driver's ring was followed.
    pub next: u16,
    /// Index up to which the device is known to be done.
    done: u16,
    /// What the device may still read for what waits: descriptors and what they name.
    reads: Vec<Range<u64>>,
    /// What the device may still write for what waits.
    writes: Vec<Range<u64>>,
}

impl Queue {
    fn table(&self) -> Range<u64> {
        self.descriptors..self.descriptors.saturating_add(16 * self.size)
    }

    /// With the word behind it, in which the driver tells when to interrupt.
    fn driver_ring(&self) -> Range<u64> {
        self.driver..self.driver.saturating_add(6 + 2 * self.size)
    }

    fn device_ring(&self) -> Range<u64> {
        self.device..self.device.saturating_add(6 + 8 * self.size)
    }

    fn index(&self) -> Range<u64> {
        let at = self.driver.saturating_add(INDEX_AT);
        at..at.saturating_add(2)
    }
}

pub(super) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

pub(crate) struct QueueBus<'m> {
    pub(super) engine: &'m QueueEngine,
    selected: u16,
    feature_word: u64,
    /// A reset was asked for and is not known to be over.
    resetting: bool,
    /// Registers of queues as they were written last.
    values: BTreeMap<(u16, u32), u64>,
    pub(super) queues: BTreeMap<u16, Queue>,
    /// Memory that the device may have written since the CPU did.
    unknown: Ranges,
}

impl<'m> QueueBus<'m> {
    pub fn new(engine: &'m QueueEngine) -> Self {
        Self {
            engine,
            selected: 0,
            feature_word: 0,
            resetting: false,
            values: BTreeMap::new(),
            queues: BTreeMap::new(),
            unknown: Ranges::default(),
        }
    }

    pub fn selected(&self) -> u16 {
        self.selected
    }

    fn value(&self, offset: u32) -> Option<u64> {
        self.values.get(&(self.selected, offset)).copied()
    }

    fn ours(&self, offset: u32) -> bool {
        let e = self.engine;
        let plain = [e.status, e.feature_select, e.feature, e.select, e.size, e.enable];
        let address = [&e.descriptors, &e.driver, &e.device];
        plain.contains(&offset) || e.never.contains(&offset) || address.iter().any(|a| is(a, offset))
    }

    /// Whether a write must come behind the end of a reset.
    pub fn resets(&self, touch: &Touch<'_>, value: u64) -> bool {
        let again = value == 0 && touch.registers().any(|r| r.offset == self.engine.status);
        let named = touch
            .registers()
            .any(|r| self.ours(r.offset) || r.replay.role == Some(Role::Doorbell));
        self.resetting && named && !again
    }

    pub fn write(&mut self, touch: &Touch<'_>, value: u64, ground: &dyn Ground) -> Result<Taken, Trouble> {
        let doorbell = touch.registers().any(|r| r.replay.role == Some(Role::Doorbell));
        let offset = whole(touch, |o| self.ours(o))?.filter(|o| self.ours(*o));
        if self.resetting && (doorbell || offset.is_some_and(|o| o != self.engine.status || value != 0)) {
            return Trouble::new(format!(
                "{} is written before the reset is known to be over",
                touch.name()
            ));
        }
        if doorbell {
            return self.publish(ground);
        }
        let Some(offset) = offset else {
            return Ok(Taken::default());
        };
        let e = self.engine;
        if e.never.contains(&offset) {
            return Trouble::new(format!(
                "{} is written, and what it does to a queue is not followed",
                touch.name()
            ));
        }
        match offset {
            o if o == e.status => self.resetting |= value == 0,
            o if o == e.feature_select => self.feature_word = value,
            o if o == e.feature => self.features(value)?,
            o if o == e.select => {
                self.selected = u16::try_from(value)
                    .ok()
                    .filter(|q| *q < MOST_QUEUES)
                    .ok_or_else(|| Trouble(format!("queue {value} is chosen; at most {MOST_QUEUES} are followed")))?;
            }
            o if o == e.enable => return self.enable(value, ground),
            _ if self.queues.contains_key(&self.selected) => {
                return Trouble::new(format!(
                    "{} is written while queue {} is in use",
                    touch.name(),
                    self.selected
                ));
            }
            o => {
                self.values.insert((self.selected, o), value);
            }
        }
        Ok(Taken::default())
    }

    fn features(&self, value: u64) -> Result<(), Trouble> {
        let shift = self.feature_word.saturating_mul(32);
        let taken = u32::try_from(shift).ok().and_then(|s| value.checked_shl(s));
        let other = taken.map_or(value, |t| t & !self.engine.features);
        if other != 0 || taken.is_some_and(|t| t == 0 && value != 0) {
            return Trouble::new(format!(
                "features {value:#x} of word {} are taken, and with them addresses may stand where the map does not \
                 know them",
                self.feature_word
            ));
        }
        Ok(())
    }

    fn address(&self, register: &AddressRegister) -> Option<u64> {
        match register.high {
            // A half that was never written is 0 after a reset.
            Some(high) => Some(self.value(register.low)? & 0xffff_ffff | self.value(high).unwrap_or(0) << 32),
            None => self.value(register.low),
        }
    }

    fn enable(&mut self, value: u64, ground: &dyn Ground) -> Result<Taken, Trouble> {
        let (e, number) = (self.engine, self.selected);
        if value != 1 || self.queues.contains_key(&number) {
            return Trouble::new(format!(
                "queue {number} is put to use with the value {value} or twice; only a reset ends its use"
            ));
        }
        let size = self.value(e.size).unwrap_or(0);
        if !size.is_power_of_two() || size > u64::from(e.most_entries) {
            return Trouble::new(format!(
                "queue {number} is put to use with {size} entries; they must be set, a power of two up to {}",
                e.most_entries
            ));
        }
        let mut taken = Taken::default();
        let mut places = [0; 3];
        let parts = [
            (&e.descriptors, 16, 16 * size),
            (&e.driver, 2, 6 + 2 * size),
            (&e.device, 4, 6 + 8 * size),
        ];
        for ((register, align, bytes), to) in parts.into_iter().zip(&mut places) {
            let at = self.address(register).unwrap_or(0);
            if !at.is_multiple_of(align) || !ground.holds(at, bytes) {
                return Trouble::new(format!(
                    "queue {number} has {} = {at:#x}: its {bytes} bytes there are not all memory that the device is \
                     given, or not aligned to {align}",
                    register.name
                ));
            }
            *to = at;
            taken.registers.push(Used {
                queue: number,
                low: register.low,
                high: register.high,
                value: at,
            });
        }
        let [descriptors, driver, device] = places;
        let queue = Queue {
            size,
            descriptors,
            driver,
            device,
            next: 0,
            done: 0,
            reads: Vec::new(),
            writes: Vec::new(),
        };
        let reads = [queue.table(), queue.driver_ring()];
        let written = queue.device_ring();
        let mut others = self.queues.values();
        let clash = reads.iter().any(|r| overlap(r, &written))
            || others.any(|q| {
                let theirs = [q.table(), q.driver_ring(), q.device_ring()];
                theirs.iter().any(|t| overlap(t, &written)) || reads.iter().any(|r| overlap(r, &q.device_ring()))
            })
            || self.pending().any(|r| overlap(r, &written));
        if clash {
            return Trouble::new(format!(
                "the ring that the device fills for queue {number} overlaps memory that it takes addresses from"
            ));
        }
        // What tells that the device is done must not stand there before it has done anything.
        let at = device.saturating_add(INDEX_AT);
        if self.known(&(at..at.saturating_add(2))) && read::<2>(ground, at) == Some([0; 2]) {
            self.unknown.add(written);
            self.queues.insert(number, queue);
            let more = self.publish(ground)?;
            taken.words = more.words;
            return Ok(taken);
        }
        Trouble::new(format!(
            "the ring that the device fills for queue {number} does not begin at 0, or the device may have written it"
        ))
    }

    /// Whether memory stands as the CPU left it.
    pub(super) fn known(&self, range: &Range<u64>) -> bool {
        !self.unknown.overlaps(range)
    }

    /// What the device may still read for what waits in any queue.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Range<u64>> {
        self.queues.values().flat_map(|q| &q.reads)
    }

    /// What the device must not write: what it takes addresses from, and what tells how far it is.
    pub(super) fn structures(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.queues
            .values()
            .flat_map(|q| [q.table(), q.driver_ring(), q.device_ring()])
    }

    /// Follows what is new in the drivers' rings.
    fn publish(&mut self, ground: &dyn Ground) -> Result<Taken, Trouble> {
        let mut taken = Taken::default();
        let numbers: Vec<u16> = self.queues.keys().copied().collect();
        for number in numbers {
            let Some(q) = self.queues.get(&number).cloned() else {
                continue;
            };
            let ring = |at: u64| {
                let range = at..at.saturating_add(2);
                let bytes = read::<2>(ground, at).filter(|_| self.known(&range));
                bytes.map(u16::from_le_bytes).ok_or_else(|| {
                    Trouble(format!(
                        "the ring of queue {number} is memory that the device may have written"
                    ))
                })
            };
            let index = ring(q.driver.saturating_add(INDEX_AT))?;
            let new = index.wrapping_sub(q.next);
            if u64::from(new) > q.size {
                return Trouble::new(format!(
                    "queue {number} of {} entries is given {new} at once: its index goes from {} to {index}",
                    q.size, q.next
                ));
            }
            let mut heads = Vec::with_capacity(usize::from(new));
            for n in 0..new {
                let slot = u64::from(q.next.wrapping_add(n)) % q.size;
                heads.push(ring(q.driver.saturating_add(4 + 2 * slot))?);
            }
            let mut written = Vec::new();
            for head in heads {
                let chain = Chain::walk(self, number, &q, head, ground)?;
                taken.words.extend(chain.words);
                written.extend(chain.writes);
                if let Some(q) = self.queues.get_mut(&number) {
                    q.reads.extend(chain.reads);
                    q.next = q.next.wrapping_add(1);
                }
            }
            for range in written {
                // Of one read by another chain that came with it nothing would be known.
                if self.pending().any(|r| overlap(r, &range)) {
                    return Trouble::new(format!(
                        "a buffer of queue {number} that the device writes, at {:#x}, overlaps one that it reads",
                        range.start
                    ));
                }
                self.unknown.add(range.clone());
                if let Some(q) = self.queues.get_mut(&number) {
                    q.writes.push(range);
                }
            }
        }
        Ok(taken)
    }

    pub fn may_change(&self, at: u64, bytes: u64) -> Result<(), Trouble> {
        let range = at..at.saturating_add(bytes);
        for (number, q) in &self.queues {
            if overlap(&range, &q.device_ring()) {
                return Trouble::new(format!(
                    "a change at {at:#x} is of the ring that the device fills for queue {number}"
                ));
            }
            let (index, entries) = (q.index(), q.driver.saturating_add(4)..q.driver_ring().end);
            if overlap(&range, &index) && overlap(&range, &entries) {
                return Trouble::new(format!(
                    "a change at {at:#x} is of queue {number}'s ring and of its index at once: the device could see one \
                     before the other"
                ));
            }
            let busy = q.done != q.next || self.resetting;
            let structure = overlap(&range, &q.table()) || overlap(&range, &q.driver_ring());
            if busy && (structure || q.reads.iter().any(|r| overlap(&range, r))) {
                return Trouble::new(format!(
                    "a change at {at:#x} is of what the device takes addresses from, while it is not known to be done \
                     with queue {number}"
                ));
            }
        }
        Ok(())
    }

    pub fn changed(&mut self, at: u64, bytes: u64, ground: &dyn Ground) -> Result<Taken, Trouble> {
        let range = at..at.saturating_add(bytes);
        self.unknown.remove(range.clone());
        // What the device is still to write stays unknown, whatever the CPU puts there.
        let again = self.queues.values().flat_map(|q| &q.writes);
        for w in again.filter(|w| overlap(w, &range)) {
            self.unknown.add(w.clone());
        }
        if self.queues.values().any(|q| overlap(&range, &q.index())) {
            return self.publish(ground);
        }
        Ok(Taken::default())
    }

    pub fn indices(&self) -> Vec<Range<u64>> {
        self.queues.values().map(Queue::index).collect()
    }

    pub fn settle(&self) -> Vec<Settle> {
        if self.resetting {
            return vec![Settle::Register {
                offset: self.engine.status,
                width: 1,
                expected: 0,
            }];
        }
        let busy = self.queues.values().filter(|q| q.done != q.next);
        let of = |q: &Queue| Settle::Memory {
            at: q.device.saturating_add(INDEX_AT),
            expected: q.next,
        };
        busy.map(of).collect()
    }

    pub fn polled(&mut self, polled: Polled) -> bool {
        match polled {
            Polled::Register { offset, mask, expected } => {
                let over = offset == self.engine.status && mask & 0xff == 0xff && expected == 0;
                if over && self.resetting {
                    self.resetting = false;
                    self.queues.clear();
                    self.values.clear();
                }
                over
            }
            Polled::Memory {
                at,
                width,
                mask,
                expected,
            } => {
                let of = |q: &&mut Queue| q.device.saturating_add(INDEX_AT) == at && u64::from(q.next) == expected;
                match self.queues.values_mut().find(of) {
                    Some(q) if width == 2 && mask == 0xffff => {
                        q.done = q.next;
                        q.reads.clear();
                        q.writes.clear();
                        true
                    }
                    _ => false,
                }
            }
        }
    }
}
