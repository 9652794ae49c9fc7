//! Writer that appends sections and commits. It streams: pushed data goes directly to the sink, and only the table is
//! kept in memory.

use super::blocks::{
    self, BLOCK_TABLE_ALIGN, BlockHasher, Content, KNOWN_CODECS, PLAIN_CODECS, PackedBlocks, section_digest,
};
use super::error::ContainerError;
use super::layout::{
    CommitRecord, Encoding, Entry, MAX_TABLES, RECORD_ALIGN, RECORD_BYTES, SECTION_ALIGN, VERSION,
    VERSION_WITHOUT_BLOCKS, align_up, content_digest, header,
};
use super::reader::KineFile;
use super::sections::{self, MAX_EXPANSION, MIN_EXPANDED_BYTES, Rows, SECTION_VERSION, SnapshotCheck};
use super::sink::{FileSink, Sink};
use super::source::Source;
use crate::progress::Progress;
use crate::recording::{Digest, PACKED_BLOCK_BYTES, Page, SectionKind};
use bytemuck::Pod;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

mod records;
mod reserved_space;

/// Number of bytes that are hashed, written and reported at once.
const PIECE: usize = 1 << 20;
/// Minimum size of a column chunk that is packed, bytes: a shorter one and its gap are as large as what packing saves.
const MIN_PACKED_BYTES: usize = 64 << 10;
/// Number of bytes that are packed and written at once: blocks for all processors.
const PACKED_PIECE: usize = 64 * PACKED_BLOCK_BYTES;

/// A writer of a `.kine` file.
///
/// Push column chunks, pages and records in any order, then call [`Writer::commit`]; repeat as needed. Each chunk
/// becomes a section of its own, which starts at a multiple of 4096, so push large chunks.
pub struct Writer<S: Sink> {
    sink: S,
    place: String,
    /// Format version of the file.
    version: u32,
    /// Offset one past the last byte used.
    end: u64,
    /// Sections that no later one replaced.
    entries: Vec<Entry>,
    /// Number of entries that a table already lists.
    listed: usize,
    rows: Rows,
    snapshots: SnapshotCheck,
    /// Offset of the last commit record, 0 before the first.
    previous: u64,
    sequence: u64,
    /// Number of tables since the last complete one, including it.
    tables: usize,
    poisoned: bool,
    /// Whether long columns are packed.
    packs: bool,
    /// Total size of packed sections before packing, bytes.
    packed_bytes: u64,
    /// Space reserved after a commit.
    room: Option<reserved_space::ReservedSpace>,
    progress: Progress,
}

/// A commit that is durable across a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// 1 for the first commit of a file, then counting up.
    pub number: u64,
    /// Offset one past its last byte.
    pub end: u64,
}

/// A section that is being written.
struct Open {
    start: u64,
    at: u64,
    digests: OpenDigests,
}

/// The digests of a section that is being written.
enum OpenDigests {
    Single(Box<blake3::Hasher>),
    Blocks(Box<BlockHasher>),
}

impl<S: Sink> std::fmt::Debug for Writer<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Writer({}, {} sections, commit {})",
            self.place,
            self.entries.len(),
            self.sequence
        )
    }
}

impl Writer<FileSink> {
    /// Creates a new file.
    ///
    /// # Errors
    /// If a file of this name already exists, or it cannot be created.
    pub fn create(path: &Path) -> Result<Self, ContainerError> {
        Self::create_as(path, path)
    }

