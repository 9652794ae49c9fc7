//! The growing file: what it already holds, and the columns and pages that are not yet in it.

use crate::content::{Content, runs};
use crate::entry::{Entry, EntryPayload};
use crate::error::SessionError;
use crate::tables::TablesSnapshot;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace_core::container::{ContainerError, FileSink, Writer};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{
    AllocationRow, CallEvent, CallRow, Clock, CopyRow, EventKind, FillRow, LaunchRow, Metadata, NO_CONTENT, OrderRow,
    SectionKind, TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE};

/// Size of columns and pages that are collected before a write, bytes.
const FLUSH_AT_BYTES: usize = 16 << 20;
/// Size of the space that is reserved after each commit, bytes. On a full disk the file can still say why it ends
/// there.
const RESERVED_BYTES: usize = 64 << 10;

/// Columns of events that are not yet in the file.
#[derive(Debug, Default)]
struct Columns {
    kind: Vec<u8>,
    time: Vec<u64>,
    thread: Vec<u32>,
    payload: Vec<u32>,
    launches: Vec<LaunchRow>,
    copies: Vec<CopyRow>,
    fills: Vec<FillRow>,
    orders: Vec<OrderRow>,
    allocations: Vec<AllocationRow>,
    calls: Vec<CallRow>,
    bytes: Vec<u8>,
    pages: Vec<u32>,
}

/// A growing recording on the disk.
pub(crate) struct File {
    path: PathBuf,
    writer: Writer<FileSink>,
    content: Content,
    columns: Columns,
    /// Rows so far of each kind of event, by the kind's number.
    rows: BTreeMap<u8, u32>,
    /// Bytes and pages that calls refer to, so far.
    named: (u64, u64),
    events: u64,
    /// Version of the tables that is in the file.
    reported: Option<u64>,
    /// Number of events in the file as of the last commit.
    committed: u64,
    /// Number of events as of the last commit with reserved space after it.
    safe: u64,
    /// Pages of each memory range in its last snapshot: by first address, size in bytes and ids.
    snapshots: BTreeMap<GpuVa, (u64, Vec<u32>)>,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({}, {} events)", self.path.display(), self.events)
    }
}

