//! What the trackers of bus-mastering devices share: the device's memory, addresses that it takes, ends of its work.

use crate::plan::RegisterAccess;
use std::ops::Range;
use trace_core::recording::Page;
use trace_core::registers::AddressRegister;
use trace_core::{BusAddr, RegOffset};

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
    fn holds(&self, at: BusAddr, bytes: u64) -> bool;

    /// Consumes steps of work. Returns `false` if the limit is exceeded.
    fn spend(&self, _steps: u64) -> bool {
        true
    }
}

/// Returns whether bytes are completely inside a piece of memory.
pub(crate) fn is_within(own: &Range<BusAddr>, at: BusAddr, bytes: u64) -> bool {
    own.contains(&at) && at.checked_add(bytes).is_some_and(|end| end <= own.end)
}

/// Consumes steps of work. Returns an error if the limit is exceeded.
pub(super) fn spend(ground: &dyn DeviceMemory, steps: u64) -> Result<(), BusError> {
    if ground.spend(steps) {
        return Ok(());
    }
    BusError::new("following the device's descriptors takes too many steps")
}

/// Reads bytes that may span several frames. Returns `None` if a frame is not accessible to the device.
pub(crate) fn read<const N: usize>(ground: &dyn DeviceMemory, at: BusAddr) -> Option<[u8; N]> {
    let mut out = [0; N];
    for (i, to) in out.iter_mut().enumerate() {
        let at = at.checked_add(i as u64)?;
        *to = *ground.page(at.page())?.get(at.in_page())?;
    }
    Some(out)
}

/// An 8-byte word in memory that the device uses as an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressWord {
    /// Address of the word.
    pub at: BusAddr,
    /// The address.
    pub value: BusAddr,
}

/// An address register whose value is put to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressUse {
    /// Number of the register's queue, or 0 if there are no queues.
    pub queue: u16,
    /// Offset of the register or of its low half.
    pub low: RegOffset,
    /// Offset of the high half.
    pub high: Option<RegOffset>,
    /// The address.
    pub value: BusAddr,
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
        offset: RegOffset,
        width: u8,
        mask: u64,
        expected: u64,
    },
    /// The 16 bits at this memory address have this value.
    Memory { at: BusAddr, expected: u16 },
}

/// A poll that ends before any other action.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PollEnd {
    Register {
        offset: RegOffset,
        mask: u64,
        expected: u64,
    },
    Memory {
        at: BusAddr,
        width: u8,
        mask: u64,
        expected: u64,
    },
}

/// Returns the register that is written completely and alone. Returns an error if the write covers only a part of one
/// of these registers, or several.
pub(super) fn find_whole_register(
    touch: &RegisterAccess<'_>,
    ours: impl Fn(RegOffset) -> bool,
) -> Result<Option<RegOffset>, BusError> {
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

pub(super) fn is_part_of(register: &AddressRegister, offset: RegOffset) -> bool {
    register.low == offset || register.high == Some(offset)
}
