//! Mappings of the driver's files in a log of system calls.

use super::log::DriverLog;
use std::collections::BTreeMap;
use std::ops::Range;
use trace_core::GpuVa;
use trace_core::recording::{ObjectAction, ObjectKind, ObjectRow};

/// Current mappings by their CPU address.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    current: BTreeMap<u64, ObjectRow>,
}

impl Mappings {
    /// Whether a mapping begins in a range of CPU addresses.
    pub(super) fn begins_in(&self, range: &Range<u64>) -> bool {
        !range.is_empty() && self.current.range(range.clone()).next().is_some()
    }

    /// Adds a mapping of a file of the driver. libcuda maps at the GPU address, and only such a mapping has a fixed
    /// address; for others the GPU address is unknown.
    pub(super) fn map(&mut self, range: &Range<u64>, is_fixed: bool, log: &mut DriverLog) {
        let row = ObjectRow {
            bytes: range.end - range.start,
            address: if is_fixed {
                GpuVa::new(range.start)
            } else {
                ObjectRow::UNKNOWN_ADDRESS
            },
            kind: ObjectKind::Buffer as u32,
            caller: log.name("mmap"),
            ..ObjectRow::default()
        };
        log.object(ObjectAction::Create, row);
        self.current.insert(range.start, row);
    }

    /// Ends the mappings that begin in a range of CPU addresses.
    pub(super) fn unmap(&mut self, range: &Range<u64>, log: &mut DriverLog) {
        while self.begins_in(range)
            && let Some((at, row)) = self.current.range(range.clone()).next().map(|(at, row)| (*at, *row))
        {
            self.current.remove(&at);
            log.object(ObjectAction::Free, row);
        }
    }
}

/// Returns the range of a mapping, or `None` if it has no bytes or ends after the last address.
pub(super) fn range(at: u64, bytes: u64) -> Option<Range<u64>> {
    let range = at..at.checked_add(bytes)?;
    (!range.is_empty()).then_some(range)
}
