//! The table of GPU families, and the search for the family of a recording.
//!
//! A family is a folder or file of `families/` and one line of [`FAMILIES`]. The analyses ask it how submits and
//! completions appear among the accesses, how its jobs decode, and how its registers are named on the timeline. All
//! reads go through [`crate::memory::GpuMemory`], so they work on a recording, on a plan and inside a simulator.

mod adreno;
mod chain;
mod family;
pub mod mali_jm;
mod mmio;
mod shared_chains;
mod submit_tracker;
mod submits;
mod v3d;
mod work;

pub use chain::{ChainEnd, ChainJob, Dispatch, JobChain, JobWork, ShaderStage};
pub use family::{EventRelation, Family, JobForm, TableCommand};
pub use shared_chains::read_shared_chains;
pub use submits::{address_spaces, memory_at_submits};
pub use work::{
    InferredInterrupt, JobSpan, JobTracker, Mark, MarkKind, Phase, PhaseName, RegisterClass, ScannedEvents, TrackedWork,
};

use crate::recording::Recording;
use crate::registers::RegisterMap;

/// The families, one line each. The first that has a recording is its family, so a new one comes before those that
/// would take its recordings: Mali's has every recording with submits, and the last has every recording.
pub static FAMILIES: &[&dyn Family] = &[&adreno::Adreno, &v3d::V3d, &mali_jm::MaliJm, &mmio::Mmio];

/// Returns the family of a recording's device.
#[must_use]
pub fn find_family(recording: &Recording) -> &'static dyn Family {
    find_family_with(recording, RegisterMap::built_in_for(recording))
}

/// Returns the family of a recording's device, as [`find_family`] does, for a caller that has its register map.
#[must_use]
pub fn find_family_with(recording: &Recording, map: Option<&RegisterMap>) -> &'static dyn Family {
    let mut families = FAMILIES.iter().copied();
    families
        .find(|f| f.has_recording(recording, map))
        .unwrap_or(&mmio::Mmio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Identity;
    use std::collections::BTreeSet;

    #[test]
    fn recordings_have_the_family_of_their_register_map_or_identity() {
        let mut recording = Recording::default();
        let family = |r: &Recording| find_family(r).name();
        assert_eq!(family(&recording), "mmio");
        recording.metadata.identity.gpu_id = 0x6000_0000;
        assert_eq!(family(&recording), "mali-jm");
        recording.metadata.identity.source = Identity::COMMAND_STREAMS.into();
        assert_eq!(family(&recording), "adreno");
    }

    #[test]
    fn families_have_different_names() {
        let names: BTreeSet<&str> = FAMILIES.iter().map(|f| f.name()).collect();
        assert_eq!(names.len(), FAMILIES.len());
    }
}
