//! The accesses of a recording in event order, and their groups by a key.

use std::collections::HashMap;
use trace_core::Recording;
use trace_core::filter::Selection;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Access;

/// Number of accesses between two checks for cancellation.
const CHUNK: usize = 1 << 16;

/// An access with its time.
pub(crate) struct TimedAccess {
    /// Index of its event.
    pub event: u64,
    /// Time, ns.
    pub time: u64,
    /// Thread of the driver.
    pub thread: u32,
    /// The access itself.
    pub access: Access,
}

/// Passes accesses to `take` in event order: those among some events, or all.
///
/// # Errors
/// When the work is cancelled.
pub(crate) fn for_each_access(
    recording: &Recording,
    among: Option<&Selection>,
    progress: &Progress,
    mut take: impl FnMut(&TimedAccess),
) -> Result<(), Cancelled> {
    let events = &recording.events;
    if let Some(among) = among {
        progress.set_total(among.len());
        for (n, event) in among.iter().enumerate() {
            if n % CHUNK == 0 {
                progress.advance(CHUNK as u64)?;
            }
            let Ok(at) = usize::try_from(event) else { break };
            let Some(access) = events.access(at) else { continue };
            take(&TimedAccess {
                event,
                time: events.time.get(at).unwrap_or(0),
                thread: events.thread.get(at).unwrap_or(0),
                access,
            });
        }
        return progress.check();
    }
    progress.set_total(events.len() as u64);
    let mut times = events.time.iter().enumerate();
    let mut threads = events.thread.iter().enumerate();
    for (n, (at, access)) in events.accesses(0..events.len()).enumerate() {
        if n % CHUNK == 0 {
            progress.advance(CHUNK as u64)?;
        }
        take(&TimedAccess {
            event: at as u64,
            time: times.find(|t| t.0 == at).map_or(0, |t| t.1),
            thread: threads.find(|t| t.0 == at).map_or(0, |t| t.1),
            access,
        });
    }
    progress.check()
}

/// The accesses that share a key.
pub(crate) struct AccessGroup {
    pub key: u64,
    /// Index of the space and offset of the first access.
    pub first_at: (u32, u32),
    /// Width of the widest access at that location, bytes.
    pub widest: u8,
    pub accesses: u64,
    pub reads: u64,
    pub writes: u64,
    pub first_event: u64,
    pub last_event: u64,
    /// Times of the first and the last access, ns.
    pub first_time: u64,
    pub last_time: u64,
    /// The value of each access.
    values: Vec<u64>,
    /// Times between consecutive accesses, ns.
    pub gaps: Vec<i64>,
}

impl AccessGroup {
    fn new(key: u64, a: &TimedAccess) -> Self {
        Self {
            key,
            first_at: (u32::from(a.access.space), a.access.offset.get()),
            widest: a.access.width,
            accesses: 0,
            reads: 0,
            writes: 0,
            first_event: a.event,
            last_event: a.event,
            first_time: a.time,
            last_time: a.time,
            values: Vec::new(),
            gaps: Vec::new(),
        }
    }

    fn push(&mut self, a: &TimedAccess) {
        if self.accesses > 0 {
            self.gaps.push(duration(self.last_time, a.time));
        }
        if (u32::from(a.access.space), a.access.offset.get()) == self.first_at {
            self.widest = self.widest.max(a.access.width);
        }
        self.accesses += 1;
        self.reads += u64::from(!a.access.write);
        self.writes += u64::from(a.access.write);
        self.last_event = a.event;
        self.last_time = a.time;
        self.values.push(a.access.value);
    }

    /// Returns the distinct values in ascending order, each with its number of accesses.
    pub(crate) fn count_values(&mut self) -> Vec<(u64, u64)> {
        count_values(&mut self.values)
    }
}

/// Returns the time from `from` to `to`, ns; below 0 if the clock ran backwards, saturating.
pub(crate) fn duration(from: u64, to: u64) -> i64 {
    let signed = i128::from(to) - i128::from(from);
    i64::try_from(signed).unwrap_or(if signed < 0 { i64::MIN } else { i64::MAX })
}

/// Sorts values and returns the distinct ones in ascending order, each with its count.
pub(crate) fn count_values(values: &mut [u64]) -> Vec<(u64, u64)> {
    values.sort_unstable();
    let runs = values.chunk_by(|a, b| a == b);
    runs.filter_map(|run| Some((*run.first()?, run.len() as u64))).collect()
}

