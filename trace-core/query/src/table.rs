//! Recordings as polars tables.

use polars::prelude::*;
use trace_core::Recording;
use trace_core::registers::RegisterMap;

/// Why a table could not be made.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// polars refused.
    #[error("a table could not be made: {0}")]
    Polars(#[from] PolarsError),
}

/// The accesses of a recording, one row each: `event`, `time_ns`, `thread`, `space`, `write`, `offset`, `width`,
/// `value`. Columns are copied once; events of other kinds are not in the table.
///
/// # Errors
/// When polars refuses the columns.
pub fn accesses(recording: &Recording) -> Result<DataFrame, QueryError> {
    let events = &recording.events;
    let rows = events.offset.len();
    let (mut event, mut time, mut thread) = (
        Vec::with_capacity(rows),
        Vec::with_capacity(rows),
        Vec::with_capacity(rows),
    );
    let (mut space, mut write, mut width) = (
        Vec::with_capacity(rows),
        Vec::with_capacity(rows),
        Vec::with_capacity(rows),
    );
    let (mut offset, mut value) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let mut times = events.time.iter().enumerate();
    let mut threads = events.thread.iter().enumerate();
    for (at, a) in events.accesses(0..events.len()) {
        event.push(at as u64);
        time.push(times.find(|t| t.0 == at).map_or(0, |t| t.1));
        thread.push(threads.find(|t| t.0 == at).map_or(0, |t| t.1));
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

/// How each register was used: `space`, `offset`, `register` (empty where no map knows it), `reads`, `writes`,
/// `first_event`, `last_event`, `values` (different ones). Sorted by space and offset.
///
/// # Errors
/// When polars refuses.
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
    let map = RegisterMap::for_gpu(recording.facts.identity.gpu_id);
    let names: Vec<String> = table
        .column("offset")?
        .u32()?
        .iter()
        .map(|o| o.and_then(|o| map?.at(o)).map_or(String::new(), |r| r.name.clone()))
        .collect();
    table.insert_column(2, Column::new("register".into(), names))?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::{Access, EventsBuilder, InterruptRow};

    pub(crate) fn recording() -> Recording {
        let mut b = EventsBuilder::new();
        let access = |write, offset, value| Access {
            space: 0,
            write,
            offset,
            width: 4,
            value,
        };
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
