//! Accesses with other values in the plan: those of another model, and those of another format of page tables.

use super::Translation;
use crate::families::mali_jm::other_model::SubmittedChain;
use crate::plan::{CompileError, RewriteKind};
use std::ops::Range;
use trace_core::families::mali_jm::{CONFIG_AS, Job, RESETS};
use trace_core::recording::Access;
use trace_core::registers::{Half, Register, Role};
use trace_core::{GpuVa, Recording};

/// Returns the allocated ranges of each address space.
pub(super) fn find_allocated_ranges(recording: &Recording) -> Vec<Vec<Range<GpuVa>>> {
    let mut ranges = vec![Vec::new(); recording.metadata.address_spaces.len()];
    for region in &recording.metadata.regions {
        if let Some(of) = ranges.get_mut(region.address_space as usize) {
            of.push(region.start..region.end);
        }
    }
    ranges
}

impl Translation<'_, '_> {
    /// Returns an access to a register with its value in the plan, and notes the rewrites.
    ///
    /// # Errors
    /// If the access has no equal on the target.
    pub(super) fn rewrite_access(&mut self, at: usize, r: &Register, mut a: Access) -> Result<Access, CompileError> {
        if let Some(models) = &mut self.models {
            match models.translate(at as u64, r, a.write, a.value) {
                Err(reason) => return Err(models.error(reason)),
                Ok(Some(change)) => {
                    a.value = change.value;
                    self.rewrite(change.kind, at, change.detail);
                }
                Ok(None) => {}
            }
        }
        if a.write && r.replay.role == Some(Role::GpuCommand) && RESETS.contains(&a.value) {
            self.formats.reset();
        }
        if let Some(value) = self.formats.translate(r, a.write, a.value) {
            let detail = format!("{} becomes {value:#x} instead of {:#x}", r.name, a.value);
            self.rewrite(RewriteKind::TableFormat, at, detail);
            a.value = value;
        }
        Ok(a)
    }

    /// Writes 0 to a root register where the recording disables the address space by its mode, and the format of the
    /// plan has no such mode. Returns whether it did.
    pub(super) fn clear_unmapped_root(&mut self, at: usize, r: &Register, a: Access) -> Result<bool, CompileError> {
        if !self.formats.is_unmapped_by_root(r) {
            return Ok(false);
        }
        if a.value != 0 {
            let detail = format!("{} becomes 0x0 instead of {:#x}: nothing is mapped", r.name, a.value);
            self.rewrite(RewriteKind::TableFormat, at, detail);
        }
        self.planned_roots.insert(a.offset, 0);
        self.plain_write(at, a.offset, a.width, 0)?;
        Ok(true)
    }

    /// Writes the mode of the plan's tables before an update that takes it into use.
    ///
    /// # Errors
    /// If the recording disables the address space by its mode after its root was written.
    pub(super) fn write_configuration(&mut self, at: usize, command: &Register) -> Result<(), CompileError> {
        let Some((_, to)) = self.formats.find_change(command) else {
            return Ok(());
        };
        let number = command.index.unwrap_or(0);
        let map = self.map;
        let of_space = |role: Role| map.registers_with_role(role).filter(|x| x.index == command.index);
        let planned = |r: &Register| self.planned_roots.get(&r.offset).copied().unwrap_or(0);
        let is_rooted = of_space(Role::Root).any(|r| planned(r) != 0);
        if is_rooted && of_space(Role::Root).any(|r| self.formats.is_unmapped_by_root(r)) {
            return Err(CompileError::SpaceFormat {
                event: at as u64,
                number,
                format: to.name(),
                why: "the recording disables it by its mode, after its root was written",
            });
        }
        let Some(value) = self.formats.find_configuration(command, u64::from(is_rooted)) else {
            return Ok(());
        };
        for r in of_space(Role::TransCfg) {
            let value = if matches!(r.pair, Some(Half::High { .. })) {
                0
            } else {
                value
            };
            let detail = format!("{} becomes {value:#x} before the update", r.name);
            self.rewrite(RewriteKind::TableFormat, at, detail);
            self.plain_write(at, r.offset, 4, value)?;
        }
        Ok(())
    }

    /// Checks that the target's model can run a chain.
    ///
    /// # Errors
    /// If it cannot.
    pub(super) fn check_for_model(
        &mut self,
        at: usize,
        slot: u8,
        config: u64,
        translation: usize,
        jobs: &[Job],
    ) -> Result<(), CompileError> {
        let (Some(models), Some(space)) = (&mut self.models, self.spaces.get(translation)) else {
            return Ok(());
        };
        let checked = models.check_chain(&SubmittedChain {
            event: at as u64,
            slot,
            space: (config & CONFIG_AS) as u8,
            jobs,
            memory: &self.memory.gpu(space),
            translation,
            ranges: self.ranges.get(translation).map_or(&[], Vec::as_slice),
        });
        checked.map_err(|reason| models.error(reason))
    }
}
