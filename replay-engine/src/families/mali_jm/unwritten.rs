//! Tracking of the registers that still have their contents from before the recording.

use std::collections::HashSet;
use trace_core::RegOffset;
use trace_core::families::mali_jm::RESETS;
use trace_core::registers::{Register, Role};

/// Tracks writes, to find whether a read can show state from before the recording. The plan compiler and the verifier
/// use the same code.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnwrittenRegisters {
    written: HashSet<RegOffset>,
    reset: bool,
}

impl UnwrittenRegisters {
    /// Notes a write of `value` to `r`. A reset counts as a write to every register.
    pub fn write(&mut self, r: &Register, value: u64) {
        self.written.insert(r.offset);
        self.reset |= r.replay.role == Some(Role::GpuCommand) && RESETS.contains(&value);
    }

    /// Returns why a read of `r` depends on work before the recording, or `None` if the map does not mark it or it was
    /// written since.
    pub fn reason<'m>(&self, r: &'m Register) -> Option<&'m str> {
        let marked = r.replay.before.as_deref()?;
        (!self.reset && !self.written.contains(&r.offset)).then_some(marked)
    }
}
