//! The six rules that a plan must keep before it may run. Client and agent call the same function.

pub use crate::rules::{
    MAX_BUDGETS, MAX_CHANGED, MAX_EVENTS, MAX_IMAGES, MAX_OUTPUT_BYTES, MAX_OUTPUTS, MAX_SPACES, MAX_STEPS, Reason,
    Refusal, VerificationReport, Work, budget_exceeded, refuse,
};

use crate::channel;
use crate::device::{DeviceInfo, DeviceInterface};
use crate::families::find_family_of_plan;
use crate::plan::{Compiled, ComputedImages, PLAN_VERSION, PageSource, Plan, PlannedAccesses, PlannedCalls};
use crate::rules::{check_allowed_ranges, check_envelope};
use crate::target::ApiSupport;
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;

/// The proof that a plan keeps the rules of its kind on a device. Only the functions of this module create it, after
/// every check has passed: it has no default and is never read from a connection or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    report: VerificationReport,
}

impl Verified {
    /// Returns what the verification proved, and what it could not.
    #[must_use]
    pub fn report(&self) -> &VerificationReport {
        &self.report
    }

    /// Returns the report alone.
    #[must_use]
    pub fn into_report(self) -> VerificationReport {
        self.report
    }
}

/// Proves that a plan of an API trace keeps the rules of its API on this device.
///
/// # Errors
/// The first rule that the plan breaks.
pub fn verify_calls(api: &dyn ApiSupport, plan: PlannedCalls<'_>, target: &DeviceInfo) -> Result<Verified, Refusal> {
    let report = api.verify(plan, target)?;
    Ok(Verified { report })
}

/// Proves that a plan keeps the six rules on this device. Client and agent call the same function.
///
/// # Errors
/// The first rule that the plan breaks.
pub fn verify(plan: &Plan, pages: &dyn PageSource, target: &DeviceInfo) -> Result<Verified, Refusal> {
    verify_within(plan, pages, target, &Work::new(MAX_STEPS, &Progress::new()))
}

/// Verifies like [`verify`], with a separate work limit and cancellation: the result is then [`Reason::GivenUp`].
///
/// # Errors
/// Same as [`verify`].
pub fn verify_within(
    plan: &Plan,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    work: &Work<'_>,
) -> Result<Verified, Refusal> {
    if let Some(planned) = plan.planned_submissions() {
        return channel::check_plan(planned, pages, target, work).map(|report| Verified { report });
    }
    let plan = accesses(plan, target)?;
    let Some(map) = RegisterMap::by_name(&plan.accesses.register_map) else {
        return refuse(0, "envelope", other_map(plan, target));
    };
    judge(plan, pages, target, map, work)
}

/// Verifies like [`verify_within`]. The images of a channel plan are not hashed again: this process computed their digests,
/// and the agent compares what it gets.
///
/// # Errors
/// Same as [`verify`].
pub fn verify_compiled(compiled: &Compiled, target: &DeviceInfo, work: &Work<'_>) -> Result<Verified, Refusal> {
    match compiled.plan.channel() {
        Some(_) => verify_within(&compiled.plan, &ComputedImages(&compiled.pages), target, work),
        None => verify_within(&compiled.plan, &compiled.pages, target, work),
    }
}

/// Verifies like [`verify`], with the caller's register map instead of the embedded one that plan and target name.
///
/// # Errors
/// Same as [`verify`].
pub fn verify_with(
    plan: &Plan,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    map: &RegisterMap,
) -> Result<Verified, Refusal> {
    judge(
        accesses(plan, target)?,
        pages,
        target,
        map,
        &Work::new(MAX_STEPS, &Progress::new()),
    )
}

/// Returns why a verified plan of register accesses needs a reset of an idle device before it; `None` if it depends on
/// nothing that an earlier plan left in the device. Client and agent call the same function.
#[must_use]
pub fn find_reset_need(plan: &Plan) -> Option<String> {
    let Some(planned) = plan.planned_accesses() else {
        return Some("it is no plan of register accesses".to_owned());
    };
    match RegisterMap::by_name(&planned.accesses.register_map) {
        Some(map) => find_family_of_plan(planned).find_reset_need(planned, map),
        None => Some("its register map is unknown".to_owned()),
    }
}

/// Returns the accesses of a plan for a device that takes them.
fn accesses<'p>(plan: &'p Plan, target: &DeviceInfo) -> Result<PlannedAccesses<'p>, Refusal> {
    let of = match plan.planned_accesses() {
        Some(accesses) if target.interface == DeviceInterface::Registers => return Ok(accesses),
        Some(_) => "register accesses",
        None => "driver calls",
    };
    let why = format!(
        "it is a plan of {of}, and {} runs {}",
        target.name,
        target.taken_plans()
    );
    refuse(0, "envelope", Reason::Calls { why })
}

fn judge(
    plan: PlannedAccesses<'_>,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    map: &RegisterMap,
    work: &Work<'_>,
) -> Result<Verified, Refusal> {
    let result = check(plan, pages, target, map, work);
    // Cancellation is never the plan's fault, wherever it is noticed.
    result.map(|report| Verified { report }).map_err(|r| match r.reason {
        Reason::GivenUp => Refusal { rule: 0, ..r },
        Reason::Budget { .. } => Refusal { rule: 4, ..r },
        _ => r,
    })
}

fn check(
    plan: PlannedAccesses<'_>,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    map: &RegisterMap,
    work: &Work<'_>,
) -> Result<VerificationReport, Refusal> {
    fits(plan, target, map)?;
    check_envelope(plan)?;
    check_allowed_ranges(plan, map)?;
    find_family_of_plan(plan).verify(plan, pages, target, map, work)
}

fn other_map(plan: PlannedAccesses<'_>, target: &DeviceInfo) -> Reason {
    Reason::OtherMap {
        plan: plan.accesses.register_map.clone(),
        device: target.register_map.clone(),
    }
}

/// Checks that the plan has this format and is for this device.
fn fits(plan: PlannedAccesses<'_>, target: &DeviceInfo, map: &RegisterMap) -> Result<(), Refusal> {
    if plan.envelope.version != PLAN_VERSION {
        return refuse(
            0,
            "envelope",
            Reason::Version {
                found: plan.envelope.version,
            },
        );
    }
    if plan.accesses.register_map != target.register_map {
        return refuse(0, "envelope", other_map(plan, target));
    }
    let out_of_reach = plan.accesses.arena.base.in_page() != 0 || plan.accesses.arena.end().get() >> 48 != 0;
    if plan.accesses.arena != target.arena || out_of_reach {
        return refuse(0, "envelope", Reason::OtherArena);
    }
    if plan.accesses.gpu_id != 0 && !map.is_same_product(plan.accesses.gpu_id, target.gpu_id) {
        let name = |id| map.gpu_name(id).unwrap_or("unknown").to_owned();
        return refuse(
            0,
            "envelope",
            Reason::OtherGpu {
                plan: plan.accesses.gpu_id,
                plan_name: name(plan.accesses.gpu_id),
                device: target.gpu_id,
                device_name: name(target.gpu_id),
            },
        );
    }
    Ok(())
}
