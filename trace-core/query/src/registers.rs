//! The table of registers: how often each is read and written.

use crate::accesses::group_accesses;
use crate::batch::{batch, column};
use crate::error::TableError;
use arrow_array::RecordBatch;
use trace_core::progress::Progress;
use trace_core::registers::RecordedRegisters;
use trace_core::{Recording, RegOffset};

/// Builds the table: `space` (its name, as in the table of events), `offset`, `register` (empty if no map knows it),
/// `reads`, `writes`, `first_event`, `last_event`, `values` (number of distinct ones). Sorted by the order of spaces in
/// the recording, then by offset.
pub(crate) fn build_register_table(recording: &Recording, progress: &Progress) -> Result<RecordBatch, TableError> {
    let mut groups = group_accesses(recording, None, progress, |a| {
        u64::from(a.access.space) << 32 | u64::from(a.access.offset.get())
    })?;
    let device = RecordedRegisters::new(recording);
    // The table has no widths: the register at the first byte of an access stands for it.
    let register = |(space, offset): (u32, u32)| {
        let device = device.filter(|d| space == u32::from(d.space()))?;
        Some(device.map().find_containing(RegOffset::new(offset))?.name.as_str())
    };
    let spaces = &recording.metadata.spaces;
    let space = |(space, _): (u32, u32)| spaces.get(space as usize).map(|s| s.name.as_str());
    let values: Vec<u64> = groups.iter_mut().map(|g| g.count_values().len() as u64).collect();
    let counts = |count: fn(&crate::accesses::AccessGroup) -> u64| groups.iter().map(count).collect::<Vec<_>>();
    batch(vec![
        column("space", groups.iter().map(|g| space(g.first_at)).collect::<Vec<_>>()),
        column("offset", groups.iter().map(|g| g.first_at.1).collect::<Vec<_>>()),
        column(
            "register",
            groups
                .iter()
                .map(|g| register(g.first_at).unwrap_or_default())
                .collect::<Vec<_>>(),
        ),
        column("reads", counts(|g| g.reads)),
        column("writes", counts(|g| g.writes)),
        column("first_event", counts(|g| g.first_event)),
        column("last_event", counts(|g| g.last_event)),
        column("values", values),
    ])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::UInt64Type;
    use trace_core::recording::{Access, EventsBuilder, InterruptRow};

    /// Returns an access of four bytes.
    pub(crate) fn access(write: bool, offset: u32, value: u64) -> Access {
        Access {
            space: 0,
            write,
            offset: RegOffset::new(offset),
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
        r.metadata.identity.gpu_id = 0x60a0_0002;
        r
    }

    #[test]
    fn registers_are_counted() {
        let t = build_register_table(&recording(), &Progress::new()).unwrap();
        let numbers = |name: &str| {
            let column = t.column_by_name(name).unwrap().as_primitive::<UInt64Type>();
            column.iter().flatten().collect::<Vec<_>>()
        };
        let names: Vec<_> = t
            .column_by_name("register")
            .unwrap()
            .as_string::<i32>()
            .iter()
            .flatten()
            .collect();
        assert_eq!(names, ["JS1_COMMAND_NEXT", "AS0_STATUS"]);
        assert_eq!(
            t.column_by_name("space").unwrap().null_count(),
            2,
            "no space has a name"
        );
        assert_eq!((numbers("reads"), numbers("writes")), (vec![0, 2], vec![1, 0]));
        assert_eq!(
            (numbers("first_event"), numbers("last_event"), numbers("values")),
            (vec![3, 0], vec![3, 2], vec![1, 2])
        );
    }

    #[test]
    fn a_recording_without_accesses_has_a_table_without_rows() {
        let empty = build_register_table(&Recording::default(), &Progress::new()).unwrap();
        assert_eq!((empty.num_rows(), empty.num_columns()), (0, 8));
    }
}
