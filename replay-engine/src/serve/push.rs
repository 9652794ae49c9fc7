//! Transfer of a plan by digests: requests only missing parts, and checks every byte.

use super::cache::{PartKind, PinnedPages};
use super::runner::PreparedReplay;
use super::session::{Session, SessionEnd};
use super::slot::Hold;
use crate::channel::check_memory;
use crate::device::DeviceInfo;
use crate::plan::{MIN_PLAN_VERSION, PLAN_VERSION, Plan, PlanError};
use crate::target::{ApiSupport, ReplayPreparation};
use crate::verify::{self, MAX_STEPS, Work};
use crate::wire::Topic;
use crate::wire::delta::{Outline, Step, StepSource, join, new_bytes, resolve};
use crate::wire::message::{IndexRange, PagesReply, PagesRequest, PlanPart};
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use trace_core::encode::MAX_RECORD;
use trace_core::progress::Progress;
use trace_core::recording::{Digest, SharedPage};
use trace_core::{PAGE_SIZE, PhysAddr};

/// Maximum size of a plan's body, bytes.
pub(crate) const MAX_BODY: u64 = 256 << 20;

/// The result of a push, if the connection held.
pub(crate) enum PushResult {
    /// The plan may run.
    Ready(Box<PreparedReplay>, verify::Verified),
    /// The plan may not run; the reply says why.
    No(PagesReply),
    /// The client withdrew it.
    GivenUp,
}

/// The result of fetching a plan's parts, if the connection held.
enum FetchedParts {
    /// Head and body are complete.
    Whole(Arc<Vec<u8>>, Arc<Vec<u8>>),
    /// The parts do not match the client's digests or lengths.
    Wrong(String),
    /// The client withdrew it.
    GivenUp,
}

/// Combines ascending indices into runs.
pub(crate) fn fold_ranges(indices: impl IntoIterator<Item = u32>) -> Vec<IndexRange> {
    let mut out: Vec<IndexRange> = Vec::new();
    for i in indices {
        match out.last_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(i) => *count += 1,
            _ => out.push((i, 1)),
        }
    }
    out
}

fn no(text: impl Into<String>) -> Result<PushResult, SessionEnd> {
    Ok(PushResult::No(PagesReply::Unacceptable(text.into())))
}

/// Calls `check`. Meanwhile, another thread prepares the replay, if the memory of the plan keeps the rules.
/// `progress` cancels the check of the memory: a withdrawn offer does not wait for it.
fn prepare_meanwhile<T>(
    preparation: &dyn ReplayPreparation,
    ready: &PreparedReplay,
    target: &DeviceInfo,
    progress: &Progress,
    check: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let work = Work::new(MAX_STEPS, progress);
            if let Some(planned) = ready.plan.planned_submissions()
                && let Ok(memory) = check_memory(planned, &ready.pages, target, &work)
                && progress.check().is_ok()
            {
                preparation.prepare(planned, memory, &ready.pages);
            }
        });
        check()
    })
}

