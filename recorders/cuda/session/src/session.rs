//! The recording of one process: a queue of calls and a writer thread.

use crate::entry::{Entry, EntryPayload};
use crate::error::SessionError;
use crate::file::File;
use crate::tables::Tables;
use crate::writer::{Writer, give_up};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use trace_core::recording::CallEvent;

/// Maximum size of the data that waits for the writer thread, bytes; beyond it callers wait.
pub(crate) const MAX_WAITING_BYTES: u64 = if cfg!(test) { 4 << 20 } else { 512 << 20 };
/// Time that the writer thread waits for more work.
const TICK: Duration = Duration::from_millis(50);
/// Time without progress after which a caller stops waiting for the end of the recording.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A slot for awaited content or for content in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(u64);

/// Settings of a recording.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file; it must not exist.
    pub to: PathBuf,
    /// Approximate file size at which the recording ends while the program continues, bytes; `None` for no limit.
    pub limit: Option<u64>,
}

/// Start time of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallStart(Instant);

impl CallStart {
    /// Returns the elapsed nanoseconds, `u32::MAX` if more.
    #[must_use]
    pub fn elapsed_ns(self) -> u32 {
        u32::try_from(self.0.elapsed().as_nanos()).unwrap_or(u32::MAX)
    }
}

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

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Supplied content that is not yet taken.
    supplied: HashMap<Slot, SuppliedContent>,
    /// Content in parts: the slot, its offset in its page, bytes.
    parts: Vec<(Slot, u64, Vec<u8>)>,
    /// Size of the waiting data, bytes.
    waiting: u64,
    /// Code to store, by module number.
    code: Vec<(u32, Vec<u8>)>,
}

/// A batch that the writer thread takes from the queue.
#[derive(Default)]
pub(crate) struct QueueBatch {
    pub entries: VecDeque<Entry>,
    pub supplied: HashMap<Slot, SuppliedContent>,
    pub parts: Vec<(Slot, u64, Vec<u8>)>,
    pub code: Vec<(u32, Vec<u8>)>,
    /// The recording ends: this is the last batch.
    pub last: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    begun: Instant,
    queue: Mutex<Queue>,
    tables: Mutex<Tables>,
    /// Signals more work.
    more: Condvar,
    /// Signals free space in the queue.
    room: Condvar,
    /// The recording is active.
    going: AtomicBool,
    /// The program is ending.
    ending: AtomicBool,
    /// The writer thread has ended.
    done: AtomicBool,
    /// Progress counter of the writer thread.
    steps: AtomicU64,
    /// Number of calls handed over.
    calls: AtomicU64,
    slots: AtomicU64,
    /// Why the recording ended before the program.
    why: Mutex<Option<String>>,
    /// Function that the writer thread calls first when the program ends.
    at_end: OnceLock<fn() -> bool>,
}

