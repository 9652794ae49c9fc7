//! Memory as a plan sets it up: the contents of the arena before the run, and the GPU's view of it.

use super::{AccessPlan, PageSource, PlanPage, PlanSpace};
use crate::device::Arena;
use replay_core::{Action, Actions};
use std::collections::HashMap;
use trace_core::memory::GpuMemory;
use trace_core::mmu::{PhysMemory, translate};
use trace_core::recording::{Digest, Page, ZERO_PAGE};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

/// A page image that a plan refers to is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingPage {
    /// The frame that it belongs to.
    pub frame: u64,
    /// Its digest.
    pub digest: Digest,
}

/// Memory of a plan, by frames of its arena.
pub trait PlanPages {
    /// Returns the image in a used frame, or `None` outside.
    fn page(&self, frame: u64) -> Option<&Page>;
}

/// The used frames of the arena. Frames that the plan does not list read as zero.
#[derive(Clone)]
pub struct PlanMemory<'a> {
    first: u64,
    end: u64,
    listed: HashMap<u64, &'a Page>,
    changed: HashMap<u64, Box<Page>>,
}

impl<'a> PlanMemory<'a> {
    /// Returns the memory of a plan.
    ///
    /// # Errors
    /// The first missing page image.
    pub fn from_plan(plan: &AccessPlan, pages: &'a dyn PageSource) -> Result<Self, MissingPage> {
        Self::new(plan.arena, plan.used_pages, &plan.pages, pages)
    }

    /// Returns the memory of a plan under construction.
    ///
    /// # Errors
    /// The first missing page image.
    pub fn new(
        arena: Arena,
        used_pages: u64,
        list: &[PlanPage],
        pages: &'a dyn PageSource,
    ) -> Result<Self, MissingPage> {
        let first = arena.base.frame();
        let listed = list
            .iter()
            .map(|p| {
                let missing = MissingPage {
                    frame: p.frame,
                    digest: p.digest,
                };
                pages.page(&p.digest).map(|image| (p.frame, image)).ok_or(missing)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            first,
            end: first.saturating_add(used_pages),
            listed,
            changed: HashMap::new(),
        })
    }

    /// Returns the image in a used frame, or `None` outside.
    #[must_use]
    pub fn page(&self, frame: u64) -> Option<&Page> {
        if frame < self.first || frame >= self.end {
            return None;
        }
        if let Some(p) = self.changed.get(&frame) {
            return Some(p);
        }
        Some(self.listed.get(&frame).copied().unwrap_or(&ZERO_PAGE))
    }

    /// Writes the low `width` bytes of a value. Returns `false` outside the used frames, or across a page. A frame is
    /// copied only if its contents change: see [`PlanMemory::changed_frames`].
    pub fn write(&mut self, at: PhysAddr, width: u8, value: u64) -> bool {
        let Some(old) = self.page(at.frame()) else {
            return false;
        };
        let range = at.in_page()..at.in_page() + usize::from(width);
        let bytes = value.to_le_bytes();
        let (Some(now), Some(new)) = (old.get(range.clone()), bytes.get(..usize::from(width))) else {
            return false;
        };
        if now == new {
            return true;
        }
        let old = *old;
        let page = self.changed.entry(at.frame()).or_insert_with(|| Box::new(old));
        if let Some(to) = page.get_mut(range) {
            to.copy_from_slice(new);
        }
        true
    }

    /// Returns the number of frames whose contents writes have changed; each has a copy.
    #[must_use]
    pub fn changed_frames(&self) -> usize {
        self.changed.len()
    }

    /// Copies a part of a page image to the same offset of a frame. Returns `false` outside the used frames, or across
    /// a page. A whole page is borrowed and not copied.
    pub fn copy(&mut self, at: PhysAddr, bytes: u32, image: &'a Page) -> bool {
        let range = at.in_page()..at.in_page().saturating_add(bytes as usize);
        let (Some(old), Some(from)) = (self.page(at.frame()), image.get(range.clone())) else {
            return false;
        };
        if from.len() == PAGE_SIZE {
            self.changed.remove(&at.frame());
            self.listed.insert(at.frame(), image);
            return true;
        }
        let old = *old;
        let page = self.changed.entry(at.frame()).or_insert_with(|| Box::new(old));
        if let Some(to) = page.get_mut(range) {
            to.copy_from_slice(from);
        }
        true
    }

    /// Applies the CPU memory changes of an action, with the plan's images. Returns `false` if it cannot. Returns
    /// `true` for actions without memory changes.
    pub fn apply(&mut self, action: &Action, images: &[&'a Page]) -> bool {
        let base = PhysAddr::new(self.first.saturating_mul(PAGE_SIZE as u64));
        match *action {
            Action::Put {
                offset, width, value, ..
            } => base.checked_add(offset).is_some_and(|at| self.write(at, width, value)),
            Action::Copy {
                offset, bytes, image, ..
            } => match (base.checked_add(offset), images.get(image as usize)) {
                (Some(at), Some(image)) => self.copy(at, bytes, image),
                _ => false,
            },
            _ => true,
        }
    }

    /// Applies the CPU memory changes of the first `count` actions of a body, with the plan's images.
    pub fn apply_first(&mut self, body: &[u8], count: u64, images: &[&'a Page]) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        for action in Actions::new(body).map_while(Result::ok).take(count) {
            self.apply(&action, images);
        }
    }

    /// Returns the GPU's view through one translation.
    #[must_use]
    pub fn gpu(&self, space: &PlanSpace) -> PlanGpuMemory<'_, Self> {
        PlanGpuMemory::new(self, space)
    }
}

impl PlanPages for PlanMemory<'_> {
    fn page(&self, frame: u64) -> Option<&Page> {
        PlanMemory::page(self, frame)
    }
}

impl PhysMemory for PlanMemory<'_> {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let bytes = self.page(at.frame())?.get(at.in_page()..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.page(frame)
    }
}

/// Memory of a plan, for the page table walker.
struct TableReader<'a, M>(&'a M);

impl<M: PlanPages> PhysMemory for TableReader<'_, M> {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let bytes = self.0.page(at.frame())?.get(at.in_page()..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.0.page(frame)
    }
}

/// A plan's memory through one of its translations.
pub struct PlanGpuMemory<'a, M> {
    memory: &'a M,
    space: PlanSpace,
}

impl<'a, M: PlanPages> PlanGpuMemory<'a, M> {
    /// Creates a view of memory through a translation.
    #[must_use]
    pub fn new(memory: &'a M, space: &PlanSpace) -> Self {
        Self { memory, space: *space }
    }

    /// Returns the physical address, or `None` if it is not mapped or outside the used frames.
    #[must_use]
    pub fn physical(&self, va: GpuVa) -> Option<PhysAddr> {
        let leaf = translate(self.space.format, self.space.root, va, &TableReader(self.memory)).ok()?;
        leaf.target(va).filter(|pa| self.memory.page(pa.frame()).is_some())
    }
}

impl<M: PlanPages> GpuMemory for PlanGpuMemory<'_, M> {
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool {
        let mut at = va;
        let mut rest = out;
        while !rest.is_empty() {
            let part = rest.len().min(PAGE_SIZE - at.in_page());
            let (now, later) = rest.split_at_mut(part);
            let from = self
                .physical(at)
                .and_then(|pa| self.memory.page(pa.frame())?.get(pa.in_page()..)?.get(..part));
            let Some(from) = from else { return false };
            now.copy_from_slice(from);
            rest = later;
            match at.checked_add(part as u64) {
                Some(next) => at = next,
                None => return rest.is_empty(),
            }
        }
        true
    }
}
