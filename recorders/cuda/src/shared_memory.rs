//! Memory shared by host and device, managed or pinned. Page hashes before a launch that accesses it find the host's
//! writes; page hashes after it find the launch's writes.
//!
//! Both are recorded as copies, so that a replay brings the former to the device and compares the latter.

use crate::contexts::wait_bounded;
use crate::memory::{Memory, SharedRange};
use crate::process_memory::{HostAddr, read_process_memory};
use crate::trace::{Form, Trace, lock};
use cuda_driver::CuStream;
use cuda_session::{EntryPayload, PageHashes, hash_pages};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::GpuVa;
use trace_core::recording::{CALL_ASYNC, CallEvent, CopyKind, CopyRow};

/// First address of all shared memory so far, and one past the last.
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
static END: AtomicU64 = AtomicU64::new(0);

/// Known content of shared memory: page hashes of the last check.
pub(crate) type SharedContent = PageHashes;

/// The side that made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeSource {
    Host,
    Launch,
}

/// Adds a range that host and device share from now on.
pub(crate) fn add_range(at: GpuVa, bytes: u64) {
    FIRST.fetch_min(at.get(), Ordering::Relaxed);
    END.fetch_max(at.saturating_add(bytes).get(), Ordering::Relaxed);
}

/// Returns the shared memory that a launch with these arguments accesses. Managed memory can point to other managed
/// memory: a launch that accesses some of it counts as an access to all of it.
#[inline]
pub(crate) fn find_reached(memory: &Mutex<Memory>, arguments: Option<&[u8]>) -> Vec<SharedRange> {
    let (first, end) = (FIRST.load(Ordering::Relaxed), END.load(Ordering::Relaxed));
    if first >= end {
        return Vec::new();
    }
    let words = arguments.unwrap_or_default().as_chunks::<8>().0;
    let named: Vec<GpuVa> = words
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .filter(|word| (first..end).contains(word))
        .map(GpuVa::new)
        .collect();
    if named.is_empty() {
        return Vec::new();
    }
    let memory = lock(memory);
    let mut found: Vec<SharedRange> = named.iter().filter_map(|at| memory.find_shared(*at)).collect();
    if found.iter().any(|range| range.managed) {
        found.extend(memory.managed());
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the managed memory that a copy reads, if any.
#[inline]
pub(crate) fn find_copy_source(memory: &Mutex<Memory>, row: &CopyRow) -> Vec<SharedRange> {
    let (first, end) = (FIRST.load(Ordering::Relaxed), END.load(Ordering::Relaxed));
    let from_device = [CopyKind::DeviceToHost as u32, CopyKind::DeviceToDevice as u32].contains(&row.kind);
    if !from_device || !(first..end).contains(&row.from) {
        return Vec::new();
    }
    let found = lock(memory).find_shared(GpuVa::new(row.from));
    found.filter(|range| range.managed).into_iter().collect()
}

/// Records the host's writes before a launch in a stream that accesses shared memory. Returns `false` if the writes
/// cannot be known.
pub(crate) fn record_host_writes(
    trace: &Trace,
    known: &Mutex<SharedContent>,
    ranges: &[SharedRange],
    stream: CuStream,
    form: Form,
) -> bool {
    if !wait_bounded(trace, form.real_stream(stream)) {
        trace.note_not_recorded(
            "host memory",
            "a launch accesses memory that host and device share, but earlier work in its stream does not end: what \
             the host wrote there is not in the recording",
        );
        return false;
    }
    record_changes(trace, known, ranges, stream, form, ChangeSource::Host);
    true
}

/// Records the writes of a launch to shared memory, after the launch.
pub(crate) fn record_launch_writes(
    trace: &Trace,
    known: &Mutex<SharedContent>,
    ranges: &[SharedRange],
    stream: CuStream,
    form: Form,
) {
    if wait_bounded(trace, form.real_stream(stream)) {
        record_changes(trace, known, ranges, stream, form, ChangeSource::Launch);
        return;
    }
    trace.note_not_recorded(
        "host memory",
        "a launch that accesses memory that host and device share did not end in time: what it wrote there is not in \
         the recording",
    );
}

/// Records the host's writes to managed memory after the last launch that accessed it, when the recorded range ends.
pub(crate) fn record_final_writes(trace: &Trace, known: &Mutex<SharedContent>, memory: &Mutex<Memory>) {
    let mut ranges: Vec<SharedRange> = lock(memory).managed().collect();
    ranges.retain(|range| lock(known).has_range(range.at, range.bytes));
    let stream = std::ptr::null_mut();
    if !ranges.is_empty() && wait_bounded(trace, stream) {
        record_changes(trace, known, &ranges, stream, Form::Legacy, ChangeSource::Host);
    }
}

fn record_changes(
    trace: &Trace,
    known: &Mutex<SharedContent>,
    ranges: &[SharedRange],
    stream: CuStream,
    form: Form,
    by: ChangeSource,
) {
    let mut held = lock(known);
    for range in ranges {
        let Some(content) = content(range) else {
            continue;
        };
        let changed = held.update(range.at, range.bytes, 0, &hash_pages(range.at, &content));
        for change in changed {
            let part = change.start as usize..change.end as usize;
            let Some(bytes) = content.get(part) else { continue };
            let begun = trace.session.start_call();
            let at = range.at + change.start;
            let kind = match by {
                ChangeSource::Host => CopyKind::HostToDevice,
                ChangeSource::Launch => CopyKind::DeviceToHost,
            };
            let row = CopyRow {
                to: at.get(),
                from: at.get(),
                bytes: bytes.len() as u64,
                rows: 1,
                kind: kind as u32,
                stream: trace.stream_number(stream, form),
                flags: CALL_ASYNC,
                ..CopyRow::default()
            };
            trace.record(begun, CallEvent::Copy(row), EntryPayload::Content(bytes.to_vec()));
        }
    }
}

/// Returns the content of shared memory, if it is readable.
fn content(range: &SharedRange) -> Option<Vec<u8>> {
    let mut content = vec![0; usize::try_from(range.bytes).ok()?];
    let from = HostAddr::from_shared(range.at);
    // The kernel does not read managed memory for other processes: it moves when the process itself accesses it.
    if range.managed {
        // SAFETY: the driver gave the process this memory of this size, and it was not freed.
        unsafe { std::ptr::copy_nonoverlapping(from.pointer(), content.as_mut_ptr(), content.len()) };
        return Some(content);
    }
    read_process_memory(from, &mut content).then_some(content)
}
