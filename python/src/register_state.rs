//! The last known value of each register before an event, as a table.

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use kinescope::cli::Failure;
use kinescope::cli::embedding::EmbeddedRecording;
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::Access;
use trace_query::CollectedTable;

/// Number of accesses between two looks at cancellation.
const CHUNK: usize = 1 << 16;

/// Builds the table. A register that no event before `event` accesses has no row; `None` stands for the end.
///
/// # Errors
/// When the work was cancelled, or the table cannot be built.
pub fn build(
    recording: &EmbeddedRecording,
    event: Option<u64>,
    progress: &Progress,
) -> Result<CollectedTable, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::file(recording.path(), e);
    let events = &recording.recording().events;
    let end = event.and_then(|e| usize::try_from(e).ok()).unwrap_or(events.len());
    let end = end.min(events.len());
    progress.set_total(end as u64);
    let mut last: BTreeMap<(u16, u32), (usize, Access)> = BTreeMap::new();
    for (n, (index, access)) in events.accesses(0..end).enumerate() {
        if n % CHUNK == 0 {
            progress.check().map_err(|e| failed(&e))?;
        }
        last.insert((u16::from(access.space), access.offset.get()), (index, access));
    }
    let names = recording.register_names();
    let rows: Vec<&(usize, Access)> = last.values().collect();
    let space = |a: &Access| {
        let spaces = &recording.recording().metadata.spaces;
        spaces.get(usize::from(a.space)).map(|s| s.name.as_str())
    };
    let text = |of: &dyn Fn(&Access) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(|r| of(&r.1)).collect::<StringArray>())
    };
    let number = |of: &dyn Fn(&(usize, Access)) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(|r| Some(of(r))).collect::<UInt64Array>())
    };
    let short = |of: &dyn Fn(&Access) -> u32| -> ArrayRef {
        Arc::new(rows.iter().map(|r| Some(of(&r.1))).collect::<UInt32Array>())
    };
    let columns = [
        ("space", text(&|a| space(a).map(str::to_owned))),
        ("offset", short(&|a| a.offset.get())),
        (
            "register",
            text(&|a| names.and_then(|n| n.name_of(a)).map(std::borrow::Cow::into_owned)),
        ),
        ("width", short(&|a| u32::from(a.width))),
        ("value", number(&|r| r.1.value)),
        (
            "means",
            text(&|a| names.and_then(|n| n.describe(a)).filter(|m| !m.is_empty())),
        ),
        (
            "access",
            text(&|a| Some(if a.write { "write" } else { "read" }.to_owned())),
        ),
        ("event", number(&|r| r.0 as u64)),
    ];
    let columns = columns.map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).map_err(|e| failed(&e))?;
    Ok(CollectedTable {
        batches: vec![batch],
        problems: Vec::new(),
    })
}