impl File {
    /// Creates a file that must not exist yet.
    pub fn begin(path: &Path) -> Result<Self, SessionError> {
        let writer = Writer::create(path).map_err(|source| SessionError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            writer,
            content: Content::default(),
            columns: Columns::default(),
            rows: BTreeMap::new(),
            named: (0, 0),
            events: 0,
            reported: None,
            committed: 0,
            safe: 0,
            snapshots: BTreeMap::new(),
        })
    }

    fn too_many(&self, what: &'static str) -> SessionError {
        SessionError::TooMany {
            path: self.path.clone(),
            what,
        }
    }

    fn failed(&self, source: ContainerError) -> SessionError {
        SessionError::File {
            path: self.path.clone(),
            source,
        }
    }

    /// Returns the approximate size that the file has or will have on the disk, bytes.
    pub fn bytes(&self) -> u64 {
        let pages = self.writer.rows(SectionKind::PageImages) * PAGE_SIZE as u64;
        pages + self.content.waiting() as u64 + self.events * 90
    }

    /// Returns whether there is something to commit.
    pub fn has_more(&self, version: u64) -> bool {
        self.committed != self.events || self.reported != Some(version)
    }

    /// Returns the version of the tables that is in the file.
    pub fn stored_version(&self) -> Option<u64> {
        self.reported
    }

    /// Stores bytes that start `phase` bytes into a page and returns the ids of the pages.
    pub fn store(&mut self, phase: usize, bytes: &[u8]) -> Result<Vec<u32>, SessionError> {
        let ids = self.content.store(phase, bytes).ok_or_else(|| self.too_many("pages"))?;
        self.flush_full()?;
        Ok(ids)
    }

    /// Stores code and returns the runs of pages that hold it.
    pub fn code(&mut self, bytes: &[u8]) -> Result<Vec<[u32; 2]>, SessionError> {
        Ok(runs(&self.store(0, bytes)?))
    }

    /// Stores the arguments of a launch or of another call. The call itself can enter the file before them or after
    /// them.
    pub fn arguments(&mut self, call: &mut CallEvent, bytes: &[u8]) -> Result<(), SessionError> {
        let (at, count) = match call {
            CallEvent::Launch(LaunchRow {
                arguments_at,
                arguments,
                ..
            })
            | CallEvent::Call(CallRow {
                arguments_at,
                arguments,
                ..
            }) => (arguments_at, arguments),
            _ => return Ok(()),
        };
        let length = u32::try_from(bytes.len()).map_err(|_| self.too_many("bytes of arguments"))?;
        (*at, *count) = (self.named.0, length);
        self.named.0 += bytes.len() as u64;
        self.columns.bytes.extend_from_slice(bytes);
        self.flush_full()
    }

    /// Appends a call. Awaited content that never arrived is not stored.
    pub fn append(&mut self, entry: Entry) -> Result<(), SessionError> {
        let Entry {
            time,
            thread,
            mut call,
            payload: with,
        } = entry;
        match (&mut call, with) {
            (CallEvent::Launch(_) | CallEvent::Call(_), EntryPayload::Arguments(b)) => self.arguments(&mut call, &b)?,
            (CallEvent::Copy(row), with) => {
                let ids = match with {
                    EntryPayload::Content(b) if Some(b.len() as u64) == row.total() => {
                        let phase = row.device().in_page();
                        let ids = self.content.store(phase, &b);
                        Some(ids.ok_or_else(|| self.too_many("pages"))?)
                    }
                    EntryPayload::Stored(ids) if Some(ids.len() as u64) == row.pages() => Some(ids),
                    EntryPayload::Snapshot { range, parts } => self.snapshot(row, range, &parts)?,
                    _ => None,
                };
                row.pages_at = NO_CONTENT;
                if let Some(ids) = ids {
                    row.pages_at = self.named.1;
                    self.named.1 += ids.len() as u64;
                    self.columns.pages.extend_from_slice(&ids);
                }
            }
            _ => {}
        }
        let c = &mut self.columns;
        let kind = match call {
            CallEvent::Launch(row) => {
                c.launches.push(row);
                EventKind::Launch
            }
            CallEvent::Copy(row) => {
                c.copies.push(row);
                EventKind::Copy
            }
            CallEvent::Fill(row) => {
                c.fills.push(row);
                EventKind::Fill
            }
            CallEvent::Order(row) => {
                c.orders.push(row);
                EventKind::Order
            }
            CallEvent::Allocation(row) => {
                c.allocations.push(row);
                EventKind::Allocation
            }
            CallEvent::Call(row) => {
                c.calls.push(row);
                EventKind::Call
            }
        } as u8;
        let row = self.rows.entry(kind).or_default();
        c.kind.push(kind);
        c.time.push(time);
        c.thread.push(thread);
        c.payload.push(*row);
        let next = row.checked_add(1);
        if let Some(next) = next {
            *row = next;
        }
        self.events += 1;
        if next.is_none() {
            return Err(self.too_many("events of a kind"));
        }
        self.flush_full()
    }

    /// Returns the pages of a snapshot row: those of the range's previous snapshot, with the new content in place.
    /// Returns `None` if some of them are unknown.
    fn snapshot(
        &mut self,
        row: &CopyRow,
        range: (GpuVa, u64),
        parts: &[(u64, Vec<u8>)],
    ) -> Result<Option<Vec<u32>>, SessionError> {
        let (from, bytes) = range;
        let row_at = GpuVa::new(row.from);
        let end = row_at.checked_add(row.bytes);
        let inside = row_at >= from && end.is_some_and(|e| from.checked_add(bytes).is_some_and(|all| e <= all));
        let Some(end) = end.filter(|_| inside && row.rows == 1 && row.bytes > 0) else {
            return Ok(None);
        };
        // Pages by their index in the range, as far as they are known.
        let mut known = match self.snapshots.remove(&from) {
            Some((was, ids)) if was == bytes => ids,
            _ => Vec::new(),
        };
        let mut whole = true;
        for (offset, content) in parts {
            let at = row_at.saturating_add(*offset);
            let first = (at.page() - from.page()) as usize;
            let ids = self.store(at.in_page(), content)?;
            // Pages arrive in order: a page after an unknown one is unknown as well.
            whole &= first <= known.len() && at.saturating_add(content.len() as u64) <= end;
            if whole {
                for (n, id) in ids.into_iter().enumerate() {
                    match known.get_mut(first + n) {
                        Some(known) => *known = id,
                        None => known.push(id),
                    }
                }
            }
        }
        let first = row_at.page() - from.page();
        let last = end.wrapping_sub(1).page() - from.page();
        let ids = known.get(first as usize..=last as usize).map(<[u32]>::to_vec);
        self.snapshots.insert(from, (bytes, known));
        Ok(ids.filter(|_| whole))
    }

    fn flush_full(&mut self) -> Result<(), SessionError> {
        let c = &self.columns;
        let gathered = self.content.waiting() + c.bytes.len() + c.kind.len() * 90;
        if gathered < FLUSH_AT_BYTES {
            Ok(())
        } else {
            self.flush()
        }
    }

    /// Writes the collected columns and pages.
    fn flush(&mut self) -> Result<(), SessionError> {
        self.push().map_err(|source| self.failed(source))
    }

    fn push(&mut self) -> Result<(), ContainerError> {
        use SectionKind as K;
        let c = std::mem::take(&mut self.columns);
        let w = &mut self.writer;
        w.push(K::EventKind, &c.kind)?;
        w.push_constant(K::EventSpace, 0u8, c.kind.len() as u64)?;
        w.push(K::EventTime, &c.time)?;
        w.push(K::EventThread, &c.thread)?;
        w.push(K::EventPayload, &c.payload)?;
        w.push(K::Launches, &c.launches)?;
        w.push(K::Copies, &c.copies)?;
        w.push(K::Fills, &c.fills)?;
        w.push(K::Orders, &c.orders)?;
        w.push(K::Allocations, &c.allocations)?;
        w.push(K::Calls, &c.calls)?;
        w.push(K::CallBytes, &c.bytes)?;
        w.push(K::CallPages, &c.pages)?;
        let digests = std::mem::take(&mut self.content.digests);
        let images = std::mem::take(&mut self.content.images);
        w.pages(&digests, images.iter().map(|p| &**p))
    }

    /// Makes everything so far durable, with the tables if they are given. `last` means that nothing follows: it holds
    /// why the recording ends here although the program continues.
    pub fn commit(
        &mut self,
        tables_snapshot: Option<&TablesSnapshot>,
        last: Option<Option<&str>>,
    ) -> Result<(), SessionError> {
        self.flush()?;
        if let Some(snapshot) = tables_snapshot {
            let mut api = snapshot.metadata.clone();
            api.process.ended = last.is_some_and(|cut| cut.is_none());
            let metadata = Metadata {
                kind: TraceKind::Api(api),
                ..build_facts(snapshot, last.flatten(), self.events)
            };
            let written = self.writer.metadata(&metadata);
            written.map_err(|source| self.failed(source))?;
            self.reported = Some(snapshot.version);
        }
        self.writer.set_progress(&Progress::new());
        self.writer.commit().map_err(|source| self.failed(source))?;
        self.committed = self.events;
        if last.is_some() {
            // Reserved space that is not needed does no harm.
            let _ = self.writer.release_space();
            return Ok(());
        }
        self.writer
            .reserve_space(RESERVED_BYTES)
            .map_err(|source| self.failed(source))?;
        self.safe = self.committed;
        Ok(())
    }

    /// Ends the file after a failed write: it keeps the content of an earlier commit and says why it ends.
    pub fn finish_truncated(&mut self, snapshot: &TablesSnapshot, why: &str) -> Result<(), SessionError> {
        // The API metadata of the earlier commit stays: a new one may not fit into the reserved space.
        let facts = build_facts(snapshot, Some(why), self.safe);
        let writer = &mut self.writer;
        let written = writer
            .roll_back()
            .and_then(|()| writer.facts(&facts))
            .and_then(|()| writer.commit());
        written.map_err(|source| self.failed(source))?;
        let _ = self.writer.release_space();
        Ok(())
    }
}

/// Returns the metadata of a recording, without that of its API. `cut` says why it ends after this many events although
/// the program continues.
fn build_facts(snapshot: &TablesSnapshot, cut: Option<&str>, events: u64) -> Metadata {
    let mut metadata = Metadata {
        identity: snapshot.identity.clone(),
        findings: snapshot.findings.clone(),
        ..Metadata::default()
    };
    metadata.identity.clock = Clock::SinceStart;
    // A finding at the last call or after it refers to the last event.
    for event in metadata.findings.iter_mut().filter_map(|f| f.event.as_mut()) {
        *event = (*event).min(events.saturating_sub(1));
    }
    if let Some(why) = cut {
        let place = format!("event {events}");
        metadata
            .findings
            .push(Finding::new(FindingKind::LostEvents, place, why).at_event(events.saturating_sub(1)));
        metadata.lost.push(trace_core::recording::LostEvents {
            before_event: events,
            count: None,
            reason: why.to_owned(),
        });
    }
    metadata
}
