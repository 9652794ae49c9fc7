//! Why a job failed, as its slot and its address space tell it.

use crate::address_space::{Access, MmuFault};
use crate::registers::exception;

/// Why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its own exception code.
    Job(u8),
    /// A translation failed.
    Mmu(MmuFault),
    /// A translated address is not in memory.
    Bus { address: u64, va: u64, access: Access },
}

impl Fault {
    /// The exception code that the slot reports.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Job(code) => *code,
            Self::Mmu(f) => f.code,
            Self::Bus { .. } => exception::BUS,
        }
    }

    /// The address that the fault tells, 0 where there is none.
    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Job(_) => 0,
            Self::Mmu(f) => f.va,
            Self::Bus { va, .. } => *va,
        }
    }
}
