//! Content of copies, read from the program's own memory.

use crate::process_memory::{HostAddr, read_process_memory};
use crate::trace::Trace;
use cuda_session::{EntryPayload, Slot};
use trace_core::recording::CopyRow;

/// Size of one read, bytes: longer content is handed over in parts, so that it is never all in memory twice.
const PIECE: u64 = 64 << 20;

/// Returns the content of a copy, from this process's memory at an address.
pub(crate) fn content_at(trace: &Trace, from: HostAddr, pitch: u64, row: &CopyRow) -> EntryPayload {
    if row.total().is_none_or(|n| n <= PIECE) {
        return gather(from, pitch, row.bytes, row.rows).map_or(EntryPayload::Nothing, EntryPayload::Content);
    }
    let slot = trace.session.new_slot();
    match supply_parts(trace, slot, from, pitch, row) {
        true => EntryPayload::Parts(slot),
        false => EntryPayload::Nothing,
    }
}

/// Supplies awaited content from this process's memory at an address.
pub(crate) fn supply(trace: &Trace, slot: Slot, from: HostAddr, pitch: u64, row: &CopyRow) {
    if row.total().is_some_and(|n| n > PIECE) && supply_parts(trace, slot, from, pitch, row) {
        trace.session.supply_parts(slot);
        return;
    }
    let content = gather(from, pitch, row.bytes, row.rows);
    trace.session.supply(slot, content);
}

/// Hands a copy's content over in parts that start at pages of the device. Returns `false` if some of it is not
/// readable.
fn supply_parts(trace: &Trace, slot: Slot, from: HostAddr, pitch: u64, row: &CopyRow) -> bool {
    let Some(total) = row.total() else { return false };
    let (device, page) = (row.device(), trace_core::PAGE_SIZE as u64);
    let linear = row.rows == 1 || pitch == row.bytes;
    let mut done = 0;
    while done < total {
        let page_start = device.wrapping_add(done + PIECE).align_down(page);
        let to = page_start.wrapping_sub(device.get()).get().min(total);
        let mut part = vec![0; (to - done) as usize];
        let read = if linear {
            read_process_memory(from.wrapping_add(done), &mut part)
        } else {
            read_rows(from, pitch, row.bytes, done, &mut part)
        };
        if !read {
            return false;
        }
        trace.session.supply_part(slot, device.wrapping_add(done), part);
        done = to;
    }
    true
}

/// Reads bytes of rows, from byte `first` of all rows on. Returns `false` if some of them are not readable.
fn read_rows(from: HostAddr, pitch: u64, bytes: u64, first: u64, to: &mut [u8]) -> bool {
    let mut at = first;
    let mut rest = to;
    while !rest.is_empty() {
        let (row, column) = (at / bytes, at % bytes);
        let length = (bytes - column).min(rest.len() as u64);
        let (part, behind) = rest.split_at_mut(length as usize);
        let place = pitch
            .checked_mul(row)
            .and_then(|n| from.checked_add(n)?.checked_add(column));
        if !place.is_some_and(|place| read_process_memory(place, part)) {
            return false;
        }
        at += length;
        rest = behind;
    }
    true
}

/// Reads the rows of a copy from this process's memory, one after another. Returns `None` if some are not readable.
fn gather(from: HostAddr, pitch: u64, bytes: u64, rows: u64) -> Option<Vec<u8>> {
    let total = usize::try_from(bytes.checked_mul(rows)?).ok()?;
    let mut all = vec![0; total];
    let read = if rows == 1 || pitch == bytes {
        read_process_memory(from, &mut all)
    } else {
        total == 0 || read_rows(from, pitch, bytes, 0, &mut all)
    };
    read.then_some(all)
}
