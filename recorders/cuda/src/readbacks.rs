//! Readbacks and other content that is not available when the call returns: copies to the host are read once they are
//! known to be done.

use crate::allocations::wait_for_context;
use crate::content;
use crate::recorder::{Form, Recorder, is_ok, lock};
use crate::resolve::driver;
use crate::stream_progress::StreamPositions;
use cuda_driver::{CuResult, CuStream, NOT_READY, POINTER_MEMORY_TYPE};
use cuda_session::{CallStart, EntryPayload, Slot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trace_core::recording::{CallEvent, CopyRow};

/// Size of awaited content that is read at once when the program ends, bytes.
const MAX_BYTES_AT_ONCE: u64 = 64 << 20;
/// Maximum time that the recorder waits for a stream by itself; after it, it does not wait any more.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Copies to the host that are not known to be done.
#[derive(Debug, Default)]
pub(crate) struct Readbacks {
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
    fn is_at(&self, at: u64, bytes: u64) -> bool {
        self.row.to < at.saturating_add(bytes) && at < end(self.row.to, self.row.to_pitch, &self.row)
    }
}

/// Returns one past the last address of a copy's rows.
fn end(at: u64, pitch: u64, c: &CopyRow) -> u64 {
    at.saturating_add(pitch.max(c.bytes).saturating_mul(c.rows.saturating_sub(1)))
        .saturating_add(c.bytes)
}

/// Returns whether a copy to the host writes what rows at a host address hold.
pub(crate) fn overlaps(read: &CopyRow, from: u64, pitch: u64, row: &CopyRow) -> bool {
    read.to < end(from, pitch, row) && from < end(read.to, read.to_pitch, read)
}

impl Recorder {
    /// Adds a copy to the host that is done when its stream reaches the work of this number.
    pub fn add_readback(&self, begun: CallStart, key: u64, work: u64, row: CopyRow) {
        let slot = self.session.new_slot();
        let mut reads = lock(&self.reads);
        // Content that it overwrites before it was read stays unknown.
        reads.waiting.retain(|w| {
            let stays = !overlaps(&w.row, row.to, row.to_pitch, &row);
            if !stays {
                self.session.supply(w.slot, None);
            }
            stays
        });
        let number = reads.next;
        reads.next += 1;
        reads.waiting.push(PendingReadback {
            stream: key,
            context: crate::memory::current_context(),
            work,
            slot,
            row,
            number,
        });
        drop(reads);
        self.record(begun, CallEvent::Copy(row), EntryPayload::Awaited(slot));
    }

    /// Returns whether a copy that is not known to be done writes to a range of host memory.
    pub fn is_awaited(&self, at: u64, bytes: u64) -> bool {
        lock(&self.reads).waiting.iter().any(|w| w.is_at(at, bytes))
    }

    /// Returns whether the driver knows host memory: copies from and to it run while the program continues.
    pub fn is_pinned(&self, at: u64, pitch: u64, row: &CopyRow) -> bool {
        let end = end(at, pitch, row);
        let memory = lock(&self.memory);
        let before = memory.pinned.range(..end).next_back();
        let pinned = before.is_some_and(|(first, bytes)| first.saturating_add(*bytes) > at);
        drop(memory);
        pinned || {
            let mut kind = 0u32;
            // SAFETY: the query has a valid pointer for the answer, which is four bytes.
            unsafe { driver().cuPointerGetAttribute((&raw mut kind).cast(), POINTER_MEMORY_TYPE, at) }.is_ok()
        }
    }

    /// Returns whether the source of a copy from the host is complete when the call returns. The driver reads memory
    /// that it knows when the copy runs. If an earlier copy or a host function has yet to fill it, this waits for the
    /// stream.
    pub fn is_source_ready(&self, stream: CuStream, form: Form, from: u64, pitch: u64, row: &CopyRow) -> bool {
        let key = Self::stream_key(stream, form);
        let copied = |w: &PendingReadback| overlaps(&w.row, from, pitch, row);
        let pending = lock(&self.progress).is_behind_host(key) || lock(&self.reads).waiting.iter().any(copied);
        if !pending || !self.is_pinned(from, pitch, row) {
            return true;
        }
        let waited = self.wait_bounded(Self::real_stream(stream, form));
        if waited {
            self.stream_done(key);
        } else {
            self.note_not_recorded(
                "copies",
                "the content of some host-to-device copies is not in the recording: host functions or earlier copies \
                 produce it, and the recorder could not wait for them",
            );
        }
        waited
    }

    /// Waits until a stream is done, for a limited time: a host function can wait for the program. Returns `false` if
    /// the stream is not done.
    pub fn wait_bounded(&self, stream: CuStream) -> bool {
        static TIRED: AtomicBool = AtomicBool::new(false);
        let (begun, mut pause) = (Instant::now(), Duration::from_micros(10));
        while self.captures.load(Ordering::Relaxed) == 0 && !TIRED.load(Ordering::Relaxed) {
            // SAFETY: the query is about a stream that the program has just used.
            match unsafe { driver().cuStreamQuery(stream) } {
                Ok(()) => return true,
                Err(e) if e.result() != Some(NOT_READY) => return false,
                Err(_) => {}
            }
            if begun.elapsed() > MAX_WAIT {
                TIRED.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        false
    }

    /// Notes that the host has waited for a stream.
    pub fn stream_done(&self, key: u64) {
        let reached = lock(&self.progress).stream_done(key);
        self.complete(&reached);
    }

    /// Notes that the host has waited for an event.
    pub fn event_done(&self, event: usize) {
        let reached = lock(&self.progress).event_done(event);
        self.complete(&reached);
    }

    /// Notes that the host has waited for the calling thread's context, or for all except what `result` says failed.
    pub fn all_done(&self, result: Option<CuResult>) {
        if result.is_none_or(is_ok) {
            self.context_done(crate::memory::current_context());
        }
    }

    /// Notes that the host has waited for a context, and reads the copies that were requested in it.
    pub fn context_done(&self, context: usize) {
        self.complete_where(|w| w.context == context, true);
    }

    /// Reads the copies to a range of host memory. If the memory is not `there` any more, their content stays unknown.
    pub fn complete_at(&self, at: u64, bytes: u64, there: bool) {
        self.complete_where(|w| w.is_at(at, bytes), there);
    }

    /// Waits for the contexts of pending copies to the host, to a range of its memory or all, and reads the copies. A
    /// wait is not allowed during graph capture.
    pub fn wait_for_awaited(&self, range: Option<(u64, u64)>) {
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
            let waited = self.captures.load(Ordering::Relaxed) == 0 && wait_for_context(Some(context)).is_ok();
            if waited {
                self.complete_where(|w| w.context == context && w.number <= so_far && is_one(w), true);
            }
        }
    }

    /// Reads the copies of streams that are known to have reached these positions.
    fn complete(&self, reached: &StreamPositions) {
        self.complete_where(|w| reached.get(&w.stream).is_some_and(|n| w.work <= *n), true);
    }

    fn complete_where(&self, done: impl Fn(&PendingReadback) -> bool, there: bool) {
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
                self.complete_one(w);
            } else {
                self.session.supply(w.slot, None);
            }
        }
    }

    /// Marks content that is still awaited as unknown.
    pub fn forget_awaited(&self) {
        self.complete_where(|_| true, false);
    }

    /// Reads some of the content that was awaited when the program ended. Returns whether there is more: not all of it
    /// is held at once.
    pub fn complete_last(&self) -> bool {
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
            self.complete_one(&w);
        }
        let more = !last.is_empty();
        lock(&self.reads).last = Some(last);
        more
    }

    fn complete_one(&self, w: &PendingReadback) {
        content::supply(self, w.slot, w.row.to, w.row.to_pitch, &w.row);
    }
}
