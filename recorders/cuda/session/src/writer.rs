//! The writer thread: it stores queued data in the file in the order of the calls.

use crate::entry::{Entry, EntryPayload, Slot};
use crate::error::SessionError;
use crate::file::File;
use crate::queue::{MAX_WAITING_BYTES, QueueBatch, Shared, SuppliedContent};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{CallEvent, CallModule};

/// Maximum size of the data that waits behind a call with awaited content, bytes; beyond it the content is not stored.
/// The limit is below that of the whole queue: the content depends on the caller, so the caller must not wait for it.
const MAX_QUEUED_BYTES: u64 = MAX_WAITING_BYTES / 2;
/// Minimum time between two commits, once a recording has run for a while.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// Minimum time between the first two commits; it doubles from then on. A program that is killed soon after its start
/// has something in its file.
const COMMIT_FIRST: Duration = Duration::from_millis(20);
/// A commit takes at most one part in this many of the time.
const SHARE: u32 = 20;
/// Number of stored bytes after which waiting callers are notified of free space.
const NOTIFY_EVERY_BYTES: u64 = 16 << 20;

/// Ends a recording that cannot be written any more, and says so in the file if that is possible.
pub(crate) fn give_up(file: &mut File, shared: &Shared, why: &str) {
    shared.give_up(why);
    let tables_snapshot = shared.tables().snapshot();
    // If this fails as well, nothing more can be done: the file has what it had.
    let _ = file.finish_truncated(&tables_snapshot, why);
}

/// State of the writer thread.
pub(crate) struct Writer<'a> {
    file: &'a mut File,
    limit: Option<u64>,
    /// Calls that are not yet in the file: the first one waits for its content.
    pending: VecDeque<Entry>,
    supplied: HashMap<Slot, SuppliedContent>,
    /// Stored content in parts.
    parts: HashMap<Slot, Vec<u32>>,
    /// Copies of `pending` with awaited content: its offset in its page, and its length.
    behind: HashMap<Slot, (usize, Option<u64>)>,
    /// Content that was awaited for too long: content that arrives now is ignored.
    given_up: HashSet<Slot>,
    /// Size of `pending`, bytes.
    held: u64,
    /// Number of calls at the start of `pending` whose content is already stored.
    looked_at: usize,
    /// Stored bytes that waiting callers were not notified of.
    untold: u64,
}

impl<'a> Writer<'a> {
    pub fn new(file: &'a mut File, limit: Option<u64>) -> Self {
        Self {
            file,
            limit,
            pending: VecDeque::new(),
            supplied: HashMap::new(),
            parts: HashMap::new(),
            behind: HashMap::new(),
            given_up: HashSet::new(),
            held: 0,
            looked_at: 0,
            untold: 0,
        }
    }

    /// Writes until the recording ends.
    pub fn write(mut self, shared: &Shared) {
        let (mut due, mut every) = (Instant::now(), COMMIT_FIRST);
        loop {
            let taken = shared.take();
            let last = taken.last;
            let done = self.store(shared, taken).and_then(|()| {
                let now = Instant::now();
                // Callers need the tables: the lock is not held during disk access.
                let version = shared.tables().version();
                if last || (now >= due && self.file.has_more(version)) {
                    let tables_snapshot =
                        (last || self.file.stored_version() != Some(version)).then(|| shared.tables().snapshot());
                    let why = shared.why().filter(|_| last);
                    self.file
                        .commit(tables_snapshot.as_ref(), last.then_some(why.as_deref()))?;
                    due = now + (now.elapsed() * SHARE).max(every);
                    every = (every * 2).min(COMMIT_EVERY);
                }
                Ok(())
            });
            if let Err(e) = done {
                give_up(self.file, shared, &e.to_string());
                return;
            }
            if last {
                return;
            }
            self.is_full(shared);
        }
    }

    /// Stores the batch in the file, up to the first call with awaited content.
    fn store(&mut self, shared: &Shared, taken: QueueBatch) -> Result<(), SessionError> {
        for (module, bytes) in taken.code {
            let pages = self.file.code(&bytes)?;
            let digest = blake3::hash(&bytes).to_hex().to_string();
            let mut tables = shared.tables();
            if let Some(m) = tables.metadata.modules.get_mut(module as usize) {
                *m = CallModule {
                    bytes: bytes.len() as u64,
                    digest,
                    pages,
                    ..std::mem::take(m)
                };
                tables.mark_changed();
            }
            drop(tables);
            self.count(shared, bytes.len() as u64);
        }
        for (slot, at, bytes) in taken.parts {
            let ids = self.file.store(at.in_page(), &bytes)?;
            self.parts.entry(slot).or_default().extend(ids);
            self.count(shared, bytes.len() as u64);
        }
        for (slot, supplied) in taken.supplied {
            self.supply(shared, slot, supplied)?;
        }
        self.held += taken.entries.iter().map(Entry::queued_bytes).sum::<u64>();
        self.pending.extend(taken.entries);
        self.store_ready(shared, taken.last, false)?;
        self.store_behind(shared)?;
        if self.held > MAX_QUEUED_BYTES {
            self.store_ready(shared, taken.last, true)?;
        }
        shared.stored(std::mem::take(&mut self.untold));
        Ok(())
    }

