//! Writing of whole recordings: atomically to a new file, appended to an existing file, or to memory.

use super::error::ContainerError;
use super::sink::{FileSink, MemorySink, Sink};
use super::writer::{Commit, Writer};
use crate::Recording;
use crate::progress::Progress;
use crate::recording::{Column, Digest, EventsBuilder, MemoryBuilder, PageId, Part, SectionKind};
use crate::unfinished_files;
use bytemuck::Pod;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Chunks shorter than this are merged, bytes: each section starts at a multiple of 4096, so small ones waste space.
const SMALL: usize = 1 << 20;

/// Writes a recording to a new file, which replaces an existing one of that name once everything is durable. Progress
/// counts bytes.
///
/// # Errors
/// If it cannot be written, contradicts itself, or was cancelled; an existing file of that name is then unchanged.
pub fn write(recording: &Recording, path: &Path, progress: &Progress) -> Result<(), ContainerError> {
    write_with(recording, path, progress, |_| Ok(()))
}

/// Does the same as [`write`], and lets `more` push additional sections before the commit, such as derived data.
///
/// # Errors
/// The same as [`write`], and the errors of `more`.
pub fn write_with(
    recording: &Recording,
    path: &Path,
    progress: &Progress,
    more: impl FnOnce(&mut Writer<FileSink>) -> Result<(), ContainerError>,
) -> Result<(), ContainerError> {
    progress.set_total(estimate_bytes(recording));
    write_streamed(path, progress, |writer| {
        writer.put(recording)?;
        more(writer)
    })
}

/// Writes a new file from what `fill` pushes, chunk by chunk, and commits it. The file appears under its name
/// atomically. For sources that are too large to hold in memory as a recording.
///
/// # Errors
/// The same as [`write`], and the errors of `fill`.
pub fn write_streamed<E: From<ContainerError>>(
    path: &Path,
    progress: &Progress,
    fill: impl FnOnce(&mut Writer<FileSink>) -> Result<(), E>,
) -> Result<(), E> {
    let temporary = temporary_path(path)?;
    let made = Writer::create_as(&temporary, path)
        .map_err(E::from)
        .and_then(|mut writer| {
            writer.set_progress(progress);
            writer.set_packing(true);
            fill(&mut writer)?;
            writer.commit()?;
            let io = |source| ContainerError::Io {
                place: path.display().to_string(),
                source,
            };
            fs::rename(&temporary, path).map_err(io)?;
            Ok(folder_of(path).and_then(|f| f.sync_all()).map_err(io)?)
        });
    if made.is_err() {
        // The first error is reported. A failure to remove the leftover file adds nothing to it.
        let _ = fs::remove_file(&temporary);
    }
    made
}

/// Appends to a file everything that a recording has beyond it, in a new commit: later events, pages, snapshots,
/// marks, and changed metadata and extras.
///
/// # Errors
/// The same as [`write`], and if the file cannot be opened; it keeps its last commit.
pub fn append(recording: &Recording, path: &Path, progress: &Progress) -> Result<Commit, ContainerError> {
    let mut writer = Writer::append(path)?;
    writer.set_progress(progress);
    writer.put(recording)?;
    writer.commit()
}

/// Returns a recording as the bytes of a file. The same recording gives the same bytes.
///
/// # Errors
/// If it contradicts itself: columns of different lengths, or snapshots that refer to missing pages.
pub fn to_bytes(recording: &Recording) -> Result<Vec<u8>, ContainerError> {
    let mut writer = Writer::begin(MemorySink::default())?;
    writer.set_packing(true);
    writer.put(recording)?;
    writer.commit()?;
    Ok(writer.into_sink().bytes)
}

fn folder_of(path: &Path) -> std::io::Result<fs::File> {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => fs::File::open(p),
        _ => fs::File::open("."),
    }
}

/// Returns a name for the unfinished file, in the same folder, so that it can be renamed.
fn temporary_path(path: &Path) -> Result<PathBuf, ContainerError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| ContainerError::Io {
        place: path.display().to_string(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path names no file"),
    })?;
    // Files from a killed writer of the same file are never finished, so remove them.
    if let (Some(folder), Some(name)) = (path.parent(), name.to_str()) {
        unfinished_files::remove(folder, |file| unfinished_files::parse_kine_writer(file, name));
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(path.with_file_name(unfinished_files::unfinished_kine(name, std::process::id(), count)))
}

