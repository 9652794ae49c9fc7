//! A device that copies between memory and a buffer of its own.

use super::{Ground, Polled, Settle, Taken, Trouble, Used, is, whole};
use crate::plan::Touch;
use std::collections::HashMap;
use std::ops::Range;
use trace_core::registers::{AddressRegister, CopyEngine};

pub(crate) struct CopyBus<'m> {
    engine: &'m CopyEngine,
    /// Registers as they were written last.
    values: HashMap<u32, u64>,
    /// Memory of the transfer that is not known to be over, and what the command then reads.
    busy: Option<(Range<u64>, u64)>,
}

impl<'m> CopyBus<'m> {
    pub fn new(engine: &'m CopyEngine) -> Self {
        Self {
            engine,
            values: HashMap::new(),
            busy: None,
        }
    }

    fn value(&self, offset: u32) -> u64 {
        self.values.get(&offset).copied().unwrap_or(0)
    }

    fn address(&self, register: &AddressRegister) -> u64 {
        match register.high {
            Some(high) => self.value(register.low) & 0xffff_ffff | self.value(high) << 32,
            None => self.value(register.low),
        }
    }

    fn ours(&self, offset: u32) -> bool {
        let e = self.engine;
        is(&e.source, offset) || is(&e.destination, offset) || offset == e.count || offset == e.command
    }

    /// Whether an access touches a register of the engine.
    pub fn names(&self, touch: &Touch<'_>) -> bool {
        touch.registers().any(|r| self.ours(r.offset))
    }

    pub fn write(&mut self, touch: &Touch<'_>, value: u64, ground: &dyn Ground) -> Result<Taken, Trouble> {
        let e = self.engine;
        let Some(offset) = whole(touch, |o| self.ours(o))?.filter(|o| self.ours(*o)) else {
            return Ok(Taken::default());
        };
        if self.busy.is_some() {
            return Trouble::new(format!(
                "{} is written while the transfer before it is not known to be over",
                touch.name()
            ));
        }
        self.values.insert(offset, value);
        if offset != e.command || value & e.start == 0 {
            return Ok(Taken::default());
        }
        self.start(value, ground)
    }

    /// A transfer begins: its memory is all the device's to reach, its other side is the device's buffer.
    fn start(&mut self, command: u64, ground: &dyn Ground) -> Result<Taken, Trouble> {
        let e = self.engine;
        let bytes = self.value(e.count);
        let (memory, own) = match command & e.to_memory {
            0 => (&e.source, &e.destination),
            _ => (&e.destination, &e.source),
        };
        let (at, inside) = (self.address(memory), self.address(own));
        let end = inside.checked_add(bytes);
        if bytes == 0 || inside < own.local.start || end.is_none_or(|end| end > own.local.end) {
            return Trouble::new(format!(
                "the transfer of {bytes} bytes has {} = {inside:#x}, which is not all in the device's own buffer",
                own.name
            ));
        }
        if !ground.holds(at, bytes) {
            return Trouble::new(format!(
                "the transfer of {bytes} bytes has {} = {at:#x}, which is not all memory that the device is given",
                memory.name
            ));
        }
        self.busy = Some((at..at.saturating_add(bytes), command & !e.start));
        Ok(Taken {
            registers: vec![Used {
                queue: 0,
                low: memory.low,
                high: memory.high,
                value: at,
            }],
            words: Vec::new(),
        })
    }

    /// What a transfer moves is not changed under it, so that its end is always the same.
    pub fn may_change(&self, at: u64, bytes: u64) -> Result<(), Trouble> {
        match &self.busy {
            Some((range, _)) if at < range.end && at.saturating_add(bytes) > range.start => {
                Trouble::new("memory of a transfer is changed while the transfer is not known to be over".to_owned())
            }
            _ => Ok(()),
        }
    }

    pub fn settle(&self) -> Vec<Settle> {
        let of = |(_, expected): &(Range<u64>, u64)| Settle::Register {
            offset: self.engine.command,
            width: 8,
            expected: *expected,
        };
        self.busy.iter().map(of).collect()
    }

    pub fn polled(&mut self, polled: Polled) -> bool {
        let start = self.engine.start;
        match polled {
            Polled::Register { offset, mask, expected }
                if offset == self.engine.command && mask & start == start && expected & start == 0 =>
            {
                self.busy = None;
                true
            }
            _ => false,
        }
    }
}
