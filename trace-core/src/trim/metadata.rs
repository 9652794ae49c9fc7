//! Metadata and extras of a part: event numbers are updated, invalid data is removed, and the origin is recorded.

use super::{Part, TrimRequest, TrimSummary};
use crate::finding::Finding;
use crate::recording::{
    BUFFER_SHAPES, CAPTURE, CHAIN_REPORTS, ChainReport, FrameRole, HARDWARE, Memory, PageId, Recording,
};
use crate::screen::SCREEN_AT_END;
use serde::{Deserialize, Serialize};

/// Name of the extra with the cuts of a recording: an array of [`Cut`], the first cut first.
pub const CUTS: &str = "cuts";

/// A cut of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// File name of the source recording.
    pub source: String,
    /// Number of events and jobs of the source.
    pub events: u64,
    /// Number of jobs of the source.
    pub jobs: u64,
    /// Kept jobs, as ranges of their numbers in the source, both ends inclusive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_jobs: Vec<[u32; 2]>,
    /// Kept events, if a range of them was chosen: first and last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_events: Option<[u64; 2]>,
    /// Number of pieces of memory that replace the output of removed jobs, as a software GPU computed it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub supplied: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Recording {
    /// Returns the cuts of the recording, the first one first. Empty if it was never cut.
    #[must_use]
    pub fn cuts(&self) -> Vec<Cut> {
        let json = self.extras.get(CUTS);
        json.and_then(|j| serde_json::from_slice(j).ok()).unwrap_or_default()
    }
}

/// Converts numbers to ranges of consecutive ones, both ends inclusive.
fn ranges(numbers: &[u32]) -> Vec<[u32; 2]> {
    let mut out: Vec<[u32; 2]> = Vec::new();
    for n in numbers {
        match out.last_mut() {
            Some([_, last]) if last.checked_add(1) == Some(*n) => *last = *n,
            _ => out.push([*n, *n]),
        }
    }
    out
}

/// Updates metadata and extras for the part. `numbers`: the new number of the first kept event at or after each event.
pub(super) fn remap(
    out: &mut Recording,
    whole: &Recording,
    request: &TrimRequest,
    numbers: &[u64],
    gone: &[bool],
    summary: &mut TrimSummary,
) {
    let number = |event: u64| {
        let at = usize::try_from(event).ok().and_then(|e| numbers.get(e));
        at.or(numbers.last()).copied().unwrap_or(0)
    };
    let stays = |event: u64| usize::try_from(event).is_ok_and(|e| gone.get(e) == Some(&false));
    let within = |event: u64| match &request.part {
        Part::Jobs(_) => true,
        Part::Events(range) => range.contains(&event),
    };
    out.metadata.lost.retain(|l| within(l.before_event));
    for l in &mut out.metadata.lost {
        l.before_event = number(l.before_event);
    }
    out.metadata.findings.retain(|f| f.event.is_none_or(&stays));
    for f in &mut out.metadata.findings {
        moved(f, number);
    }
    let [pages, zeros] = source_pages(&whole.memory, &out.memory);
    out.metadata.source_pages = whole.metadata.source_pages.saturating_sub(pages);
    out.metadata.source_zero_pages = whole.metadata.source_zero_pages.saturating_sub(zeros);
    let reports: Vec<ChainReport> = out
        .chain_reports()
        .into_iter()
        .filter(|r| stays(r.submit_event))
        .map(|r| ChainReport {
            submit_event: number(r.submit_event),
            ..r
        })
        .collect();
    out.extras.retain(|name, _| {
        let holds = match name.as_str() {
            BUFFER_SHAPES | CAPTURE | HARDWARE | CHAIN_REPORTS | CUTS => true,
            // The final screen depends on everything before it.
            SCREEN_AT_END => !gone.contains(&true),
            _ => false,
        };
        if !holds {
            summary.extras_out.push(name.clone());
        }
        holds
    });
    let json = (!reports.is_empty())
        .then(|| serde_json::to_vec(&reports).ok())
        .flatten();
    match json {
        Some(json) => out.extras.insert(CHAIN_REPORTS.into(), json),
        None => out.extras.remove(CHAIN_REPORTS),
    };
    let mut cuts = whole.cuts();
    cuts.push(Cut {
        source: request.source.clone(),
        events: summary.events[0],
        jobs: summary.jobs,
        kept_jobs: ranges(&summary.jobs_kept),
        kept_events: match &request.part {
            Part::Jobs(_) => None,
            Part::Events(r) => Some([*r.start(), *r.end()]),
        },
        supplied: summary.supplied,
    });
    if let Ok(json) = serde_json::to_vec(&cuts) {
        out.extras.insert(CUTS.into(), json);
    }
}

/// Updates the event numbers of a finding.
fn moved(finding: &mut Finding, number: impl Fn(u64) -> u64) {
    let Some(old) = finding.event else { return };
    let new = number(old);
    finding.event = Some(new);
    if finding.place == format!("event {old}") {
        finding.place = format!("event {new}");
    }
}

/// Returns the number of data frames missing from the first snapshot, and how many of them were zero.
fn source_pages(before: &Memory, after: &Memory) -> [u64; 2] {
    let count = |m: &Memory| {
        let runs = m.snapshots.first().map(|s| s.runs.as_slice()).unwrap_or_default();
        let data = runs.iter().filter(|r| r.role == FrameRole::Data);
        data.fold([0u64; 2], |[all, zeros], r| {
            let n = u64::from(r.count);
            let zero = r.first_page == PageId::ZERO;
            [
                all.saturating_add(n),
                if zero { zeros.saturating_add(n) } else { zeros },
            ]
        })
    };
    let ([a, az], [b, bz]) = (count(before), count(after));
    [a.saturating_sub(b), az.saturating_sub(bz)]
}
