//! The recording of one process: calls go into a queue, and a writer thread stores them.

use crate::entry::{Entry, EntryPayload, Slot};
use crate::error::SessionError;
use crate::file::File;
use crate::queue::{Shared, SuppliedContent, mark_writer_thread};
use crate::tables::Tables;
use crate::writer::{Writer, give_up};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use trace_core::GpuVa;
use trace_core::recording::CallEvent;

/// Time without progress after which a caller stops waiting for the end of the recording.
const END_TIMEOUT: Duration = Duration::from_secs(10);

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

/// The recording of one process.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
}

impl Session {
    /// Starts a recording: creates the file and the writer thread.
    ///
    /// # Errors
    /// Returns an error if the file exists already, or if the file or the thread cannot be created.
    pub fn begin(settings: &Settings) -> Result<Self, SessionError> {
        let mut file = File::begin(&settings.to)?;
        let shared = Arc::new(Shared::new());
        let (own, limit) = (Arc::clone(&shared), settings.limit);
        std::thread::Builder::new()
            .name("kinescope-write".to_owned())
            .spawn(move || {
                mark_writer_thread();
                // Even after a panic no caller must wait for a thread that has ended.
                let write = std::panic::AssertUnwindSafe(|| Writer::new(&mut file, limit).write(&own));
                if std::panic::catch_unwind(write).is_err() {
                    let describe = || give_up(&mut file, &own, "the recorder's writer failed");
                    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(describe));
                }
                own.finish();
            })
            .map_err(|source| SessionError::Thread { source })?;
        Ok(Self { shared })
    }

    /// Returns whether calls are still recorded.
    #[must_use]
    pub fn is_going(&self) -> bool {
        self.shared.is_going()
    }

    /// Returns why the recording ended before the program, or `None` if it did not.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        self.shared.why()
    }

    /// Sets the function that the writer thread calls first when the program ends: awaited content can be available by
    /// then. The thread writes what the function hands over and calls it again as long as it returns that there is
    /// more.
    pub fn set_exit_hook(&self, first: fn() -> bool) {
        let _ = self.shared.at_end.set(first);
    }

    /// Returns the time since the start of the event times.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.shared.begun.elapsed()
    }

    /// Returns the start time of a call.
    #[must_use]
    pub fn start_call(&self) -> CallStart {
        CallStart(Instant::now())
    }

    /// Locks the lists that rows point into.
    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        self.shared.tables()
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
        self.shared.put(weight, |q| {
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

    /// Returns a slot for content that is known later or handed over in parts.
    #[must_use]
    pub fn new_slot(&self) -> Slot {
        Slot::new(self.shared.slots.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands over a part of a copy's content, for the device address `at`. The parts of a slot are in order, and each
    /// except the first starts at a page boundary.
    pub fn supply_part(&self, slot: Slot, at: GpuVa, content: Vec<u8>) {
        if self.is_going() {
            self.shared
                .put(content.len() as u64, |q| q.parts.push((slot, at, content)));
        }
    }

    /// Supplies awaited content; `None` if it stays unknown.
    pub fn supply(&self, slot: Slot, content: Option<Vec<u8>>) {
        let (weight, supplied) = match content {
            Some(c) => (c.len() as u64, SuppliedContent::Content(c)),
            None => (0, SuppliedContent::Nothing),
        };
        self.shared.put_at_once(weight, |q| {
            q.supplied.insert(slot, supplied);
        });
    }

    /// Marks awaited content as handed over in parts.
    pub fn supply_parts(&self, slot: Slot) {
        self.shared.put_at_once(0, |q| {
            q.supplied.insert(slot, SuppliedContent::Parts);
        });
    }

    /// Stores the code of a module that the tables list.
    pub fn store_code(&self, module: u32, code: Vec<u8>) {
        if self.is_going() {
            let weight = code.len() as u64;
            self.shared.put_at_once(weight, |q| q.code.push((module, code)));
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

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
