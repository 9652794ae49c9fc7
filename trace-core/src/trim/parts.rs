//! The events that belong to a job: its submission, its interrupt with the handler's reads and clears, and reads of its
//! slot in between.

use crate::families::{EventRelation, relate_events};
use crate::progress::{Cancelled, Progress};
use crate::recording::Recording;
use crate::registers::RegisterMap;
use crate::timeline;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

/// The parts of a recording that are jobs. Jobs that run at the same time, or end at the same interrupt, are one
/// *group*: reads while they run cannot be distinguished.
#[derive(Clone, Debug, Default)]
pub struct JobParts {
    /// For each job the first event of its submission, and the last of its interrupt's handler.
    spans: Vec<RangeInclusive<u64>>,
    submits: Vec<u64>,
    /// For each job its group.
    group_of: Vec<usize>,
    groups: Vec<RangeInclusive<u64>>,
    relations: Vec<EventRelation>,
    /// For each job, the latest writes to its slot's registers before its submission.
    found: Vec<Vec<u64>>,
    /// For each job the latest read of the flush counter before its submit.
    flush: Vec<Option<u64>>,
}

impl JobParts {
    /// Finds the jobs and their events.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub fn new(recording: &Recording, map: &RegisterMap, progress: &Progress) -> Result<Self, Cancelled> {
        let timeline = timeline::derive(recording, map, progress)?;
        let events = recording.events.len() as u64;
        let mut this = Self::default();
        if timeline.jobs.is_empty() {
            return Ok(this);
        }
        this.relations = relate_events(recording, map);
        let numbered = (0u64..).zip(&this.relations);
        let resets = numbered
            .filter(|(_, r)| **r == EventRelation::Reset)
            .map(|(event, _)| event);
        let resets: Vec<u64> = resets.collect();
        this.submits = timeline.jobs.iter().map(|j| j.submit_event).collect();
        this.submissions(recording);
        for (job, first) in timeline.jobs.iter().zip(this.first_writes(&timeline.jobs)) {
            let end = match job.done_event {
                Some(done) => {
                    let at = timeline.interrupts.partition_point(|i| i.event < done);
                    let handler = timeline.interrupts.iter().skip(at).take_while(|i| i.event == done);
                    handler.map(|i| i.last).max().unwrap_or(done).max(done)
                }
                // It runs until something ends it.
                None => {
                    let next = resets.partition_point(|r| *r <= job.submit_event);
                    resets.get(next).copied().unwrap_or(events).saturating_sub(1)
                }
            };
            this.spans.push(first..=end.max(job.submit_event));
        }
        this.group();
        Ok(this)
    }

    /// Returns the number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.submits.len()
    }

    /// Whether there are no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.submits.is_empty()
    }

    /// Returns the submit events by job.
    #[must_use]
    pub fn submits(&self) -> &[u64] {
        &self.submits
    }

    /// Returns the jobs together with those that run at the same time.
    #[must_use]
    pub fn with_overlapping_jobs(&self, jobs: &BTreeSet<u32>) -> BTreeSet<u32> {
        let of = |j: &u32| self.group_of.get(*j as usize).copied();
        let groups: BTreeSet<usize> = jobs.iter().filter_map(of).collect();
        (0u32..)
            .zip(&self.group_of)
            .filter(|(_, g)| groups.contains(g))
            .map(|(j, _)| j)
            .collect()
    }

    /// Returns the jobs by group, in the order of their submits.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<u32>> {
        let mut out = vec![Vec::new(); self.groups.len()];
        for (job, group) in (0u32..).zip(&self.group_of) {
            if let Some(list) = out.get_mut(*group) {
                list.push(job);
            }
        }
        out
    }

    /// Returns the events that belong to these jobs and are removed with them.
    #[must_use]
    pub fn list_own_events(&self, jobs: &BTreeSet<u32>) -> BTreeSet<u64> {
        let all: BTreeSet<u32> = (0..u32::try_from(self.len()).unwrap_or(u32::MAX)).collect();
        let others: BTreeSet<u32> = all.difference(&self.with_overlapping_jobs(jobs)).copied().collect();
        let gone = self.mark_dropped_events(&others);
        (0u64..).zip(gone).filter(|(_, gone)| *gone).map(|(e, _)| e).collect()
    }

    /// Returns the event after the last event of a job and of those that run together with it.
    #[must_use]
    pub fn end_event(&self, job: u32) -> u64 {
        let group = self.group_of.get(job as usize).and_then(|g| self.groups.get(*g));
        group.map_or(0, |g| g.end().saturating_add(1))
    }

    /// Returns the jobs whose submits stay.
    pub(super) fn list_kept_jobs(&self, gone: &[bool]) -> Vec<u32> {
        let stays = |e: &u64| usize::try_from(*e).is_ok_and(|e| gone.get(e) == Some(&false));
        (0u32..)
            .zip(&self.submits)
            .filter(|(_, e)| stays(e))
            .map(|(j, _)| j)
            .collect()
    }

    /// Returns for each event whether it is removed if these jobs stay.
    pub(super) fn mark_dropped_events(&self, jobs: &BTreeSet<u32>) -> Vec<bool> {
        let jobs = self.with_overlapping_jobs(jobs);
        let stays: Vec<bool> = (0u32..).zip(&self.submits).map(|(j, _)| jobs.contains(&j)).collect();
        let group_stays: Vec<bool> = self
            .groups()
            .iter()
            .map(|g| g.first().is_some_and(|j| jobs.contains(j)))
            .collect();
        let mut group = 0;
        let mut latest: HashMap<u8, bool> = HashMap::new();
        let mut submit = 0;
        let mut out = Vec::with_capacity(self.relations.len());
        for (event, relation) in (0u64..).zip(&self.relations) {
            while self.groups.get(group).is_some_and(|g| *g.end() < event) {
                group += 1;
            }
            while self.submits.get(submit).is_some_and(|s| *s < event) {
                submit += 1;
            }
            let inside = self.groups.get(group).filter(|g| g.contains(&event));
            let here = inside.and_then(|_| group_stays.get(group)).copied();
            out.push(match relation {
                EventRelation::Unrelated | EventRelation::Reset => false,
                EventRelation::OfJob => here == Some(false),
                EventRelation::SlotWrite { slot, .. } | EventRelation::SlotRead(slot) => match here {
                    Some(stays) => {
                        latest.insert(*slot, stays);
                        !stays
                    }
                    // After a job the event belongs to it; before any job it is set-up.
                    None => latest.get(slot) == Some(&false),
                },
                EventRelation::SubmitInput => stays.get(submit) == Some(&false),
            });
        }
        for (job, _) in stays.iter().enumerate().filter(|(_, s)| **s) {
            let flush = self.flush.get(job).copied().flatten();
            for event in self.found.get(job).into_iter().flatten().copied().chain(flush) {
                if let Some(gone) = usize::try_from(event).ok().and_then(|e| out.get_mut(e)) {
                    *gone = false;
                }
            }
        }
        out
    }

    /// Records the values of the slot's registers and the flush counter that each submit finds.
    fn submissions(&mut self, recording: &Recording) {
        let mut written: HashMap<u8, HashMap<u32, u64>> = HashMap::new();
        let mut flush = None;
        let mut next = 0;
        for (event, relation) in (0u64..).zip(&self.relations) {
            let access = usize::try_from(event).ok().and_then(|e| recording.events.access(e));
            match (relation, access) {
                (EventRelation::SubmitInput, _) => flush = Some(event),
                (EventRelation::SlotWrite { slot, is_kept }, Some(a)) => {
                    if self.submits.get(next) == Some(&event) {
                        next += 1;
                        let found = written.get(slot).map(|w| w.values().copied().collect());
                        self.found.push(found.unwrap_or_default());
                        self.flush.push(flush);
                    } else if *is_kept {
                        written.entry(*slot).or_default().insert(a.offset.get(), event);
                    }
                }
                // A submit without registers.
                _ if self.submits.get(next) == Some(&event) => {
                    next += 1;
                    self.found.push(Vec::new());
                    self.flush.push(None);
                }
                _ => {}
            }
        }
    }

    /// Returns the first write to each job's slot since the previous start of that slot.
    fn first_writes(&self, jobs: &[timeline::JobSpan]) -> Vec<u64> {
        let mut first: HashMap<u8, u64> = HashMap::new();
        let mut out = Vec::with_capacity(jobs.len());
        let mut next = 0;
        for (event, relation) in (0u64..).zip(&self.relations) {
            if let EventRelation::SlotWrite { slot, .. } = relation {
                first.entry(*slot).or_insert(event);
            }
            if let Some(job) = jobs.get(next).filter(|j| j.submit_event == event) {
                out.push(first.remove(&job.slot).unwrap_or(event));
                next += 1;
            }
        }
        out
    }

    fn group(&mut self) {
        // Spans start with the submission; those of different slots may start in another order than the jobs.
        let mut order: Vec<usize> = (0..self.spans.len()).collect();
        order.sort_by_key(|n| self.spans.get(*n).map(|s| *s.start()));
        self.group_of = vec![0; self.spans.len()];
        for n in order {
            let Some(span) = self.spans.get(n).cloned() else {
                continue;
            };
            match self.groups.last_mut().filter(|g| g.end() >= span.start()) {
                Some(g) => *g = *g.start()..=*g.end().max(span.end()),
                None => self.groups.push(span),
            }
            if let Some(of) = self.group_of.get_mut(n) {
                *of = self.groups.len() - 1;
            }
        }
    }
}
