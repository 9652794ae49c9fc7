//! Relocation of the DMA of a bus-mastering device. Addresses in registers and in memory become addresses of the
//! agent's memory, and waits are added where the next step needs the device to be idle.

use super::Bus;
use super::tracking::{BusError, CompletionCheck, DeviceMemory, PollEnd, TakenAddresses};
use crate::device::space;
use crate::plan::{RegisterAccess, Rewrite, RewriteKind};
use replay_core::{Action, width_mask};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use trace_core::registers::RegisterMap;
use trace_core::{BusAddr, RegOffset};

/// A change of memory by the CPU, with its action.
pub(crate) struct MemoryChange {
    /// First byte, at the original address.
    pub at: BusAddr,
    pub bytes: u64,
    /// The action, with the new address.
    pub action: Action,
}

/// Number of relocated items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RelocationCounts {
    pub registers: u64,
    pub words: u64,
    /// Events of the added waits for the device.
    waits: Vec<u32>,
}

impl RelocationCounts {
    /// Returns the added waits as rewrites.
    pub fn waits(&self) -> impl Iterator<Item = Rewrite> + '_ {
        self.waits.iter().map(|event| Rewrite {
            kind: RewriteKind::WaitAdded,
            event: Some(u64::from(*event)),
            detail: "a wait until the device is done with its memory, because later actions rely on that".to_owned(),
        })
    }
}

/// The relocated actions under construction.
pub(crate) struct DmaRelocator<'m> {
    map: &'m RegisterMap,
    bus: Bus<'m>,
    /// Runs of memory: original start, original end, and offset in the arena.
    runs: BTreeMap<BusAddr, (BusAddr, u64)>,
    /// Start of the arena.
    base: BusAddr,
    /// Limit of an added wait, ns.
    limit_ns: u64,
    /// The action that last wrote an address register, by queue number and offset.
    written: HashMap<(u16, RegOffset), usize>,
    /// Words of memory that hold a relocated address, by original address.
    fixed: HashMap<BusAddr, u64>,
    pub actions: Vec<Action>,
    pub moved: RelocationCounts,
}

impl<'m> DmaRelocator<'m> {
    /// Creates a relocator. `runs` holds the original memory ranges, each with the offset of its first byte in the
    /// arena.
    pub fn new(
        map: &'m RegisterMap,
        runs: impl IntoIterator<Item = (Range<BusAddr>, u64)>,
        base: BusAddr,
        limit_ns: u64,
    ) -> Result<Self, BusError> {
        Ok(Self {
            map,
            bus: Bus::new(map)?,
            runs: runs.into_iter().map(|(r, to)| (r.start, (r.end, to))).collect(),
            base,
            limit_ns,
            written: HashMap::new(),
            fixed: HashMap::new(),
            actions: Vec::new(),
            moved: RelocationCounts::default(),
        })
    }

    /// Returns the arena offset of an address.
    pub fn offset(&self, at: BusAddr) -> Option<u64> {
        let (start, (end, to)) = self.runs.range(..=at).next_back()?;
        (at < *end).then(|| at - *start + to)
    }

    fn address(&self, at: BusAddr) -> Result<u64, BusError> {
        let moved = self.offset(at).map(|o| self.base.saturating_add(o).get());
        moved.ok_or_else(|| BusError(format!("{at:#x} is not in the device's memory")))
    }

    /// Returns the ranges where a change must be a separate action.
    pub fn indices(&self) -> Vec<Range<BusAddr>> {
        self.bus.indices()
    }

    /// Processes a register write.
    pub fn write(
        &mut self,
        event: u32,
        offset: u64,
        width: u8,
        value: u64,
        ground: &dyn DeviceMemory,
    ) -> Result<(), BusError> {
        let at = u32::try_from(offset).map_err(|_| BusError(format!("offset {offset:#x}")))?;
        let at = RegOffset::new(at);
        let touch = RegisterAccess::new(self.map, at, width);
        let rests = self.relies_on_rest(&touch, value);
        if rests {
            self.settle(event)?;
        }
        let queue = self.bus.queue();
        let taken = self.bus.write(&touch, value, ground)?;
        self.fix(event, &taken)?;
        self.written.insert((queue, at), self.actions.len());
        self.actions.push(Action::Write {
            event,
            space: space::REGISTERS,
            offset,
            width,
            value,
        });
        self.put_to_use(&taken)
    }

    /// Returns whether the device must be idle for a write.
    fn relies_on_rest(&self, touch: &RegisterAccess<'_>, value: u64) -> bool {
        match &self.bus {
            Bus::Copy(c) => c.is_engine_register(touch),
            Bus::Queues(q) => q.needs_reset_end(touch, value),
        }
    }

