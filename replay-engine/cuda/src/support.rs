//! What clients and servers of the engine need for API traces of CUDA.

use super::outcome::build_recording;
use super::verify::{check_plan, check_request, refuse_calls};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{PageSource, Plan, PlannedCalls};
use replay_engine::run::Outcome;
use replay_engine::target::{ApiSupport, TargetRequest};
use replay_engine::verify::{Refusal, VerificationReport, Verified, verify_calls};
use trace_core::Recording;

/// The API of CUDA.
#[derive(Clone, Copy, Debug, Default)]
pub struct CudaSupport;

impl ApiSupport for CudaSupport {
    fn verify(&self, plan: PlannedCalls<'_>, target: &DeviceInfo) -> Result<VerificationReport, Refusal> {
        check_plan(plan, target)
    }

    fn check_request(&self, plan: PlannedCalls<'_>, request: &TargetRequest) -> Result<(), Refusal> {
        check_request(plan, request)
    }

    fn build_recording(
        &self,
        outcome: &Outcome,
        plan: PlannedCalls<'_>,
        pages: &dyn PageSource,
        info: &DeviceInfo,
    ) -> Result<Recording, String> {
        build_recording(outcome, plan, pages, info).map_err(|e| e.to_string())
    }
}

/// Proves that an API-trace plan may be replayed on this device.
///
/// # Errors
/// The first rule that the plan breaks.
pub fn verify(plan: &Plan, target: &DeviceInfo) -> Result<Verified, Refusal> {
    let Some(plan) = plan.planned_calls() else {
        return refuse_calls(
            0,
            "envelope",
            format!(
                "it is a plan of register accesses, and {} runs driver calls",
                target.name
            ),
        );
    };
    let verified = verify_calls(&CudaSupport, plan, target)?;
    check_request(plan, &TargetRequest::Replay { repeat: 1 })?;
    Ok(verified)
}
