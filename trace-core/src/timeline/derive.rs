//! Jobs, interrupts and phases, derived from the few events that the scan kept.

use super::Timeline;
use super::scan::{Classes, group_end, scan};
use crate::families::{ScannedEvents, find_family_with, track_jobs};
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use crate::registers::RegisterMap;

/// Derives a timeline from the events: the family of the recording finds the jobs, interrupts and phases.
///
/// # Errors
///
/// When the work was cancelled.
pub fn derive(recording: &Recording, map: &RegisterMap, progress: &Progress) -> Result<Timeline, Cancelled> {
    let classes = Classes::new(recording, map);
    let group_end = |event| group_end(&recording.events, &classes, event);
    let family = find_family_with(recording, Some(map));
    let scanned = ScannedEvents {
        events: &recording.events,
        group_end: &group_end,
    };
    let mut tracker = track_jobs(family, recording, scanned);
    let (mut polls, mut gaps) = (Vec::new(), Vec::new());
    scan(recording, &classes, progress, |found| {
        polls.extend(found.polls);
        gaps.extend(found.gaps);
        for mark in &found.marks {
            tracker.take(mark);
        }
    })?;
    let mut work = tracker.finish();
    family.end_jobs(recording, &mut work.jobs, progress)?;
    work.interrupts.sort_by_key(|i| i.event);
    Ok(Timeline {
        polls,
        interrupts: work.interrupts,
        jobs: work.jobs,
        gaps,
        phases: work.phases,
    })
}
