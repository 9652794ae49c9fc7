//! Copies and fills of a recording, and the rows of bytes that they cover, with the gaps between them.

use crate::GpuVa;
use crate::recording::{CALL_CAPTURED, CallEvent, CopyRow, Events, FillRow, LaunchRow, OrderRow};

/// Tag of a range of rows with gaps between them.
pub(super) const GAPS: u32 = 1;
/// Tag of a range whose reader gives no content: a copy on the device, or one whose content is not recorded.
pub(super) const NOT_RECORDED: u32 = 2;

/// Returns whether the device executes a call of the recording: it did not fail and was not only captured into a
/// graph.
#[must_use]
pub fn has_succeeded(call: &CallEvent) -> bool {
    let flags = match call {
        CallEvent::Launch(LaunchRow { flags, .. })
        | CallEvent::Copy(CopyRow { flags, .. })
        | CallEvent::Fill(FillRow { flags, .. }) => *flags,
        CallEvent::Order(row) => row.flags,
        CallEvent::Allocation(_) | CallEvent::Call(_) => 0,
    };
    call.result() == 0 && flags & CALL_CAPTURED == 0
}

/// Returns whether a copy is a piece of a snapshot: it belongs to no stream.
pub(super) fn is_snapshot(row: &CopyRow) -> bool {
    row.stream == OrderRow::NONE
}

/// Returns the copy at an event.
pub(super) fn copy_at(events: &Events, event: u64) -> Option<CopyRow> {
    match events.call(usize::try_from(event).ok()?)? {
        CallEvent::Copy(row) => Some(row),
        _ => None,
    }
}

/// Returns the fill at an event.
pub(super) fn fill_at(events: &Events, event: u64) -> Option<FillRow> {
    match events.call(usize::try_from(event).ok()?)? {
        CallEvent::Fill(row) => Some(row),
        _ => None,
    }
}

/// Returns the rows that a copy or a fill writes.
pub(super) fn written_rows(events: &Events, event: u64) -> Option<Rows> {
    match copy_at(events, event) {
        Some(row) => Some(Rows::from_destination(&row)),
        None => Rows::from_fill(&fill_at(events, event)?),
    }
}

/// Rows of bytes that a copy or a fill covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// First address.
    pub at: GpuVa,
    /// Size of a row, bytes.
    pub bytes: u64,
    /// Number of rows.
    pub rows: u64,
    /// Distance between the starts of two consecutive rows, bytes.
    pub pitch: u64,
}

impl Rows {
    pub fn from_destination(row: &CopyRow) -> Self {
        Self {
            at: GpuVa::new(row.to),
            bytes: row.bytes,
            rows: row.rows,
            pitch: row.to_pitch,
        }
    }

    pub fn from_source(row: &CopyRow) -> Self {
        Self {
            at: GpuVa::new(row.from),
            bytes: row.bytes,
            rows: row.rows,
            pitch: row.from_pitch,
        }
    }

    pub fn from_fill(row: &FillRow) -> Option<Self> {
        Some(Self {
            at: row.to,
            bytes: row.row_bytes()?,
            rows: row.rows,
            pitch: row.pitch,
        })
    }

    /// Returns the number of the row that contains an address, and the offset in that row.
    pub fn locate(&self, address: GpuVa) -> Option<(u64, u64)> {
        let by = address.offset_from(self.at)?;
        let (n, offset) = match self.rows {
            0 | 1 => (0, by),
            // If rows overlap, the last one wins; the recording gives no more detail.
            _ if self.pitch == 0 => (self.rows - 1, by),
            _ => ((by / self.pitch).min(self.rows - 1), by),
        };
        let offset = if self.rows > 1 {
            offset.checked_sub(n.checked_mul(self.pitch)?)?
        } else {
            offset
        };
        (offset < self.bytes).then_some((n, offset))
    }

    /// Returns whether a row contains an address, and the next address at which that changes.
    pub fn covers(&self, address: GpuVa) -> (bool, GpuVa) {
        match self.locate(address) {
            Some((_, offset)) => (true, address.saturating_add(self.bytes - offset)),
            None => {
                let by = address.offset_from(self.at).unwrap_or_default();
                let next = by.checked_div(self.pitch).map_or(u64::MAX, |n| n.saturating_add(1));
                (false, self.at.saturating_add(next.saturating_mul(self.pitch)))
            }
        }
    }

    /// Returns the offset of an address in the rows packed without gaps, bytes.
    pub fn before(&self, address: GpuVa) -> Option<u64> {
        let (n, offset) = self.locate(address)?;
        n.checked_mul(self.bytes)?.checked_add(offset)
    }
}
