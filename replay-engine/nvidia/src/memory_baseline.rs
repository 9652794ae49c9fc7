//! The contents that a plan's memory has before its first work: zeros, and the plan's initial writes.

use crate::initial_writes::InitialWriteFinder;
use nvidia_client::steps::{PAGE_BYTES, Step, StepError, Steps};
use std::collections::BTreeMap;
use trace_core::recording::ZERO_PAGE;

const PAGE: u64 = PAGE_BYTES as u64;

/// The page images of a plan.
pub trait PlanImageSource {
    /// Returns the image of a number, from 1 on, or `None` if there is none.
    fn image(&self, number: u32) -> Option<&[u8; PAGE_BYTES]>;
}

/// The content of a page.
enum BaselinePage<'p> {
    /// That of a page image.
    Image(&'p [u8; PAGE_BYTES]),
    /// That of one or more writes of parts.
    Parts(Box<[u8; PAGE_BYTES]>),
}

impl BaselinePage<'_> {
    fn bytes(&self) -> &[u8; PAGE_BYTES] {
        match self {
            Self::Image(image) => image,
            Self::Parts(bytes) => bytes,
        }
    }
}

/// The memory of a plan before its first work.
pub(crate) struct MemoryBaseline<'p> {
    /// Mapped ranges in the order of their steps: GPU address and bytes.
    pub ranges: Vec<(u64, u64)>,
    /// Pages that are not zero, by GPU address.
    pages: BTreeMap<u64, BaselinePage<'p>>,
    /// Whether a step is an initial write, by number of the step.
    initial: Vec<bool>,
}

impl<'p> MemoryBaseline<'p> {
    /// Follows the steps of a plan.
    ///
    /// # Errors
    /// If the bytes are not steps.
    pub fn from_steps<S: PlanImageSource>(
        body: &'p [u8],
        compute_class: u16,
        images: &'p S,
    ) -> Result<Self, StepError> {
        let mut baseline = Self {
            ranges: Vec::new(),
            pages: BTreeMap::new(),
            initial: Vec::new(),
        };
        let mut finder = InitialWriteFinder::new(compute_class);
        for step in Steps::new(body) {
            let step = step?;
            let is_initial = finder.is_initial(&step, |number| images.image(number));
            baseline.initial.push(is_initial);
            match step {
                Step::Map { va, bytes, .. } => baseline.ranges.push((va, bytes)),
                Step::Write { va, data } if is_initial => baseline.write(va, data),
                Step::WritePages { va, bytes, pages } if is_initial => {
                    baseline.write_images(va, bytes, pages, images);
                }
                _ => {}
            }
        }
        Ok(baseline)
    }

    /// Whether the step of this number is an initial write.
    pub fn is_initial(&self, step: usize) -> bool {
        self.initial.get(step).copied().unwrap_or(false)
    }

    /// Returns the content of the page at an address, or `None` if it is zero.
    pub fn page(&self, va: u64) -> Option<&[u8; PAGE_BYTES]> {
        self.pages.get(&va).map(BaselinePage::bytes)
    }

    /// Iterates over the pages of a range that are not zero, in address order: address and content.
    pub fn pages_in(&self, va: u64, bytes: u64) -> impl Iterator<Item = (u64, &[u8; PAGE_BYTES])> {
        let pages = self.pages.range(va..va.saturating_add(bytes));
        pages.map(|(va, page)| (*va, page.bytes()))
    }

    fn write(&mut self, va: u64, data: &[u8]) {
        let mut at = va;
        let mut rest = data;
        while !rest.is_empty() {
            let from = (at % PAGE) as usize;
            let (part, behind) = rest.split_at(rest.len().min(PAGE_BYTES.saturating_sub(from)));
            self.write_part(at, part);
            at = at.wrapping_add(part.len() as u64);
            rest = behind;
        }
    }

    /// Writes bytes of one page.
    fn write_part(&mut self, va: u64, part: &[u8]) {
        let from = (va % PAGE) as usize;
        let page = self.pages.entry(va.wrapping_sub(from as u64));
        let page = page.or_insert_with(|| BaselinePage::Parts(Box::new(ZERO_PAGE)));
        if let BaselinePage::Image(image) = page {
            *page = BaselinePage::Parts(Box::new(**image));
        }
        if let BaselinePage::Parts(bytes) = page
            && let Some(to) = bytes.get_mut(from..from.saturating_add(part.len()))
        {
            to.copy_from_slice(part);
        }
    }

    fn write_images<S: PlanImageSource>(&mut self, va: u64, bytes: u64, pages: &[[u8; 4]], images: &'p S) {
        let mut at = va;
        let mut left = bytes;
        for number in pages {
            let number = u32::from_le_bytes(*number);
            let image = match number {
                0 => Some(&ZERO_PAGE),
                number => images.image(number),
            };
            let from = (at % PAGE) as usize;
            let now = left.min(PAGE.saturating_sub(from as u64));
            match image {
                Some(_) if now == PAGE && number == 0 => {
                    self.pages.remove(&at);
                }
                Some(image) if now == PAGE => {
                    self.pages.insert(at, BaselinePage::Image(image));
                }
                Some(image) => {
                    let part = image.get(from..from.saturating_add(now as usize));
                    self.write_part(at, part.unwrap_or_default());
                }
                // The first run ends at a missing image.
                None => {}
            }
            at = at.wrapping_add(now);
            left = left.saturating_sub(now);
        }
    }
}
