//! The table of GPU families that can be replayed: how each compiles a recording, which rules its plans keep, what a run
//! observes.

mod mali_jm;
mod mmio;
mod replay_family;

pub use replay_family::FaultRegister;
pub(crate) use replay_family::{AccessMeaning, DivergenceMeaning, ReplayFamily, SpaceRegisters};

use crate::device::DeviceInfo;
use crate::device::platform::{TreeGpu, TreeGpus};
use crate::plan::PlannedAccesses;
use trace_core::Recording;

/// The families, one line each. The first that takes a recording or has a plan is its family, so a new one comes before
/// those that would take its recordings: `mmio` takes those of every bus device, and the last takes all.
static FAMILIES: &[&dyn ReplayFamily] = &[&mmio::Mmio, &mali_jm::MaliJm];

/// Returns the family that compiles a recording for a target.
pub(crate) fn find_family(recording: &Recording, target: &DeviceInfo) -> &'static dyn ReplayFamily {
    let mut families = FAMILIES.iter().copied();
    families
        .find(|f| f.takes_recording(recording, target))
        .unwrap_or(&mali_jm::MaliJm)
}

/// Returns the family of a plan.
pub(crate) fn find_family_of_plan(plan: PlannedAccesses<'_>) -> &'static dyn ReplayFamily {
    let mut families = FAMILIES.iter().copied();
    families.find(|f| f.has_plan(plan)).unwrap_or(&mali_jm::MaliJm)
}

/// Returns the GPUs of all families in device trees, for [`crate::device::platform`].
#[must_use]
pub fn tree_gpus() -> TreeGpus {
    TreeGpus(find_tree_gpu)
}

/// Returns the GPUs that one of a device's compatible strings names, or `None` if it is another device.
fn find_tree_gpu(compatible: &[String]) -> Option<&'static dyn TreeGpu> {
    let mut gpus = FAMILIES.iter().filter_map(|f| f.tree_gpu());
    gpus.find(|g| compatible.iter().any(|c| g.is_compatible(c)))
}
