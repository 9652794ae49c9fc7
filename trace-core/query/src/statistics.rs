//! Usage statistics of registers, blocks, threads and jobs.

use crate::accesses::{AccessGroup, TimedAccess, count_values, group_accesses, mean, median};
use serde::Serialize;
use trace_core::filter::{Derived, Jobs, Selection};
use trace_core::json_forms;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Access;
use trace_core::registers::RecordedRegisters;
use trace_core::{Recording, RegOffset};

/// The key that accesses are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// Space and offset.
    Register,
    /// Block of the register map.
    Block,
    /// Thread of the driver.
    Thread,
    /// The job that the accesses prepare, or that runs at the same time: `job` in filters.
    Job,
}

impl GroupBy {
    /// All keys, in the order of the user interface.
    pub const ALL: [Self; 4] = [Self::Register, Self::Block, Self::Thread, Self::Job];

    /// Returns a one-word label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Block => "block",
            Self::Thread => "thread",
            Self::Job => "job",
        }
    }

    /// Returns the label of the group without a name: registers that the map does not know, or accesses that belong to
    /// no job.
    #[must_use]
    pub fn unknown_label(self) -> &'static str {
        match self {
            Self::Job => "no job",
            _ => "unknown",
        }
    }
}

/// The accesses of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// Register or block in the map; number of the thread or job. `None`: unknown to the map, or of no job.
    pub name: Option<String>,
    /// Index of the space and offset of the first access.
    pub first_at: (u32, u32),
    /// Number of accesses.
    pub accesses: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// First event.
    pub first_event: u64,
    /// Last event.
    pub last_event: u64,
    /// Number of distinct values.
    pub values: u64,
    /// Accesses per second from the first to the last; `None` if there is no time between them.
    pub rate: Option<f64>,
    /// Times between consecutive accesses, if there are two or more.
    pub gaps: Option<Gaps>,
    /// Values in ascending bins; empty if not requested.
    pub histogram: Vec<Bin>,
}

/// A bin of the histogram of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Smallest value.
    #[serde(serialize_with = "json_forms::hex")]
    pub from: u64,
    /// Largest value, inclusive.
    #[serde(serialize_with = "json_forms::hex")]
    pub to: u64,
    /// Number of accesses.
    pub count: u64,
}

/// Maximum number of distinct values with a bin each; more values share bins between powers of two.
const SINGLE: usize = 16;

/// Times between consecutive accesses of a group, ns; below 0 if the clock ran backwards.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gaps {
    /// Shortest.
    pub min: i64,
    /// Median.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// Longest.
    pub max: i64,
}

/// Stands for registers that no map knows, and for accesses of no job.
const NONE: u64 = u64::MAX;

/// Which accesses are counted, and in what detail.
#[derive(Clone, Copy, Debug)]
pub struct Count<'a> {
    /// The key.
    pub by: GroupBy,
    /// Counts only accesses among these events; `None`: all.
    pub among: Option<&'a Selection>,
    /// Whether to build a histogram of the values.
    pub histogram: bool,
}

