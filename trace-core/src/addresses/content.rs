//! Shannon entropy of the bytes of a page.

use super::{FrameValue, MappedRuns};
use crate::progress::{Cancelled, Progress};
use crate::recording::{MemoryView, Page, PageId, PageStore};
use rayon::prelude::*;

/// The value for 8 bits per byte; 0 stands for 0 bits.
pub const MAX_ENTROPY: u8 = 255;

/// Returns the entropy of a page in bits per byte, from the frequencies of its byte values. It is 0 if all bytes are
/// equal, and 8 if all 256 values are equally frequent.
#[must_use]
pub fn page_entropy(page: &Page) -> f32 {
    // Four independent counts: a repeated byte does not wait for its own previous increment.
    let mut counts = [[0u16; 256]; 4];
    for four in page.as_chunks::<4>().0 {
        for (count, byte) in counts.iter_mut().zip(four) {
            if let Some(c) = count.get_mut(usize::from(*byte)) {
                *c += 1;
            }
        }
    }
    let all = page.len() as f32;
    let [a, b, c, d] = &counts;
    let each = a.iter().zip(b).zip(c).zip(d).map(|(((a, b), c), d)| a + b + c + d);
    let sum: f32 = each
        .filter(|n| *n > 0)
        .map(|n| f32::from(n) * f32::from(n).log2())
        .sum();
    (all.log2() - sum / all).clamp(0.0, 8.0)
}

/// The entropy of every page image of a recording.
#[derive(Clone, Debug, Default)]
pub struct Entropies {
    /// Entropy of the image with id `i + 1`, in steps of 8/255 bits.
    of: Vec<u8>,
}

impl Entropies {
    /// Computes the entropy of every image.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub fn new(pages: &PageStore, progress: &Progress) -> Result<Self, Cancelled> {
        const AT_ONCE: usize = 1 << 8;
        let count = pages.len();
        progress.set_total(count as u64);
        let mut of = vec![0u8; count];
        of.par_chunks_mut(AT_ONCE).enumerate().try_for_each(|(n, part)| {
            for (i, e) in part.iter_mut().enumerate() {
                let id = u32::try_from(n * AT_ONCE + i + 1).unwrap_or(u32::MAX);
                if let Some(p) = pages.page(PageId(id)) {
                    *e = (page_entropy(p) / 8.0 * f32::from(MAX_ENTROPY)).round() as u8;
                }
            }
            progress.advance(part.len() as u64)
        })?;
        Ok(Self { of })
    }

    /// Returns the entropy of one image in steps of 8/255 bits per byte, or `None` for an id that the recording does
    /// not have.
    #[must_use]
    pub fn page(&self, id: PageId) -> Option<u8> {
        match id.0.checked_sub(1) {
            None => Some(0),
            Some(i) => self.of.get(i as usize).copied(),
        }
    }

    /// Returns the entropies of all frames with contents, by ascending frame; neighbours of equal entropy are merged.
    /// The flag is `false` if pieces are missing: at most [`MappedRuns::MAX_RUNS`] are returned.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub fn frames(&self, view: &MemoryView<'_>, progress: &Progress) -> Result<(Vec<FrameValue>, bool), Cancelled> {
        /// Maximum number of frames read one by one: 64 GiB. A file can hold one image in any number of frames.
        const MAX_FRAMES: u64 = 1 << 24;
        let mut out: Vec<FrameValue> = Vec::new();
        let mut looked = 0u64;
        for run in view.runs() {
            let parts = if run.repeat { 1 } else { u64::from(run.count) };
            let wide = if run.repeat { u64::from(run.count) } else { 1 };
            for i in 0..parts {
                looked += 1;
                if looked.is_multiple_of(1 << 16) {
                    progress.check()?;
                }
                let first = run.first_frame.saturating_add(i);
                let Some(value) = run.page(first).and_then(|id| self.page(id)) else {
                    continue;
                };
                let (frames, value) = (first..first.saturating_add(wide), u64::from(value));
                let full = out.len() >= MappedRuns::MAX_RUNS || looked > MAX_FRAMES;
                match out.last_mut() {
                    Some(last) if last.value == value && last.frames.end == frames.start => {
                        last.frames.end = frames.end;
                    }
                    _ if full => return Ok((out, false)),
                    _ => out.push(FrameValue { frames, value }),
                }
            }
        }
        Ok((out, true))
    }
}
