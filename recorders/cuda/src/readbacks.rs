//! What copies between host and device bring, where it is not there when the call is back: copies to the host are read
//! when they are known to be done.

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

/// Bytes of what is awaited that are taken up at once when the program ends.
const MAX_BYTES_AT_ONCE: u64 = 64 << 20;
/// The longest that the recorder waits for a stream by itself; then it does not any more.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Copies to the host that are not known to be done.
#[derive(Debug, Default)]
pub(crate) struct Readbacks {
    waiting: Vec<PendingReadback>,
    next: u64,
    /// What was awaited when the program ended, last one first.
    last: Option<Vec<PendingReadback>>,
}

#[derive(Debug)]
struct PendingReadback {
    stream: u64,
    /// The context that it was asked for in.
    context: usize,
    work: u64,
    slot: Slot,
    row: CopyRow,
    /// Counts up from one to the next.
    number: u64,
}

impl PendingReadback {
    fn is_at(&self, at: u64, bytes: u64) -> bool {
        self.row.to < at.saturating_add(bytes) && at < end(self.row.to, self.row.to_pitch, &self.row)
    }
}

/// One past the last byte of a copy's rows at an address.
fn end(at: u64, pitch: u64, c: &CopyRow) -> u64 {
    at.saturating_add(pitch.max(c.bytes).saturating_mul(c.rows.saturating_sub(1)))
        .saturating_add(c.bytes)
}

/// Whether a copy to the host writes what rows at an address of the host hold.
pub(crate) fn overlaps(read: &CopyRow, from: u64, pitch: u64, row: &CopyRow) -> bool {
    read.to < end(from, pitch, row) && from < end(read.to, read.to_pitch, read)
}

impl Recorder {
    /// A copy to the host that is done when its stream has come to the piece of work of this number.
    pub fn add_readback(&self, begun: CallStart, key: u64, work: u64, row: CopyRow) {
        let slot = self.session.new_slot();
        let mut reads = lock(&self.reads);
        // What it writes over before anybody looked is not known any more.
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

    /// Whether a copy that is not known to be done brings something to a range of the host's memory.
    pub fn is_awaited(&self, at: u64, bytes: u64) -> bool {
        lock(&self.reads).waiting.iter().any(|w| w.is_at(at, bytes))
    }

    /// Whether the driver knows memory of the host: copies from and to it go on while the program does.
    pub fn is_pinned(&self, at: u64, pitch: u64, row: &CopyRow) -> bool {
        let end = end(at, pitch, row);
        let memory = lock(&self.memory);
        let before = memory.pinned.range(..end).next_back();
        let pinned = before.is_some_and(|(first, bytes)| first.saturating_add(*bytes) > at);
        drop(memory);
        pinned || {
            let mut kind = 0u32;
            // SAFETY: a question with a place for the answer, which is of four bytes.
            unsafe { driver().cuPointerGetAttribute((&raw mut kind).cast(), POINTER_MEMORY_TYPE, at) }.is_ok()
        }
    }

    /// Whether what a copy from the host brings to the device stands there when the call is back. Memory that the driver
    /// knows is read when the copy's turn comes: where an earlier copy or a function of the host has yet to fill it, this
    /// waits for the stream.
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
                "what some copies to the device brought is not in the recording: functions of the host or copies before them were to bring it there first, and could not be waited for",
            );
        }
        waited
    }

    /// Waits until a stream is done, but not for what only the program may do: a function of the host can wait for it.
    pub fn wait_bounded(&self, stream: CuStream) -> bool {
        static TIRED: AtomicBool = AtomicBool::new(false);
        let (begun, mut pause) = (Instant::now(), Duration::from_micros(10));
        while self.captures.load(Ordering::Relaxed) == 0 && !TIRED.load(Ordering::Relaxed) {
            // SAFETY: a question about a stream that the program has just used.
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

    /// The host has waited for a stream.
    pub fn stream_done(&self, key: u64) {
        let reached = lock(&self.progress).stream_done(key);
        self.complete(&reached);
    }

    /// The host has waited for an event.
    pub fn event_done(&self, event: usize) {
        let reached = lock(&self.progress).event_done(event);
        self.complete(&reached);
    }

    /// The host has waited for the calling thread's context, or for all but what `result` says failed.
    pub fn all_done(&self, result: Option<CuResult>) {
        if result.is_none_or(is_ok) {
            self.context_done(crate::memory::current_context());
        }
    }

    /// The host has waited for a context: takes up what copies brought that were asked for in it.
    pub fn context_done(&self, context: usize) {
        self.complete_where(|w| w.context == context, true);
    }

    /// Takes up what copies brought to a range of the host's memory; where it is not `there` any more, it is not known.
    pub fn complete_at(&self, at: u64, bytes: u64, there: bool) {
        self.complete_where(|w| w.is_at(at, bytes), there);
    }

    /// Waits for the contexts of copies to the host that are not known to be done, of those to a range of its memory or of
    /// all, and takes up what they brought. A wait is not allowed while a graph is captured.
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
            // What comes meanwhile was not waited for.
            let so_far = lock(&self.reads).waiting.last().map_or(0, |w| w.number);
            let waited = self.captures.load(Ordering::Relaxed) == 0 && wait_for_context(Some(context)).is_ok();
            if waited {
                self.complete_where(|w| w.context == context && w.number <= so_far && is_one(w), true);
            }
        }
    }

    /// Takes up what copies brought of which streams are known to have done so many pieces of work.
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
        // Whoever takes up much may have to wait for room: nobody waits for the list meanwhile.
        drop(reads);
        for w in &done {
            if there {
                self.complete_one(w);
            } else {
                self.session.supply(w.slot, None);
            }
        }
    }

    /// What is awaited still will not be known.
    pub fn forget_awaited(&self) {
        self.complete_where(|_| true, false);
    }

    /// The program ends: takes up some of what was awaited then. Whether there is more: not all of it is held at once.
    pub fn complete_last(&self) -> bool {
        let mut reads = lock(&self.reads);
        let mut last = match reads.last.take() {
            Some(last) => last,
            // What other threads go on to do is not theirs to lengthen the end with.
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
