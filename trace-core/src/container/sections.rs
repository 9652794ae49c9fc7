//! The rules for a list of sections, checked before anything is lent from them.

use super::blocks::{self, BLOCK_TABLE_ALIGN};
use super::error::ContainerError;
use super::layout::{
    Encoding, Entry, MAX_EXTRAS, NAME_AT, NAMED_BYTES, SECTION_ALIGN, VERSION_WITHOUT_BLOCKS, digest_at, u32_at,
};
use super::recover::{CommitState, too_new_error};
use super::source::Source;
use crate::encode::MAX_RECORD;
use crate::progress::Progress;
use crate::recording::{BLOCK_BYTES, MAX_PARENTS, PACKED_BLOCK_BYTES, PageId, SectionKind, Snapshot};
use std::collections::BTreeMap;

/// Maximum ratio of the total size of packed sections before packing to the size of the file: a small file must not claim
/// an unlimited number of rows.
pub(super) const MAX_EXPANSION: u64 = 1024;
/// Size that a smaller file counts as for that, bytes.
pub(super) const MIN_EXPANDED_BYTES: u64 = 1 << 20;

/// Maximum size of a stored packed block, bytes: one that does not become smaller is stored as it is.
const MAX_STORED_BLOCK: u64 = PACKED_BLOCK_BYTES as u64;

/// Number of rows of each column, by number of the kind.
pub(super) type Rows = BTreeMap<u32, u64>;

/// Checks every entry by itself and against the others, and returns the number of rows of each column.
pub(super) fn check(source: &Source, state: &CommitState) -> Result<Rows, ContainerError> {
    let mut rows = Rows::new();
    let mut packed_bytes = 0u64;
    for e in &state.entries {
        let bad = |what: String| source.damaged_error(e.entry_at, format!("{e}: {what}"));
        let end = e.end().filter(|end| *end <= state.record.at);
        let align = if e.is_packed() {
            BLOCK_TABLE_ALIGN
        } else {
            SECTION_ALIGN
        };
        if end.is_none() || e.bytes > 0 && (e.offset < SECTION_ALIGN || e.offset % align != 0) {
            return Err(bad(format!(
                "its {} bytes at byte {:#x} are not a valid location",
                e.bytes, e.offset
            )));
        }
        if state.version != VERSION_WITHOUT_BLOCKS {
            check_blocks(e, state.record.at).map_err(bad)?;
        } else if e.is_packed() {
            return Err(bad("a file of version 1 has no packed blocks".to_owned()));
        }
        if e.is_packed() {
            packed_bytes = packed_bytes.saturating_add(e.bytes);
        }
        let Some(kind) = e.section_kind() else { continue };
        too_new_error(
            source,
            e.entry_at.saturating_add(4),
            "a section",
            e.version,
            SECTION_VERSION,
        )?;
        check_known(e, kind).map_err(bad)?;
        if has_continued_rows(kind) {
            let total = rows.entry(e.kind).or_insert(0);
            if e.first_row != *total {
                return Err(bad(format!(
                    "it begins at row {}, but the previous one ends at {total}",
                    e.first_row
                )));
            }
            *total = total
                .checked_add(e.rows)
                .ok_or_else(|| bad("too many rows".to_owned()))?;
        }
    }
    let max = source.len.max(MIN_EXPANDED_BYTES).saturating_mul(MAX_EXPANSION);
    if packed_bytes > max {
        let what =
            format!("its packed sections have {packed_bytes} bytes, which is more than {MAX_EXPANSION} times its size");
        return Err(source.damaged_error(state.record.table_at, what));
    }
    check_overlaps(source, state)?;
    check_lengths(&rows).map_err(|what| source.damaged_error(state.record.table_at, what))?;
    Ok(rows)
}

/// Returns whether sections of this kind add to earlier ones instead of replacing them.
pub(super) fn has_continued_rows(kind: SectionKind) -> bool {
    kind.row_bytes().is_some() || matches!(kind, SectionKind::Snapshots | SectionKind::Marks)
}

/// Returns whether sections of this kind begin with a name.
fn has_name(kind: SectionKind) -> bool {
    matches!(kind, SectionKind::Extra | SectionKind::Derived)
}

