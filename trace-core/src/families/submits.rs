//! The address space and the memory of each submit.

use super::family::JobForm;
use super::find_family_with;
use crate::memory::GpuMemoryView;
use crate::recording::Recording;
use crate::registers::RegisterMap;

/// Returns, for each submit (events in ascending order), the index of its address space in the recording's list. The
/// entry is `None` if the recording holds no such space, or the event is not a submit. A submit without registers
/// carries its space itself.
#[must_use]
pub fn address_spaces(recording: &Recording, map: &RegisterMap, submits: &[u64]) -> Vec<Option<u32>> {
    find_family_with(recording, Some(map)).address_spaces(recording, map, submits)
}

/// Returns, for each submit (events in ascending order), the GPU memory at that submit: through its own address
/// space, with the page tables and contents of the snapshot in effect. The entry is `None` as in [`address_spaces`],
/// and for jobs that are not chains of descriptors.
#[must_use]
pub fn memory_at_submits<'r>(
    recording: &'r Recording,
    map: &RegisterMap,
    submits: &[u64],
) -> Vec<Option<GpuMemoryView<'r>>> {
    let family = find_family_with(recording, Some(map));
    // Data that a command stream reads as descriptors is not one.
    if family.job_form() != JobForm::DescriptorChains {
        return submits.iter().map(|_| None).collect();
    }
    let spaces = family.address_spaces(recording, map, submits);
    let view = |(space, event): (Option<u32>, &u64)| {
        let space = recording.metadata.address_spaces.get(space? as usize)?;
        Some(GpuMemoryView::new(recording.memory.at(*event), space))
    };
    spaces.into_iter().zip(submits).map(view).collect()
}
