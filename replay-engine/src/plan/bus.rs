//! Tracking of a bus-mastering device through its typed registers: which memory it may read and write by itself, and
//! when. The plan compiler and the verifier use the same code.

mod copy;
mod dma_relocation;
mod queues;
mod ranges;
mod walk;

use super::RegisterAccess;
use copy::CopyBus;
pub(crate) use dma_relocation::{DmaRelocator, MemoryChange};
use queues::QueueBus;
pub(crate) use ranges::Ranges;
use std::ops::Range;
use trace_core::PhysAddr;
use trace_core::recording::Page;
use trace_core::registers::{AddressRegister, BusEngine, RegisterMap, Role};

/// The reason why a device may not use bus mastering, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BusError(pub String);

impl BusError {
    pub fn new<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self(why.into()))
    }
}

/// Memory accessible to the device, as the CPU left it.
pub(crate) trait DeviceMemory {
    /// Returns the image of an accessible frame, or `None` for other frames.
    fn page(&self, frame: u64) -> Option<&Page>;

    /// Returns whether the device can access all these bytes contiguously.
    fn holds(&self, at: u64, bytes: u64) -> bool;

    /// Consumes steps of work. Returns `false` if the limit is exceeded.
    fn spend(&self, _steps: u64) -> bool {
        true
    }
}

/// Returns whether bytes are completely inside a piece of memory.
pub(crate) fn is_within(own: &Range<u64>, at: u64, bytes: u64) -> bool {
    own.contains(&at) && at.checked_add(bytes).is_some_and(|end| end <= own.end)
}

/// Consumes steps of work. Returns an error if the limit is exceeded.
fn spend(ground: &dyn DeviceMemory, steps: u64) -> Result<(), BusError> {
    if ground.spend(steps) {
        return Ok(());
    }
    BusError::new("following the device's descriptors takes too many steps")
}

/// Reads bytes that may span several frames. Returns `None` if a frame is not accessible to the device.
pub(crate) fn read<const N: usize>(ground: &dyn DeviceMemory, at: u64) -> Option<[u8; N]> {
    let mut out = [0; N];
    for (i, to) in out.iter_mut().enumerate() {
        let at = PhysAddr(at.checked_add(i as u64)?);
        *to = *ground.page(at.frame())?.get(at.in_page())?;
    }
    Some(out)
}

/// An 8-byte word in memory that the device uses as an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressWord {
    /// Address of the word.
    pub at: u64,
    /// The address.
    pub value: u64,
}

/// An address register whose value is put to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressUse {
    /// Number of the register's queue, or 0 if there are no queues.
    pub queue: u16,
    /// Offset of the register or of its low half.
    pub low: u32,
    /// Offset of the high half.
    pub high: Option<u32>,
    /// The address.
    pub value: u64,
}

/// The addresses that the device uses because of an action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenAddresses {
    pub registers: Vec<AddressUse>,
    pub words: Vec<AddressWord>,
}

/// A condition that must hold before the device is known to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionCheck {
    /// The masked bits of the register at this offset have this value.
    Register {
        offset: u32,
        width: u8,
        mask: u64,
        expected: u64,
    },
    /// The 16 bits at this memory address have this value.
    Memory { at: u64, expected: u16 },
}

/// A poll that ends before any other action.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PollEnd {
    Register {
        offset: u32,
        mask: u64,
        expected: u64,
    },
    Memory {
        at: u64,
        width: u8,
        mask: u64,
        expected: u64,
    },
}