    /// Does the same as [`Writer::create`], for a file that will be renamed to `shown`; errors name that file.
    pub(super) fn create_as(path: &Path, shown: &Path) -> Result<Self, ContainerError> {
        let io = |source| ContainerError::Io {
            place: shown.display().to_string(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(io)?;
        lock(&file, shown)?;
        let folder = match path.parent() {
            Some(p) if !p.as_os_str().is_empty() => File::open(p),
            _ => File::open("."),
        };
        let sink = FileSink::new(file, Some(folder.map_err(io)?));
        Self::begin_at(sink, shown.display().to_string())
    }

    /// Opens a file to append after its last complete commit. Nothing is overwritten: bytes that a dead writer left
    /// after that commit stay in the file, unlisted.
    ///
    /// # Errors
    /// The same as [`super::open`], or if another process is writing to the file.
    pub fn append(path: &Path) -> Result<Self, ContainerError> {
        let place = path.display().to_string();
        let io = |source| ContainerError::Io {
            place: path.display().to_string(),
            source,
        };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
        lock(&file, path)?;
        let kine = KineFile::from_source(
            Source::from_file(file.try_clone().map_err(io)?, place.clone())?,
            &Progress::new(),
        )?;
        let (_, snapshots) = kine.snapshots()?;
        let packed = kine.entries.iter().filter(|e| e.is_packed());
        let packed_bytes = packed.fold(0u64, |sum, e| sum.saturating_add(e.bytes));
        Ok(Self {
            sink: FileSink::new(file, None),
            place,
            version: kine.version(),
            end: kine.source.len,
            listed: kine.entries.len(),
            entries: kine.entries,
            rows: kine.rows,
            snapshots,
            previous: kine.state.record.at,
            sequence: kine.state.record.sequence,
            tables: kine.state.tables,
            poisoned: false,
            packs: false,
            packed_bytes,
            room: None,
            progress: Progress::new(),
        })
    }
}

/// Number of attempts to lock a file that another process holds, and the delay before each: 200 ms in total.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Locks the file for this writer. A child that another thread has forked can hold the lock of a finished writer
/// until it executes its own program. Therefore the lock is retried briefly before the file counts as busy.
fn lock(file: &File, path: &Path) -> Result<(), ContainerError> {
    lock_with_pause(file, path, || std::thread::sleep(LOCK_PAUSE))
}

/// Locks the file like [`lock`], and calls `pause` before each further attempt.
fn lock_with_pause(file: &File, path: &Path, mut pause: impl FnMut()) -> Result<(), ContainerError> {
    let mut tries = 0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if tries < LOCK_TRIES => {
                tries += 1;
                pause();
            }
            Err(TryLockError::WouldBlock) => {
                return Err(ContainerError::Busy {
                    place: path.display().to_string(),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(ContainerError::Io {
                    place: path.display().to_string(),
                    source,
                });
            }
        }
    }
}

impl<S: Sink> Writer<S> {
    /// Starts a file in an empty sink.
    ///
    /// # Errors
    /// If the sink cannot be written.
    pub fn begin(sink: S) -> Result<Self, ContainerError> {
        Self::begin_at(sink, "bytes in memory".to_owned())
    }

    /// Does the same as [`Writer::begin`], in the format version without blocks, which older programs read.
    ///
    /// # Errors
    /// The same as [`Writer::begin`].
    pub fn begin_without_blocks(sink: S) -> Result<Self, ContainerError> {
        Self::begin_in(sink, "bytes in memory".to_owned(), VERSION_WITHOUT_BLOCKS)
    }

    pub(super) fn begin_at(sink: S, place: String) -> Result<Self, ContainerError> {
        Self::begin_in(sink, place, VERSION)
    }

    fn begin_in(sink: S, place: String, version: u32) -> Result<Self, ContainerError> {
        let mut writer = Self {
            sink,
            place,
            version,
            end: 0,
            entries: Vec::new(),
            listed: 0,
            rows: Rows::new(),
            snapshots: SnapshotCheck::default(),
            previous: 0,
            sequence: 0,
            tables: 0,
            poisoned: false,
            packs: false,
            packed_bytes: 0,
            room: None,
            progress: Progress::new(),
        };
        writer.write(0, &header(version))?;
        writer.end = SECTION_ALIGN;
        Ok(writer)
    }

    /// Reports the number of bytes written to `progress`, and stops when it is cancelled.
    pub fn set_progress(&mut self, progress: &Progress) {
        self.progress = progress.clone();
    }

    /// Sets whether long columns are packed from now on. It is for files that are written as a whole: packing takes time, and
    /// a growing file is read while it grows.
    pub fn set_packing(&mut self, packs: bool) {
        self.packs = packs && self.version != VERSION_WITHOUT_BLOCKS;
    }

    /// Returns the sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// Returns the sink and consumes the writer. Data pushed since the last commit is in the sink but not committed.
    #[must_use]
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// Returns the number of rows of a column, or elements of a list, pushed so far.
    #[must_use]
    pub fn rows(&self, kind: SectionKind) -> u64 {
        self.rows.get(&(kind as u32)).copied().unwrap_or(0)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), ContainerError> {
        self.guarded(|sink| sink.write_at(at, bytes))
    }

    fn guarded(&mut self, work: impl FnOnce(&mut S) -> std::io::Result<()>) -> Result<(), ContainerError> {
        if self.poisoned {
            return Err(ContainerError::Poisoned {
                place: self.place.clone(),
            });
        }
        work(&mut self.sink).map_err(|source| {
            self.poisoned = true;
            ContainerError::Io {
                place: self.place.clone(),
                source,
            }
        })
    }

    fn aligned_end(&self, align: u64) -> Result<u64, ContainerError> {
        align_up(self.end, align).ok_or_else(|| ContainerError::Refused("the file would be too large".to_owned()))
    }

    fn open(&self) -> Result<Open, ContainerError> {
        let start = self.aligned_end(SECTION_ALIGN)?;
        Ok(Open {
            start,
            at: start,
            digests: match self.version {
                VERSION_WITHOUT_BLOCKS => OpenDigests::Single(Box::default()),
                _ => OpenDigests::Blocks(Box::new(BlockHasher::new())),
            },
        })
    }

    fn feed(&mut self, open: &mut Open, bytes: &[u8]) -> Result<(), ContainerError> {
        for piece in bytes.chunks(PIECE) {
            self.progress.advance(piece.len() as u64)?;
            match &mut open.digests {
                OpenDigests::Single(hasher) => {
                    hasher.update(piece);
                }
                OpenDigests::Blocks(hasher) => hasher.update(piece),
            }
            self.write(open.at, piece)?;
            open.at += piece.len() as u64;
        }
        Ok(())
    }

    fn close(&mut self, open: Open, mut entry: Entry) -> Result<(), ContainerError> {
        self.end = self.end.max(open.at);
        entry.bytes = open.at - open.start;
        entry.offset = if entry.bytes == 0 { 0 } else { open.start };
        match open.digests {
            OpenDigests::Single(hasher) => entry.digest = *hasher.finalize().as_bytes(),
            OpenDigests::Blocks(mut hasher) => {
                let table = hasher.finish();
                entry.digest = super::layout::digest(table);
                if !table.is_empty() {
                    entry.blocks_at = self.aligned_end(BLOCK_TABLE_ALIGN)?;
                    self.write(entry.blocks_at, table)?;
                    self.end = entry.blocks_at.saturating_add(table.len() as u64);
                }
            }
        }
        self.list(entry);
        Ok(())
    }

    /// Returns the digest that a section of these bytes gets.
    fn digest_of(&self, parts: &[&[u8]]) -> [u8; 32] {
        section_digest(self.version, parts.iter().copied())
    }

    /// Adds an entry, and drops the one that it replaces.
    fn list(&mut self, entry: Entry) {
        match entry.section_kind().filter(|k| sections::has_continued_rows(*k)) {
            Some(_) => *self.rows.entry(entry.kind).or_insert(0) += entry.rows,
            None => {
                if let Some(i) = self
                    .entries
                    .iter()
                    .position(|e| e.kind == entry.kind && e.name == entry.name)
                {
                    self.entries.remove(i);
                    if i < self.listed {
                        self.listed -= 1;
                    }
                }
            }
        }
        self.entries.push(entry);
    }

    fn entry(&self, kind: SectionKind, encoding: Encoding, rows: u64) -> Entry {
        Entry {
            kind: kind as u32,
            version: SECTION_VERSION,
            offset: 0,
            bytes: 0,
            rows,
            first_row: if sections::has_continued_rows(kind) {
                self.rows(kind)
            } else {
                0
            },
            value: 0,
            encoding: encoding as u32,
            row_bytes: kind.row_bytes().unwrap_or(0),
            blocks_at: 0,
            digest: super::layout::digest(&[]),
            entry_at: 0,
            name: None,
        }
    }

    fn check_row<T>(kind: SectionKind) -> Result<(), ContainerError> {
        let size = size_of::<T>();
        match kind.row_bytes() {
            Some(row) if row as usize == size => Ok(()),
            Some(row) => {
                let what = format!("rows of column {} have {row} bytes, not {size}", kind.name());
                Err(ContainerError::Refused(what))
            }
            None => Err(ContainerError::Refused(format!("{} is not a column", kind.name()))),
        }
    }

    /// Appends rows to a column as one chunk. Writes them directly from memory, without a copy.
    ///
    /// # Errors
    /// If `T` does not have the size of the column's rows, or the sink cannot be written.
    pub fn push<T: Pod>(&mut self, kind: SectionKind, values: &[T]) -> Result<(), ContainerError> {
        Self::check_row::<T>(kind)?;
        if values.is_empty() {
            return Ok(());
        }
        let rows = values.len() as u64;
        let bytes: &[u8] = bytemuck::cast_slice(values);
        if self.can_pack(bytes.len()) {
            return self.push_packed(kind, bytes, rows);
        }
        let mut open = self.open()?;
        self.feed(&mut open, bytes)?;
        let entry = self.entry(kind, Encoding::Plain, rows);
        self.close(open, entry)
    }

    /// Returns whether a column chunk of `bytes` bytes is packed.
    fn can_pack(&self, bytes: usize) -> bool {
        let total = self.packed_bytes.saturating_add(bytes as u64);
        let max = self.end.max(MIN_EXPANDED_BYTES).saturating_mul(MAX_EXPANSION);
        self.packs && bytes >= MIN_PACKED_BYTES && total <= max
    }

    /// Packs a content in pieces, each for all processors.
    fn pack(&self, bytes: &[u8], content: Content, mut take: impl FnMut(PackedBlocks)) -> Result<(), ContainerError> {
        for piece in bytes.chunks(PACKED_PIECE) {
            let packed = blocks::pack(piece, content).map_err(|source| ContainerError::Io {
                place: self.place.clone(),
                source,
            })?;
            self.progress.advance(piece.len() as u64)?;
            take(packed);
        }
        Ok(())
    }

    /// Appends rows in packed blocks.
    fn push_packed(&mut self, kind: SectionKind, rows: &[u8], count: u64) -> Result<(), ContainerError> {
        let row_bytes = kind.row_bytes().unwrap_or(0) as usize;
        let mut pieces = Vec::new();
        self.pack(rows, Content::Rows(row_bytes), |packed| pieces.push(packed))?;
        let entry = self.entry(kind, Encoding::PackedRows, count);
        self.close_packed(&pieces, rows.len(), entry)
    }

    /// Writes packed blocks and lists them as a section of `bytes` bytes.
    fn close_packed(&mut self, pieces: &[PackedBlocks], bytes: usize, mut entry: Entry) -> Result<(), ContainerError> {
        let start = self.aligned_end(BLOCK_TABLE_ALIGN)?;
        let (mut at, mut table) = (start, Vec::new());
        for piece in pieces {
            self.write(at, &piece.stored)?;
            at = at.saturating_add(piece.stored.len() as u64);
            table.extend_from_slice(&piece.table);
        }
        self.end = self.end.max(at);
        entry.offset = start;
        entry.bytes = bytes as u64;
        entry.digest = super::layout::digest(&table);
        entry.blocks_at = self.aligned_end(BLOCK_TABLE_ALIGN)?;
        self.write(entry.blocks_at, &table)?;
        self.end = entry.blocks_at.saturating_add(table.len() as u64);
        self.packed_bytes = self.packed_bytes.saturating_add(entry.bytes);
        self.list(entry);
        Ok(())
    }

    /// Appends `rows` rows of one value to a column, at no cost per row.
    ///
    /// # Errors
    /// If the column cannot hold constants (see [`SectionKind::may_be_constant`]), `T` does not have the size of its
    /// rows, or the sink cannot be written.
    pub fn push_constant<T: Pod>(&mut self, kind: SectionKind, value: T, rows: u64) -> Result<(), ContainerError> {
        Self::check_row::<T>(kind)?;
        if !kind.may_be_constant() {
            return Err(ContainerError::Refused(format!(
                "column {} is never constant",
                kind.name()
            )));
        }
        if rows == 0 {
            return Ok(());
        }
        let mut word = [0; 8];
        let bytes = bytemuck::bytes_of(&value);
        if let Some(slot) = word.get_mut(..bytes.len()) {
            slot.copy_from_slice(bytes);
        }
        let value = u64::from_le_bytes(word);
        let listed = self.listed;
        let last = self
            .entries
            .iter_mut()
            .enumerate()
            .rev()
            .find(|(_, e)| e.kind == kind as u32);
        if let Some((i, e)) = last
            && i >= listed
            && e.encoding == Encoding::Constant as u32
            && e.value == value
            && let Some(total) = e.rows.checked_add(rows)
        {
            e.rows = total;
            *self.rows.entry(kind as u32).or_insert(0) += rows;
            return Ok(());
        }
        let mut entry = self.entry(kind, Encoding::Constant, rows);
        entry.value = value;
        self.list(entry);
        Ok(())
    }

    /// Appends page images with their digests, in the order of their ids: the first page ever pushed has id 1.
    ///
    /// # Errors
    /// If the two differ in number, or the sink cannot be written.
    pub fn pages<'a>(
        &mut self,
        digests: &[Digest],
        images: impl Iterator<Item = &'a Page>,
    ) -> Result<(), ContainerError> {
        if digests.is_empty() {
            return Ok(());
        }
        let mut open = self.open()?;
        let mut gathered: Vec<u8> = Vec::with_capacity(PIECE.min(digests.len().saturating_mul(size_of::<Page>())));
        let mut count = 0;
        for image in images {
            gathered.extend_from_slice(image);
            count += 1;
            if gathered.len() >= PIECE {
                self.feed(&mut open, &gathered)?;
                gathered.clear();
            }
        }
        self.feed(&mut open, &gathered)?;
        if count != digests.len() {
            let what = format!("{} page digests do not match {count} page images", digests.len());
            return Err(ContainerError::Refused(what));
        }
        let entry = self.entry(SectionKind::PageImages, Encoding::Plain, count as u64);
        self.close(open, entry)?;
        self.push(SectionKind::PageDigests, digests)
    }

    /// Makes everything pushed so far durable: writes the table, syncs, writes the commit record, syncs. When it
    /// returns, this state survives a power cut.
    ///
    /// # Errors
    /// If columns of one table differ in length, or a snapshot refers to a page that was not pushed: push what is
    /// missing and commit again. Also if the sink cannot be written or synced.
    pub fn commit(&mut self) -> Result<Commit, ContainerError> {
        self.guarded(|_| Ok(()))?;
        self.progress.check()?;
        sections::check_lengths(&self.rows).map_err(ContainerError::Refused)?;
        self.snapshots
            .check_pages(self.rows(SectionKind::PageImages))
            .map_err(ContainerError::Refused)?;
        let complete = self.previous == 0 || self.tables >= MAX_TABLES;
        let first = if complete { 0 } else { self.listed };
        let table_at = self.aligned_end(RECORD_ALIGN)?;
        let mut table = Vec::new();
        for e in self.entries.iter().skip(first) {
            table.extend_from_slice(&e.encode());
        }
        self.write(table_at, &table)?;
        self.end = table_at.saturating_add(table.len() as u64);
        let at = self.aligned_end(RECORD_ALIGN)?;
        let record = CommitRecord {
            at,
            sequence: self.sequence.saturating_add(1),
            table_at,
            table_bytes: table.len() as u64,
            previous: self.previous,
            version: self.version,
            complete,
            codecs: if self.version == VERSION_WITHOUT_BLOCKS {
                0
            } else {
                match self.entries.iter().any(Entry::is_packed) {
                    true => KNOWN_CODECS,
                    false => PLAIN_CODECS,
                }
            },
            table_digest: super::layout::digest(&table),
        };
        // The record must not reach the disk before the data that it covers.
        self.guarded(Sink::sync)?;
        self.write(at, &record.encode())?;
        self.guarded(Sink::sync)?;
        self.end = at.saturating_add(RECORD_BYTES as u64);
        self.previous = at;
        self.sequence = record.sequence;
        self.tables = if complete { 1 } else { self.tables.saturating_add(1) };
        self.listed = self.entries.len();
        Ok(Commit {
            number: record.sequence,
            end: self.end,
        })
    }

    pub(super) fn snapshot_count(&self) -> usize {
        self.snapshots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child process that another thread starts holds the lock between its fork and its exec.
    #[test]
    fn write_waits_for_a_briefly_held_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held.kine");
        std::fs::write(&path, b"").unwrap();
        let (locked, file) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        locked.try_lock().unwrap();
        let mut pauses = 0;
        lock_with_pause(&file, &path, || {
            pauses += 1;
            if pauses == LOCK_TRIES {
                locked.unlock().unwrap();
            }
        })
        .unwrap();
        assert_eq!(pauses, LOCK_TRIES);
        file.unlock().unwrap();
        // The wait ends with an error if the lock is not released.
        locked.try_lock().unwrap();
        pauses = 0;
        let e = lock_with_pause(&file, &path, || pauses += 1).unwrap_err();
        assert!(matches!(e, ContainerError::Busy { .. }), "{e}");
        assert_eq!(pauses, LOCK_TRIES);
    }
}