fn check_known(e: &Entry, kind: SectionKind) -> Result<(), String> {
    let encoding = Encoding::from_raw(e.encoding).ok_or_else(|| format!("encoding {} is unknown", e.encoding))?;
    match (kind.row_bytes(), encoding) {
        (_, Encoding::PackedRows) if kind == SectionKind::PageImages => {
            return Err("page images are never packed".to_owned());
        }
        (Some(size), Encoding::Plain | Encoding::PackedRows) => {
            if e.row_bytes != size || e.rows.checked_mul(u64::from(size)) != Some(e.bytes) {
                return Err(format!("{} rows of {} bytes in {} bytes", e.rows, e.row_bytes, e.bytes));
            }
        }
        (Some(size), Encoding::Constant) => {
            let fits = size >= 8 || e.value >> (8 * size) == 0;
            if !kind.may_be_constant() || e.row_bytes != size || e.bytes != 0 || !fits {
                return Err(format!(
                    "a constant of {} bytes with value {:#x} is not allowed here",
                    e.row_bytes, e.value
                ));
            }
        }
        (None, Encoding::PackedRecord) if kind != SectionKind::Derived => {
            return Err("records of this kind are never packed".to_owned());
        }
        (None, Encoding::Record | Encoding::PackedRecord) => {
            let max = match kind {
                // Lent from the file, never read as a whole.
                SectionKind::Derived => u64::MAX,
                SectionKind::Extra => (NAMED_BYTES + MAX_RECORD) as u64,
                SectionKind::Metadata => MAX_EXTRAS,
                _ => MAX_RECORD as u64,
            };
            if has_name(kind) && e.bytes < NAMED_BYTES as u64 || e.bytes > max {
                return Err(format!("{} bytes is not a valid size of the record", e.bytes));
            }
        }
        (_, other) => return Err(format!("encoding {other:?} is not allowed here")),
    }
    Ok(())
}

/// Checks that the block table is after the section and before the commit record.
fn check_blocks(e: &Entry, record_at: u64) -> Result<(), String> {
    if e.bytes == 0 {
        return match e.blocks_at {
            0 => Ok(()),
            at => Err(format!("it has no bytes, but a block table at byte {at:#x}")),
        };
    }
    let end = e.table_bytes().and_then(|n| e.blocks_at.checked_add(n));
    let behind = match e.is_packed() {
        true => e.offset < e.blocks_at,
        false => e.end().is_some_and(|end| end <= e.blocks_at),
    };
    if !behind || !e.blocks_at.is_multiple_of(BLOCK_TABLE_ALIGN) || end.is_none_or(|end| end > record_at) {
        return Err(format!(
            "byte {:#x} is not a valid location for the table of its {} blocks",
            e.blocks_at,
            e.blocks()
        ));
    }
    Ok(())
}

/// Checks that no two sections share bytes: otherwise a small file could claim an unlimited number of rows.
fn check_overlaps(source: &Source, state: &CommitState) -> Result<(), ContainerError> {
    let mut by_place: Vec<(u64, Option<u64>, &Entry)> = Vec::new();
    for e in state.entries.iter().filter(|e| e.bytes > 0) {
        by_place.push((e.offset, e.end(), e));
        if state.version != VERSION_WITHOUT_BLOCKS {
            let end = e.table_bytes().and_then(|n| e.blocks_at.checked_add(n));
            by_place.push((e.blocks_at, end, e));
        }
    }
    by_place.sort_by_key(|(start, ..)| *start);
    for pair in by_place.windows(2) {
        if let [(_, end, a), (start, _, b)] = pair
            && end.is_none_or(|end| end > *start)
        {
            return Err(source.damaged_error(b.entry_at, format!("{b} at byte {start:#x} overlaps {a}")));
        }
    }
    Ok(())
}

/// Checks that the columns of one table have the same number of rows.
pub(super) fn check_lengths(rows: &Rows) -> Result<(), String> {
    let of = |k: SectionKind| rows.get(&(k as u32)).copied().unwrap_or(0);
    for kind in SectionKind::ALL.into_iter().filter(|k| k.row_bytes().is_some()) {
        let Some(first) = SectionKind::ALL.into_iter().find(|k| k.group() == kind.group()) else {
            continue;
        };
        if of(kind) != of(first) {
            let (a, b) = (kind.name(), first.name());
            return Err(format!(
                "column {a} has {} rows, column {b} has {}",
                of(kind),
                of(first)
            ));
        }
    }
    if of(SectionKind::PageImages) >= u64::from(u32::MAX) {
        return Err(format!(
            "{} pages are more than page ids can distinguish",
            of(SectionKind::PageImages)
        ));
    }
    Ok(())
}

/// The header of a named section.
#[derive(Debug)]
pub(super) struct NamedHeader {
    pub name: String,
    /// Version of the analysis that computed derived data.
    pub analysis_version: u32,
    /// Content digest of the recording that derived data was computed from.
    pub made_from: [u8; 32],
}

impl NamedHeader {
    pub fn encode(&self) -> Option<[u8; NAMED_BYTES]> {
        let mut b = [0; NAMED_BYTES];
        b.get_mut(..4)?
            .copy_from_slice(&u32::try_from(self.name.len()).ok()?.to_le_bytes());
        b.get_mut(4..8)?.copy_from_slice(&self.analysis_version.to_le_bytes());
        b.get_mut(16..NAME_AT)?.copy_from_slice(&self.made_from);
        b.get_mut(NAME_AT..NAME_AT.checked_add(self.name.len())?)?
            .copy_from_slice(self.name.as_bytes());
        Some(b)
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let len = usize::try_from(u32_at(bytes, 0)?).ok()?;
        let name = bytes.get(NAME_AT..NAMED_BYTES)?.get(..len)?;
        Some(Self {
            name: std::str::from_utf8(name).ok()?.to_owned(),
            analysis_version: u32_at(bytes, 4)?,
            made_from: digest_at(bytes, 16)?,
        })
    }
}

