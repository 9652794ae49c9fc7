//! How registers, blocks, threads and jobs are used, in figures.

use crate::table::{QueryError, accesses};
use polars::prelude::*;
use std::collections::HashMap;
use trace_core::Recording;
use trace_core::registers::RecordedRegisters;
use trace_core::timeline::Timeline;

/// What accesses are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Space and offset.
    Register,
    /// Block of the register map.
    Block,
    /// Thread of the driver.
    Thread,
    /// The submit that the accesses follow.
    Job,
}

/// The accesses of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// Register or block, where the map knows it; thread or job by its number; `None`: unknown to the map, or before
    /// any job.
    pub name: Option<String>,
    /// Index of the space and offset of the first access.
    pub first_at: (u32, u32),
    /// How many.
    pub accesses: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// First event.
    pub first_event: u64,
    /// Last event.
    pub last_event: u64,
    /// Different values.
    pub values: u64,
    /// Times between one access and the next, where there are two or more.
    pub gaps: Option<Gaps>,
}

/// Times between neighbours of a group, ns; below 0 where the clock ran backwards.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// Stands for what no map knows, and for what is before any job.
const NONE: u64 = u64::MAX;

/// Counts the accesses of a recording. Registers come by space and offset, threads and jobs by number, blocks by name;
/// what has no name comes last.
///
/// # Errors
/// When polars refuses.
pub fn usage(recording: &Recording, timeline: &Timeline, by: By) -> Result<Vec<Usage>, QueryError> {
    let device = RecordedRegisters::new(recording);
    let mut blocks: Vec<&str> =
        device.map_or_else(Vec::new, |d| d.map().registers().map(|r| r.block.as_str()).collect());
    blocks.sort_unstable();
    blocks.dedup();
    // The table has no widths: what is at the first byte of an access stands for it.
    let register = |space: u32, offset: u32| device.filter(|d| u32::from(d.space()) == space)?.map().holding(offset);
    let block = |space: u32, offset: u32| {
        let name = register(space, offset).map(|r| r.block.as_str())?;
        blocks.binary_search(&name).ok()
    };
    let submits: Vec<u64> = timeline.jobs.iter().map(|j| j.submit_event).collect();
    let table = accesses(recording)?;
    let (events, times) = (table.column("event")?.u64()?, table.column("time_ns")?.u64()?);
    let (spaces, offsets) = (table.column("space")?.u32()?, table.column("offset")?.u32()?);
    let threads = table.column("thread")?.u32()?;
    let mut keys = Vec::with_capacity(table.height());
    let mut gaps: Vec<Option<i64>> = Vec::with_capacity(table.height());
    let mut last: HashMap<u64, u64> = HashMap::new();
    let rows = events
        .iter()
        .zip(times.iter())
        .zip(spaces.iter())
        .zip(offsets.iter())
        .zip(threads.iter());
    for ((((event, time), space), offset), thread) in rows {
        let (event, time) = (event.unwrap_or(0), time.unwrap_or(0));
        let offset = offset.unwrap_or(0);
        let key = match by {
            By::Register => u64::from(space.unwrap_or(0)) << 32 | u64::from(offset),
            By::Block => block(space.unwrap_or(0), offset).map_or(NONE, |b| b as u64),
            By::Thread => u64::from(thread.unwrap_or(0)),
            By::Job => submits
                .partition_point(|s| *s <= event)
                .checked_sub(1)
                .map_or(NONE, |j| j as u64),
        };
        keys.push(key);
        let gap = last.insert(key, time).map(|before| {
            let signed = i128::from(time) - i128::from(before);
            i64::try_from(signed).unwrap_or(if signed < 0 { i64::MIN } else { i64::MAX })
        });
        gaps.push(gap);
    }
    let mut table = table;
    table.with_column(Column::new("key".into(), keys))?;
    table.with_column(Column::new("gap".into(), gaps))?;
    let out = table
        .lazy()
        .group_by([col("key")])
        .agg([
            col("space").first(),
            col("offset").first(),
            col("event").count().cast(DataType::UInt64).alias("accesses"),
            col("write").not().sum().cast(DataType::UInt64).alias("reads"),
            col("write").sum().cast(DataType::UInt64).alias("writes"),
            col("event").min().alias("first_event"),
            col("event").max().alias("last_event"),
            col("value").n_unique().cast(DataType::UInt64).alias("values"),
            col("gap").min().alias("gap_min"),
            col("gap").median().alias("gap_median"),
            col("gap").mean().alias("gap_mean"),
            col("gap").max().alias("gap_max"),
        ])
        .sort(["key"], SortMultipleOptions::default())
        .collect()?;
    let (keys, spaces, offsets) = (
        out.column("key")?.u64()?,
        out.column("space")?.u32()?,
        out.column("offset")?.u32()?,
    );
    let number = |name: &str, row: usize| Ok::<u64, QueryError>(out.column(name)?.u64()?.get(row).unwrap_or(0));
    let mut all = Vec::with_capacity(out.height());
    for row in 0..out.height() {
        let key = keys.get(row).unwrap_or(NONE);
        let first_at = (spaces.get(row).unwrap_or(0), offsets.get(row).unwrap_or(0));
        let name = match by {
            By::Register => register(first_at.0, first_at.1).map(|r| r.name.clone()),
            By::Block => blocks.get(key as usize).map(|b| (*b).to_owned()),
            By::Thread => Some(key.to_string()),
            By::Job => (key != NONE).then(|| key.to_string()),
        };
        let (min, max) = (out.column("gap_min")?.i64()?, out.column("gap_max")?.i64()?);
        let (median, mean) = (out.column("gap_median")?.f64()?, out.column("gap_mean")?.f64()?);
        let gaps = || {
            Some(Gaps {
                min: min.get(row)?,
                median: median.get(row)?,
                mean: mean.get(row)?,
                max: max.get(row)?,
            })
        };
        all.push(Usage {
            name,
            first_at,
            accesses: number("accesses", row)?,
            reads: number("reads", row)?,
            writes: number("writes", row)?,
            first_event: number("first_event", row)?,
            last_event: number("last_event", row)?,
            values: number("values", row)?,
            gaps: gaps(),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::access;
    use trace_core::recording::EventsBuilder;

    #[test]
    fn accesses_are_counted_by_what_is_asked_for() {
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
        recording.facts.identity.gpu_id = 0x6000_0000;
        let of = |by| usage(&recording, &Timeline::default(), by).unwrap();
        let registers = of(By::Register);
        assert_eq!(registers.len(), 2);
        let status = &registers[1];
        assert_eq!((status.accesses, status.reads, status.writes), (3, 2, 1));
        assert_eq!((status.first_event, status.last_event, status.values), (0, 2, 2));
        let gaps = status.gaps.unwrap();
        assert_eq!((gaps.min, gaps.max, gaps.mean, gaps.median), (-10, 20, 5.0, 5.0));
        assert_eq!(registers[0].gaps, None, "one access has no neighbour");
        let threads: Vec<_> = of(By::Thread).iter().map(|t| (t.name.clone(), t.accesses)).collect();
        assert_eq!(threads, [(Some("1".into()), 3), (Some("2".into()), 1)]);
        let jobs = of(By::Job);
        assert_eq!((jobs.len(), &jobs[0].name, jobs[0].accesses), (1, &None, 4));
        assert_eq!(of(By::Block).iter().map(|b| b.accesses).sum::<u64>(), 4);
    }
}
