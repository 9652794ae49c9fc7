//! Takes a plan by digest: asks only for the pieces and page images that are not there, and checks each one.

use super::cache::Held;
use super::runner::Ready;
use super::session::{Quit, Session};
use crate::device::DeviceInfo;
use crate::plan::{PLAN_VERSION, Plan};
use crate::verify;
use crate::wire::Concern;
use crate::wire::message::{PagesReply, Run};
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use trace_core::encode::{self, MAX_RECORD};
use trace_core::recording::{Digest, Page, zero_digest};
use trace_core::{PAGE_SIZE, PhysAddr};

/// Most bytes of a plan's body.
pub(crate) const MAX_BODY: u64 = 256 << 20;

/// How a push ended, when the connection held.
pub(crate) enum Pushed {
    /// The plan may run.
    Ready(Box<Ready>, verify::Verified),
    /// It may not; the reply says why.
    No(PagesReply),
    /// The client gave it up.
    GivenUp,
}

/// Number of 4 KiB pieces of `bytes`.
pub(crate) fn pieces(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_SIZE as u64)
}

/// Folds rising indices into runs.
pub(crate) fn runs(indices: impl IntoIterator<Item = u32>) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for i in indices {
        match out.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(i) => *count += 1,
            _ => out.push((i, 1)),
        }
    }
    out
}

fn no(text: impl Into<String>) -> Result<Pushed, Quit> {
    Ok(Pushed::No(PagesReply::Unacceptable(text.into())))
}

impl Session {
    /// Answers an offer: fetches what is lacking, puts the plan together, checks it by the six rules.
    pub(super) fn push(
        &mut self,
        head_bytes: u64,
        body_bytes: u64,
        digests: &[Digest],
        target: &DeviceInfo,
    ) -> Result<Pushed, Quit> {
        if head_bytes > MAX_RECORD as u64 || body_bytes > MAX_BODY {
            return no(format!(
                "a plan of {head_bytes} + {body_bytes} bytes exceeds the limit of {MAX_RECORD} + {MAX_BODY}"
            ));
        }
        let head_pieces = pieces(head_bytes);
        if head_pieces + pieces(body_bytes) != digests.len() as u64 {
            return no("the number of digests is not that of the plan's pieces");
        }
        let Some(parts) = self.fetch(digests, PagesReply::LackPieces)? else {
            return Ok(Pushed::GivenUp);
        };
        let Some(parts) = parts else {
            return no("a piece of the plan does not have its digest");
        };
        let join = |from: usize, count: usize, bytes: u64| -> Vec<u8> {
            let mut all: Vec<u8> = parts
                .iter()
                .skip(from)
                .take(count)
                .flat_map(|p| p.iter().copied())
                .collect();
            all.truncate(bytes as usize);
            all
        };
        let head = join(0, head_pieces as usize, head_bytes);
        let body = join(head_pieces as usize, parts.len(), body_bytes);
        drop(parts);
        if let Some(version) = head.first_chunk::<4>().map(|b| u32::from_le_bytes(*b))
            && version != PLAN_VERSION
        {
            return no(format!(
                "the plan has version {version}; this agent runs version {PLAN_VERSION}"
            ));
        }
        let mut plan: Plan = match encode::from_bytes(&head) {
            Ok(plan) => plan,
            Err(e) => return no(format!("the plan does not decode: {e}")),
        };
        if !plan.body.is_empty() {
            return no("the plan's head carries a body");
        }
        plan.body = body;
        let distinct: BTreeSet<Digest> = plan
            .pages
            .iter()
            .map(|p| p.digest)
            .filter(|d| *d != zero_digest())
            .collect();
        let limit = self.options().plan_pages.min(target.arena.pages);
        if distinct.len() as u64 > limit || plan.pages.len() as u64 > target.arena.pages {
            return no(format!(
                "the plan names {} page images; at most {limit} are taken",
                distinct.len()
            ));
        }
        if let Some(p) = plan
            .pages
            .iter()
            .find(|p| !target.arena.contains(PhysAddr(p.frame.saturating_mul(4096))))
        {
            return no(format!(
                "the plan puts a page into frame {:#x}, which is outside the device's memory",
                p.frame
            ));
        }
        let wanted: Vec<Digest> = distinct.into_iter().collect();
        let Some(pages) = self.fetch(&wanted, PagesReply::LackPages)? else {
            return Ok(Pushed::GivenUp);
        };
        let Some(pages) = pages else {
            return no("a page image does not have its digest");
        };
        let ready = Ready {
            plan,
            pages: Held(wanted.into_iter().zip(pages).collect()),
        };
        Ok(match verify::verify(&ready.plan, &ready.pages, target) {
            Ok(verified) => Pushed::Ready(Box::new(ready), verified),
            Err(refusal) => Pushed::No(PagesReply::Refused(refusal)),
        })
    }

    /// The images with these digests: from the cache, or from the client as bulk. The outer `None`: the client gave
    /// up. The inner `None`: an image did not have its digest.
    fn fetch(
        &mut self,
        digests: &[Digest],
        ask: fn(Vec<Run>) -> PagesReply,
    ) -> Result<Option<Option<Vec<Arc<Page>>>>, Quit> {
        let client = self.client;
        let mut have: Vec<Option<Arc<Page>>> = {
            let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
            digests.iter().map(|d| cache.get(client, d)).collect()
        };
        let mut asked = BTreeSet::new();
        let lacking: Vec<usize> = (0..digests.len())
            .filter(|i| have.get(*i).is_some_and(Option::is_none))
            .filter(|i| {
                // The same image twice in one list is asked for once.
                digests.get(*i).is_some_and(|d| asked.insert(*d))
            })
            .collect();
        self.sender
            .send(Concern::Pages, &ask(runs(lacking.iter().map(|i| *i as u32))))?;
        let mut sound = true;
        let mut fresh = std::collections::HashMap::new();
        let mut at = lacking.iter();
        while at.len() > 0 {
            let bulk = self.bulk()?;
            if bulk.is_empty() {
                return Ok(None);
            }
            let (images, rest) = bulk.as_chunks::<PAGE_SIZE>();
            if !rest.is_empty() || images.len() > at.len() {
                return Err(Quit::protocol(
                    "a bulk frame that is not whole pages, or too many of them",
                ));
            }
            for (image, i) in images.iter().zip(at.by_ref()) {
                let Some(digest) = digests.get(*i) else { continue };
                // After a bad one the rest is taken off the wire and thrown away.
                sound = sound && blake3::hash(image).as_bytes() == digest;
                if sound {
                    let image = Arc::new(*image);
                    let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
                    cache.put(client, *digest, &image);
                    fresh.insert(*digest, image);
                }
            }
        }
        if !sound {
            return Ok(Some(None));
        }
        for (slot, digest) in have.iter_mut().zip(digests) {
            if slot.is_none() {
                *slot = fresh.get(digest).cloned();
            }
        }
        Ok(Some(have.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_fold_into_runs_and_bytes_into_pieces() {
        assert_eq!(runs([0, 1, 2, 5, 7, 8]), [(0, 3), (5, 1), (7, 2)]);
        assert_eq!(runs([]), []);
        assert_eq!(runs([u32::MAX]), [(u32::MAX, 1)]);
        assert_eq!([0, 1, 4096, 4097].map(pieces), [0, 1, 1, 2]);
    }
}