/// Groups accesses by a key. Returns the groups in ascending order of keys.
///
/// # Errors
/// When the work is cancelled.
pub(crate) fn group_accesses(
    recording: &Recording,
    among: Option<&Selection>,
    progress: &Progress,
    mut key: impl FnMut(&TimedAccess) -> u64,
) -> Result<Vec<AccessGroup>, Cancelled> {
    let mut groups: Vec<AccessGroup> = Vec::new();
    let mut by_key: HashMap<u64, usize> = HashMap::new();
    for_each_access(recording, among, progress, |a| {
        let key = key(a);
        let index = *by_key.entry(key).or_insert(groups.len());
        if index == groups.len() {
            groups.push(AccessGroup::new(key, a));
        }
        if let Some(group) = groups.get_mut(index) {
            group.push(a);
        }
    })?;
    groups.sort_unstable_by_key(|g| g.key);
    Ok(groups)
}

/// Returns the median of values, which it reorders; the mean of the two in the middle if their number is even. `None`
/// if there are none.
pub(crate) fn median(values: &mut [i64]) -> Option<f64> {
    let (count, middle) = (values.len(), values.len() / 2);
    if count == 0 {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable(middle);
    let upper = *upper as f64;
    match below.iter().max() {
        Some(lower) if count % 2 == 0 => Some((*lower as f64 + upper) / 2.0),
        _ => Some(upper),
    }
}

/// Returns the mean of values; `None` if there are none.
pub(crate) fn mean(values: &[i64]) -> Option<f64> {
    let sum: i128 = values.iter().copied().map(i128::from).sum();
    (!values.is_empty()).then(|| sum as f64 / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::tests::{access, recording};
    use trace_core::recording::EventsBuilder;

    fn collect(recording: &Recording, among: Option<&Selection>) -> Vec<(u64, u64, u32, u32, u64)> {
        let mut all = Vec::new();
        for_each_access(recording, among, &Progress::new(), |a| {
            all.push((a.event, a.time, a.thread, a.access.offset.get(), a.access.value));
        })
        .unwrap();
        all
    }

    #[test]
    fn accesses_come_with_their_times_and_threads() {
        let all = collect(&recording(), None);
        assert_eq!(all, [(0, 5, 1, 0x2428, 1), (2, 7, 2, 0x2428, 0), (3, 9, 1, 0x18e0, 1)]);
        let among: Selection = (1..=2).collect();
        assert_eq!(collect(&recording(), Some(&among)), all[1..2]);
    }

    /// A file may store access rows in another order than their events.
    #[test]
    fn rows_out_of_order_come_in_event_order() {
        let mut r = recording();
        r.events.payload = vec![2u32, 0, 0, 1].into();
        let all = collect(&r, None);
        assert_eq!(all.iter().map(|a| a.3).collect::<Vec<_>>(), [0x18e0, 0x2428, 0x2428]);
        assert_eq!(all.iter().map(|a| a.4).collect::<Vec<_>>(), [1, 1, 0]);
        let among: Selection = (0..=3).collect();
        assert_eq!(collect(&r, Some(&among)), all);
    }

    #[test]
    fn groups_have_their_times_between_accesses() {
        let mut b = EventsBuilder::new();
        for (time, value) in [(10, 7), (30, 7), (20, u64::MAX)] {
            b.access(time, 1, access(value == 7, 4, value));
        }
        let recording = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        let mut groups = group_accesses(&recording, None, &Progress::new(), |_| 3).unwrap();
        let group = &mut groups[0];
        assert_eq!((group.key, group.accesses, group.reads, group.writes), (3, 3, 1, 2));
        assert_eq!(group.gaps, [20, -10]);
        assert_eq!(group.count_values(), [(7, 2), (u64::MAX, 1)]);
        assert_eq!((group.first_time, group.last_time, group.last_event), (10, 20, 2));
    }

    #[test]
    fn medians_and_means_are_of_all_values() {
        assert_eq!((median(&mut []), mean(&[])), (None, None));
        assert_eq!((median(&mut [5]), mean(&[5])), (Some(5.0), Some(5.0)));
        assert_eq!((median(&mut [9, -1, 4]), mean(&[9, -1, 4])), (Some(4.0), Some(4.0)));
        assert_eq!((median(&mut [9, -1, 4, 5]), mean(&[1, 2])), (Some(4.5), Some(1.5)));
        assert_eq!(mean(&[i64::MAX, i64::MAX]), Some(i64::MAX as f64));
        assert_eq!(duration(u64::MAX, 0), i64::MIN);
        assert_eq!(duration(0, u64::MAX), i64::MAX);
    }
}