/// Counts the accesses of a recording. Registers are sorted by space and offset, threads and jobs by number, blocks by
/// name; groups without a name come last. `derived` is used for jobs only.
///
/// # Errors
///
/// When the work was cancelled.
pub fn usage(
    recording: &Recording,
    derived: &Derived,
    count: Count<'_>,
    progress: &Progress,
) -> Result<Vec<Usage>, Cancelled> {
    let by = count.by;
    let device = RecordedRegisters::new(recording);
    let mut blocks: Vec<&str> = device.map_or_else(Vec::new, |d| {
        d.map().first_members().map(|r| r.block.as_str()).collect()
    });
    blocks.sort_unstable();
    blocks.dedup();
    // The table has no widths: the register at the first byte of an access stands for it.
    let register = |space: u32, offset: u32| {
        device
            .filter(|d| u32::from(d.space()) == space)?
            .map()
            .find_containing(RegOffset::new(offset))
    };
    // Registers of configuration space are narrow, so an access may cover several: the widest one names them all.
    let other_name = |group: &AccessGroup| {
        let widest = Access {
            space: u8::try_from(group.first_at.0).ok()?,
            write: false,
            offset: RegOffset::new(group.first_at.1),
            width: group.widest,
            value: 0,
        };
        let name = device.filter(|d| d.space() != widest.space)?.name_of(&widest)?;
        Some(name.into_owned())
    };
    let block = |space: u32, offset: u32| {
        let name = register(space, offset).map(|r| r.block.as_str())?;
        blocks.binary_search(&name).ok()
    };
    let jobs = (by == GroupBy::Job).then(|| Jobs::new(derived, device));
    let key = |a: &TimedAccess| {
        let (space, offset) = (u32::from(a.access.space), a.access.offset);
        match by {
            GroupBy::Register => u64::from(space) << 32 | u64::from(offset.get()),
            GroupBy::Block => block(space, offset.get()).map_or(NONE, |b| b as u64),
            GroupBy::Thread => u64::from(a.thread),
            GroupBy::Job => {
                let job = jobs.as_ref().and_then(|j| j.job(a.event, Some(&a.access)));
                job.map_or(NONE, u64::from)
            }
        }
    };
    let groups = group_accesses(recording, count.among, progress, key)?;
    let name = |group: &AccessGroup| match by {
        GroupBy::Register => register(group.first_at.0, group.first_at.1)
            .map(|r| r.name.clone())
            .or_else(|| other_name(group)),
        GroupBy::Block => blocks.get(group.key as usize).map(|b| (*b).to_owned()),
        GroupBy::Thread => Some(group.key.to_string()),
        GroupBy::Job => (group.key != NONE).then(|| group.key.to_string()),
    };
    let ticks = recording.counts_ticks();
    let mut all = Vec::with_capacity(groups.len());
    for mut group in groups {
        progress.check()?;
        let ns = group.last_time.saturating_sub(group.first_time);
        let accesses = group.accesses;
        let values = group.count_values();
        all.push(Usage {
            name: name(&group),
            first_at: group.first_at,
            accesses,
            reads: group.reads,
            writes: group.writes,
            first_event: group.first_event,
            last_event: group.last_event,
            values: values.len() as u64,
            rate: (ns > 0 && accesses > 1 && !ticks).then(|| (accesses - 1) as f64 * 1e9 / ns as f64),
            gaps: gaps(&mut group.gaps),
            histogram: if count.histogram { bins(&values) } else { Vec::new() },
        });
    }
    Ok(all)
}

fn gaps(ns: &mut [i64]) -> Option<Gaps> {
    Some(Gaps {
        min: *ns.iter().min()?,
        max: *ns.iter().max()?,
        mean: mean(ns)?,
        median: median(ns)?,
    })
}

/// Returns the bins of ascending values with their counts.
fn bins(values: &[(u64, u64)]) -> Vec<Bin> {
    let single = values.iter().map(|&(value, count)| Bin {
        from: value,
        to: value,
        count,
    });
    folded(single.collect())
}

/// Merges ascending bins of one value each for display: many bins become one for each power of two.
fn folded(single: Vec<Bin>) -> Vec<Bin> {
    if single.len() <= SINGLE {
        return single;
    }
    let mut wide: Vec<Bin> = Vec::new();
    for b in single {
        // From a power of two to below the next; 0 has its own bin.
        let (from, to) = match b.from.checked_ilog2() {
            None => (0, 0),
            Some(n) => (1 << n, (1u64 << n) | ((1u64 << n) - 1)),
        };
        match wide.last_mut().filter(|w| w.from == from) {
            Some(w) => w.count += b.count,
            None => wide.push(Bin {
                from,
                to,
                count: b.count,
            }),
        }
    }
    wide
}

/// Frequencies of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of values.
    pub total: u64,
    /// Number of distinct values.
    pub different: u64,
    /// The most frequent values with their counts, most frequent first; equally frequent ones by ascending value; at
    /// most [`COMMON`].
    pub common: Vec<(u64, u64)>,
    /// All values in ascending bins: one per value, or if there are many, one per power of two.
    pub bins: Vec<Bin>,
}

/// Maximum number of values in [`Histogram::common`].
pub const COMMON: usize = 1000;

