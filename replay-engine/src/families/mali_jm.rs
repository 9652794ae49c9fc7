//! Mali GPUs with a job manager: plans with page tables and job chains, proved address by address.

mod activity;
mod body;
mod compile;
mod events;
mod fault;
mod other_model;
mod own_reset;
mod prepass;
mod run;
mod table_formats;
mod tables;
mod tree_gpu;
mod unwritten;
mod verify;

use super::replay_family::{
    AccessMeaning, DivergenceMeaning, FaultState, RegisterReader, ReplayFamily, SpaceRegisters,
};
use crate::device::DeviceInfo;
use crate::device::platform::TreeGpu;
use crate::plan::{CompileError, CompileOptions, Edits, PageSource, PlacedPlan, PlannedAccesses};
use crate::rules::{Refusal, VerificationReport, Work};
use replay_core::Divergence;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::registers::{Register, RegisterMap};

/// The family.
pub(super) struct MaliJm;

impl ReplayFamily for MaliJm {
    fn takes_recording(&self, _recording: &Recording, _target: &DeviceInfo) -> bool {
        true
    }

    fn compile(
        &self,
        recording: &Recording,
        edits: &Edits,
        target: &DeviceInfo,
        map: &RegisterMap,
        options: &CompileOptions,
        progress: &Progress,
    ) -> Result<PlacedPlan, CompileError> {
        compile::compile(recording, edits, target, map, options, progress)
    }

    fn has_plan(&self, _plan: PlannedAccesses<'_>) -> bool {
        true
    }

    fn verify(
        &self,
        plan: PlannedAccesses<'_>,
        pages: &dyn PageSource,
        target: &DeviceInfo,
        map: &RegisterMap,
        work: &Work<'_>,
    ) -> Result<VerificationReport, Refusal> {
        verify::check(plan, pages, target, map, work)
    }

    fn find_reset_need(&self, plan: PlannedAccesses<'_>, map: &RegisterMap) -> Option<String> {
        own_reset::find_reset_need(plan, map)
    }

    fn tree_gpu(&self) -> Option<&'static dyn TreeGpu> {
        Some(&tree_gpu::MaliTreeGpu)
    }

    fn meaning_of(&self, register: &Register, is_write: bool, value: u64) -> AccessMeaning {
        run::meaning_of(register, is_write, value)
    }

    fn job_failed(&self, status: u64, slot: u8) -> Option<bool> {
        run::job_failed(status, slot)
    }

    fn set_up_space(&self, space: &mut SpaceRegisters, register: &Register, value: u64) {
        run::set_up_space(space, register, value);
    }

    fn meaning_of_divergence(
        &self,
        _plan: PlannedAccesses<'_>,
        register: Option<&Register>,
        divergence: &Divergence,
    ) -> DivergenceMeaning {
        run::meaning_of_divergence(register, divergence)
    }

    fn read_fault(
        &self,
        plan: PlannedAccesses<'_>,
        map: &RegisterMap,
        slot: Option<u8>,
        read: &mut RegisterReader<'_>,
    ) -> FaultState {
        fault::read_fault(plan, map, slot, read)
    }
}
