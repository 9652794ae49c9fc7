//! Pages that a device changed in a run: what the end of the run has and the CPU did not write.

use crate::plan::{MissingPage, PlacedPlan, PlanMemory};
use std::collections::BTreeSet;
use std::sync::Arc;
use trace_core::recording::{Digest, Memory, Page, ZERO_PAGE};

/// A data page at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPage {
    /// Physical frame number (address / 4096) in the recording that was compiled.
    pub frame: u64,
    /// Its content.
    pub page: Arc<Page>,
}

/// Why the pages that a device changed are unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrittenPagesError {
    /// The plan has no memory of its own: calls, submissions, or a device with windows alone.
    #[error("the plan has no pages in the device's memory")]
    NoMemory,
    /// A page image of the plan is missing.
    #[error("the page image of frame {frame:#x} of the plan is missing")]
    Page {
        /// The frame of the plan's memory.
        frame: u64,
    },
    /// A page image for a change of memory is missing.
    #[error("the page image {number} of the plan is missing")]
    Image {
        /// Its number.
        number: usize,
        /// Its digest.
        digest: Digest,
    },
}

impl From<MissingPage> for WrittenPagesError {
    fn from(missing: MissingPage) -> Self {
        Self::Page { frame: missing.frame }
    }
}

/// A run whose changes of memory are wanted.
#[derive(Clone, Copy, Debug)]
pub struct DeviceWrites<'a> {
    /// The plan that ran.
    pub plan: &'a PlacedPlan,
    /// Number of its actions that ran; `u64::MAX` for all.
    pub actions: u64,
    /// Memory of the recording of its outcome.
    pub memory: &'a Memory,
}

impl DeviceWrites<'_> {
    /// Returns the data pages that differ from what the CPU left in them, and those of the recorded frames in `also`,
    /// ascending by frame.
    ///
    /// # Errors
    /// If the plan has no memory, or an image of it is missing.
    pub fn pages(&self, also: &BTreeSet<u64>) -> Result<Vec<WrittenPage>, WrittenPagesError> {
        let compiled = &self.plan.compiled;
        let Some(accesses) = compiled.plan.accesses().filter(|_| !self.plan.frames.is_empty()) else {
            return Err(WrittenPagesError::NoMemory);
        };
        let mut memory = PlanMemory::from_plan(accesses, &compiled.pages)?;
        let images = compiled.plan.change_images(&compiled.pages);
        let images = images.map_err(|(number, digest)| WrittenPagesError::Image { number, digest })?;
        memory.apply_first(&accesses.body, self.actions, &images);
        let end = self.memory.last();
        let mut pages = Vec::new();
        for (in_arena, recorded) in &self.plan.frames {
            // The recording of an outcome has no entry for a page of zeros.
            let now = end.frame(*in_arena).unwrap_or(&ZERO_PAGE);
            if also.contains(recorded) || memory.page(*in_arena) != Some(now) {
                pages.push(WrittenPage {
                    frame: *recorded,
                    page: Arc::new(*now),
                });
            }
        }
        pages.sort_by_key(|p| p.frame);
        Ok(pages)
    }
}