/// Counts values.
#[must_use]
pub fn histogram(values: &[u64]) -> Histogram {
    let mut common = count_values(&mut values.to_vec());
    let bins = bins(&common);
    let different = common.len() as u64;
    common.sort_by_key(|(value, count)| (std::cmp::Reverse(*count), *value));
    common.truncate(COMMON);
    Histogram {
        total: values.len() as u64,
        different,
        common,
        bins,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::tests::access;
    use trace_core::recording::{EventsBuilder, Space, SpaceKind};

    #[test]
    fn accesses_are_counted_by_the_chosen_group() {
        let mut b = EventsBuilder::new();
        // The clock runs backwards once.
        for (time, thread, a) in [
            (10, 1, access(false, 0x2428, 1)),
            (30, 2, access(true, 0x2428, 5)),
            (20, 1, access(false, 0x2428, 1)),
            (25, 1, access(true, 0x1860, 9)),
        ] {
            b.access(time, thread, a);
        }
        let mut recording = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        recording.metadata.identity.gpu_id = 0x6000_0000;
        let count = |by| Count {
            by,
            among: None,
            histogram: false,
        };
        let usage_by = |by| usage(&recording, &Derived::default(), count(by), &Progress::new()).unwrap();
        let registers = usage_by(GroupBy::Register);
        assert_eq!(registers.len(), 2);
        let status = &registers[1];
        assert_eq!((status.accesses, status.reads, status.writes), (3, 2, 1));
        assert_eq!((status.first_event, status.last_event, status.values), (0, 2, 2));
        let gaps = status.gaps.unwrap();
        assert_eq!((gaps.min, gaps.max, gaps.mean, gaps.median), (-10, 20, 5.0, 5.0));
        assert_eq!(registers[0].gaps, None, "a single access has no gap");
        let threads: Vec<_> = usage_by(GroupBy::Thread)
            .iter()
            .map(|t| (t.name.clone(), t.accesses))
            .collect();
        assert_eq!(threads, [(Some("1".into()), 3), (Some("2".into()), 1)]);
        let jobs = usage_by(GroupBy::Job);
        assert_eq!((jobs.len(), &jobs[0].name, jobs[0].accesses), (1, &None, 4));
        assert_eq!(usage_by(GroupBy::Block).iter().map(|b| b.accesses).sum::<u64>(), 4);
    }

    #[test]
    fn statistics_cover_only_the_selected_events() {
        let mut b = EventsBuilder::new();
        b.mark(0, "begin");
        for n in 0..1000u64 {
            // The accesses alternate between two registers: one with rising values, and one with repeated values.
            let (offset, value) = if n % 2 == 0 { (0x2428, n) } else { (0x1860, n % 3) };
            b.access(n * 1_000_000, 1, access(n % 4 == 0, offset, value));
        }
        let recording = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        let among: Selection = (101..=300).collect();
        let count = |histogram| Count {
            by: GroupBy::Register,
            among: Some(&among),
            histogram,
        };
        let all = usage(&recording, &Derived::default(), count(true), &Progress::new()).unwrap();
        assert_eq!(all.iter().map(|u| u.accesses).collect::<Vec<_>>(), [100, 100]);
        assert_eq!((all[1].first_event, all[1].last_event), (101, 299));
        // The accesses are two milliseconds apart.
        assert_eq!(all[1].rate, Some(500.0));
        let bins = |u: &Usage| u.histogram.iter().map(|b| (b.from, b.to, b.count)).collect::<Vec<_>>();
        assert_eq!(bins(&all[0]), [(0, 0, 33), (1, 1, 33), (2, 2, 34)]);
        assert_eq!(bins(&all[1]), [(64, 127, 14), (128, 255, 64), (256, 511, 22)]);
        let plain = usage(&recording, &Derived::default(), count(false), &Progress::new()).unwrap();
        assert!(plain.iter().all(|u| u.histogram.is_empty()));
        let none = Selection::default();
        let empty = Count {
            among: Some(&none),
            ..count(true)
        };
        assert_eq!(
            usage(&recording, &Derived::default(), empty, &Progress::new()).unwrap(),
            []
        );
    }

    #[test]
    fn recordings_without_accesses_have_no_groups() {
        use trace_core::recording::InterruptRow;
        let mut marks = EventsBuilder::new();
        marks.mark(1, "begin");
        marks.interrupt(2, InterruptRow { line: 0, status: 1 });
        for events in [EventsBuilder::new().finish(), marks.finish()] {
            let recording = Recording {
                events,
                ..Recording::default()
            };
            for by in GroupBy::ALL {
                for histogram in [false, true] {
                    let count = Count {
                        by,
                        among: None,
                        histogram,
                    };
                    let found = usage(&recording, &Derived::default(), count, &Progress::new()).unwrap();
                    assert_eq!(found, [], "{by:?}");
                }
            }
        }
    }

    #[test]
    fn values_are_counted_and_the_most_frequent_come_first() {
        let h = histogram(&[5, 7, 5, u64::MAX, 7, 5, 0]);
        assert_eq!((h.total, h.different), (7, 4));
        assert_eq!(h.common, [(5, 3), (7, 2), (0, 1), (u64::MAX, 1)]);
        let bins: Vec<_> = h.bins.iter().map(|b| (b.from, b.to, b.count)).collect();
        assert_eq!(bins, [(0, 0, 1), (5, 5, 3), (7, 7, 2), (u64::MAX, u64::MAX, 1)]);
        let many: Vec<u64> = (0..5000).collect();
        let h = histogram(&many);
        assert_eq!((h.total, h.different, h.common.len()), (5000, 5000, COMMON));
        assert_eq!(h.common[0], (0, 1));
        assert_eq!(h.bins.len(), 14, "one bin for 0, and one bin for each power of two");
        assert_eq!(h.bins.iter().map(|b| b.count).sum::<u64>(), 5000);
        assert_eq!(histogram(&[]), Histogram::default());
    }

    #[test]
    fn cancelled_usage_returns_no_rows() {
        let mut b = EventsBuilder::new();
        b.access(1, 1, access(true, 0x2428, 5));
        let recording = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        let cancelled = Progress::new();
        cancelled.cancel();
        let count = Count {
            by: GroupBy::Register,
            among: None,
            histogram: false,
        };
        let result = usage(&recording, &Derived::default(), count, &cancelled);
        assert!(matches!(result, Err(Cancelled)), "{result:?}");
    }

    #[test]
    fn accesses_over_several_registers_of_configuration_space_have_their_names() {
        let mut events = EventsBuilder::new();
        for (offset, width) in [(0, 4), (4, 2), (4, 4), (0x10, 4), (0x3d, 1)] {
            let access = Access {
                space: 0,
                write: false,
                offset: RegOffset::new(offset),
                width,
                value: 0,
            };
            events.access(0, 0, access);
        }
        let mut recording = Recording {
            events: events.finish(),
            ..Recording::default()
        };
        recording.metadata.spaces.push(Space {
            name: "config".to_owned(),
            kind: SpaceKind::Config,
            bytes: 256,
        });
        let count = Count {
            by: GroupBy::Register,
            among: None,
            histogram: false,
        };
        let found = usage(&recording, &Derived::default(), count, &Progress::new()).unwrap();
        let names: Vec<_> = found.iter().map(|u| u.name.clone().unwrap_or_default()).collect();
        let registers = RecordedRegisters::new(&recording).unwrap();
        let expected = [(0, 4), (4, 4), (0x10, 4), (0x3d, 1)].map(|(offset, width)| {
            let access = Access {
                space: 0,
                write: false,
                offset: RegOffset::new(offset),
                width,
                value: 0,
            };
            registers.name_of(&access).unwrap().into_owned()
        });
        assert_eq!(names, expected);
        assert!(names[0].contains(" to ") && names[1].contains(" to "), "{names:?}");
    }

    #[test]
    fn job_statistics_agree_with_the_job_filter() {
        use trace_core::filter::Query;
        use trace_core::registers::RegisterMap;
        let mut early_groups = 0;
        for name in ["vecadd.kine", "matmul.kine"] {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample-traces/").to_owned() + name;
            let recording = trace_core::container::open(path.as_ref()).unwrap();
            let map = RegisterMap::built_in_for(&recording).unwrap();
            let timeline = trace_core::timeline::derive(&recording, map, &Progress::new()).unwrap();
            let derived = Derived::from(&timeline);
            let count = Count {
                by: GroupBy::Job,
                among: None,
                histogram: false,
            };
            let groups = usage(&recording, &derived, count, &Progress::new()).unwrap();
            assert!(!timeline.jobs.is_empty());
            let select = |text: &str| {
                let filter = Query::parse(text).unwrap().compile(&recording, Some(&derived)).unwrap();
                filter.select(&recording.events, &Progress::new()).unwrap()
            };
            for job in 0..timeline.jobs.len() {
                let found = select(&format!("access and job = {job}"));
                let group = groups.iter().find(|g| g.name == Some(job.to_string())).unwrap();
                let report = (group.accesses, Some(group.first_event), Some(group.last_event));
                let last = found.len().checked_sub(1).and_then(|n| found.get(n));
                assert_eq!(report, (found.len(), found.get(0), last), "{name}, job {job}");
                // The accesses that prepare a job come before its submit.
                early_groups += u64::from(group.first_event < timeline.jobs[job].submit_event);
            }
            let none = select("access and not job").len();
            let nameless = groups.iter().find(|g| g.name.is_none()).map_or(0, |g| g.accesses);
            assert_eq!(nameless, none, "{name}");
            assert!(none > 0, "no access is before, between or after jobs");
        }
        assert!(early_groups > 0);
    }
}
