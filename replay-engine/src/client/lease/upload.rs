//! The push of a plan: its parts and the pages that the agent lacks.

use super::meter::{Meter, UPLOADED};
use super::{Lease, TICK};
use crate::client::error::{ClientError, Stage};
use crate::plan::{Compiled, PageSource as _};
use crate::serve::MAX_BODY;
use crate::wire::delta::Outline;
use crate::wire::message::{IndexRange, PagesReply, PagesRequest, PlanPart};
use crate::wire::{BULK, Topic};
use trace_core::PAGE_SIZE;
use trace_core::encode::MAX_RECORD;
use trace_core::recording::{Digest, Page};

/// Returns the indices in some ranges.
fn indices(runs: &[IndexRange]) -> impl Iterator<Item = usize> + '_ {
    runs.iter()
        .flat_map(|(first, n)| (0..*n as usize).map(move |i| *first as usize + i))
}

impl Lease {
    /// Offers the plan and sends the parts that the agent lacks.
    pub(super) fn upload(&mut self, compiled: &Compiled, meter: &mut Meter<'_>) -> Result<(), ClientError> {
        let stage = Stage::Upload;
        let body = compiled.plan.body.bytes();
        // The client builds the recording of the outcome. The agent needs no information about the plan's source.
        let head = compiled
            .plan
            .head_record()
            .map_err(|e| ClientError::TooLarge(e.to_string()))?;
        let (head_bytes, body_bytes) = (head.len() as u64, body.len() as u64);
        if head_bytes > MAX_RECORD as u64 || body_bytes > MAX_BODY {
            return Err(ClientError::TooLarge(format!("{head_bytes} + {body_bytes} bytes")));
        }
        let wanted: Vec<Digest> = compiled.plan.digests().into_iter().collect();
        let part = |bytes: &[u8]| PlanPart {
            bytes: bytes.len() as u64,
            digest: *blake3::hash(bytes).as_bytes(),
        };
        let (offer_head, offer_body) = (part(&head), part(body));
        let takes_large_plans = self.info.takes_api_traces() || self.info.takes_submissions();
        if let Some(server) = self.beside.as_ref().filter(|_| takes_large_plans) {
            match self.info.takes_submissions() {
                true => {
                    server.lend_pages(&compiled.pages);
                    server.keep_parts(&head, offer_head.digest, &body.shared(), offer_body.digest);
                }
                false => server.keep_pages(&wanted, &compiled.pages),
            }
        }
        let offer = PagesRequest::Offer {
            head: offer_head,
            body: offer_body,
        };
        self.connection.send(stage, Topic::Pages, &offer)?;
        loop {
            match self.reply(meter)? {
                PagesReply::LackParts {
                    head: lack_head,
                    body: lack_body,
                } => {
                    let lacking = [(lack_head, head.as_slice()), (lack_body, &**body)];
                    self.pushed.plan_bytes = self.send_parts(&lacking, meter, (0, UPLOADED / 10))?;
                }
                PagesReply::LackPages(runs) => {
                    let image = |i: usize| {
                        let Some(digest) = wanted.get(i) else { return Ok(None) };
                        let missing = || ClientError::PageMissing {
                            digest: blake3::Hash::from_bytes(*digest).to_hex().to_string(),
                        };
                        compiled.pages.page(digest).map(|p| Some(*p)).ok_or_else(missing)
                    };
                    let sent = self.send_runs(&runs, wanted.len(), image, meter, (UPLOADED / 10, UPLOADED))?;
                    self.sent_pages = indices(&runs).filter_map(|i| wanted.get(i).copied()).collect();
                    self.pushed.pages = sent;
                    self.pushed.pages_known = (wanted.len() as u64).saturating_sub(sent);
                }
                PagesReply::Ready(_) => {
                    return if meter.move_to(UPLOADED) {
                        Ok(())
                    } else {
                        Err(ClientError::Cancelled)
                    };
                }
                PagesReply::Refused(refusal) => return Err(ClientError::AgentRefusedPlan(refusal)),
                PagesReply::Unacceptable(why) => return Err(ClientError::Refused(why)),
                PagesReply::Preempted => return Err(self.preempted_error()),
                PagesReply::GivenUp => {
                    return Err(self
                        .connection
                        .protocol_error(stage, "it drops an offer that was not withdrawn"));
                }
            }
        }
    }