impl Session {
    /// Answers an offer: fetches missing parts, assembles the plan, and verifies the six rules.
    pub(super) fn push(
        &mut self,
        head: PlanPart,
        body: PlanPart,
        target: &DeviceInfo,
        api: Option<&Arc<dyn ApiSupport>>,
    ) -> Result<PushResult, SessionEnd> {
        let (head_bytes, body_bytes) = (head.bytes, body.bytes);
        if head_bytes > MAX_RECORD as u64 || body_bytes > MAX_BODY {
            return no(format!(
                "a plan of {head_bytes} + {body_bytes} bytes exceeds the limit of {MAX_RECORD} + {MAX_BODY}"
            ));
        }
        let (head, body) = match self.parts(head, body)? {
            FetchedParts::Whole(head, body) => (head, body),
            FetchedParts::Wrong(why) => return no(why),
            FetchedParts::GivenUp => return Ok(PushResult::GivenUp),
        };
        let mut plan = match Plan::from_record(&head) {
            Ok(plan) => plan,
            Err(PlanError::Version { found }) => {
                return no(format!(
                    "the plan has version {found}; this agent runs versions {MIN_PLAN_VERSION} to {PLAN_VERSION}"
                ));
            }
            Err(PlanError::Record(e)) => return no(format!("the plan does not decode: {e}")),
            Err(e) => return no(e.to_string()),
        };
        if !plan.body.bytes().is_empty() {
            return no("the plan's head carries a body");
        }
        plan.body.set_bytes(body.into());
        let distinct: BTreeSet<Digest> = plan.digests();
        let limit = self.options().plan_pages;
        let stored = plan.accesses().map_or(&[][..], |a| &a.pages);
        if distinct.len() as u64 > limit || stored.len() as u64 > target.arena.pages {
            return no(format!(
                "the plan names {} page images; at most {limit} are accepted",
                distinct.len()
            ));
        }
        if let Some(p) = stored
            .iter()
            .find(|p| !target.arena.contains(PhysAddr::new(p.frame.saturating_mul(4096))))
        {
            return no(format!(
                "the plan puts a page into frame {:#x}, which is outside the device's memory",
                p.frame
            ));
        }
        let wanted: Vec<Digest> = distinct.into_iter().collect();
        let pages = match self.shared.take_lent(self.client, &wanted) {
            Some(pages) => {
                self.sender.send(Topic::Pages, &PagesReply::LackPages(Vec::new()))?;
                pages
            }
            None => {
                let Some(pages) = self.images(&wanted)? else {
                    return Ok(PushResult::GivenUp);
                };
                let Some(pages) = pages else {
                    return no("a page image does not have its digest");
                };
                PinnedPages(wanted.into_iter().zip(pages).collect())
            }
        };
        let ready = PreparedReplay { plan, pages };
        let check = |progress: &Progress| match (ready.plan.planned_calls(), api) {
            (Some(calls), Some(api)) => verify::verify_calls(&**api, calls, target),
            _ => {
                let work = Work::new(MAX_STEPS, progress);
                verify::verify_within(&ready.plan, &ready.pages, target, &work)
            }
        };
        let preparation = self.hold.as_ref().and_then(Hold::preparation);
        let checked = self.watched(|progress| match &preparation {
            Some(preparation) => prepare_meanwhile(&**preparation, &ready, target, progress, || check(progress)),
            None => check(progress),
        });
        if let Some(preparation) = preparation.filter(|_| !matches!(checked, Ok(Some(Ok(_))))) {
            preparation.discard();
        }
        let Some(checked) = checked? else {
            return Ok(PushResult::GivenUp);
        };
        Ok(match checked {
            Ok(verified) => PushResult::Ready(Box::new(ready), verified),
            Err(refusal) => PushResult::No(PagesReply::Refused(refusal)),
        })
    }

    /// Returns the two parts of a plan: from the cache, or assembled from cached parts and the client's data.
    fn parts(&mut self, head: PlanPart, body: PlanPart) -> Result<FetchedParts, SessionEnd> {
        let client = self.client;
        let sides = [(PartKind::Head, head), (PartKind::Body, body)];
        // The cached part, or a similar one.
        let [(head_here, head_like), (body_here, body_like)] = {
            let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
            sides.map(|(side, part)| match cache.part(client, side, &part.digest) {
                Some(here) => (Some(here), None),
                None => (
                    None,
                    Some(cache.find_similar(client, side, &body.digest).unwrap_or_default()),
                ),
            })
        };
        let lack = PagesReply::LackParts {
            head: head_like.as_deref().map(|l| Outline::from_bytes(l)),
            body: body_like.as_deref().map(|l| Outline::from_bytes(l)),
        };
        self.sender.send(Topic::Pages, &lack)?;
        if let (Some(head), Some(body)) = (&head_here, &body_here) {
            return Ok(FetchedParts::Whole(Arc::clone(head), Arc::clone(body)));
        }
        let frame = self.frame()?;
        if frame.concern == Topic::Bulk && frame.payload.is_empty() || self.gives_up(&frame)? {
            return Ok(FetchedParts::GivenUp);
        }
        let steps = match (frame.concern, frame.message()) {
            (Topic::Pages, Ok(PagesRequest::Parts { head, body })) => (head, body),
            _ => {
                return Err(SessionEnd::protocol("something else than the missing parts of a plan"));
            }
        };
        let mut made = [None, None];
        let mut wrong = None;
        let asked = [(head_like, steps.0), (body_like, steps.1)];
        for (((base, steps), (_, part)), made) in asked.iter().zip(sides).zip(&mut made) {
            let Some(base) = base else {
                if steps.is_empty() {
                    continue;
                }
                return Err(SessionEnd::protocol("steps to a part of the plan that is not missing"));
            };
            let sources = match resolve(base, steps, part.bytes) {
                Ok(sources) => sources,
                Err(e) => {
                    wrong.get_or_insert_with(|| format!("a part of the plan cannot be put together: {e}"));
                    Vec::new()
                }
            };
            // Announced bytes are read from the connection in any case.
            let Some(new) = self.new_bytes(steps, part.bytes)? else {
                return Ok(FetchedParts::GivenUp);
            };
            if wrong.is_none() {
                *made = Some(self.checked(base, &sources, new, part, &mut wrong));
            }
        }
        if let Some(wrong) = wrong {
            return Ok(FetchedParts::Wrong(wrong));
        }
        let [head_made, body_made] = made;
        let (Some(head_whole), Some(body_whole)) = (head_here.or(head_made), body_here.or(body_made)) else {
            return Err(SessionEnd::protocol("a plan without a part"));
        };
        let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.keep_part(client, PartKind::Body, body.digest, body.digest, &body_whole);
        cache.keep_part(client, PartKind::Head, head.digest, body.digest, &head_whole);
        drop(cache);
        Ok(FetchedParts::Whole(head_whole, body_whole))
    }