/// Estimates the size of a recording, bytes.
fn estimate_bytes(r: &Recording) -> u64 {
    let events = r.events.len() as u64 * 18 + r.events.offset.len() as u64 * 13;
    events.saturating_add(r.memory.pages.len() as u64 * 4128).max(1)
}

impl<S: Sink> Writer<S> {
    /// Pushes everything that a recording has beyond what was pushed before; for a new file, that is everything.
    ///
    /// # Errors
    /// If it has fewer rows than were already pushed, contradicts itself, is lent from a damaged file, or the sink
    /// cannot be written.
    pub fn put(&mut self, recording: &Recording) -> Result<(), ContainerError> {
        let put = self.put_all(recording);
        // Damage found on the way must not get a new, valid digest here.
        match recording.damage.first() {
            Some(block) => Err(ContainerError::DamagedSource(Box::new(block))),
            None => put,
        }
    }

    fn put_all(&mut self, recording: &Recording) -> Result<(), ContainerError> {
        use SectionKind as K;
        let e = &recording.events;
        self.facts(&recording.metadata)?;
        self.column(K::EventKind, &e.kind)?;
        self.column(K::EventSpace, &e.space)?;
        self.column(K::EventTime, &e.time)?;
        self.column(K::EventThread, &e.thread)?;
        self.column(K::EventPayload, &e.payload)?;
        self.column(K::AccessOffset, &e.offset)?;
        self.column(K::AccessWidth, &e.width)?;
        self.column(K::AccessValue, &e.value)?;
        self.column(K::Interrupts, &e.interrupts)?;
        self.column(K::Submits, &e.submits)?;
        self.column(K::HostWrites, &e.host_writes)?;
        self.column(K::Undecoded, &e.undecoded)?;
        self.column(K::DmaMaps, &e.dma_maps)?;
        self.column(K::Launches, &e.launches)?;
        self.column(K::Copies, &e.copies)?;
        self.column(K::Fills, &e.fills)?;
        self.column(K::Orders, &e.orders)?;
        self.column(K::Allocations, &e.allocations)?;
        self.column(K::Calls, &e.calls)?;
        self.column(K::Objects, &e.objects)?;
        self.column(K::RingEntries, &e.ring_entries)?;
        self.column(K::SavedMemory, &e.saved_memory)?;
        self.column(K::CallBytes, &e.call_bytes)?;
        self.column(K::CallPages, &e.call_pages)?;
        let marks = usize::try_from(self.rows(K::Marks)).unwrap_or(usize::MAX);
        self.marks(e.marks.get(marks..).ok_or_else(|| fewer_rows_error(K::Marks))?)?;
        self.new_pages(recording)?;
        let known = self.snapshot_count();
        self.snapshots(
            recording
                .memory
                .snapshots
                .get(known..)
                .ok_or_else(|| fewer_rows_error(K::Snapshots))?,
        )?;
        self.metadata_records(&recording.metadata)?;
        for (name, bytes) in &recording.extras {
            self.extra(name, bytes)?;
        }
        Ok(())
    }

