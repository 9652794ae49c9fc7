//! The queue between the callers of a recording and its writer thread, and the state that they share.

use crate::entry::{Entry, Slot};
use crate::tables::Tables;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use trace_core::GpuVa;

/// Maximum size of the data that waits for the writer thread, bytes; beyond it callers wait.
pub(crate) const MAX_WAITING_BYTES: u64 = if cfg!(test) { 4 << 20 } else { 512 << 20 };
/// Time that the writer thread waits for more work.
const TICK: Duration = Duration::from_millis(50);
/// Awaited content that was supplied.
#[derive(Debug)]
pub(crate) enum SuppliedContent {
    /// The content stays unknown.
    Nothing,
    /// The bytes.
    Content(Vec<u8>),
    /// The content was handed over in parts.
    Parts,
}

thread_local! {
    /// Whether this thread is a writer thread.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

/// Data on its way to the writer thread.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub entries: VecDeque<Entry>,
    /// Supplied content that is not yet taken.
    pub supplied: HashMap<Slot, SuppliedContent>,
    /// Content in parts: the slot, the device address, bytes.
    pub parts: Vec<(Slot, GpuVa, Vec<u8>)>,
    /// Size of the waiting data, bytes.
    waiting: u64,
    /// Code to store, by module number.
    pub code: Vec<(u32, Vec<u8>)>,
}

/// A batch that the writer thread takes from the queue.
#[derive(Default)]
pub(crate) struct QueueBatch {
    pub entries: VecDeque<Entry>,
    pub supplied: HashMap<Slot, SuppliedContent>,
    pub parts: Vec<(Slot, GpuVa, Vec<u8>)>,
    pub code: Vec<(u32, Vec<u8>)>,
    /// The recording ends: this is the last batch.
    pub last: bool,
}

/// The state of a recording that its callers and its writer thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub begun: Instant,
    queue: Mutex<Queue>,
    tables: Mutex<Tables>,
    /// Signals more work.
    pub more: Condvar,
    /// Signals free space in the queue.
    room: Condvar,
    /// The recording is active.
    going: AtomicBool,
    /// The program is ending.
    pub ending: AtomicBool,
    /// The writer thread has ended.
    pub done: AtomicBool,
    /// Progress counter of the writer thread.
    pub steps: AtomicU64,
    /// Number of calls handed over.
    pub calls: AtomicU64,
    pub slots: AtomicU64,
    /// Why the recording ended before the program.
    why: Mutex<Option<String>>,
    /// Function that the writer thread calls first when the program ends.
    pub at_end: OnceLock<fn() -> bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            queue: Mutex::default(),
            tables: Mutex::default(),
            more: Condvar::new(),
            room: Condvar::new(),
            going: AtomicBool::new(true),
            ending: AtomicBool::new(false),
            done: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            slots: AtomicU64::new(0),
            why: Mutex::new(None),
            at_end: OnceLock::new(),
        }
    }

    /// Returns whether calls are still recorded.
    pub fn is_going(&self) -> bool {
        self.going.load(Ordering::Relaxed)
    }

    /// Puts an item into the queue once there is space. The writer thread does not wait here, because it is the one
    /// that frees space.
    pub fn put(&self, weight: u64, into: impl FnOnce(&mut Queue)) {
        let mut q = lock(&self.queue);
        while q.waiting > MAX_WAITING_BYTES && self.is_going() && !WRITES.get() {
            q = match self.room.wait_timeout(q, TICK) {
                Ok((q, _)) => q,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        let was = q.waiting;
        q.waiting = q.waiting.saturating_add(weight);
        into(&mut q);
        // The writer thread polls regularly: it is woken only for large amounts.
        if was < MAX_WAITING_BYTES / 16 && q.waiting >= MAX_WAITING_BYTES / 16 {
            self.more.notify_one();
        }
    }

    /// Puts an item into the queue without a wait for space.
    pub fn put_at_once(&self, weight: u64, into: impl FnOnce(&mut Queue)) {
        let mut q = lock(&self.queue);
        q.waiting = q.waiting.saturating_add(weight);
        into(&mut q);
    }

    /// Ends the recording after a failure.
    pub fn give_up(&self, why: impl Into<String>) {
        if self.going.swap(false, Ordering::Relaxed) {
            lock(&self.why).get_or_insert(why.into());
        }
        self.more.notify_all();
        self.room.notify_all();
    }

    /// Returns why the recording ended.
    pub fn why(&self) -> Option<String> {
        lock(&self.why).clone()
    }

    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }

    /// Waits for a while for data to write, and takes all of it. The first call does not wait: the file must be
    /// readable as soon as it exists.
    pub fn take(&self) -> QueueBatch {
        let first_time = self.steps.fetch_add(1, Ordering::Relaxed) == 0;
        let mut q = lock(&self.queue);
        if !first_time && q.waiting < MAX_WAITING_BYTES / 16 && !self.ending.load(Ordering::Acquire) {
            q = match self.more.wait_timeout(q, TICK) {
                Ok((q, _)) => q,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        // This flag is read before the awaited content is requested, so that nothing handed over later is lost.
        let mut ending = self.ending.load(Ordering::Acquire);
        if ending && let Some(first) = self.at_end.get() {
            drop(q);
            ending = !first();
            q = lock(&self.queue);
        }
        let q = &mut *q;
        QueueBatch {
            entries: std::mem::take(&mut q.entries),
            supplied: std::mem::take(&mut q.supplied),
            parts: std::mem::take(&mut q.parts),
            code: std::mem::take(&mut q.code),
            last: ending || !self.going.load(Ordering::Relaxed),
        }
    }

    /// Removes this many bytes from the size of the waiting data.
    pub fn stored(&self, bytes: u64) {
        self.step();
        let mut q = lock(&self.queue);
        q.waiting = q.waiting.saturating_sub(bytes);
        drop(q);
        self.room.notify_all();
    }

    /// Counts a step of progress of the writer thread.
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks the writer thread as ended: nobody waits for it any more.
    pub fn finish(&self) {
        self.going.store(false, Ordering::Relaxed);
        self.done.store(true, Ordering::Release);
        self.room.notify_all();
    }
}

/// Marks the calling thread as a writer thread, which never waits for space in a queue.
pub(crate) fn mark_writer_thread() {
    WRITES.set(true);
}
