//! Recordings from the sections of a file: decoded metadata, with columns and page images lent from the map.

use super::blocks;
use super::error::ContainerError;
use super::layout::{Encoding, Entry, MAGIC, MAX_EXTRAS, NAMED_BYTES, VERSION_WITHOUT_BLOCKS, content_digest, digest};
use super::metadata_records::{self, MetadataTag};
use super::recover::{CommitState, find_last_commit};
use super::sections::{self, NamedHeader, Rows, SnapshotCheck};
use super::source::Source;
use crate::Recording;
use crate::encode;
use crate::progress::Progress;
use crate::recording::{
    BLOCK_BYTES, Column, ColumnBuilder, Damage, DamagedBlock, Digest, Digests, Events, ImageRun, Memory, Metadata,
    PACKED_BLOCK_BYTES, PackedSection, PageStore, SectionCheck, SectionKind, SharedBytes, Snapshot, UnpackedMemory,
};
use bytemuck::Pod;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A `.kine` file, opened at its last complete commit.
pub struct KineFile {
    pub(super) source: Source,
    pub(super) state: CommitState,
    /// Sections that no later one replaced.
    pub(super) entries: Vec<Entry>,
    pub(super) rows: Rows,
    /// The damage found so far.
    damage: Damage,
}

/// A section as the file's table describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// The kind; `None` if this version does not know it.
    pub kind: Option<SectionKind>,
    /// Number of the kind.
    pub number: u32,
    /// Version of the content.
    pub version: u32,
    /// Name of a named section.
    pub name: Option<String>,
    /// Offset of the first byte in the file; 0 if the section has no bytes.
    pub offset: u64,
    /// Size of the data, bytes: before packing, if its blocks are packed.
    pub bytes: u64,
    /// Size of the data in the file, bytes.
    pub stored_bytes: u64,
    /// Number of the first row in the whole column.
    pub first_row: u64,
    /// Number of rows, or of elements of a record.
    pub rows: u64,
    /// The encoding of the rows; `None` if this version does not know it.
    pub encoding: Option<Encoding>,
    /// The value of a constant chunk.
    pub value: u64,
    /// Offset of the block table; 0 if the section has no bytes, or the file is of version 1.
    pub blocks_at: u64,
    /// BLAKE3 digest of the block table, as stored in the table of sections; in version 1, of the section's bytes.
    pub digest: Digest,
}

/// Data that an earlier analysis computed and stored. It may be ignored or recomputed.
#[derive(Clone)]
pub struct Derived {
    /// Version of the analysis that computed it.
    pub analysis_version: u32,
    /// Whether the recording is unchanged since the data was computed.
    pub is_current: bool,
    check: Arc<SectionCheck>,
    start: usize,
    len: usize,
}

impl Derived {
    /// Returns the size of the data, bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the data is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a part of the data; `None` if it reaches past the end, or is damaged and must be recomputed.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        let place = self.start.checked_add(range.start)?..self.start.checked_add(range.end)?;
        let sound = self.check.check(place.clone());
        self.check.bytes.slice(place).filter(|_| sound)
    }
    /// Returns the data, verified against its digests. The first byte is aligned to eight. Returns no bytes if the
    /// data is damaged.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.part(0..self.len).unwrap_or_default()
    }

    /// Lends `rows` values that start at byte `at` of the data; they are verified against their digests at first use.
    /// Returns `None` if they reach past the end or are not aligned for `T`.
    #[must_use]
    pub fn column<T: Pod>(&self, at: usize, rows: usize) -> Option<Column<T>> {
        let end = rows.checked_mul(size_of::<T>())?.checked_add(at)?;
        (end <= self.len).then_some(())?;
        let mut column = ColumnBuilder::new();
        let start = self.start.checked_add(at)?;
        column.push_checked(Arc::clone(&self.check), start, rows).ok()?;
        Some(column.finish())
    }
}

impl std::fmt::Debug for Derived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Derived(version {}, {} bytes, current {})",
            self.analysis_version, self.len, self.is_current
        )
    }
}

impl std::fmt::Debug for KineFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KineFile({}, {} sections)", self.source.place, self.entries.len())
    }
}

