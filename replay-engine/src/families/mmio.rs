//! Devices without jobs, operated through their MMIO regions: the recorded accesses, with reads classified by the
//! register map.

mod bus_master;
mod compile;
mod dma;
mod verify;
mod virtio_features;

use super::replay_family::{DivergenceMeaning, ReplayFamily};
use crate::device::DeviceInfo;
use crate::plan::{CompileError, CompileOptions, Edits, PageSource, PlacedPlan, PlannedAccesses};
use crate::rules::{Reason, Refusal, VerificationReport, Work, refuse};
use replay_core::{Compared, Divergence};
use std::collections::HashMap;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::registers::{Register, RegisterMap};

/// The family.
pub(super) struct Mmio;

impl ReplayFamily for Mmio {
    /// A device on a bus takes plans of its windows.
    fn takes_recording(&self, recording: &Recording, target: &DeviceInfo) -> bool {
        target.hardware.is_some() || recording.hardware().is_some()
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
        Ok(PlacedPlan {
            compiled: compile::compile(recording, edits, target, map, options, progress)?,
            frames: HashMap::new(),
        })
    }

    fn has_plan(&self, plan: PlannedAccesses<'_>) -> bool {
        plan.mmio().is_some()
    }

    fn verify(
        &self,
        plan: PlannedAccesses<'_>,
        pages: &dyn PageSource,
        target: &DeviceInfo,
        map: &RegisterMap,
        work: &Work<'_>,
    ) -> Result<VerificationReport, Refusal> {
        let Some(mmio) = plan.mmio() else {
            let why = "it is not a plan of MMIO regions".to_owned();
            return refuse(0, "envelope", Reason::Calls { why });
        };
        let mut verified = VerificationReport::default();
        verify::check(plan, mmio, pages, target, map, work, &mut verified)?;
        Ok(verified)
    }

    /// Later actions of a bus master were proved for an idle device.
    fn meaning_of_divergence(
        &self,
        plan: PlannedAccesses<'_>,
        _register: Option<&Register>,
        divergence: &Divergence,
    ) -> DivergenceMeaning {
        match divergence.compared {
            Compared::Until(_) if plan.masters() => DivergenceMeaning::Stuck,
            _ => DivergenceMeaning::Difference,
        }
    }
}
