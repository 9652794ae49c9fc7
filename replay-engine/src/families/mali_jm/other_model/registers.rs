//! Register accesses for another model: identity, masks of cores, set-up of units.

use super::{ModelChange, RegisterChange};
use crate::plan::{ModelError, RewriteKind};
use trace_core::families::mali_jm::RESETS;
use trace_core::registers::{Register, Role};

// Bits of the set-up registers, as Linux' panfrost driver names them.

/// `SHADER_CONFIG`: thread storage is hashed.
const TLS_HASH: u64 = 1 << 17;
/// `JM_CONFIG`: protocols that `COHERENCY_FEATURES` is to name.
const FORCED_COHERENCY: u64 = 0xf << 2;
/// `JM_CONFIG`: group size of indexed vertex jobs.
const VERTEX_GROUP_SIZE: u64 = 0x3f << 16;
/// `L2_MMU_CONFIG`: limits of outstanding reads and writes, whose width depends on the model.
const ACCESS_LIMITS: u64 = 0x3f << 24;
/// Register with the coherency protocol in use.
const COHERENCY_ENABLE: &str = "COHERENCY_ENABLE";
/// No coherency, which every model accepts.
const NO_COHERENCY: u64 = 31;

impl ModelChange {
    /// Returns what an access to a register becomes on the target, or `None` if it stays.
    ///
    /// # Errors
    /// If the access has no equal on the target.
    pub fn translate(
        &mut self,
        event: u64,
        register: &Register,
        write: bool,
        value: u64,
    ) -> Result<Option<RegisterChange>, ModelError> {
        let (new, kind) = if register.identity && !write {
            let here = self.target.identity_register(register.offset, self.was_reset);
            (u64::from(here), RewriteKind::Identity)
        } else if let Some(mask) = self.power.translate(event, register, write, value)? {
            (mask, RewriteKind::CoreMask)
        } else if register.name == COHERENCY_ENABLE {
            (self.translate_coherency(write, value), RewriteKind::UnitSetup)
        } else {
            (self.translate_setup(register, value), RewriteKind::UnitSetup)
        };
        if write && register.replay.role == Some(Role::GpuCommand) && RESETS.contains(&value) {
            self.was_reset = true;
            self.enabled_coherency = None;
            self.power.reset();
        }
        if new == value {
            return Ok(None);
        }
        let name = &register.name;
        let detail = match (kind, write) {
            (RewriteKind::Identity, _) => format!("{name} reads as {new:#x} instead of {value:#x}"),
            (_, false) => format!("{name} is expected to be {new:#x} instead of {value:#x}"),
            (_, true) => format!("{name} becomes {new:#x} instead of {value:#x}"),
        };
        Ok(Some(RegisterChange {
            value: new,
            kind,
            detail,
        }))
    }

    /// Returns the value of a set-up register without bits that the target does not have.
    fn translate_setup(&self, register: &Register, value: u64) -> u64 {
        let (from, to) = (self.recorded.model.setup, self.target.setup);
        let without = |bits: u64, exists: bool| if exists { value } else { value & !bits };
        match register.name.as_str() {
            "SHADER_CONFIG" => without(TLS_HASH, to.hashes_thread_storage),
            "JM_CONFIG" => {
                let value = without(FORCED_COHERENCY, to.forces_coherency);
                if to.has_vertex_group_size {
                    value
                } else {
                    value & !VERTEX_GROUP_SIZE
                }
            }
            // With 0, the unit has its own limits.
            "L2_MMU_CONFIG" => without(ACCESS_LIMITS, from.has_wide_access_limits == to.has_wide_access_limits),
            _ => value,
        }
    }

    /// Returns the coherency protocol that is written or read: none, if the target does not offer the recorded one.
    fn translate_coherency(&mut self, write: bool, value: u64) -> u64 {
        if !write {
            return self.enabled_coherency.unwrap_or(value);
        }
        let offered = value < 32 && self.target.coherency_after_reset >> value & 1 != 0;
        *self
            .enabled_coherency
            .insert(if offered { value } else { NO_COHERENCY })
    }
}
