//! Streams: their progress as the host knows it, and readbacks, whose content is read once they are known to be done.

use crate::content;
use crate::contexts::{current_context, wait_bounded, wait_for_context};
use crate::driver::is_ok;
use crate::memory::{Memory, is_pinned};
use crate::process_memory::HostAddr;
use crate::stream_progress::{Progress, StreamPositions};
use crate::trace::{Form, Trace, lock};
use cuda_driver::{CuResult, CuStream};
use cuda_session::{CallStart, EntryPayload, Slot};
use std::sync::Mutex;
use trace_core::recording::{CallEvent, CopyRow};

/// Size of awaited content that is read at once when the program ends, bytes.
const MAX_BYTES_AT_ONCE: u64 = 64 << 20;

/// The state of all streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub progress: Mutex<Progress>,
    reads: Mutex<Readbacks>,
}

/// Copies to the host that are not known to be done.
#[derive(Debug, Default)]
struct Readbacks {
    waiting: Vec<PendingReadback>,
    next: u64,
    /// Copies that were pending when the program ended, last one first.
    last: Option<Vec<PendingReadback>>,
}

#[derive(Debug)]
struct PendingReadback {
    stream: u64,
    /// The context of the copy's call.
    context: usize,
    work: u64,
    slot: Slot,
    row: CopyRow,
    /// Increases from one to the next.
    number: u64,
}

impl PendingReadback {
    fn is_at(&self, at: HostAddr, bytes: u64) -> bool {
        let to = HostAddr::new(self.row.to);
        to < at.saturating_add(bytes) && at < rows_end(to, self.row.to_pitch, &self.row)
    }
}

/// Returns one past the last address of a copy's rows in host memory.
pub(crate) fn rows_end(at: HostAddr, pitch: u64, c: &CopyRow) -> HostAddr {
    at.saturating_add(pitch.max(c.bytes).saturating_mul(c.rows.saturating_sub(1)))
        .saturating_add(c.bytes)
}

/// Returns whether a copy to the host writes what rows at a host address hold.
pub(crate) fn overlaps(read: &CopyRow, from: HostAddr, pitch: u64, row: &CopyRow) -> bool {
    let to = HostAddr::new(read.to);
    to < rows_end(from, pitch, row) && from < rows_end(to, read.to_pitch, read)
}

impl Streams {
    /// Adds a copy to the host that is done when its stream reaches the work of this number.
    pub fn add_readback(&self, trace: &Trace, begun: CallStart, key: u64, work: u64, row: CopyRow) {
        let slot = trace.session.new_slot();
        let mut reads = lock(&self.reads);
        let to = HostAddr::new(row.to);
        // Content that it overwrites before it was read stays unknown.
        reads.waiting.retain(|w| {
            let stays = !overlaps(&w.row, to, row.to_pitch, &row);
            if !stays {
                trace.session.supply(w.slot, None);
            }
            stays
        });
        let number = reads.next;
        reads.next += 1;
        reads.waiting.push(PendingReadback {
            stream: key,
            context: current_context(),
            work,
            slot,
            row,
            number,
        });
        drop(reads);
        trace.record(begun, CallEvent::Copy(row), EntryPayload::Awaited(slot));
    }

    /// Returns whether a copy that is not known to be done writes to a range of host memory.
    pub fn is_awaited(&self, at: HostAddr, bytes: u64) -> bool {
        lock(&self.reads).waiting.iter().any(|w| w.is_at(at, bytes))
    }

    /// Returns whether the source of a copy from the host is complete when the call returns. The driver reads memory
    /// that it knows when the copy runs. If an earlier copy or a host function has yet to fill it, this waits for the
    /// stream.
    pub fn is_source_ready(
        &self,
        trace: &Trace,
        memory: &Mutex<Memory>,
        (stream, form): (CuStream, Form),
        row: &CopyRow,
    ) -> bool {
        let (key, from) = (form.stream_key(stream), HostAddr::new(row.from));
        let copied = |w: &PendingReadback| overlaps(&w.row, from, row.from_pitch, row);
        let pending = lock(&self.progress).is_behind_host(key) || lock(&self.reads).waiting.iter().any(copied);
        if !pending || !is_pinned(memory, from, rows_end(from, row.from_pitch, row)) {
            return true;
        }
        let waited = wait_bounded(trace, form.real_stream(stream));
        if waited {
            self.stream_done(trace, key);
        } else {
            trace.note_not_recorded(
                "copies",
                "the content of some host-to-device copies is not in the recording: host functions or earlier copies \
                 produce it, and the recorder could not wait for them",
            );
        }
        waited
    }

