//! The ends of ring entries, as far as saved memory shows them: a semaphore holds a value that the entry releases.

use super::submissions::Decoder;
use crate::GpuVa;
use crate::driver_trace::{DriverTrace, DriverWork, GpuWork};
use crate::families::work::JobSpan;
use crate::progress::{Cancelled, Progress};
use crate::recording::{EventKind, Recording};
use std::collections::{BTreeMap, HashMap};

/// A value that a submission writes to a semaphore.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Release {
    va: GpuVa,
    payload: u64,
}

/// Sets the end of each job that the recording shows: the first event after it where saved memory holds the value of its
/// last release, or of a later release of its channel to the same semaphore. A submission that waits for a value ends
/// after the one that released it.
pub(super) fn end_jobs(recording: &Recording, jobs: &mut [JobSpan], progress: &Progress) -> Result<(), Cancelled> {
    // Most recorders save no memory after the work.
    if recording.events.saved_memory.is_empty() || jobs.is_empty() {
        return Ok(());
    }
    let Some(trace) = DriverTrace::from_recording(recording, progress)? else {
        return Ok(());
    };
    let decoded = DriverWork::decode(&trace, &mut Decoder::new(recording, &trace), progress)?;
    let work = DriverWork::new(trace, decoded);
    let ends = find_ends(recording, &work, progress)?;
    for job in jobs {
        if let Some(end) = ends.get(&job.submit_event) {
            // The work ended at an unknown time before.
            job.done_event = Some(*end);
        }
    }
    Ok(())
}

/// Returns the event where each submission is known to be complete, by the event that submits it.
fn find_ends(recording: &Recording, work: &DriverWork, progress: &Progress) -> Result<HashMap<u64, u64>, Cancelled> {
    let submissions: Vec<_> = work.submissions().collect();
    let last_release: Vec<Option<Release>> = submissions.iter().map(|(_, d)| find_last_release(&d.work)).collect();
    // Submissions whose last release goes to a semaphore, by channel and semaphore.
    let mut by_semaphore: BTreeMap<GpuVa, Vec<(usize, u64)>> = BTreeMap::new();
    for (n, release) in last_release.iter().enumerate() {
        if let Some(r) = release {
            by_semaphore.entry(r.va).or_default().push((n, r.payload));
        }
    }
    let mut ends: Vec<Option<u64>> = vec![None; submissions.len()];
    for (event, kind) in recording.events.kind.iter().enumerate() {
        if kind != EventKind::SavedMemory as u8 {
            continue;
        }
        progress.check()?;
        let Some(stored) = recording.events.stored_content(event) else {
            continue;
        };
        let event = event as u64;
        for (va, releases) in by_semaphore.range(stored.va..stored.va.saturating_add(stored.bytes)) {
            let mut word = [0; 4];
            let offset = va.offset_from(stored.va).unwrap_or(0);
            if !recording.read_content(&stored, offset, &mut word) {
                continue;
            }
            let value = u64::from(u32::from_le_bytes(word));
            let is_before = |n: usize| submissions.get(n).is_some_and(|(s, _)| s.event < event);
            let written = |(n, payload): &&(usize, u64)| payload & u64::from(u32::MAX) == value && is_before(*n);
            let Some((last, _)) = releases.iter().rev().find(written) else {
                continue;
            };
            let channel = submissions.get(*last).map(|(s, _)| s.channel);
            for (n, _) in releases.iter().filter(|(n, _)| n <= last) {
                let is_same = submissions.get(*n).map(|(s, _)| s.channel) == channel;
                if let Some(end) = ends.get_mut(*n).filter(|_| is_same) {
                    end.get_or_insert(event);
                }
            }
        }
    }
    follow_waits(&submissions_work(work), &last_release, &mut ends);
    let ended = submissions.iter().zip(ends);
    Ok(ended.filter_map(|((s, _), end)| Some((s.event, end?))).collect())
}

fn submissions_work(work: &DriverWork) -> Vec<&[GpuWork]> {
    work.submissions().map(|(_, d)| d.work.as_slice()).collect()
}

/// Ends the submissions that a complete one waited for.
fn follow_waits(work: &[&[GpuWork]], releases: &[Option<Release>], ends: &mut [Option<u64>]) {
    let mut released: HashMap<Release, usize> = HashMap::new();
    let mut waited: Vec<Vec<usize>> = Vec::with_capacity(work.len());
    for (n, (work, release)) in work.iter().zip(releases).enumerate() {
        let waits = work.iter().filter_map(|w| match *w {
            GpuWork::Semaphore {
                waits: true,
                va,
                payload,
                ..
            } => released.get(&Release { va, payload }).copied(),
            _ => None,
        });
        waited.push(waits.collect());
        if let Some(release) = release {
            released.insert(*release, n);
        }
    }
    for (n, waited) in waited.iter().enumerate().rev() {
        let Some(end) = ends.get(n).copied().flatten() else {
            continue;
        };
        for earlier in waited {
            if let Some(known) = ends.get_mut(*earlier) {
                *known = Some(known.map_or(end, |k| k.min(end)));
            }
        }
    }
}

/// Returns the last semaphore that work releases with a known value: by a method, or at the end of a launch.
fn find_last_release(work: &[GpuWork]) -> Option<Release> {
    work.iter().rev().find_map(|w| match w {
        GpuWork::Semaphore {
            waits: false,
            va,
            payload,
            operation,
            ..
        } if operation == "release" => Some(Release {
            va: *va,
            payload: *payload,
        }),
        GpuWork::Launch(launch) => {
            let release = launch.releases.iter().rev().find(|r| r.reduction.is_none())?;
            Some(Release {
                va: release.va,
                payload: release.payload,
            })
        }
        _ => None,
    })
}
