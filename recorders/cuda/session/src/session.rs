//! The recording of one process: a queue that calls are put into, and a thread that writes it.

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

/// Bytes that may wait for the thread that writes; then whoever calls waits.
pub(crate) const MAX_WAITING_BYTES: u64 = if cfg!(test) { 4 << 20 } else { 512 << 20 };
/// How long the thread that writes waits for more.
const TICK: Duration = Duration::from_millis(50);
/// Who waits for the end of a recording that does not get on for this long goes without it.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Content that is awaited, or that is handed over in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(u64);

/// How a recording is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file; there must be none of its name.
    pub to: PathBuf,
    /// Bytes, about, at which the recording ends while the program goes on; `None`: nowhere.
    pub limit: Option<u64>,
}

/// When a call began.
#[derive(Clone, Copy, Debug)]
pub struct CallStart(Instant);

impl CallStart {
    /// Nanoseconds since, `u32::MAX` for more.
    #[must_use]
    pub fn elapsed_ns(self) -> u32 {
        u32::try_from(self.0.elapsed().as_nanos()).unwrap_or(u32::MAX)
    }
}

/// What was awaited.
#[derive(Debug)]
pub(crate) enum SuppliedContent {
    /// It will not be known.
    Nothing,
    /// Bytes.
    Content(Vec<u8>),
    /// It was handed over in parts.
    Parts,
}

thread_local! {
    /// Whether this thread is one that writes.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Content that was supplied and not taken up yet.
    supplied: HashMap<Slot, SuppliedContent>,
    /// Content in parts: the slot, where in its page it begins, bytes.
    parts: Vec<(Slot, u64, Vec<u8>)>,
    /// Bytes that wait.
    waiting: u64,
    /// Code that is to be stored, for modules by number.
    code: Vec<(u32, Vec<u8>)>,
}

/// What the thread that writes takes from the queue.
#[derive(Default)]
pub(crate) struct QueueBatch {
    pub entries: VecDeque<Entry>,
    pub supplied: HashMap<Slot, SuppliedContent>,
    pub parts: Vec<(Slot, u64, Vec<u8>)>,
    pub code: Vec<(u32, Vec<u8>)>,
    /// The recording ends: there will be no more.
    pub last: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    begun: Instant,
    queue: Mutex<Queue>,
    tables: Mutex<Tables>,
    /// There is more to write.
    more: Condvar,
    /// There is room again.
    room: Condvar,
    /// The recording goes on.
    going: AtomicBool,
    /// The program ends.
    ending: AtomicBool,
    /// The thread that writes has ended.
    done: AtomicBool,
    /// Counts up while the thread that writes gets on.
    steps: AtomicU64,
    /// Calls that were handed over.
    calls: AtomicU64,
    slots: AtomicU64,
    /// Why it ended before the program.
    why: Mutex<Option<String>>,
    /// What the thread that writes does first when the program ends.
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
    /// Begins a recording: makes the file and the thread that writes it.
    ///
    /// # Errors
    /// When there is a file of the name already, or one of them cannot be made.
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
                // Whatever happens in it: nobody may wait for a thread that is no more.
                let write = std::panic::AssertUnwindSafe(|| Writer::new(&mut file, limit).write(&own));
                if std::panic::catch_unwind(write).is_err() {
                    let describe = || give_up(&mut file, &own, "the recorder's writer had a fault");
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(describe));
                }
                own.going.store(false, Ordering::Relaxed);
                own.done.store(true, Ordering::Release);
                own.room.notify_all();
            })
            .map_err(|source| SessionError::Thread { source })?;
        Ok(Self { shared })
    }

    /// Whether calls are still recorded.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.shared.going.load(Ordering::Relaxed)
    }

    /// Why the recording ended before the program, if it did.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        lock(&self.shared.why).clone()
    }

    /// What the thread that writes is to do first when the program ends: what was awaited may be there by then. It is
    /// asked again, once what it handed over is written, as long as it says that there is more.
    pub fn set_exit_hook(&self, first: fn() -> bool) {
        let _ = self.shared.at_end.set(first);
    }

    /// A call begins.
    #[must_use]
    pub fn start_call(&self) -> CallStart {
        CallStart(Instant::now())
    }

    /// The lists that rows point into.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.shared.tables)
    }

    /// Takes up a call that has returned, of this thread.
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
            // Counted in the order of the queue, whose lock is held.
            calls.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Returns the number of the event that the next call will be.
    #[must_use]
    pub fn next_event(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Puts something into the queue, once there is room. The thread that writes is the one that makes room: it does
    /// not wait.
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
        // The thread that writes looks by itself every now and then: it is woken for much alone.
        if was < MAX_WAITING_BYTES / 16 && q.waiting >= MAX_WAITING_BYTES / 16 {
            self.shared.more.notify_one();
        }
    }

    /// A place for content that is known later, or that is handed over in parts.
    #[must_use]
    pub fn new_slot(&self) -> Slot {
        Slot(self.shared.slots.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands over a part of a copy's content: what belongs to the device's address `at`. The parts of a slot follow
    /// each other, and each begins where a page does, but for the first one.
    pub fn supply_part(&self, slot: Slot, at: u64, content: Vec<u8>) {
        if self.is_going() {
            self.put(content.len() as u64, |q| q.parts.push((slot, at, content)));
        }
    }

    /// Supplies what was awaited; `None`: it will not be known.
    pub fn supply(&self, slot: Slot, content: Option<Vec<u8>>) {
        let (weight, supplied) = match content {
            Some(c) => (c.len() as u64, SuppliedContent::Content(c)),
            None => (0, SuppliedContent::Nothing),
        };
        let mut q = lock(&self.shared.queue);
        q.waiting = q.waiting.saturating_add(weight);
        q.supplied.insert(slot, supplied);
    }

    /// What was awaited was handed over in parts.
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

    /// Ends the recording while the program goes on, and says why in the file.
    pub fn stop(&self, why: impl Into<String>) {
        self.shared.give_up(why);
    }

    /// Writes what is left and ends. Called again it does nothing.
    ///
    /// It takes no lock and no memory, so that a program may end in a handler of a signal, whatever it interrupted.
    /// What the thread that writes cannot get at for long stays out of the file.
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
    /// The recording goes on no more.
    pub fn give_up(&self, why: impl Into<String>) {
        if self.going.swap(false, Ordering::Relaxed) {
            lock(&self.why).get_or_insert(why.into());
        }
        self.more.notify_all();
        self.room.notify_all();
    }

    /// Why it goes on no more.
    pub fn why(&self) -> Option<String> {
        lock(&self.why).clone()
    }

    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.tables)
    }

    /// Waits for a while for something to write, and takes it all. The first time it does not wait: the file is to be
    /// one that opens as soon as it is there.
    pub fn take(&self) -> QueueBatch {
        let first_time = self.steps.fetch_add(1, Ordering::Relaxed) == 0;
        let mut q = lock(&self.queue);
        if !first_time && q.waiting < MAX_WAITING_BYTES / 16 && !self.ending.load(Ordering::Acquire) {
            q = match self.more.wait_timeout(q, TICK) {
                Ok((q, _)) => q,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        // Looked at before what was awaited is asked for: nothing that is handed over later is lost.
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

    /// So many bytes wait no more.
    pub fn stored(&self, bytes: u64) {
        self.step();
        let mut q = lock(&self.queue);
        q.waiting = q.waiting.saturating_sub(bytes);
        drop(q);
        self.room.notify_all();
    }

    /// The thread that writes gets on.
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