/// The recording of one process.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Starts a recording: creates the file and the writer thread.
    ///
    /// # Errors
    /// Returns an error if the file exists already, or if the file or the thread cannot be created.
    pub fn begin(settings: &Settings) -> Result<Self, SessionError> {
        let mut file = File::begin(&settings.to)?;
        let shared = Arc::new(Shared {
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
        });
        let (own, limit) = (Arc::clone(&shared), settings.limit);
        std::thread::Builder::new()
            .name("kinescope-write".to_owned())
            .spawn(move || {
                WRITES.set(true);
                // Even after a panic no caller must wait for a thread that has ended.
                let write = std::panic::AssertUnwindSafe(|| Writer::new(&mut file, limit).write(&own));
                if std::panic::catch_unwind(write).is_err() {
                    let describe = || give_up(&mut file, &own, "the recorder's writer failed");
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(describe));
                }
                own.going.store(false, Ordering::Relaxed);
                own.done.store(true, Ordering::Release);
                own.room.notify_all();
            })
            .map_err(|source| SessionError::Thread { source })?;
        Ok(Self { shared })
    }

    /// Returns whether calls are still recorded.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.shared.going.load(Ordering::Relaxed)
    }

    /// Returns why the recording ended before the program, or `None` if it did not.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        lock(&self.shared.why).clone()
    }

    /// Sets the function that the writer thread calls first when the program ends: awaited content can be available by
    /// then. The thread writes what the function hands over and calls it again as long as it returns that there is
    /// more.
    pub fn set_exit_hook(&self, first: fn() -> bool) {
        let _ = self.shared.at_end.set(first);
    }

    /// Returns the start time of a call.
    #[must_use]
    pub fn start_call(&self) -> CallStart {
        CallStart(Instant::now())
    }

    /// Locks the lists that rows point into.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.shared.tables)
    }

    /// Records a call of this thread that has returned.
    pub fn record(&self, begun: CallStart, thread: u32, call: CallEvent, with: EntryPayload) {
        if !self.is_going() {
            return;
        }
        let entry = Entry {
            time: u64::try_from(begun.0.saturating_duration_since(self.shared.begun).as_nanos()).unwrap_or(u64::MAX),
            thread,
            call,
            payload: with,
        };
        let weight = entry.queued_bytes();
        let calls = &self.shared.calls;
        self.put(weight, |q| {
            q.entries.push_back(entry);
            // The queue's lock is held: the count follows the order of the queue.
            calls.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Returns the number of the event that the next call will be.
    #[must_use]
    pub fn next_event(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Puts an item into the queue once there is space. The writer thread does not wait here, because it is the one
    /// that frees space.
    fn put(&self, weight: u64, into: impl FnOnce(&mut Queue)) {
        let mut q = lock(&self.shared.queue);
        while q.waiting > MAX_WAITING_BYTES && self.is_going() && !WRITES.get() {
            q = match self.shared.room.wait_timeout(q, TICK) {
                Ok((q, _)) => q,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        let was = q.waiting;
        q.waiting = q.waiting.saturating_add(weight);
        into(&mut q);
        // The writer thread polls regularly: it is woken only for large amounts.
        if was < MAX_WAITING_BYTES / 16 && q.waiting >= MAX_WAITING_BYTES / 16 {
            self.shared.more.notify_one();
        }
    }

    /// Returns a slot for content that is known later or handed over in parts.
    #[must_use]
    pub fn new_slot(&self) -> Slot {
        Slot(self.shared.slots.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands over a part of a copy's content, for the device address `at`. The parts of a slot are in order, and each
    /// except the first starts at a page boundary.
    pub fn supply_part(&self, slot: Slot, at: u64, content: Vec<u8>) {
        if self.is_going() {
            self.put(content.len() as u64, |q| q.parts.push((slot, at, content)));
        }
    }

    /// Supplies awaited content; `None` if it stays unknown.
    pub fn supply(&self, slot: Slot, content: Option<Vec<u8>>) {
        let (weight, supplied) = match content {
            Some(c) => (c.len() as u64, SuppliedContent::Content(c)),
            None => (0, SuppliedContent::Nothing),
        };
        let mut q = lock(&self.shared.queue);
        q.waiting = q.waiting.saturating_add(weight);
        q.supplied.insert(slot, supplied);
    }

    /// Marks awaited content as handed over in parts.
    pub fn supply_parts(&self, slot: Slot) {
        lock(&self.shared.queue).supplied.insert(slot, SuppliedContent::Parts);
    }

    /// Stores the code of a module that the tables list.
    pub fn store_code(&self, module: u32, code: Vec<u8>) {
        if self.is_going() {
            let mut q = lock(&self.shared.queue);
            q.waiting = q.waiting.saturating_add(code.len() as u64);
            q.code.push((module, code));
        }
    }

    /// Ends the recording while the program continues, and says why in the file.
    pub fn stop(&self, why: impl Into<String>) {
        self.shared.give_up(why);
    }

    /// Writes what is left and ends the recording. A second call does nothing.
    ///
    /// It takes no lock and allocates no memory, so that a program can end in a signal handler, whatever it
    /// interrupted. What the writer thread cannot access for a long time stays out of the file.
    pub fn end(&self) {
        let shared = &self.shared;
        shared.ending.store(true, Ordering::Release);
        shared.more.notify_all();
        let (mut seen, mut since) = (shared.steps.load(Ordering::Relaxed), Instant::now());
        while !shared.done.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
            let now = shared.steps.load(Ordering::Relaxed);
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > END_TIMEOUT {
                return;
            }
        }
    }
}

impl Shared {
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
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