impl KineFile {
    /// First bytes of every file.
    pub const MAGIC: [u8; 8] = MAGIC;

    /// Opens a file at its last complete commit.
    ///
    /// # Errors
    /// The same as [`super::open`].
    pub fn open(path: &Path) -> Result<Self, ContainerError> {
        Self::open_with(path, &Progress::new())
    }

    /// Does the same as [`KineFile::open`], with progress and cancellation. The bytes after the last complete commit
    /// are searched for it; they can be as long as the file.
    ///
    /// # Errors
    /// The same as [`super::open`], or if cancelled.
    pub fn open_with(path: &Path, progress: &Progress) -> Result<Self, ContainerError> {
        Self::from_source(Source::open(path)?, progress)
    }

    /// Opens the bytes of a file.
    ///
    /// # Errors
    /// The same as [`super::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ContainerError> {
        Self::from_source(Source::from_bytes(bytes), &Progress::new())
    }

    pub(super) fn from_source(source: Source, progress: &Progress) -> Result<Self, ContainerError> {
        let mut state = find_last_commit(&source, progress)?;
        let rows = sections::check(&source, &state)?;
        let entries = sections::live_entries(&source, state.version, std::mem::take(&mut state.entries), progress)?;
        Ok(Self {
            source,
            state,
            entries,
            rows,
            damage: Damage::default(),
        })
    }

    /// Returns the format version of the file.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.state.version
    }

    /// Returns the damage found so far by any user of the file or of a recording lent from it.
    #[must_use]
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Returns whether each section has one digest and no blocks.
    pub(super) fn is_without_blocks(&self) -> bool {
        self.state.version == VERSION_WITHOUT_BLOCKS
    }

    /// Returns the number of the open commit: 1 for the first.
    #[must_use]
    pub fn commit(&self) -> u64 {
        self.state.record.sequence
    }

    /// Returns the offset one past the last byte of the open commit. Bytes after it were never committed.
    #[must_use]
    pub fn committed_bytes(&self) -> u64 {
        self.state.end()
    }

    /// Returns the number of bytes after the open commit: left by a writer that did not finish, or damaged.
    #[must_use]
    pub fn trailing_bytes(&self) -> u64 {
        self.source.len.saturating_sub(self.state.end())
    }

    /// Returns the number of events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.rows_of(SectionKind::EventKind)
    }

    pub(super) fn rows_of(&self, kind: SectionKind) -> u64 {
        self.rows.get(&(kind as u32)).copied().unwrap_or(0)
    }

    /// Returns the sections in the order in which they were written, without those that a later one replaced.
    #[must_use]
    pub fn sections(&self) -> Vec<SectionInfo> {
        let info = |e: &Entry| SectionInfo {
            kind: e.section_kind(),
            number: e.kind,
            version: e.version,
            name: e.name.clone(),
            offset: e.offset,
            bytes: e.bytes,
            stored_bytes: e.end().unwrap_or(e.offset).saturating_sub(e.offset),
            first_row: e.first_row,
            rows: e.rows,
            encoding: Encoding::from_raw(e.encoding),
            value: e.value,
            blocks_at: if self.is_without_blocks() { 0 } else { e.blocks_at },
            digest: e.digest,
        };
        self.entries.iter().map(info).collect()
    }

    /// Returns the data that an analysis stored under this name, if there is any.
    ///
    /// # Errors
    /// If it cannot be read or is outside the file.
    pub fn derived(&self, name: &str) -> Result<Option<Derived>, ContainerError> {
        let Some(e) = self.find_named(SectionKind::Derived, name) else {
            return Ok(None);
        };
        let place =
            |v: u64| usize::try_from(v).map_err(|_| self.source.damaged_error(e.offset, "out of reach".to_owned()));
        let check = self.check(e, &self.source.share(self.state.end())?)?;
        let (first, len) = (check.start, place(e.bytes)?);
        let named = first..first.saturating_add(NAMED_BYTES.min(len));
        // Packed bytes are there once they were verified.
        let is_sound = check.check(named.clone());
        let head = check.bytes.slice(named).filter(|_| is_sound);
        // Data with a damaged header cannot be attributed to a recording, so it is recomputed.
        let Some(head) = head.and_then(NamedHeader::decode) else {
            return Ok(None);
        };
        Ok(Some(Derived {
            analysis_version: head.analysis_version,
            is_current: head.made_from == self.content_digest(),
            check,
            start: first.saturating_add(NAMED_BYTES),
            len: len.saturating_sub(NAMED_BYTES),
        }))
    }

    /// Returns the digest over everything in the file that makes up the recording. Derived data stores the digest of
    /// the recording that it was computed from.
    #[must_use]
    pub fn content_digest(&self) -> Digest {
        content_digest(self.state.version, self.entries.iter())
    }

    fn find_named(&self, kind: SectionKind, name: &str) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|e| e.kind == kind as u32 && e.name.as_deref() == Some(name))
    }

    pub(super) fn of_kind(&self, kind: SectionKind) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |e| e.kind == kind as u32)
    }

    /// Reads a section's bytes and verifies their digests.
    pub(super) fn read_checked(&self, e: &Entry) -> Result<Vec<u8>, ContainerError> {
        let bytes = self.source.read(e.offset, e.bytes)?;
        if self.is_without_blocks() {
            if digest(&bytes) != e.digest {
                return Err(self
                    .source
                    .damaged_error(e.offset, format!("{e} does not agree with its digest")));
            }
            return Ok(bytes);
        }
        let table = self.source.read(e.blocks_at, e.table_bytes().unwrap_or(u64::MAX))?;
        blocks::check_table(e, &table).map_err(|what| self.source.damaged_error(e.blocks_at, what))?;
        for (block, data) in (0u64..).zip(bytes.chunks(BLOCK_BYTES)) {
            blocks::check_block(e, &table, block, data).map_err(|what| {
                let at = e.offset.saturating_add(block.saturating_mul(BLOCK_BYTES as u64));
                self.source.damaged_error(at, what)
            })?;
        }
        Ok(bytes)
    }

    /// Returns the checker that verifies a section's bytes at first use.
    pub(super) fn check(&self, e: &Entry, bytes: &Arc<dyn SharedBytes>) -> Result<Arc<SectionCheck>, ContainerError> {
        let far = || {
            let what = format!("{e} is too large for this machine");
            self.source.damaged_error(e.entry_at, what)
        };
        let place = |v: u64| usize::try_from(v).map_err(|_| far());
        let kind = e.section_kind().ok_or_else(far)?;
        let start = place(e.offset)?;
        let end = place(e.end().ok_or_else(far)?)?;
        let digests = match self.is_without_blocks() {
            true => Digests::Whole(e.digest),
            false => Digests::Table {
                start: place(e.blocks_at)?,
                digest: e.digest,
            },
        };
        let mut check = match e.is_packed() {
            true => self.packed_check(e, bytes, start..end, kind)?,
            false => SectionCheck::new(Arc::clone(bytes), start..end, digests, kind),
        };
        check.name.clone_from(&e.name);
        check.row_bytes = e.row_bytes as usize;
        check.first_row = e.first_row;
        check.damage = self.damage.clone();
        Ok(Arc::new(check))
    }

    /// Returns the checker of a section in packed blocks, which are stored in a range of the file.
    fn packed_check(
        &self,
        e: &Entry,
        file: &Arc<dyn SharedBytes>,
        stored: Range<usize>,
        kind: SectionKind,
    ) -> Result<SectionCheck, ContainerError> {
        let far = |reason: String| {
            self.source
                .damaged_error(e.entry_at, format!("{e} cannot be unpacked: {reason}"))
        };
        let bytes = usize::try_from(e.bytes).map_err(|e| far(e.to_string()))?;
        let memory = UnpackedMemory::new(bytes, PACKED_BLOCK_BYTES).map_err(|e| far(e.to_string()))?;
        let memory = Arc::new(memory);
        let packed = PackedSection {
            file: Arc::clone(file),
            table: stored.end,
            stored,
            digest: e.digest,
            memory: Arc::clone(&memory),
            starts: OnceLock::new(),
        };
        Ok(SectionCheck::new(memory, 0..bytes, Digests::Packed(packed), kind))
    }

    /// Returns the metadata that was read. If it is damaged, returns the default and records the damage.
    fn or_record_damage<T: Default>(
        &self,
        kind: SectionKind,
        read: Result<T, ContainerError>,
    ) -> Result<T, ContainerError> {
        match read {
            Err(ContainerError::Damaged { byte, what, .. }) => {
                self.record_damage(kind, byte, what);
                Ok(T::default())
            }
            other => other,
        }
    }

    /// Records a metadata section as damaged.
    fn record_damage(&self, kind: SectionKind, byte: u64, what: String) {
        let found = |e: &&Entry| e.offset <= byte && e.end().is_some_and(|end| byte < end) || e.blocks_at == byte;
        let e = self.of_kind(kind).find(found);
        let (bytes, rows) = e.map_or((byte..byte, 0..0), |e| {
            let rows = match sections::has_continued_rows(kind) {
                true => e.first_row..e.first_row.saturating_add(e.rows),
                false => 0..0,
            };
            (e.offset..e.end().unwrap_or(e.offset), rows)
        });
        let block = e.filter(|_| !self.is_without_blocks());
        let block = block.and_then(|e| byte.checked_sub(e.offset).filter(|at| *at < e.bytes));
        let block = block.map(|at| at / BLOCK_BYTES as u64);
        // The kind, the name and the block come first.
        let own = e.map(|e| match block {
            Some(b) => format!("{e}, block {b}"),
            None => e.to_string(),
        });
        let message = own.and_then(|own| Some(what.strip_prefix(&own)?.trim_start_matches([':', ' ']).to_owned()));
        self.damage.add(DamagedBlock {
            kind,
            name: e.and_then(|e| e.name.clone()),
            block,
            bytes,
            rows,
            reason: match message {
                Some(text) if text == "does not agree with its digest" => None,
                Some(text) => Some(text),
                None => Some(what),
            },
        });
    }

    fn record<T: DeserializeOwned>(&self, e: &Entry, what: &'static str) -> Result<T, ContainerError> {
        encode::from_bytes(&self.read_checked(e)?).map_err(|source| ContainerError::Record {
            place: self.source.place.clone(),
            byte: e.offset,
            what,
            source,
        })
    }

    /// Reads the elements of a list that is stored in several records.
    fn list<T: DeserializeOwned>(&self, kind: SectionKind) -> Result<Vec<T>, ContainerError> {
        let mut all = Vec::new();
        for e in self.of_kind(kind) {
            let part: Vec<T> = self.record(e, kind.name())?;
            if part.len() as u64 != e.rows {
                let what = format!("{e} has {} elements, but its table entry states {}", part.len(), e.rows);
                return Err(self.source.damaged_error(e.offset, what));
            }
            all.extend(part);
        }
        Ok(all)
    }

    /// Returns the metadata that the section `facts` holds.
    pub(super) fn facts(&self) -> Result<Metadata, ContainerError> {
        match self.of_kind(SectionKind::Facts).last() {
            Some(e) => self.record(e, "facts"),
            None => Ok(Metadata::default()),
        }
    }

    /// Adds the records of the section `metadata`.
    pub(super) fn add_records(&self, to: &mut Metadata) -> Result<(), ContainerError> {
        let Some(e) = self.of_kind(SectionKind::Metadata).last() else {
            return Ok(());
        };
        let bytes = self.read_checked(e)?;
        metadata_records::decode(&bytes, e.offset, to).map_err(|source| ContainerError::Metadata {
            place: self.source.place.clone(),
            source,
        })
    }

    /// Moves metadata from extras, where files without a section `metadata` have it. In a file with this section, such
    /// extras are of an earlier state and are dropped. Returns the unreadable ones.
    pub(super) fn take_old_extras(
        &self,
        extras: &mut BTreeMap<String, Vec<u8>>,
        to: &mut Metadata,
    ) -> Vec<DamagedBlock> {
        let is_superseded = self.of_kind(SectionKind::Metadata).next().is_some();
        let mut unreadable = Vec::new();
        for tag in MetadataTag::ALL {
            let Some(body) = extras.remove(tag.name()).filter(|_| !is_superseded) else {
                continue;
            };
            if let Err(defect) = tag.read(&body, to) {
                let e = self.find_named(SectionKind::Extra, tag.name());
                let place = e.map_or(0..0, |e| e.offset..e.end().unwrap_or(e.offset));
                unreadable.push(DamagedBlock {
                    kind: SectionKind::Extra,
                    name: Some(tag.name().to_owned()),
                    block: None,
                    bytes: place,
                    rows: 0..0,
                    reason: Some(defect.to_string()),
                });
            }
        }
        unreadable
    }

    pub(super) fn snapshots(&self) -> Result<(Vec<Snapshot>, SnapshotCheck), ContainerError> {
        let all: Vec<Snapshot> = self.list(SectionKind::Snapshots)?;
        let at = self.of_kind(SectionKind::Snapshots).next().map_or(0, |e| e.offset);
        let mut check = SnapshotCheck::default();
        let result = all.iter().try_for_each(|s| check.add(s));
        result
            .and_then(|()| check.check_pages(self.rows_of(SectionKind::PageImages)))
            .map_err(|what| self.source.damaged_error(at, what))?;
        Ok((all, check))
    }

    pub(super) fn marks(&self) -> Result<Vec<String>, ContainerError> {
        self.list(SectionKind::Marks)
    }

    pub(super) fn extras(&self) -> Result<BTreeMap<String, Vec<u8>>, ContainerError> {
        self.read_extras(&mut |_, _| false)
    }

    /// Reads the attached bytes. If some are damaged, `pass` decides whether to continue without them.
    fn read_extras(
        &self,
        pass: &mut dyn FnMut(u64, String) -> bool,
    ) -> Result<BTreeMap<String, Vec<u8>>, ContainerError> {
        let mut extras = BTreeMap::new();
        let mut left = MAX_EXTRAS;
        for e in self.of_kind(SectionKind::Extra) {
            let content = e.bytes.saturating_sub(NAMED_BYTES as u64);
            left = left.checked_sub(content).ok_or_else(|| {
                let what = format!("{e}: the extras up to here have more than {MAX_EXTRAS} bytes");
                self.source.damaged_error(e.entry_at, what)
            })?;
            let mut all = match self.read_checked(e) {
                Err(ContainerError::Damaged { byte, what, .. }) if pass(byte, what.clone()) => continue,
                read => read?,
            };
            let Some(name) = e.name.clone() else {
                let what = format!("{e}: its name cannot be read");
                if pass(e.offset, what.clone()) {
                    continue;
                }
                return Err(self.source.damaged_error(e.offset, what));
            };
            extras.insert(name, all.split_off(NAMED_BYTES.min(all.len())));
        }
        Ok(extras)
    }

    fn column<T: Pod>(&self, kind: SectionKind, from: &Lender<'_>) -> Result<Column<T>, ContainerError> {
        let mut column = ColumnBuilder::new();
        for e in self.of_kind(kind) {
            let far = || {
                self.source
                    .damaged_error(e.entry_at, format!("{e} is too large for this machine"))
            };
            let rows = usize::try_from(e.rows).map_err(|_| far())?;
            if e.encoding == Encoding::Constant as u32 {
                let value = e.value.to_le_bytes();
                let value = value.get(..size_of::<T>()).ok_or_else(far)?;
                column.push_constant(bytemuck::pod_read_unaligned(value), rows);
            } else {
                let start = usize::try_from(e.offset).map_err(|_| far())?;
                let lent = match from.checked || e.is_packed() {
                    true => {
                        let check = self.check(e, from.bytes)?;
                        let start = check.start;
                        column.push_checked(check, start, rows)
                    }
                    false => column.push_mapped(Arc::clone(from.bytes), start, rows),
                };
                lent.map_err(|why| self.source.damaged_error(e.entry_at, format!("{e}: {why}")))?;
            }
        }
        Ok(column.finish())
    }

    /// Returns the event columns, without the texts of marks.
    pub(super) fn columns(&self, bytes: &Lender<'_>) -> Result<Events, ContainerError> {
        use SectionKind as K;
        Ok(Events {
            kind: self.column(K::EventKind, bytes)?,
            space: self.column(K::EventSpace, bytes)?,
            time: self.column(K::EventTime, bytes)?,
            thread: self.column(K::EventThread, bytes)?,
            payload: self.column(K::EventPayload, bytes)?,
            offset: self.column(K::AccessOffset, bytes)?,
            width: self.column(K::AccessWidth, bytes)?,
            value: self.column(K::AccessValue, bytes)?,
            interrupts: self.column(K::Interrupts, bytes)?,
            submits: self.column(K::Submits, bytes)?,
            host_writes: self.column(K::HostWrites, bytes)?,
            undecoded: self.column(K::Undecoded, bytes)?,
            dma_maps: self.column(K::DmaMaps, bytes)?,
            launches: self.column(K::Launches, bytes)?,
            copies: self.column(K::Copies, bytes)?,
            fills: self.column(K::Fills, bytes)?,
            orders: self.column(K::Orders, bytes)?,
            allocations: self.column(K::Allocations, bytes)?,
            calls: self.column(K::Calls, bytes)?,
            objects: self.column(K::Objects, bytes)?,
            ring_entries: self.column(K::RingEntries, bytes)?,
            saved_memory: self.column(K::SavedMemory, bytes)?,
            call_bytes: self.column(K::CallBytes, bytes)?,
            call_pages: self.column(K::CallPages, bytes)?,
            marks: Vec::new(),
        })
    }

    /// Returns the page images with their digests.
    pub(super) fn pages(&self, from: &Lender<'_>) -> Result<PageStore, ContainerError> {
        let digests = self.column::<Digest>(SectionKind::PageDigests, from)?;
        let images = self.of_kind(SectionKind::PageImages);
        let images = images
            .map(|e| ImageRun {
                pages: e.rows,
                start: e.offset,
            })
            .collect();
        let bytes = Arc::clone(from.bytes);
        let store = match from.checked {
            true => PageStore::checked_runs(bytes, digests, images, self.damage.clone(), !self.is_without_blocks()),
            false => PageStore::mapped_runs(bytes, digests, images),
        };
        store.ok_or_else(|| {
            self.source
                .damaged_error(self.state.record.table_at, "page images are out of reach".to_owned())
        })
    }

    /// Returns the recording, with columns and page images lent from the file and verified against their digests at
    /// first use. Records are verified now. If a record is damaged, the recording omits it and [`Recording::damage`]
    /// lists it.
    ///
    /// # Errors
    /// The same as [`super::open`].
    pub fn recording(&self) -> Result<Recording, ContainerError> {
        use SectionKind as K;
        let bytes = self.source.share(self.state.end())?;
        let lender = Lender {
            bytes: &bytes,
            checked: true,
        };
        // Later snapshots store changes since earlier ones: if one is missing, none is usable.
        let snapshots = self.or_record_damage(K::Snapshots, self.snapshots().map(|(all, _)| all))?;
        let memory = Memory {
            pages: self.pages(&lender)?,
            snapshots: Arc::new(snapshots),
        };
        let events = Events {
            marks: self.or_record_damage(K::Marks, self.marks())?,
            ..self.columns(&lender)?
        };
        let mut metadata = self.or_record_damage(K::Facts, self.facts())?;
        let records = self.add_records(&mut metadata);
        self.or_record_damage(K::Metadata, records)?;
        let mut extras = self.undamaged_extras()?;
        for block in self.take_old_extras(&mut extras, &mut metadata) {
            self.damage.add(block);
        }
        Ok(Recording {
            metadata,
            events,
            memory,
            extras,
            opened_from: None,
            damage: self.damage.clone(),
        })
    }

    /// Returns the attached bytes that are not damaged.
    fn undamaged_extras(&self) -> Result<BTreeMap<String, Vec<u8>>, ContainerError> {
        let mut lost = Vec::new();
        let extras = self.read_extras(&mut |byte, what| {
            lost.push((byte, what));
            true
        })?;
        for (byte, what) in lost {
            self.record_damage(SectionKind::Extra, byte, what);
        }
        Ok(extras)
    }
}

/// A lender of bytes for columns and images.
pub(super) struct Lender<'a> {
    pub bytes: &'a Arc<dyn SharedBytes>,
    /// Whether the bytes are verified against their digests before use.
    pub checked: bool,
}