    /// Returns whether the file has its maximum size; the recording then ends.
    fn is_full(&self, shared: &Shared) -> bool {
        let over = self.limit.filter(|max| self.file.bytes() > *max);
        if let Some(max) = over {
            shared.give_up(format!("it reached its limit of {max} bytes"));
        }
        over.is_some()
    }

    /// Takes supplied content. If its call waits behind another one, the content is stored at once: it can be large.
    fn supply(&mut self, shared: &Shared, slot: Slot, supplied: SuppliedContent) -> Result<(), SessionError> {
        let bytes = match &supplied {
            SuppliedContent::Content(content) => content.len() as u64,
            SuppliedContent::Nothing | SuppliedContent::Parts => 0,
        };
        if self.given_up.remove(&slot) {
            self.parts.remove(&slot);
            self.count(shared, bytes);
            return Ok(());
        }
        let supplied = match (supplied, self.behind.remove(&slot)) {
            (SuppliedContent::Content(content), Some((phase, total))) if total == Some(bytes) => {
                let ids = self.file.store(phase, &content)?;
                self.parts.insert(slot, ids);
                self.count(shared, bytes);
                SuppliedContent::Parts
            }
            (supplied, _) => supplied,
        };
        self.supplied.insert(slot, supplied);
        Ok(())
    }

    /// Writes calls to the file up to the first one with awaited content. `last`: the content does not arrive any more;
    /// `tired`: the wait ends when too much data waits behind it.
    fn store_ready(&mut self, shared: &Shared, last: bool, tired: bool) -> Result<(), SessionError> {
        while let Some(mut entry) = self.pending.pop_front() {
            let was = entry.queued_bytes();
            if let EntryPayload::Awaited(slot) = entry.payload {
                entry.payload = match self.supplied.remove(&slot) {
                    Some(SuppliedContent::Content(content)) => EntryPayload::Content(content),
                    Some(SuppliedContent::Parts) => EntryPayload::Parts(slot),
                    Some(SuppliedContent::Nothing) => EntryPayload::Nothing,
                    None if last => EntryPayload::Nothing,
                    None if tired && self.held > MAX_QUEUED_BYTES => {
                        self.given_up.insert(slot);
                        shared.tables().add_finding(Finding::new(
                            FindingKind::NotRecorded,
                            "copies",
                            "the program did not wait for some of its copies to the host for a long time: their \
                             content is not in the recording",
                        ));
                        EntryPayload::Nothing
                    }
                    None => {
                        self.pending.push_front(entry);
                        break;
                    }
                };
                self.behind.remove(&slot);
            }
            self.looked_at = self.looked_at.saturating_sub(1);
            self.held = self.held.saturating_sub(was);
            let weight = entry.queued_bytes();
            if let EntryPayload::Parts(slot) = entry.payload {
                entry.payload = self
                    .parts
                    .remove(&slot)
                    .map_or(EntryPayload::Nothing, EntryPayload::Stored);
            }
            self.file.append(entry)?;
            self.count(shared, weight);
            if self.is_full(shared) {
                // However much was handed over meanwhile.
                self.pending.clear();
                break;
            }
        }
        Ok(())
    }

    /// Stores the payloads of calls behind one with awaited content. That content can depend on a caller, and the
    /// caller can be waiting for space.
    fn store_behind(&mut self, shared: &Shared) -> Result<(), SessionError> {
        for n in self.looked_at..self.pending.len() {
            let Some(entry) = self.pending.get_mut(n) else { break };
            let was = entry.queued_bytes();
            match (&mut entry.call, &mut entry.payload) {
                (CallEvent::Copy(row), EntryPayload::Content(content)) if row.total() == Some(content.len() as u64) => {
                    let phase = row.device().in_page();
                    let content = std::mem::take(content);
                    entry.payload = EntryPayload::Stored(self.file.store(phase, &content)?);
                }
                (CallEvent::Copy(row), EntryPayload::Awaited(slot)) => {
                    let (slot, phase) = (*slot, row.device().in_page());
                    self.behind.insert(slot, (phase, row.total()));
                    if let Some(supplied) = self.supplied.remove(&slot) {
                        self.supply(shared, slot, supplied)?;
                    }
                    continue;
                }
                (call, EntryPayload::Arguments(bytes)) => {
                    let bytes = std::mem::take(bytes);
                    self.file.arguments(call, &bytes)?;
                    entry.payload = EntryPayload::Nothing;
                }
                _ => continue,
            }
            let stored = was.saturating_sub(entry.queued_bytes());
            self.held = self.held.saturating_sub(stored);
            self.count(shared, stored);
        }
        self.looked_at = self.pending.len();
        Ok(())
    }

    fn count(&mut self, shared: &Shared, bytes: u64) {
        self.untold += bytes;
        if self.untold > NOTIFY_EVERY_BYTES {
            shared.stored(std::mem::take(&mut self.untold));
        }
    }
}
