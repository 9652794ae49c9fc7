//! Tracking of a bus-mastering device through its typed registers: which memory it may read and write by itself, and
//! when. The plan compiler and the verifier use the same code.

mod copy;
mod dma_relocation;
mod queues;
mod ranges;
mod tracking;
mod walk;

use super::RegisterAccess;
use copy::CopyBus;
pub(crate) use dma_relocation::{DmaRelocator, MemoryChange};
use queues::QueueBus;
pub(crate) use ranges::Ranges;
use std::ops::Range;
use trace_core::BusAddr;
use trace_core::registers::{BusEngine, RegisterMap, Role};
pub(crate) use tracking::{BusError, CompletionCheck, DeviceMemory, PollEnd, TakenAddresses, is_within};

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
    pub fn may_change(&self, at: BusAddr, bytes: u64) -> Result<(), BusError> {
        match self {
            Self::Copy(c) => c.may_change(at, bytes),
            Self::Queues(q) => q.may_change(at, bytes),
        }
    }

    /// Processes a CPU change of these bytes.
    pub fn changed(&mut self, at: BusAddr, bytes: u64, ground: &dyn DeviceMemory) -> Result<TakenAddresses, BusError> {
        match self {
            Self::Copy(_) => Ok(TakenAddresses::default()),
            Self::Queues(q) => q.changed(at, bytes, ground),
        }
    }

    /// Returns the ranges where the device looks for new work by itself. A change there must be a separate action.
    pub fn indices(&self) -> Vec<Range<BusAddr>> {
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
        if !typed && p.bytes >= 4 && ground.holds(BusAddr::new(bits), 1) {
            return BusError::new(format!(
                "{} receives {bits:#x}, which lies in the device's memory, but the map does not declare the register \
                 as an address",
                p.register.name
            ));
        }
    }
    Ok(())
}