    /// Pushes the events, pages and snapshots that a growing recording has beyond what was pushed before. The caller
    /// pushes its metadata and extras.
    ///
    /// # Errors
    /// The same as [`Writer::put`].
    pub fn put_growing(&mut self, e: &EventsBuilder, memory: &MemoryBuilder) -> Result<(), ContainerError> {
        use SectionKind as K;
        self.push_remaining(K::EventKind, &e.kind)?;
        self.push_remaining(K::EventSpace, &e.space)?;
        self.push_remaining(K::EventTime, &e.time)?;
        self.push_remaining(K::EventThread, &e.thread)?;
        self.push_remaining(K::EventPayload, &e.payload)?;
        self.push_remaining(K::AccessOffset, &e.offset)?;
        self.push_remaining(K::AccessWidth, &e.width)?;
        self.push_remaining(K::AccessValue, &e.value)?;
        self.push_remaining(K::Interrupts, &e.interrupts)?;
        self.push_remaining(K::Submits, &e.submits)?;
        self.push_remaining(K::HostWrites, &e.host_writes)?;
        self.push_remaining(K::Undecoded, &e.undecoded)?;
        self.push_remaining(K::DmaMaps, &e.dma_maps)?;
        self.push_remaining(K::Launches, &e.launches)?;
        self.push_remaining(K::Copies, &e.copies)?;
        self.push_remaining(K::Fills, &e.fills)?;
        self.push_remaining(K::Orders, &e.orders)?;
        self.push_remaining(K::Allocations, &e.allocations)?;
        self.push_remaining(K::Calls, &e.calls)?;
        self.push_remaining(K::Objects, &e.objects)?;
        self.push_remaining(K::RingEntries, &e.ring_entries)?;
        self.push_remaining(K::SavedMemory, &e.saved_memory)?;
        self.push_remaining(K::CallBytes, &e.call_bytes)?;
        self.push_remaining(K::CallPages, &e.call_pages)?;
        let marks = unpushed_rows(K::Marks, &e.marks, self.rows(K::Marks))?;
        self.marks(marks)?;
        let have = self.rows(K::PageImages);
        let images = unpushed_rows(K::PageImages, &memory.pages, have)?;
        self.pages(
            unpushed_rows(K::PageDigests, &memory.digests, have)?,
            images.iter().map(|p| &**p),
        )?;
        let known = self.snapshot_count() as u64;
        self.snapshots(unpushed_rows(K::Snapshots, &memory.snapshots, known)?)
    }

    fn push_remaining<T: Pod>(&mut self, kind: SectionKind, values: &[T]) -> Result<(), ContainerError> {
        let rest = unpushed_rows(kind, values, self.rows(kind))?;
        self.push(kind, rest)
    }

    fn new_pages(&mut self, recording: &Recording) -> Result<(), ContainerError> {
        let store = &recording.memory.pages;
        let have = self.rows(SectionKind::PageImages);
        let ids = || {
            (have..store.len() as u64)
                .filter_map(|i| u32::try_from(i + 1).ok())
                .map(PageId)
        };
        let digests: Vec<Digest> = ids().filter_map(|id| store.digest(id)).collect();
        self.pages(&digests, ids().filter_map(|id| store.page(id)))
    }

    /// Pushes the rows of a column beyond those pushed before.
    fn column<T: Pod + PartialEq>(&mut self, kind: SectionKind, column: &Column<T>) -> Result<(), ContainerError> {
        let from = usize::try_from(self.rows(kind))
            .ok()
            .filter(|f| *f <= column.len())
            .ok_or_else(|| fewer_rows_error(kind))?;
        let small = SMALL / size_of::<T>().max(1);
        let mut gathered: Vec<T> = Vec::new();
        for part in column.parts(from..column.len()) {
            let alone = part.rows() == column.len() - from;
            match part {
                Part::Constant { value, rows } if kind.may_be_constant() && (alone || rows >= small) => {
                    self.push(kind, &gathered)?;
                    gathered.clear();
                    self.push_constant(kind, value, rows as u64)?;
                }
                Part::Constant { value, mut rows } => {
                    while rows > 0 {
                        let now = rows.min(small);
                        gathered.resize(gathered.len() + now, value);
                        rows -= now;
                        if gathered.len() >= small {
                            self.push(kind, &gathered)?;
                            gathered.clear();
                        }
                    }
                }
                Part::Plain(values) if values.len() >= small || alone => {
                    self.push(kind, &gathered)?;
                    gathered.clear();
                    self.push(kind, values)?;
                }
                Part::Plain(values) => {
                    gathered.extend_from_slice(values);
                    if gathered.len() >= small {
                        self.push(kind, &gathered)?;
                        gathered.clear();
                    }
                }
            }
        }
        self.push(kind, &gathered)
    }
}

/// Returns the elements of a list beyond the rows that were pushed before.
fn unpushed_rows<T>(kind: SectionKind, list: &[T], pushed: u64) -> Result<&[T], ContainerError> {
    let from = usize::try_from(pushed).unwrap_or(usize::MAX);
    list.get(from..).ok_or_else(|| fewer_rows_error(kind))
}

fn fewer_rows_error(kind: SectionKind) -> ContainerError {
    ContainerError::Refused(format!("the recording has fewer rows of {} than the file", kind.name()))
}
