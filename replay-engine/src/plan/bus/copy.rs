//! Copy engines: devices that copy between memory and an internal buffer.

use super::tracking::{
    AddressUse, BusError, CompletionCheck, DeviceMemory, PollEnd, TakenAddresses, find_whole_register, is_part_of,
};
use crate::plan::RegisterAccess;
use std::collections::HashMap;
use std::ops::Range;
use trace_core::registers::{AddressRegister, CopyEngine};
use trace_core::{BusAddr, RegOffset};

pub(crate) struct CopyBus<'m> {
    engine: &'m CopyEngine,
    /// Whether it was observed idle. Until then it may still be working for its previous user, and ignore writes.
    known: bool,
    /// The last values written to its registers since it was observed idle.
    values: HashMap<RegOffset, u64>,
    /// Memory of the transfer that is not known to be complete, and the value that the command register then reads.
    busy: Option<(Range<BusAddr>, u64)>,
}

impl<'m> CopyBus<'m> {
    pub fn new(engine: &'m CopyEngine) -> Self {
        Self {
            engine,
            known: false,
            values: HashMap::new(),
            busy: None,
        }
    }

    fn value(&self, offset: RegOffset) -> Option<u64> {
        self.values.get(&offset).copied()
    }

    /// Returns the address in a register, all of which must have been written.
    fn address(&self, register: &AddressRegister) -> Result<BusAddr, BusError> {
        let low = self.value(register.low);
        let whole = match register.high {
            Some(high) => low.zip(self.value(high)).map(|(l, h)| l & 0xffff_ffff | h << 32),
            None => low,
        };
        whole.map(BusAddr::new).ok_or_else(|| {
            BusError(format!(
                "a transfer is started, but {} was not written since the device was seen idle, so its value is not \
                 known",
                register.name
            ))
        })
    }

    fn ours(&self, offset: RegOffset) -> bool {
        let e = self.engine;
        is_part_of(&e.source, offset) || is_part_of(&e.destination, offset) || offset == e.count || offset == e.command
    }

    /// Returns whether an access includes a register of the engine.
    pub fn is_engine_register(&self, touch: &RegisterAccess<'_>) -> bool {
        touch.registers().any(|r| self.ours(r.offset))
    }

    pub fn write(
        &mut self,
        touch: &RegisterAccess<'_>,
        value: u64,
        ground: &dyn DeviceMemory,
    ) -> Result<TakenAddresses, BusError> {
        let e = self.engine;
        let Some(offset) = find_whole_register(touch, |o| self.ours(o))?.filter(|o| self.ours(*o)) else {
            return Ok(TakenAddresses::default());
        };
        if self.busy.is_some() {
            return BusError::new(format!(
                "{} is written while the previous transfer is not known to be over",
                touch.name()
            ));
        }
        if !self.known {
            return BusError::new(format!(
                "{} is written before the device was seen idle: an earlier transfer may still run, and the device \
                 would drop the value. The plan must first wait until the start bit reads 0",
                touch.name()
            ));
        }
        self.values.insert(offset, value);
        if offset != e.command || value & e.start == 0 {
            return Ok(TakenAddresses::default());
        }
        self.start(value, ground)
    }

    /// Starts a transfer. Its memory must be accessible to the device; its other side is the device's buffer.
    fn start(&mut self, command: u64, ground: &dyn DeviceMemory) -> Result<TakenAddresses, BusError> {
        let e = self.engine;
        let Some(bytes) = self.value(e.count) else {
            return BusError::new(
                "a transfer is started, but its number of bytes was not written since the device was seen idle",
            );
        };
        let (memory, own) = match command & e.to_memory {
            0 => (&e.source, &e.destination),
            _ => (&e.destination, &e.source),
        };
        let (at, inside) = (self.address(memory)?, self.address(own)?.get());
        let end = inside.checked_add(bytes);
        if bytes == 0 || inside < own.local.start || end.is_none_or(|end| end > own.local.end) {
            return BusError::new(format!(
                "the transfer of {bytes} bytes has {} = {inside:#x}, which is not completely in the device's own \
                 buffer",
                own.name
            ));
        }
        if !ground.holds(at, bytes) {
            return BusError::new(format!(
                "the transfer of {bytes} bytes has {} = {at:#x}, which is not completely in the device's memory",
                memory.name
            ));
        }
        self.busy = Some((at..at.saturating_add(bytes), command & !e.start));
        Ok(TakenAddresses {
            registers: vec![AddressUse {
                queue: 0,
                low: memory.low,
                high: memory.high,
                value: at,
            }],
            words: Vec::new(),
        })
    }

    /// Checks that a change does not affect memory under transfer, so that the result is always the same.
    pub fn may_change(&self, at: BusAddr, bytes: u64) -> Result<(), BusError> {
        match &self.busy {
            Some((range, _)) if at < range.end && at.saturating_add(bytes) > range.start => BusError::new(
                "the memory of a transfer is changed while the transfer is not known to be over".to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// Returns whether a started transfer is not known to be complete.
    pub fn is_busy(&self) -> bool {
        self.busy.is_some()
    }

    pub fn settle(&self) -> Vec<CompletionCheck> {
        let (mask, expected) = match &self.busy {
            Some((_, expected)) => (u64::MAX, *expected),
            // Its other bits belong to earlier work.
            None if !self.known => (self.engine.start, 0),
            None => return Vec::new(),
        };
        vec![CompletionCheck::Register {
            offset: self.engine.command,
            width: 8,
            mask,
            expected,
        }]
    }

    pub fn observe_poll(&mut self, polled: PollEnd) -> bool {
        let start = self.engine.start;
        match polled {
            PollEnd::Register { offset, mask, expected }
                if offset == self.engine.command && mask & start == start && expected & start == 0 =>
            {
                self.busy = None;
                self.known = true;
                true
            }
            _ => false,
        }
    }
}
