//! Reasons of a job failure, as its slot and its address space report them.

use crate::address_space::{Access, MmuFault};
use crate::registers::exception;
use trace_core::{GpuVa, PhysAddr};

/// Reason of a job failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The job's own exception code.
    Job(u8),
    /// A translation failed.
    Mmu(MmuFault),
    /// A translated address is outside memory.
    Bus {
        address: PhysAddr,
        va: GpuVa,
        access: Access,
    },
}

impl Fault {
    /// Returns the exception code that the slot reports.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Job(code) => *code,
            Self::Mmu(f) => f.code,
            Self::Bus { .. } => exception::BUS,
        }
    }

    /// Returns the address that the fault reports, or 0 if there is none.
    pub(crate) fn address(&self) -> GpuVa {
        match self {
            Self::Job(_) => GpuVa::ZERO,
            Self::Mmu(f) => f.va,
            Self::Bus { va, .. } => *va,
        }
    }
}