/// The known state of a bus-mastering device, derived from its accesses.
pub(crate) enum Bus<'m> {
    Copy(CopyBus<'m>),
    Queues(Box<QueueBus<'m>>),
}

impl<'m> Bus<'m> {
    /// Creates the state of the device that a map describes. Nothing is known about the work of its previous user.
    ///
    /// # Errors
    /// If the map does not describe the sources of its addresses, or not all of them.
    pub fn new(map: &'m RegisterMap) -> Result<Self, BusError> {
        let Some(master) = map.bus_master() else {
            return BusError::new(format!(
                "the register map `{}` does not say where the device reads addresses from",
                map.name()
            ));
        };
        if let Some(why) = &master.refused {
            return BusError::new(why.clone());
        }
        Ok(match &master.engine {
            BusEngine::Copy(engine) => Self::Copy(CopyBus::new(engine)),
            BusEngine::Virtqueue(engine) => Self::Queues(Box::new(QueueBus::new(engine))),
        })
    }

    /// Processes a register write before it is made.
    pub fn write(
        &mut self,
        touch: &RegisterAccess<'_>,
        value: u64,
        ground: &dyn DeviceMemory,
    ) -> Result<TakenAddresses, BusError> {
        refuse_untyped(touch, value, ground)?;
        match self {
            Self::Copy(c) => c.write(touch, value, ground),
            Self::Queues(q) => q.write(touch, value, ground),
        }
    }

    /// Returns the number of the queue that address registers currently belong to.
    pub fn queue(&self) -> u16 {
        match self {
            Self::Copy(_) => 0,
            Self::Queues(q) => q.selected_queue(),
        }
    }

    /// Checks that the CPU may change these bytes now.
    pub fn may_change(&self, at: u64, bytes: u64) -> Result<(), BusError> {
        match self {
            Self::Copy(c) => c.may_change(at, bytes),
            Self::Queues(q) => q.may_change(at, bytes),
        }
    }

    /// Processes a CPU change of these bytes.
    pub fn changed(&mut self, at: u64, bytes: u64, ground: &dyn DeviceMemory) -> Result<TakenAddresses, BusError> {
        match self {
            Self::Copy(_) => Ok(TakenAddresses::default()),
            Self::Queues(q) => q.changed(at, bytes, ground),
        }
    }

    /// Returns the ranges where the device looks for new work by itself. A change there must be a separate action.
    pub fn indices(&self) -> Vec<Range<u64>> {
        match self {
            Self::Copy(_) => Vec::new(),
            Self::Queues(q) => q.indices(),
        }
    }

    /// Returns the steps of work for one scan of all its work.
    pub fn steps(&self) -> u64 {
        match self {
            Self::Copy(_) => 1,
            Self::Queues(q) => q.steps(),
        }
    }

    /// Returns whether it may have unfinished work.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Copy(c) => c.is_busy(),
            Self::Queues(q) => !q.settle().is_empty(),
        }
    }

    /// Returns the conditions that must hold before it is known to be done, or none if it is.
    pub fn settle(&self) -> Vec<CompletionCheck> {
        match self {
            Self::Copy(c) => c.settle(),
            Self::Queues(q) => q.settle(),
        }
    }

    /// Processes a poll that ended with its value. Returns `false` if the poll says nothing about the device's work.
    pub fn observe_poll(&mut self, polled: PollEnd) -> bool {
        match self {
            Self::Copy(c) => c.observe_poll(polled),
            Self::Queues(q) => q.observe_poll(polled),
        }
    }
}

/// Refuses a value that points to the device's memory unless the register is typed as an address.
fn refuse_untyped(touch: &RegisterAccess<'_>, value: u64, ground: &dyn DeviceMemory) -> Result<(), BusError> {
    for p in touch.parts() {
        let bits = p.bits(value);
        let typed = p.register.replay.role == Some(Role::BusAddress);
        if !typed && p.bytes >= 4 && ground.holds(bits, 1) {
            return BusError::new(format!(
                "{} receives {bits:#x}, which lies in the device's memory, but the map does not declare the register \
                 as an address",
                p.register.name
            ));
        }
    }
    Ok(())
}

/// Returns the register that is written completely and alone. Returns an error if the write covers only a part of one
/// of these registers, or several.
fn find_whole_register(touch: &RegisterAccess<'_>, ours: impl Fn(u32) -> bool) -> Result<Option<u32>, BusError> {
    let mut parts = touch.parts().iter();
    match (parts.next(), parts.next()) {
        (Some(p), None) if p.is_whole() => Ok(Some(p.register.offset)),
        _ if touch.registers().any(|r| ours(r.offset)) => BusError::new(format!(
            "{} does not write one whole register, and the device reads an address from it",
            touch.name()
        )),
        _ => Ok(None),
    }
}

fn is(register: &AddressRegister, offset: u32) -> bool {
    register.low == offset || register.high == Some(offset)
}