    /// Notes that the host has waited for a stream.
    pub fn stream_done(&self, trace: &Trace, key: u64) {
        let reached = lock(&self.progress).stream_done(key);
        self.complete(trace, &reached);
    }

    /// Notes that the host has waited for an event.
    pub fn event_done(&self, trace: &Trace, event: usize) {
        let reached = lock(&self.progress).event_done(event);
        self.complete(trace, &reached);
    }

    /// Notes that the host has waited for the calling thread's context, or for all except what `result` says failed.
    pub fn all_done(&self, trace: &Trace, result: Option<CuResult>) {
        if result.is_none_or(is_ok) {
            self.context_done(trace, current_context());
        }
    }

    /// Notes that the host has waited for a context, and reads the copies that were requested in it.
    pub fn context_done(&self, trace: &Trace, context: usize) {
        self.complete_where(trace, |w| w.context == context, true);
    }

    /// Reads the copies to a range of host memory. If the memory is not `there` any more, their content stays unknown.
    pub fn complete_at(&self, trace: &Trace, at: HostAddr, bytes: u64, there: bool) {
        self.complete_where(trace, |w| w.is_at(at, bytes), there);
    }

    /// Waits for the contexts of pending copies to the host, to a range of its memory or all, and reads the copies. A
    /// wait is not allowed during graph capture.
    pub fn wait_for_awaited(&self, trace: &Trace, range: Option<(HostAddr, u64)>) {
        let is_one = |w: &PendingReadback| range.is_none_or(|(at, bytes)| w.is_at(at, bytes));
        let mut contexts: Vec<usize> = lock(&self.reads)
            .waiting
            .iter()
            .filter(|w| is_one(w))
            .map(|w| w.context)
            .collect();
        contexts.sort_unstable();
        contexts.dedup();
        for context in contexts {
            // Copies that are added meanwhile were not waited for.
            let so_far = lock(&self.reads).waiting.last().map_or(0, |w| w.number);
            let waited = !trace.is_capturing() && wait_for_context(Some(context)).is_ok();
            if waited {
                self.complete_where(trace, |w| w.context == context && w.number <= so_far && is_one(w), true);
            }
        }
    }

    /// Reads the copies of streams that are known to have reached these positions.
    fn complete(&self, trace: &Trace, reached: &StreamPositions) {
        self.complete_where(trace, |w| reached.get(&w.stream).is_some_and(|n| w.work <= *n), true);
    }

    fn complete_where(&self, trace: &Trace, done: impl Fn(&PendingReadback) -> bool, there: bool) {
        let mut reads = lock(&self.reads);
        if reads.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut reads.waiting);
        let (done, waiting): (Vec<_>, Vec<_>) = waiting.into_iter().partition(done);
        reads.waiting = waiting;
        // A read of much content can wait for space in the queue: the list must not be locked meanwhile.
        drop(reads);
        for w in &done {
            if there {
                complete_one(trace, w);
            } else {
                trace.session.supply(w.slot, None);
            }
        }
    }

    /// Marks content that is still awaited as unknown.
    pub fn forget_awaited(&self, trace: &Trace) {
        self.complete_where(trace, |_| true, false);
    }

    /// Reads some of the content that was awaited when the program ended. Returns whether there is more: not all of it
    /// is held at once.
    pub fn complete_last(&self, trace: &Trace) -> bool {
        let mut reads = lock(&self.reads);
        let mut last = match reads.last.take() {
            Some(last) => last,
            // Work that other threads add from now on must not delay the end.
            None => std::mem::take(&mut reads.waiting).into_iter().rev().collect(),
        };
        drop(reads);
        let mut bytes = 0u64;
        while bytes < MAX_BYTES_AT_ONCE
            && let Some(w) = last.pop()
        {
            bytes = bytes.saturating_add(w.row.total().unwrap_or(0));
            complete_one(trace, &w);
        }
        let more = !last.is_empty();
        lock(&self.reads).last = Some(last);
        more
    }
}

fn complete_one(trace: &Trace, w: &PendingReadback) {
    content::supply(trace, w.slot, HostAddr::new(w.row.to), w.row.to_pitch, &w.row);
}
