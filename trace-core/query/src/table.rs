//! Recordings as polars tables.

use crate::lend::lend;
use polars::prelude::*;
use trace_core::Recording;
use trace_core::filter::Selection;
use trace_core::progress::Cancelled;
use trace_core::recording::{EventKind, Events};
use trace_core::registers::RecordedRegisters;

/// The reason why a table could not be built.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// polars returned an error.
    #[error("the table cannot be created: {0}")]
    Polars(#[from] PolarsError),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Returns the accesses of a recording, one row each: `event`, `time_ns`, `thread`, `space`, `write`, `offset`,
/// `width`, `value`. Events of other kinds are not in the table.
///
/// `offset` and `value` share the recording's own columns without a copy, and so do `time_ns` and `thread` if every
/// event is an access. The narrow columns are built again. polars keeps the shared columns alive.
///
/// # Errors
///
/// When polars returns an error for the columns.
pub fn accesses(recording: &Recording) -> Result<DataFrame, QueryError> {
    let events = &recording.events;
    let rows = events.offset.len();
    let in_order = rows_are_in_order(events);
    let all = in_order && events.len() == rows;
    let (mut event, mut space) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let (mut write, mut width) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let (mut offset, mut value) = (Vec::new(), Vec::new());
    let (mut time, mut thread) = (Vec::new(), Vec::new());
    let mut times = events.time.iter().enumerate();
    let mut threads = events.thread.iter().enumerate();
    for (at, a) in events.accesses(0..events.len()) {
        event.push(at as u64);
        space.push(u32::from(a.space));
        write.push(a.write);
        width.push(u32::from(a.width));
        if !in_order {
            offset.push(a.offset);
            value.push(a.value);
        }
        if !all {
            time.push(times.find(|t| t.0 == at).map_or(0, |t| t.1));
            thread.push(threads.find(|t| t.0 == at).map_or(0, |t| t.1));
        }
    }
    let height = event.len();
    let (offset, value) = if in_order {
        let (offset, value) = (
            lend::<UInt32Type>("offset", &events.offset),
            lend::<UInt64Type>("value", &events.value),
        );
        (offset.into_column(), value.into_column())
    } else {
        (Column::new("offset".into(), offset), Column::new("value".into(), value))
    };
    let (time, thread) = if all {
        let (time, thread) = (
            lend::<UInt64Type>("time_ns", &events.time),
            lend::<UInt32Type>("thread", &events.thread),
        );
        (time.into_column(), thread.into_column())
    } else {
        (
            Column::new("time_ns".into(), time),
            Column::new("thread".into(), thread),
        )
    };
    let columns = vec![
        Column::new("event".into(), event),
        time,
        thread,
        Column::new("space".into(), space),
        Column::new("write".into(), write),
        offset,
        Column::new("width".into(), width),
        value,
    ];
    Ok(DataFrame::new(height, columns)?)
}

/// Returns the accesses among some events in the form of [`accesses`]; all columns are built again.
///
/// # Errors
///
/// When polars returns an error for the columns.
pub fn accesses_among(recording: &Recording, among: &Selection) -> Result<DataFrame, QueryError> {
    let events = &recording.events;
    let (mut event, mut time, mut thread) = (Vec::new(), Vec::<u64>::new(), Vec::<u32>::new());
    let (mut space, mut write) = (Vec::new(), Vec::new());
    let (mut offset, mut width, mut value) = (Vec::new(), Vec::new(), Vec::new());
    for e in among.iter() {
        let Ok(at) = usize::try_from(e) else { break };
        let Some(a) = events.access(at) else { continue };
        event.push(e);
        time.push(events.time.get(at).unwrap_or(0));
        thread.push(events.thread.get(at).unwrap_or(0));
        space.push(u32::from(a.space));
        write.push(a.write);
        offset.push(a.offset);
        width.push(u32::from(a.width));
        value.push(a.value);
    }
    let height = event.len();
    let columns = vec![
        Column::new("event".into(), event),
        Column::new("time_ns".into(), time),
        Column::new("thread".into(), thread),
        Column::new("space".into(), space),
        Column::new("write".into(), write),
        Column::new("offset".into(), offset),
        Column::new("width".into(), width),
        Column::new("value".into(), value),
    ];
    Ok(DataFrame::new(height, columns)?)
}

/// Whether the accesses in event order are the rows of their columns from first to last. Every builder makes it so, but
/// a file need not.
fn rows_are_in_order(events: &Events) -> bool {
    let is_access = |kind| matches!(EventKind::from_raw(kind), Some(EventKind::Read | EventKind::Write));
    let payloads = events
        .kind
        .iter()
        .zip(events.payload.iter())
        .filter(|(k, _)| is_access(*k));
    let mut rows = 0usize;
    for (_, payload) in payloads {
        if payload as usize != rows {
            return false;
        }
        rows += 1;
    }
    [events.offset.len(), events.width.len(), events.value.len()] == [rows; 3]
}

/// Returns the usage of each register: `space` (its name, as in the table of events), `offset`, `register` (empty if no
/// map knows it), `reads`, `writes`, `first_event`, `last_event`, `values` (number of distinct ones). Sorted by the
/// order of spaces in the recording, then by offset.
///
/// # Errors
///
/// When polars returns an error.
pub fn register_statistics(recording: &Recording) -> Result<DataFrame, QueryError> {
    let mut table = accesses(recording)?
        .lazy()
        .group_by([col("space"), col("offset")])
        .agg([
            col("write").not().sum().alias("reads"),
            col("write").sum().alias("writes"),
            col("event").min().alias("first_event"),
            col("event").max().alias("last_event"),
            col("value").n_unique().alias("values"),
        ])
        .sort(["space", "offset"], SortMultipleOptions::default())
        .collect()?;
    let device = RecordedRegisters::new(recording);
    let (spaces, offsets) = (table.column("space")?.u32()?, table.column("offset")?.u32()?);
    // The table has no widths: the register at the first byte of an access stands for it.
    let name = |space: Option<u32>, offset: Option<u32>| {
        let device = device.filter(|d| space == Some(u32::from(d.space())))?;
        Some(device.map().find_containing(offset?)?.name.clone())
    };
    let names: Vec<String> = spaces
        .iter()
        .zip(offsets.iter())
        .map(|(s, o)| name(s, o).unwrap_or_default())
        .collect();
    let all = &recording.facts.spaces;
    let space = |n: Option<u32>| all.get(n? as usize).map(|s| s.name.as_str());
    let space: Vec<Option<&str>> = spaces.iter().map(space).collect();
    table.insert_column(2, Column::new("register".into(), names))?;
    table.with_column(Column::new("space".into(), space))?;
    Ok(table)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use trace_core::recording::{Access, EventsBuilder, InterruptRow};

    /// Returns an access of four bytes.
    pub(crate) fn access(write: bool, offset: u32, value: u64) -> Access {
        Access {
            space: 0,
            write,
            offset,
            width: 4,
            value,
        }
    }

    pub(crate) fn recording() -> Recording {
        let mut b = EventsBuilder::new();
        b.access(5, 1, access(false, 0x2428, 1));
        b.interrupt(6, InterruptRow { line: 0, status: 2 });
        b.access(7, 2, access(false, 0x2428, 0));
        b.access(9, 1, access(true, 0x18e0, 1));
        let mut r = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        r.facts.identity.gpu_id = 0x60a0_0002;
        r
    }

    #[test]
    fn accesses_are_rows() {
        let t = accesses(&recording()).unwrap();
        assert_eq!(t.shape(), (3, 8));
        let times: Vec<_> = t.column("time_ns").unwrap().u64().unwrap().iter().flatten().collect();
        assert_eq!(times, [5, 7, 9]);
    }

    /// A file may store access rows in another order than their events.
    #[test]
    fn rows_out_of_order_are_put_in_order() {
        let mut r = recording();
        r.events.payload = vec![2u32, 0, 0, 1].into();
        let t = accesses(&r).unwrap();
        let offsets: Vec<_> = t.column("offset").unwrap().u32().unwrap().iter().flatten().collect();
        assert_eq!(offsets, [0x18e0, 0x2428, 0x2428]);
        let values: Vec<_> = t.column("value").unwrap().u64().unwrap().iter().flatten().collect();
        assert_eq!(values, [1, 1, 0]);
    }

    #[test]
    fn registers_are_counted() {
        let t = register_statistics(&recording()).unwrap();
        let text = |name: &str| {
            let c = t.column(name).unwrap();
            (0..t.height())
                .map(|i| c.get(i).unwrap().str_value().into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(text("register"), ["JS1_COMMAND_NEXT", "AS0_STATUS"]);
        assert!(
            t.column("space").unwrap().str().unwrap().iter().all(|s| s.is_none()),
            "none is named"
        );
        assert_eq!(
            (text("reads"), text("writes")),
            (vec!["0".into(), "2".into()], vec!["1".into(), "0".to_string()])
        );
        assert_eq!(
            (text("first_event"), text("last_event"), text("values")),
            (
                vec!["3".to_string(), "0".into()],
                vec!["3".to_string(), "2".into()],
                vec!["1".to_string(), "2".into()],
            )
        );
    }
}