    /// Returns the agent's reply to the offer. If the user cancels meanwhile, the offer is withdrawn and the lease
    /// stays valid. Messages that the agent sent before it received the cancellation are skipped.
    fn reply(&self, meter: &Meter<'_>) -> Result<PagesReply, ClientError> {
        let stage = Stage::Upload;
        let mut given_up = false;
        loop {
            if !given_up && meter.progress.check().is_err() {
                given_up = true;
                self.connection.send(stage, Topic::Pages, &PagesRequest::GiveUp)?;
            }
            let Some(frame) = self.connection.frame(stage, TICK)? else {
                continue;
            };
            match self.connection.decode(stage, Topic::Pages, &frame)? {
                PagesReply::GivenUp if given_up => return Err(ClientError::Cancelled),
                _ if given_up => {}
                reply => return Ok(reply),
            }
        }
    }

    /// Sends the parts of the plan that the agent lacks: which of its parts to keep, and the new ones.
    fn send_parts(
        &self,
        lacking: &[(Option<Outline>, &[u8]); 2],
        meter: &mut Meter<'_>,
        (from, to): (u64, u64),
    ) -> Result<u64, ClientError> {
        let stage = Stage::Upload;
        if lacking.iter().all(|(l, _)| l.is_none()) {
            return Ok(0);
        }
        let mut new = Vec::new();
        let mut steps = Vec::new();
        for (outline, bytes) in lacking {
            let Some(outline) = outline else {
                steps.push(Vec::new());
                continue;
            };
            if !outline.is_valid() {
                return Err(self
                    .connection
                    .protocol_error(stage, "it announces pieces of an invalid size"));
            }
            let (s, n) = outline.steps_to(bytes);
            steps.push(s);
            new.push(n.concat());
        }
        let mut steps = steps.into_iter();
        let parts = PagesRequest::Parts {
            head: steps.next().unwrap_or_default(),
            body: steps.next().unwrap_or_default(),
        };
        self.connection.send(stage, Topic::Pages, &parts)?;
        let total: usize = new.iter().map(Vec::len).sum();
        let mut done = 0;
        for frame in new.iter().flat_map(|n| n.chunks(BULK)) {
            done += frame.len();
            if !meter.move_within(from, to, done as u64, total as u64) {
                self.connection.send_bulk(stage, &[])?;
                return Err(ClientError::Cancelled);
            }
            self.connection.send_bulk(stage, frame)?;
        }
        Ok(total as u64)
    }

    /// Sends images by index as bulk. If the user cancels or an image is missing, an empty frame marks the end, and the
    /// lease stays valid.
    fn send_runs(
        &self,
        runs: &[IndexRange],
        count: usize,
        image: impl Fn(usize) -> Result<Option<Page>, ClientError>,
        meter: &mut Meter<'_>,
        (from, to): (u64, u64),
    ) -> Result<u64, ClientError> {
        let stage = Stage::Upload;
        let sound = |(first, n): &IndexRange| {
            (*first as usize)
                .checked_add(*n as usize)
                .is_some_and(|end| end <= count)
        };
        let total: u64 = runs.iter().map(|r| u64::from(r.1)).sum();
        if total > count as u64 || !runs.iter().all(sound) {
            return Err(self
                .connection
                .protocol_error(stage, "it asks for pieces that were not offered"));
        }
        let mut frame = Vec::with_capacity(BULK.min(total as usize * PAGE_SIZE));
        let mut done = 0;
        for i in indices(runs) {
            match image(i) {
                Ok(Some(page)) => frame.extend_from_slice(&page),
                Ok(None) => {
                    return Err(self
                        .connection
                        .protocol_error(stage, "it asks for a piece that was not offered"));
                }
                Err(e) => {
                    self.connection.send_bulk(stage, &[])?;
                    return Err(e);
                }
            }
            done += 1;
            if frame.len() == BULK || done == total {
                if !meter.move_within(from, to, done, total) {
                    self.connection.send_bulk(stage, &[])?;
                    return Err(ClientError::Cancelled);
                }
                self.connection.send_bulk(stage, &frame)?;
                frame.clear();
            }
        }
        Ok(total)
    }
}