/// Reads the names of named sections, and drops sections that a later one replaced.
pub(super) fn live_entries(
    source: &Source,
    version: u32,
    entries: Vec<Entry>,
    progress: &Progress,
) -> Result<Vec<Entry>, ContainerError> {
    let mut kept: Vec<Option<Entry>> = Vec::with_capacity(entries.len());
    let mut newest: BTreeMap<(u32, String), usize> = BTreeMap::new();
    for mut e in entries {
        if let Some(kind) = e.section_kind().filter(|k| !has_continued_rows(*k)) {
            progress.check()?;
            if has_name(kind) {
                // A section with an unreadable name replaces nothing. The error is reported when the section is used.
                let Some(named) = NamedHeader::decode(&name_block(source, version, &e)?) else {
                    kept.push(Some(e));
                    continue;
                };
                e.name = Some(named.name);
            }
            let key = (e.kind, e.name.clone().unwrap_or_default());
            if let Some(slot) = newest.insert(key, kept.len()).and_then(|old| kept.get_mut(old)) {
                *slot = None;
            }
        }
        kept.push(Some(e));
    }
    Ok(kept.into_iter().flatten().collect())
}

/// Returns the bytes of a named section that contain its name; none if they are damaged. In version 1 they are
/// verified only together with the whole section.
fn name_block(source: &Source, version: u32, e: &Entry) -> Result<Vec<u8>, ContainerError> {
    if version == VERSION_WITHOUT_BLOCKS {
        return source.read(e.offset, NAMED_BYTES as u64);
    }
    let table = source.read(e.blocks_at, e.table_bytes().unwrap_or(u64::MAX))?;
    if e.is_packed() {
        let stored = source.read(e.offset, e.blocks_at.saturating_sub(e.offset).min(MAX_STORED_BLOCK))?;
        let first = blocks::check_table(e, &table).and_then(|()| blocks::unpack_block(e, &table, 0, &stored));
        return Ok(first.map(|(_, block)| block).unwrap_or_default());
    }
    let first = source.read(e.offset, e.bytes.min(BLOCK_BYTES as u64))?;
    let sound = blocks::check_table(e, &table).and_then(|()| blocks::check_block(e, &table, 0, &first));
    Ok(if sound.is_ok() { first } else { Vec::new() })
}

/// Checks snapshots one after another, while they are written and while they are read.
#[derive(Debug, Default)]
pub(super) struct SnapshotCheck {
    /// Number of ancestors of each snapshot so far.
    depths: Vec<u8>,
    last_event: u64,
    /// One past the highest page id that a snapshot refers to.
    pub pages: u64,
}

impl SnapshotCheck {
    pub fn len(&self) -> usize {
        self.depths.len()
    }

    pub fn add(&mut self, s: &Snapshot) -> Result<(), String> {
        let index = self.depths.len();
        let bad = |what: &str| Err(format!("snapshot {index} {what}"));
        if s.event < self.last_event {
            return bad("belongs to an event before that of the previous snapshot");
        }
        let depth = match s.parent.map(|p| self.depths.get(p as usize)) {
            None => 0,
            Some(Some(d)) => d.saturating_add(1),
            Some(None) => return bad("names a parent that is not before it"),
        };
        if usize::from(depth) > MAX_PARENTS {
            return bad("has more parents than a lookup follows");
        }
        let mut free = 0;
        for r in &s.runs {
            let Some(end) = r.first_frame.checked_add(u64::from(r.count)) else {
                return bad("has a run past the last frame");
            };
            if r.count == 0 || r.first_frame < free {
                return bad("has runs that are empty, overlap or are out of order");
            }
            free = end;
            let more = if r.repeat { 1 } else { u64::from(r.count) };
            self.pages = self.pages.max(u64::from(r.first_page.0) + more);
        }
        self.last_event = s.event;
        self.depths.push(depth);
        Ok(())
    }

    /// Checks that every referenced page exists; `images` is the number of stored images, without the zero page.
    pub fn check_pages(&self, images: u64) -> Result<(), String> {
        if self.pages > images.saturating_add(1) {
            let last = PageId(u32::try_from(self.pages - 1).unwrap_or(u32::MAX));
            return Err(format!(
                "a snapshot names page {}, but only {images} are stored",
                last.0
            ));
        }
        Ok(())
    }
}

/// Version of the sections that this program writes. A record whose fields change needs a higher version, and the old
/// form must stay readable: the frozen files under `tests/golden` are still opened.
pub(super) const SECTION_VERSION: u32 = 1;
