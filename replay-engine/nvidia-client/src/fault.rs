//! What the driver says about faults: addresses of MMU faults, states of multiprocessors.

use crate::argument::{Argument, u32_at, u64_at};
use crate::{ChannelGroup, Client, ClientError, Kernel};

/// Control command of a debugger object: MMU faults.
const READ_MMU_FAULTS: u32 = 0x83de_0328;
/// Control command of a debugger object: error states of multiprocessors.
const READ_SM_ERRORS: u32 = 0x83de_030c;
/// Maximum number of multiprocessors in an answer.
const SMS_PER_ANSWER: usize = 100;
/// Bytes of an entry of a multiprocessor.
const SM_BYTES: usize = 48;

/// An access that the MMU refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmuFault {
    /// The address.
    pub va: u64,
    /// Type of the fault: 0 means that a page directory has no entry.
    pub kind: u32,
    /// Type of the access: 0 read, 1 write.
    pub access: u32,
}

/// The error state of a multiprocessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmError {
    /// Number of the multiprocessor.
    pub sm: u32,
    /// Global error register.
    pub global: u32,
    /// Warp error register; its low bits are the reason.
    pub warp: u32,
    /// Address of the instruction.
    pub pc: u64,
    /// Address of the access, if the reason has one.
    pub address: u64,
}

impl<K: Kernel> Client<K> {
    /// Reads the MMU faults of a group, at most four. The driver forgets the faults that it returns.
    ///
    /// # Errors
    /// What the driver refused, here or in [`Client::watch_faults`]. A group that is not watched has no faults.
    pub fn read_mmu_faults(&mut self, group: &ChannelGroup) -> Result<[Option<MmuFault>; 4], ClientError> {
        let mut faults = [None; 4];
        let Some(debugger) = group.debugger.transpose()? else {
            return Ok(faults);
        };
        let mut answer = Argument::<72>::new();
        self.calls.control(debugger, READ_MMU_FAULTS, &mut answer.0)?;
        let count = answer.u32(64) as usize;
        for (n, slot) in faults.iter_mut().enumerate().take(count) {
            *slot = Some(MmuFault {
                va: answer.u64(16 * n),
                kind: answer.u32(16 * n + 8),
                access: answer.u32(16 * n + 12),
            });
        }
        Ok(faults)
    }

    /// Reads the error states of multiprocessors from `first` on into `found`, and returns the number of those in error.
    /// An answer has at most 100 multiprocessors.
    ///
    /// # Errors
    /// What the driver refused, here or in [`Client::watch_faults`]. A group that is not watched has none.
    pub fn read_sm_errors(
        &mut self,
        group: &ChannelGroup,
        channel: u32,
        first: u32,
        found: &mut [SmError],
    ) -> Result<usize, ClientError> {
        const HEAD: usize = 8;
        const BYTES: usize = 4824;
        let Some(debugger) = group.debugger.transpose()? else {
            return Ok(0);
        };
        let mut answer = Argument::<BYTES>::new()
            .with_u32(0, channel)
            .with_u32(4, SMS_PER_ANSWER as u32)
            .with_u32(BYTES - 4, first);
        self.calls.control(debugger, READ_SM_ERRORS, &mut answer.0)?;
        let mut count = 0;
        for n in 0..SMS_PER_ANSWER {
            let entry = answer.0.get(HEAD + n * SM_BYTES..).unwrap_or_default();
            let error = SmError {
                sm: first.saturating_add(n as u32),
                global: u32_at(entry, 0),
                warp: u32_at(entry, 4),
                pc: u64_at(entry, 32),
                address: u64_at(entry, 24),
            };
            if (error.global | error.warp) != 0
                && let Some(slot) = found.get_mut(count)
            {
                *slot = error;
                count += 1;
            }
        }
        Ok(count)
    }
}
