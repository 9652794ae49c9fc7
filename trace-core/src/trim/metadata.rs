//! Metadata of a part: event numbers are updated, invalid data and extras are removed, and the origin is recorded.

use super::{Part, TrimRequest, TrimSummary};
use crate::container::MetadataTag;
use crate::finding::Finding;
use crate::recording::{Cut, FrameRole, Memory, Metadata, PageId, Recording, TraceKind};

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
    match &mut out.metadata.kind {
        TraceKind::Register(trace) => {
            trace.chain_reports.retain(|r| stays(r.submit_event));
            for r in &mut trace.chain_reports {
                r.submit_event = number(r.submit_event);
            }
        }
        // Rows name functions, streams, modules and names by index, so all of them stay.
        TraceKind::Api(trace) => trace.process.ended &= gone.last() == Some(&false),
        TraceKind::Driver(_) => {}
    }
    summary.extras_out = remove_invalid(&mut out.metadata, gone.contains(&true));
    summary.extras_out.extend(std::mem::take(&mut out.extras).into_keys());
    summary.extras_out.sort_unstable();
    out.metadata.cuts.push(Cut {
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
}

/// Removes metadata that does not hold for a part, and returns its names. `is_part`: at least one event is gone.
fn remove_invalid(metadata: &mut Metadata, is_part: bool) -> Vec<String> {
    let mut removed: Vec<MetadataTag> = Vec::new();
    if let TraceKind::Register(trace) = &mut metadata.kind {
        if !std::mem::take(&mut trace.recorded_ranges).is_empty() {
            removed.push(MetadataTag::RecordedRanges);
        }
        // The final screen depends on everything before it.
        if is_part && trace.screen_at_end.take().is_some() {
            removed.push(MetadataTag::ScreenAtEnd);
        }
    }
    if !std::mem::take(&mut metadata.applied_edits).is_empty() {
        removed.push(MetadataTag::AppliedEdits);
    }
    if metadata.processes.take().is_some() {
        removed.push(MetadataTag::Processes);
    }
    let unknown = std::mem::take(&mut metadata.unknown_records);
    let unknown = unknown.iter().map(|r| format!("metadata record {}", r.tag));
    removed.iter().map(|tag| tag.name().to_owned()).chain(unknown).collect()
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
