//! Follows what a device that masters the bus is told, as its register map types it: which memory it may read and write
//! by itself, and from when to when. The compiler and the verifier of plans ask the same questions in the same way.

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

/// Why a device may not master the bus, in words for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BusError(pub String);

impl BusError {
    pub fn new<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self(why.into()))
    }
}

/// Memory that the device is given, as the CPU left it.
pub(crate) trait DeviceMemory {
    /// The image in a frame that the device is given; `None` for others.
    fn page(&self, frame: u64) -> Option<&Page>;

    /// Whether all these bytes are the device's to reach, one after another.
    fn holds(&self, at: u64, bytes: u64) -> bool;

    /// Takes steps of work; `false` when that is too much.
    fn spend(&self, _steps: u64) -> bool {
        true
    }
}

/// Whether bytes are all in a piece of memory.
pub(crate) fn is_within(own: &Range<u64>, at: u64, bytes: u64) -> bool {
    own.contains(&at) && at.checked_add(bytes).is_some_and(|end| end <= own.end)
}

/// Takes steps of work; an error when that is too much.
fn spend(ground: &dyn DeviceMemory, steps: u64) -> Result<(), BusError> {
    if ground.spend(steps) {
        return Ok(());
    }
    BusError::new("following what the device is told takes too many steps")
}

/// Reads bytes that may lie in several frames. `None` where a frame is none of the device's.
pub(crate) fn read<const N: usize>(ground: &dyn DeviceMemory, at: u64) -> Option<[u8; N]> {
    let mut out = [0; N];
    for (i, to) in out.iter_mut().enumerate() {
        let at = PhysAddr(at.checked_add(i as u64)?);
        *to = *ground.page(at.frame())?.get(at.in_page())?;
    }
    Some(out)
}

/// A word of 8 bytes in memory that the device takes as an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressWord {
    /// Where it stands.
    pub at: u64,
    /// The address.
    pub value: u64,
}

/// An address register whose value is put to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressUse {
    /// Number of the queue that the register was of; 0 where there are none.
    pub queue: u16,
    /// Offset of the register or of its low half.
    pub low: u32,
    /// Offset of the high half.
    pub high: Option<u32>,
    /// The address.
    pub value: u64,
}

/// What an action makes the device take as addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenAddresses {
    pub registers: Vec<AddressUse>,
    pub words: Vec<AddressWord>,
}

/// What must be seen before the device is known to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionCheck {
    /// The bits of the mask of the register at this offset read so.
    Register {
        offset: u32,
        width: u8,
        mask: u64,
        expected: u64,
    },
    /// The 16 bits at this address of memory read so.
    Memory { at: u64, expected: u16 },
}

/// A poll that ends before anything else happens.
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

/// A device that masters the bus, as far as it is known by what it was told.
pub(crate) enum Bus<'m> {
    Copy(CopyBus<'m>),
    Queues(Box<QueueBus<'m>>),
}

impl<'m> Bus<'m> {
    /// The device that a map describes, as whoever had it before left it: nothing of it is known.
    ///
    /// # Errors
    /// When the map does not tell where its addresses come from, or not of all of them.
    pub fn new(map: &'m RegisterMap) -> Result<Self, BusError> {
        let Some(master) = map.bus_master() else {
            return BusError::new(format!(
                "the register map `{}` does not tell where the device takes addresses from",
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

    /// A write of registers, before it is made.
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

    /// Number of the queue that address registers are of now.
    pub fn queue(&self) -> u16 {
        match self {
            Self::Copy(_) => 0,
            Self::Queues(q) => q.selected_queue(),
        }
    }

    /// Whether the CPU may change these bytes now.
    pub fn may_change(&self, at: u64, bytes: u64) -> Result<(), BusError> {
        match self {
            Self::Copy(c) => c.may_change(at, bytes),
            Self::Queues(q) => q.may_change(at, bytes),
        }
    }

    /// The CPU has changed these bytes.
    pub fn changed(&mut self, at: u64, bytes: u64, ground: &dyn DeviceMemory) -> Result<TakenAddresses, BusError> {
        match self {
            Self::Copy(_) => Ok(TakenAddresses::default()),
            Self::Queues(q) => q.changed(at, bytes, ground),
        }
    }

    /// Where the device looks for new work by itself: a change there is apart from every other.
    pub fn indices(&self) -> Vec<Range<u64>> {
        match self {
            Self::Copy(_) => Vec::new(),
            Self::Queues(q) => q.indices(),
        }
    }

    /// Steps of work that a look at all that it was told counts.
    pub fn steps(&self) -> u64 {
        match self {
            Self::Copy(_) => 1,
            Self::Queues(q) => q.steps(),
        }
    }

    /// Whether it may be at work that it was told to do.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Copy(c) => c.is_busy(),
            Self::Queues(q) => !q.settle().is_empty(),
        }
    }

    /// What must be seen before it is known to be done; nothing where it is.
    pub fn settle(&self) -> Vec<CompletionCheck> {
        match self {
            Self::Copy(c) => c.settle(),
            Self::Queues(q) => q.settle(),
        }
    }

    /// A poll has ended on its value. `false`: nothing of the device's work is known by it.
    pub fn observe_poll(&mut self, polled: PollEnd) -> bool {
        match self {
            Self::Copy(c) => c.observe_poll(polled),
            Self::Queues(q) => q.observe_poll(polled),
        }
    }
}

/// A value that points to the device's memory goes only into registers that are typed as addresses.
fn refuse_untyped(touch: &RegisterAccess<'_>, value: u64, ground: &dyn DeviceMemory) -> Result<(), BusError> {
    for p in touch.parts() {
        let bits = p.bits(value);
        let typed = p.register.replay.role == Some(Role::BusAddress);
        if !typed && p.bytes >= 4 && ground.holds(bits, 1) {
            return BusError::new(format!(
                "{} receives {bits:#x}, which lies in the memory that the device is given, and the map does not type it \
                 as an address",
                p.register.name
            ));
        }
    }
    Ok(())
}

/// The register that is written whole and alone; an error where only a part of one of these is, or several.
fn find_whole_register(touch: &RegisterAccess<'_>, ours: impl Fn(u32) -> bool) -> Result<Option<u32>, BusError> {
    let mut parts = touch.parts().iter();
    match (parts.next(), parts.next()) {
        (Some(p), None) if p.is_whole() => Ok(Some(p.register.offset)),
        _ if touch.registers().any(|r| ours(r.offset)) => BusError::new(format!(
            "{} is no write of one whole register, and the device takes addresses from it",
            touch.name()
        )),
        _ => Ok(None),
    }
}

fn is(register: &AddressRegister, offset: u32) -> bool {
    register.low == offset || register.high == Some(offset)
}
