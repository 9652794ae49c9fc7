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
    check_new_digests(&plan.envelope.images, pages, work, hashed)
}

/// Checks that the images of a list exist and match their digests.
pub(crate) fn check_image_digests(images: &[Digest], pages: &dyn PageSource, work: &Work<'_>) -> Result<(), Refusal> {
    check_new_digests(images, pages, work, BTreeSet::new())
}

/// Checks the images of a list that are not among those that were checked before.
fn check_new_digests(
    images: &[Digest],
    pages: &dyn PageSource,
    work: &Work<'_>,
    mut hashed: BTreeSet<Digest>,
) -> Result<(), Refusal> {
    if pages.is_checked() {
        // Finding one is all that is left to do, and one that is named twice is found twice.
        work.spend(images.len() as u64).or_else(|e| refuse(4, "images", e))?;
        let mut numbered = images.iter().enumerate();
        return match numbered.find(|(_, digest)| pages.page(digest).is_none()) {
            Some((number, digest)) => {
                let digest = hex(digest);
                refuse(2, format!("image {number}"), Reason::PageMissing { digest })
            }
            None => Ok(()),
        };
    }
    for (number, digest) in images.iter().enumerate() {
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
    if !pages.is_checked() && blake3::hash(image).as_bytes() != digest {
        return Err(Reason::PageDamaged { digest: hex(digest) });
    }
    Ok(())
}
