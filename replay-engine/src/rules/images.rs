//! Rule 2 for page images: each exists and has its digest.

use super::reason::{Reason, Refusal, refuse};
use super::work::{self, Work};
use crate::plan::{PageSource, PlannedAccesses};
use std::collections::BTreeSet;
use trace_core::recording::Digest;

pub(crate) fn hex(digest: &Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}

/// Checks that images exist, match their digests, and belong to used frames.
pub(crate) fn check_images(plan: PlannedAccesses<'_>, pages: &dyn PageSource, work: &Work<'_>) -> Result<(), Refusal> {
    let first = plan.accesses.arena.base.frame();
    let end = first.saturating_add(plan.accesses.used_pages);
    let mut before = None;
    let mut hashed = BTreeSet::new();
    for p in &plan.accesses.pages {
        let place = || format!("page {:#x}", p.frame);
        let new = hashed.insert(p.digest);
        work.spend(if new { work::IMAGE } else { 1 })
            .or_else(|e| refuse(4, place(), e))?;
        if before.is_some_and(|b| b >= p.frame) {
            return refuse(2, place(), Reason::PagesUnsorted);
        }
        before = Some(p.frame);
        if p.frame < first || p.frame >= end {
            return refuse(2, place(), Reason::PageOutside { frame: p.frame });
        }
        if new {
            image(pages, &p.digest).or_else(|e| refuse(2, place(), e))?;
        }
    }
    for (number, digest) in plan.envelope.images.iter().enumerate() {
        let place = || format!("image {number}");
        let new = hashed.insert(*digest);
        work.spend(if new { work::IMAGE } else { 1 })
            .or_else(|e| refuse(4, place(), e))?;
        if new {
            image(pages, digest).or_else(|e| refuse(2, place(), e))?;
        }
    }
    Ok(())
}

/// Checks that an image exists and matches its digest.
fn image(pages: &dyn PageSource, digest: &Digest) -> Result<(), Reason> {
    let Some(image) = pages.page(digest) else {
        return Err(Reason::PageMissing { digest: hex(digest) });
    };
    if blake3::hash(image).as_bytes() != digest {
        return Err(Reason::PageDamaged { digest: hex(digest) });
    }
    Ok(())
}
