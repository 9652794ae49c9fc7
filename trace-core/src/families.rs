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
mod nvidia;
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

use crate::mmu::{PageTableFormat, page_table_format};
use crate::recording::{MmuFormat, Recording};
use crate::registers::{Layout, RegisterMap};

/// The families, one line each. The first that has a recording is its family, so a new one comes before those that
/// would take its recordings: Mali's has every recording with submits, and the last has every recording.
pub static FAMILIES: &[&dyn Family] = &[
    &adreno::Adreno,
    &v3d::V3d,
    &nvidia::Nvidia,
    &mali_jm::MaliJm,
    &mmio::Mmio,
];

/// Returns the page-table formats of all families, each once.
#[must_use]
pub fn page_table_formats() -> Vec<&'static PageTableFormat> {
    let mut formats: Vec<&'static PageTableFormat> = Vec::new();
    for format in FAMILIES.iter().flat_map(|f| f.page_table_formats()) {
        if !formats.iter().any(|f| f.format == format.format) {
            formats.push(format);
        }
    }
    formats
}

/// Returns the layout of an entry of page tables, from the first family whose register map has it.
#[must_use]
pub fn find_entry_layout(format: MmuFormat) -> Option<&'static Layout> {
    let layout = page_table_format(format).entry_layout;
    FAMILIES.iter().find_map(|f| f.register_map()?.layout(layout))
}

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
    fn page_table_formats_have_a_family_and_a_line() {
        let formats = page_table_formats();
        assert_eq!(
            formats.iter().map(|f| f.name).collect::<Vec<_>>(),
            ["aarch64-4k", "mali-lpae"]
        );
        for format in formats {
            let line = page_table_format(format.format);
            assert_eq!((line.format, line.name), (format.format, format.name));
            assert_eq!(find_entry_layout(format.format).unwrap().name, format.entry_layout);
        }
    }

    #[test]
    fn families_have_different_names() {
        let names: BTreeSet<&str> = FAMILIES.iter().map(|f| f.name()).collect();
        assert_eq!(names.len(), FAMILIES.len());
    }
}
