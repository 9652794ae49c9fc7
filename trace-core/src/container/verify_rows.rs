//! Verification of section contents: references between rows, kinds, widths, page images against their digests,
//! records.

use super::error::ContainerError;
use super::layout::{Encoding, digest};
use super::reader::{KineFile, Lender};
use super::verify::VerifyReport;
use crate::progress::Progress;
use crate::recording::{
    Column, EventKind, Events, HostWriteRow, Metadata, NO_CONTENT, PageId, PageStore, SectionKind, SharedBytes,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of rows between two checks for cancellation.
const STEP: usize = 1 << 20;

/// Verifies the rows and records of an opened file.
pub(super) fn check(
    file: &KineFile,
    bytes: &Arc<dyn SharedBytes>,
    progress: &Progress,
    report: &mut VerifyReport,
) -> Result<(), ContainerError> {
    // Rows are checked as stored: digest mismatches were listed before.
    let lender = Lender { bytes, checked: false };
    let metadata = report_error(file.facts(), report);
    let marks = report_error(file.marks(), report).map_or(u64::MAX, |m| m.len() as u64);
    let mut typed = Metadata::default();
    report_error(file.add_records(&mut typed), report);
    if let Some(mut extras) = report_error(file.extras(), report) {
        for block in file.take_old_extras(&mut extras, &mut typed) {
            report.add(block.bytes.start, block.to_string());
        }
    }
    if let Some(events) = report_error(file.columns(&lender), report) {
        let spaces = metadata.as_ref().map_or(u64::MAX, |f| f.spaces.len() as u64);
        rows(file, &events, spaces, marks, progress, report)?;
    }
    if let Some((snapshots, _)) = report_error(file.snapshots(), report) {
        let at = file.of_kind(SectionKind::Snapshots).next().map_or(0, |e| e.offset);
        for (i, s) in snapshots.iter().enumerate().filter(|(_, s)| s.event > file.events()) {
            let what = format!(
                "snapshot {i} belongs to event {}, but there are {} events",
                s.event,
                file.events()
            );
            report.add(at, what);
        }
    }
    if let Some(store) = report_error(file.pages(&lender), report) {
        pages(file, &store, progress, report)?;
    }
    if let Some(metadata) = metadata {
        links(file, &metadata, report);
    }
    Ok(())
}

/// Returns what was read, or reports its error as a finding; a section with a known digest mismatch is not reported
/// again.
fn report_error<T>(read: Result<T, ContainerError>, report: &mut VerifyReport) -> Option<T> {
    match read {
        Ok(v) => Some(v),
        Err(e) => {
            let byte = e.byte().unwrap_or(0);
            let (place, text) = (e.place().map(|p| format!("{p}: byte {byte:#x}: ")), e.to_string());
            // The report is about one file and has its own byte field.
            let what = place
                .and_then(|p| text.strip_prefix(&p).map(str::to_owned))
                .unwrap_or(text);
            if !report.findings.iter().any(|p| p.byte == byte && p.message == what) {
                report.add(byte, what);
            }
            None
        }
    }
}

/// Returns the file offset of a row of a column; for a constant chunk, that of its table entry.
fn byte_of(file: &KineFile, kind: SectionKind, row: usize) -> u64 {
    let row = row as u64;
    for e in file.of_kind(kind) {
        let Some(at) = row.checked_sub(e.first_row).filter(|at| *at < e.rows) else {
            continue;
        };
        if e.encoding == Encoding::Constant as u32 {
            return e.entry_at;
        }
        return e.offset.saturating_add(at.saturating_mul(u64::from(e.row_bytes)));
    }
    0
}

fn rows(
    file: &KineFile,
    events: &Events,
    spaces: u64,
    marks: u64,
    progress: &Progress,
    report: &mut VerifyReport,
) -> Result<(), ContainerError> {
    let accesses = events.offset.len() as u64;
    let tables = [
        accesses,
        accesses,
        events.interrupts.len() as u64,
        marks,
        events.submits.len() as u64,
        events.host_writes.len() as u64,
        events.undecoded.len() as u64,
        events.dma_maps.len() as u64,
        events.launches.len() as u64,
        events.copies.len() as u64,
        events.fills.len() as u64,
        events.orders.len() as u64,
        events.allocations.len() as u64,
        events.calls.len() as u64,
        events.objects.len() as u64,
        events.ring_entries.len() as u64,
        events.saved_memory.len() as u64,
    ];
    let kinds = events.kind.iter().zip(events.payload.iter()).zip(events.space.iter());
    for (row, ((raw, payload), space)) in kinds.enumerate() {
        if row % STEP == 0 {
            progress.check()?;
        }
        let Some(kind) = EventKind::from_raw(raw) else {
            report.add_with(|| {
                (
                    byte_of(file, SectionKind::EventKind, row),
                    format!("event {row} is of unknown kind {raw}"),
                )
            });
            continue;
        };
        let table = tables.get(kind as usize - 1).copied().unwrap_or(0);
        if u64::from(payload) >= table {
            report.add_with(|| {
                let what = format!("event {row} names row {payload}, but its table has {table}");
                (byte_of(file, SectionKind::EventPayload, row), what)
            });
        }
        if matches!(kind, EventKind::Read | EventKind::Write | EventKind::Undecoded) && u64::from(space) >= spaces {
            report.add_with(|| {
                let what = format!("event {row} goes to space {space}, but there are {spaces}");
                (byte_of(file, SectionKind::EventSpace, row), what)
            });
        }
    }
    widths(file, &events.width, &events.value, progress, report)?;
    host_writes(file, &events.host_writes, progress, report)?;
    calls(file, events, progress, report)
}

/// Checks that rows of calls refer to bytes and pages that exist.
fn calls(
    file: &KineFile,
    events: &Events,
    progress: &Progress,
    report: &mut VerifyReport,
) -> Result<(), ContainerError> {
    progress.check()?;
    let bytes = events.call_bytes.len() as u64;
    let launches = events.launches.iter().map(|l| (l.arguments_at, l.arguments));
    let others = events.calls.iter().map(|c| (c.arguments_at, c.arguments));
    let launches = launches
        .enumerate()
        .map(|(row, at)| (SectionKind::Launches, "launch", row, at));
    let others = others
        .enumerate()
        .map(|(row, at)| (SectionKind::Calls, "call", row, at));
    for (kind, word, row, (at, length)) in launches.chain(others) {
        if at.checked_add(u64::from(length)).is_none_or(|end| end > bytes) {
            report.add_with(|| {
                let what = format!("{word} {row} has {length} bytes of arguments from {at} on, but there are {bytes}");
                (byte_of(file, kind, row), what)
            });
        }
    }
    let named = events.call_pages.len() as u64;
    let copies = events.copies.iter().map(|c| (c.pages_at, c.stored()));
    let entries = events.ring_entries.iter().map(|r| (r.pages_at, Some(r.stored())));
    let saved = events.saved_memory.iter().map(|s| (s.pages_at, Some(s.stored())));
    let of = |kind, word| move |(row, (at, stored))| (kind, word, row, at, stored);
    let all = copies.enumerate().map(of(SectionKind::Copies, "copy"));
    let all = all.chain(entries.enumerate().map(of(SectionKind::RingEntries, "ring entry")));
    let all = all.chain(saved.enumerate().map(of(SectionKind::SavedMemory, "saved memory")));
    for (kind, word, row, at, stored) in all.filter(|(_, _, _, at, _)| *at != NO_CONTENT) {
        let rows = stored.and_then(|s| s.rows());
        if rows.is_none_or(|r| r.end > named) {
            report.add_with(|| {
                let what = format!("{word} {row} names pages from {at} on, but there are {named}");
                (byte_of(file, kind, row), what)
            });
        }
    }
    let pages: u64 = file.of_kind(SectionKind::PageDigests).map(|e| e.rows).sum();
    for (row, page) in events.call_pages.iter().enumerate() {
        if row % STEP == 0 {
            progress.check()?;
        }
        if u64::from(page) > pages {
            report.add_with(|| {
                let what = format!("page {row} of calls is page {page}, but there are {pages}");
                (byte_of(file, SectionKind::CallPages, row), what)
            });
        }
    }
    Ok(())
}

/// Checks that host writes have at least one byte, stay in one page, and refer to a page that exists.
fn host_writes(
    file: &KineFile,
    rows: &Column<HostWriteRow>,
    progress: &Progress,
    report: &mut VerifyReport,
) -> Result<(), ContainerError> {
    let pages: u64 = file.of_kind(SectionKind::PageDigests).map(|e| e.rows).sum();
    for (row, w) in rows.iter().enumerate() {
        if row % STEP == 0 {
            progress.check()?;
        }
        let place = || byte_of(file, SectionKind::HostWrites, row);
        if w.piece().is_none() {
            report.add_with(|| {
                let what = format!(
                    "host write {row} of {} bytes at {:#x} spans more than one page",
                    w.bytes, w.at
                );
                (place(), what)
            });
        }
        if u64::from(w.page) > pages {
            report.add_with(|| {
                (
                    place(),
                    format!("host write {row} names page {}, but there are {pages}", w.page),
                )
            });
        }
    }
    Ok(())
}

fn widths(
    file: &KineFile,
    width: &Column<u8>,
    value: &Column<u64>,
    progress: &Progress,
    report: &mut VerifyReport,
) -> Result<(), ContainerError> {
    for (row, (width, value)) in width.iter().zip(value.iter()).enumerate() {
        if row % STEP == 0 {
            progress.check()?;
        }
        if !matches!(width, 1 | 2 | 4 | 8) {
            report.add_with(|| {
                let what = format!("access {row} is {width} bytes wide");
                (byte_of(file, SectionKind::AccessWidth, row), what)
            });
        } else if width < 8 && value >> (8 * width) != 0 {
            report.add_with(|| {
                let what = format!("access {row} of {width} bytes has value {value:#x}");
                (byte_of(file, SectionKind::AccessValue, row), what)
            });
        }
    }
    Ok(())
}

fn pages(
    file: &KineFile,
    store: &PageStore,
    progress: &Progress,
    report: &mut VerifyReport,
) -> Result<(), ContainerError> {
    for id in 1..=u32::try_from(store.len()).unwrap_or(u32::MAX) {
        progress.check()?;
        let (page, reported) = (store.page(PageId(id)), store.digest(PageId(id)));
        if page.map(|p| digest(p)) != reported {
            report.add_with(|| {
                let what = format!("page {id} does not agree with its digest");
                (byte_of(file, SectionKind::PageImages, id as usize - 1), what)
            });
        }
    }
    Ok(())
}

/// Checks the indices and names in the metadata.
fn links(file: &KineFile, metadata: &Metadata, report: &mut VerifyReport) {
    let at = file.of_kind(SectionKind::Facts).last().map_or(0, |e| e.offset);
    let spaces = metadata.address_spaces.len();
    let mut names = BTreeSet::new();
    for b in &metadata.buffers {
        if b.address_space as usize >= spaces {
            report.add(
                at,
                format!(
                    "buffer {:?} is in address space {}, but there are {spaces}",
                    b.name, b.address_space
                ),
            );
        }
        if b.va.checked_add(b.bytes).is_none() {
            report.add(at, format!("buffer {:?} extends past the last address", b.name));
        }
        if !names.insert(b.name.as_str()) {
            report.add(at, format!("two buffers have the name {:?}", b.name));
        }
    }
    for r in &metadata.regions {
        if r.address_space as usize >= spaces {
            report.add(
                at,
                format!(
                    "a region is in address space {}, but there are {spaces}",
                    r.address_space
                ),
            );
        }
        if r.end < r.start {
            report.add(at, format!("a region begins at {} and ends at {}", r.start, r.end));
        }
    }
}
