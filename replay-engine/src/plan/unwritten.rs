//! Which registers still stand as they did before the recording began.

use std::collections::HashSet;
use trace_core::registers::{Register, Role};

/// GPU_COMMAND values that reset the device, and with it every register.
pub(crate) const RESETS: [u64; 2] = [1, 2];

/// Follows writes, to tell whether a read can show what was there before the recording. The compiler and the verifier
/// of plans ask the same question in the same way.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnwrittenRegisters {
    written: HashSet<u32>,
    reset: bool,
}

impl UnwrittenRegisters {
    /// A value is written to `r`: it no longer stands as before, and after a reset none does.
    pub fn write(&mut self, r: &Register, value: u64) {
        self.written.insert(r.offset);
        self.reset |= r.replay.role == Some(Role::GpuCommand) && RESETS.contains(&value);
    }

    /// Why a read of `r` depends, here, on what ran before the recording; `None` where the map does not mark it or
    /// something has written it since.
    pub fn reason<'m>(&self, r: &'m Register) -> Option<&'m str> {
        let marked = r.replay.before.as_deref()?;
        (!self.reset && !self.written.contains(&r.offset)).then_some(marked)
    }
}