    /// Assembles a part. If its digest is wrong, reports it in `wrong` and removes the base part, so that the next
    /// attempt sends everything.
    fn checked(
        &self,
        base: &[u8],
        sources: &[StepSource],
        new: Vec<u8>,
        part: PlanPart,
        wrong: &mut Option<String>,
    ) -> Arc<Vec<u8>> {
        let whole = join(base, sources, new);
        if *blake3::hash(&whole).as_bytes() != part.digest {
            *wrong = Some("a part of the plan does not have its digest".to_owned());
            let base = *blake3::hash(base).as_bytes();
            let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.forget_part(self.client, &base);
        }
        Arc::new(whole)
    }

    /// Receives the new bytes for some steps. Returns `None` if the client withdrew the offer.
    fn new_bytes(&mut self, steps: &[Step], max: u64) -> Result<Option<Vec<u8>>, SessionEnd> {
        let total = new_bytes(steps);
        if total > max {
            return Err(SessionEnd::protocol("more new bytes than the part of the plan has"));
        }
        let mut new: Vec<u8> = Vec::new();
        while (new.len() as u64) < total {
            let bulk = self.bulk()?;
            if bulk.is_empty() {
                return Ok(None);
            }
            if (new.len() + bulk.len()) as u64 > total {
                return Err(SessionEnd::protocol("more new bytes than were announced"));
            }
            // Only as much as arrived: a part is large for the memory of a small target.
            new.reserve_exact(bulk.len());
            new.extend_from_slice(&bulk);
        }
        Ok(Some(new))
    }

    /// Returns the page images with these digests: from the cache, or from the client as bulk. The outer `None`: the
    /// client withdrew the offer. The inner `None`: an image had a wrong digest.
    fn images(&mut self, digests: &[Digest]) -> Result<Option<Option<Vec<SharedPage>>>, SessionEnd> {
        let client = self.client;
        let mut have: Vec<Option<SharedPage>> = {
            let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
            digests.iter().map(|d| cache.page(client, d)).collect()
        };
        let lacking: Vec<usize> = (0..digests.len())
            .filter(|i| have.get(*i).is_some_and(Option::is_none))
            .collect();
        let lack = PagesReply::LackPages(fold_ranges(lacking.iter().map(|i| *i as u32)));
        self.sender.send(Topic::Pages, &lack)?;
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
                return Err(SessionEnd::protocol(
                    "a bulk frame that is not whole pages, or too many of them",
                ));
            }
            for (image, i) in images.iter().zip(at.by_ref()) {
                let Some(digest) = digests.get(*i) else { continue };
                // After a bad image the rest is read from the connection and discarded.
                sound = sound && blake3::hash(image).as_bytes() == digest;
                if sound {
                    let image = SharedPage::from(*image);
                    let mut cache = self.shared.cache.lock().unwrap_or_else(PoisonError::into_inner);
                    cache.keep_page(client, *digest, &image);
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
    fn indices_fold_into_runs() {
        assert_eq!(fold_ranges([0, 1, 2, 5, 7, 8]), [(0, 3), (5, 1), (7, 2)]);
        assert_eq!(fold_ranges([]), []);
        assert_eq!(fold_ranges([u32::MAX]), [(u32::MAX, 1)]);
    }
}
