//! Checks of submitted jobs: descriptors that do not decode, or that share their page with foreign data.

use super::capped_findings::CappedFindings;
use crate::families::{ChainEnd, ChainJob, JobForm, address_spaces, find_family, memory_at_submits};
use crate::finding::{Finding, FindingKind};
use crate::memory::GpuMemoryView;
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use crate::registers::RegisterMap;
use crate::timeline::{self, JobSpan};
use crate::{GpuVa, PAGE_SIZE};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Minimum length of a run of printable bytes that is reported, bytes. No page of job descriptors has one:
/// descriptors are words of small numbers.
const TEXT_RUN: usize = 48;

/// A submitted job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submit {
    /// Index of the submit, from 0.
    pub index: u32,
    /// The event that submitted the job to the GPU.
    pub event: u64,
    /// GPU address of the first job of the chain.
    pub head_va: GpuVa,
}

/// Decodes every submitted chain, each in its own address space. `known` holds the recording's jobs, sorted by event,
/// if the caller has them.
pub(super) fn check_jobs(
    recording: &Recording,
    known: Option<&[Submit]>,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) -> Result<(), Cancelled> {
    let family = find_family(recording);
    let has_descriptors = family.job_form() == JobForm::DescriptorChains;
    let map = RegisterMap::built_in_for(recording).filter(|_| has_descriptors);
    let Some(map) = map else {
        return Ok(());
    };
    let jobs = match known {
        Some(known) => Cow::Borrowed(known),
        None => {
            let spans = timeline::derive(recording, map, progress)?.jobs;
            Cow::Owned(spans.iter().map(submit).collect())
        }
    };
    if recording.metadata.address_spaces.is_empty() {
        if let Some(job) = jobs.first() {
            let message = format!(
                "{} jobs were submitted, but the recording has no page tables, so none of them can be decoded",
                jobs.len()
            );
            let f = Finding::new(FindingKind::UndecodedJobHead, format!("event {}", job.event), message);
            findings.push(f.at_event(job.event));
        }
        return Ok(());
    }
    let submits: Vec<u64> = jobs.iter().map(|j| j.event).collect();
    let spaces = address_spaces(recording, map, &submits);
    let views = memory_at_submits(recording, map, &submits);
    progress.set_total(jobs.len() as u64);
    let mut heads = CappedFindings::new(FindingKind::UndecodedJobHead);
    let mut foreign = CappedFindings::new(FindingKind::ForeignData);
    let mut pages_seen = BTreeSet::new();
    for ((job, view), space) in jobs.iter().zip(views).zip(spaces) {
        progress.advance(1)?;
        let place = |va: GpuVa| format!("job {}, event {}, {va}", job.index, job.event);
        let Some(view) = view else {
            heads.add(|| {
                let message = "the recording does not hold the page tables of the job's address space";
                Finding::new(FindingKind::UndecodedJobHead, place(job.head_va), message).at_event(job.event)
            });
            continue;
        };
        let Some(chain) = family.read_chain(&view, job.head_va) else {
            continue;
        };
        for (n, j) in chain.jobs.iter().enumerate() {
            if let Some(why) = j.doubt() {
                foreign.add(|| {
                    let message = format!("the descriptor decodes, but {why}");
                    Finding::new(FindingKind::ForeignData, place(j.va()), message).at_event(job.event)
                });
            }
            if let Some(error) = j.error() {
                let which = if n == 0 {
                    "the head".to_owned()
                } else {
                    format!("job {n} of the chain")
                };
                heads.add(|| {
                    let message = format!("{which} cannot be decoded: {error}");
                    Finding::new(FindingKind::UndecodedJobHead, place(j.va()), message).at_event(job.event)
                });
            }
            if pages_seen.insert((space, j.va().page())) {
                text(&view, j.as_ref(), job, &mut foreign);
            }
        }
        let bad_end = match chain.end {
            ChainEnd::Loop(at) => Some((at, "the chain leads back to this job")),
            ChainEnd::Limit => Some((job.head_va, "the chain is longer than any chain of a driver")),
            ChainEnd::Unreadable(at) if chain.jobs.iter().all(|j| j.va() != at) => {
                Some((at, "the chain continues where there is no content"))
            }
            _ => None,
        };
        if let Some((at, why)) = bad_end {
            heads.add(|| Finding::new(FindingKind::UndecodedJobHead, place(at), why).at_event(job.event));
        }
    }
    heads.append_to(findings);
    foreign.append_to(findings);
    Ok(())
}

fn submit(job: &JobSpan) -> Submit {
    Submit {
        index: job.index,
        event: job.submit_event,
        head_va: job.head_va,
    }
}

/// Reports text in the page of a descriptor.
fn text(view: &GpuMemoryView<'_>, descriptor: &dyn ChainJob, job: &Submit, foreign: &mut CappedFindings) {
    let va = descriptor.va();
    let Some(page) = view.page(va).0 else { return };
    let (at, len) = longest_text(page);
    if len < TEXT_RUN && !descriptor.is_text() {
        return;
    }
    let bytes = page.get(at..(at + len).min(at + 40)).unwrap_or_default();
    let shown = String::from_utf8_lossy(bytes).escape_debug().to_string();
    foreign.add(|| {
        let message = format!(
            "the page of a job descriptor holds {len} bytes of text, \"{shown}\"; the page was reused before it was \
             dumped"
        );
        let place = format!("job {}, {:#x}", job.index, (va.page() << 12) + at as u64);
        Finding::new(FindingKind::ForeignData, place, message).at_event(job.event)
    });
}

/// Returns the start and the length of the longest run of printable bytes in a page.
fn longest_text(page: &[u8; PAGE_SIZE]) -> (usize, usize) {
    let (mut best, mut start) = ((0, 0), 0);
    for (i, b) in page.iter().enumerate() {
        let printable = b.is_ascii_graphic() || matches!(b, b' ' | b'\n' | b'\t' | b'\r');
        if !printable {
            start = i + 1;
        } else if i + 1 - start > best.1 {
            best = (start, i + 1 - start);
        }
    }
    best
}