    /// Relocates the values of address registers that are put to use.
    fn put_to_use(&mut self, taken: &TakenAddresses) -> Result<(), BusError> {
        for used in &taken.registers {
            let new = self.address(used.value)?;
            let halves = match used.high {
                Some(high) => vec![(used.low, new & 0xffff_ffff), (high, new >> 32)],
                None => vec![(used.low, new)],
            };
            for (offset, value) in halves {
                let action = self
                    .written
                    .get(&(used.queue, offset))
                    .and_then(|i| self.actions.get_mut(*i));
                match action {
                    Some(Action::Write { value: v, .. }) => *v = value,
                    _ => {
                        return BusError::new(format!(
                            "the register at {offset:#x} is never written, and the address {new:#x} needs it"
                        ));
                    }
                }
            }
            self.moved.registers += 1;
        }
        Ok(())
    }

    /// Relocates the words that the device uses as addresses.
    fn fix(&mut self, event: u32, taken: &TakenAddresses) -> Result<(), BusError> {
        for word in &taken.words {
            let new = self.address(word.value)?;
            if self.fixed.insert(word.at, new) == Some(new) {
                continue;
            }
            let Some(offset) = self.offset(word.at) else {
                return BusError::new(format!("{:#x} is not in the device's memory", word.at));
            };
            let width = [8u8, 4, 2, 1]
                .into_iter()
                .find(|w| offset.is_multiple_of(u64::from(*w)))
                .unwrap_or(1);
            for i in 0..8 / width {
                let at = i * width;
                self.actions.push(Action::Put {
                    event,
                    offset: offset.saturating_add(at.into()),
                    width,
                    value: new >> (u32::from(at) * 8) & width_mask(width),
                });
            }
            self.moved.words += 1;
        }
        Ok(())
    }

    /// Waits until the device is known to have finished all its work, if it has any.
    pub fn finish(&mut self, event: u32) -> Result<(), BusError> {
        if self.bus.is_busy() { self.settle(event) } else { Ok(()) }
    }

    /// Waits until the device is known to be done.
    fn settle(&mut self, event: u32) -> Result<(), BusError> {
        for settle in self.bus.settle() {
            let (space, offset, width, mask, expected) = match settle {
                CompletionCheck::Register {
                    offset,
                    width,
                    mask,
                    expected,
                } => (space::REGISTERS, offset.get().into(), width, mask, expected),
                CompletionCheck::Memory { at, expected } => {
                    let offset = self
                        .offset(at)
                        .ok_or_else(|| BusError(format!("{at:#x} is not in the device's memory")))?;
                    (space::ARENA, offset, 2, 0xffff, expected.into())
                }
            };
            self.actions.push(Action::Until {
                event,
                reads: 0,
                space,
                offset,
                width,
                mask,
                expected,
                limit_ns: self.limit_ns,
            });
            self.moved.waits.push(event);
            self.bus.observe_poll(match settle {
                CompletionCheck::Register { offset, .. } => PollEnd::Register { offset, mask, expected },
                CompletionCheck::Memory { at, .. } => PollEnd::Memory {
                    at,
                    width,
                    mask,
                    expected,
                },
            });
        }
        Ok(())
    }

    /// Processes changes of memory that were observed together. `ground` already has all of them.
    pub fn change(&mut self, event: u32, pieces: Vec<MemoryChange>, ground: &dyn DeviceMemory) -> Result<(), BusError> {
        if pieces.iter().any(|p| self.bus.may_change(p.at, p.bytes).is_err()) {
            self.settle(event)?;
        }
        let indices = self.bus.indices();
        let of_index = |p: &MemoryChange| {
            indices
                .iter()
                .any(|i| p.at < i.end && i.start < p.at.saturating_add(p.bytes))
        };
        // The ring index that publishes new entries is written after the entries.
        let (last, first): (Vec<_>, Vec<_>) = pieces.into_iter().partition(of_index);
        for p in first.into_iter().chain(last) {
            self.bus.may_change(p.at, p.bytes)?;
            let range = p.at.saturating_sub(7)..p.at.saturating_add(p.bytes);
            if p.bytes <= 64 {
                BusAddr::get_range(&range).for_each(|at| {
                    self.fixed.remove(&BusAddr::new(at));
                });
            } else {
                self.fixed.retain(|at, _| !range.contains(at));
            }
            let taken = self.bus.changed(p.at, p.bytes, ground)?;
            self.fix(event, &taken)?;
            self.actions.push(p.action);
        }
        Ok(())
    }

    /// Adds an action that changes neither registers nor memory.
    pub fn push_action(&mut self, action: Action, memory_at: impl Fn(u64) -> Option<BusAddr>) {
        if let Action::Until {
            space: number,
            offset,
            width,
            mask,
            expected,
            ..
        } = action
        {
            let polled = match (number, u32::try_from(offset).map(RegOffset::new)) {
                (space::REGISTERS, Ok(offset)) => Some(PollEnd::Register { offset, mask, expected }),
                (space::ARENA, _) => memory_at(offset).map(|at| PollEnd::Memory {
                    at,
                    width,
                    mask,
                    expected,
                }),
                _ => None,
            };
            if let Some(polled) = polled {
                self.bus.observe_poll(polled);
            }
        }
        self.actions.push(action);
    }
}
