//! Search for the last complete commit from the end of a file, and assembly of its list of sections.
//!
//! All input here is untrusted: each count and link is bounded before it is followed.

use super::blocks::KNOWN_CODECS;
use super::error::ContainerError;
use super::layout::{
    CommitRecord, ENTRY_BYTES, Entry, HEADER_BYTES, MAGIC, MAX_TABLE, MAX_TABLES, RECORD_ALIGN, RECORD_BYTES,
    RECORD_MAGIC, SECTION_ALIGN, VERSION, VERSION_WITHOUT_BLOCKS, digest, digest_at, header, u32_at,
};
use super::source::Source;
use crate::progress::Progress;
use std::path::Path;

/// Maximum total size of the tables that one search reads for all candidates, bytes. A hostile file cannot make it
/// read the same megabytes for each of thousands of records.
const TABLE_BUDGET: u64 = 256 << 20;
/// Maximum number of valid records with invalid tables that a search examines.
const MAX_CANDIDATES: usize = 1000;
/// Initial and maximum size of one read while scanning backwards, bytes.
const SCAN_BLOCK: (u64, u64) = (4096, 1 << 20);

/// The state of the file at its last complete commit.
#[derive(Debug)]
pub(super) struct CommitState {
    /// Format version of the whole file.
    pub version: u32,
    pub record: CommitRecord,
    /// Every listed section in the order written, including those that a later one replaced.
    pub entries: Vec<Entry>,
    /// Number of tables that `entries` was assembled from.
    pub tables: usize,
    /// Records nearer to the end that the search skipped: offset and reason.
    pub skipped: Vec<(u64, String)>,
}

impl CommitState {
    /// Returns the offset one past the last byte of the commit.
    pub fn end(&self) -> u64 {
        self.record.at.saturating_add(RECORD_BYTES as u64)
    }
}

/// Why a file that its writer had just begun does not open.
const UNFINISHED: &str =
    "it is the unfinished file of an import or a recorder that was killed, and holds no readable data: remove it";

/// Returns whether the file has the name that writers give it until it is complete.
fn is_unfinished(source: &Source) -> bool {
    crate::unfinished_files::is_unfinished_kine(Path::new(&source.place))
}

/// Checks the header and returns the version.
fn check_header(source: &Source) -> Result<u32, ContainerError> {
    let bytes = source.read(0, source.len.min(HEADER_BYTES as u64))?;
    if bytes.len() < HEADER_BYTES {
        let begins = |version| header(version).starts_with(&bytes);
        if !bytes.is_empty() && (1..=VERSION).any(begins) {
            return Err(no_commit(source, "it ends within its header".to_owned()));
        }
        if is_unfinished(source) {
            return Err(no_commit(source, UNFINISHED.to_owned()));
        }
        let reason = format!("{} bytes are too few for a header", bytes.len());
        return Err(ContainerError::NotKine {
            place: source.place.clone(),
            reason,
        });
    }
    if bytes.get(..8) != Some(MAGIC.as_slice()) {
        let reason = "it does not start with the magic bytes of the format".to_owned();
        return Err(ContainerError::NotKine {
            place: source.place.clone(),
            reason,
        });
    }
    if bytes.get(..32).map(digest) != digest_at(&bytes, 32) {
        return Err(source.damaged_error(0, "the header does not agree with its digest".to_owned()));
    }
    let version = u32_at(&bytes, 8).unwrap_or(0);
    too_new_error(source, 8, "the file", version, VERSION)?;
    Ok(version)
}

/// Returns the error for a version that this program does not know.
pub(super) fn too_new_error(
    source: &Source,
    byte: u64,
    what: &'static str,
    version: u32,
    known: u32,
) -> Result<(), ContainerError> {
    match version {
        v if (1..=known).contains(&v) => Ok(()),
        0 => Err(source.damaged_error(byte, format!("{what} has version 0, which does not exist"))),
        _ => Err(ContainerError::TooNew {
            place: source.place.clone(),
            byte,
            what,
            version,
            known,
        }),
    }
}

/// Rejects a commit whose version differs from that of its file, or that has blocks with an unknown codec.
fn check_version(source: &Source, record: &CommitRecord, file: u32) -> Result<(), ContainerError> {
    let byte = record.at.saturating_add(48);
    too_new_error(source, byte, "a commit", record.version, VERSION)?;
    if record.version != file {
        let what = format!("a commit of version {} is in a file of version {file}", record.version);
        return Err(source.damaged_error(byte, what));
    }
    match record.codecs & !KNOWN_CODECS {
        0 => Ok(()),
        // Version 1 does not use this field.
        _ if file == VERSION_WITHOUT_BLOCKS => Ok(()),
        unknown => Err(ContainerError::UnknownCodec {
            place: source.place.clone(),
            byte: record.at.saturating_add(56),
            codec: unknown.trailing_zeros(),
        }),
    }
}

fn no_commit(source: &Source, reason: String) -> ContainerError {
    ContainerError::NoCommit {
        place: source.place.clone(),
        bytes: source.len,
        reason,
    }
}

/// Finds the last complete commit. If a long stretch of bytes follows it, or no commit exists, the bytes are scanned;
/// progress counts those bytes.
pub(super) fn find_last_commit(source: &Source, progress: &Progress) -> Result<CommitState, ContainerError> {
    let version = check_header(source)?;
    progress.set_total(source.len.max(1));
    let mut budget = TABLE_BUDGET;
    let mut passed = Vec::new();
    let mut scan = Scan::new(source, progress);
    while let Some((at, bytes)) = scan.next()? {
        let Some(record) = CommitRecord::decode(&bytes, at) else {
            continue;
        };
        check_version(source, &record, version)?;
        match chain(source, record, version, &mut budget)? {
            Ok((entries, tables)) => {
                return Ok(CommitState {
                    version,
                    record,
                    entries,
                    tables,
                    skipped: passed,
                });
            }
            Err(reason) => passed.push((at, reason)),
        }
        if passed.len() >= MAX_CANDIDATES {
            break;
        }
    }
    let reason = match passed.first() {
        None if is_unfinished(source) => UNFINISHED.to_owned(),
        Some((at, why)) => format!("the record at byte {at:#x} is the last, and {why}"),
        None => "it holds no commit record; its writer did not finish, or the file was truncated: copy it again, or \
                 record it again"
            .to_owned(),
    };
    Err(no_commit(source, reason))
}

/// Scans the possible record positions from the end of the file back to its first section. Stops at positions that
/// start with a record's magic bytes.
struct Scan<'a> {
    source: &'a Source,
    progress: &'a Progress,
    /// Offset one past the last position not yet read.
    before: u64,
    block: Vec<u8>,
    block_at: u64,
    /// Offset in the block one past the next position to examine.
    cursor: usize,
    step: u64,
}

impl<'a> Scan<'a> {
    fn new(source: &'a Source, progress: &'a Progress) -> Self {
        Self {
            source,
            progress,
            before: source.len,
            block: Vec::new(),
            block_at: 0,
            cursor: 0,
            step: SCAN_BLOCK.0,
        }
    }

    /// Returns the next position and the bytes of a record there.
    fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>, ContainerError> {
        loop {
            while let Some(at) = self.cursor.checked_sub(RECORD_ALIGN as usize) {
                self.cursor = at;
                if self.block.get(at..).is_some_and(|b| b.starts_with(&RECORD_MAGIC)) {
                    let place = self.block_at.saturating_add(at as u64);
                    if place
                        .checked_add(RECORD_BYTES as u64)
                        .is_some_and(|end| end <= self.source.len)
                    {
                        return Ok(Some((place, self.source.read(place, RECORD_BYTES as u64)?)));
                    }
                }
            }
            if self.before <= SECTION_ALIGN {
                return Ok(None);
            }
            // Blocks start at multiples of the alignment. Fewer bytes than a whole record may follow the last
            // position.
            let from = (self.before - 1) / RECORD_ALIGN * RECORD_ALIGN;
            let start = from.saturating_sub(self.step - RECORD_ALIGN).max(SECTION_ALIGN);
            self.progress.advance(self.before - start)?;
            self.block = self.source.read(start, self.before - start)?;
            self.block_at = start;
            self.cursor = usize::try_from(from - start).unwrap_or(0) + RECORD_ALIGN as usize;
            self.before = start;
            self.step = (self.step * 4).min(SCAN_BLOCK.1);
        }
    }
}

type Sections = (Vec<Entry>, usize);

/// Returns the sections of a commit: its table, and the earlier ones back to a complete one. The inner error says why
/// this commit is not complete.
fn chain(
    source: &Source,
    last: CommitRecord,
    version: u32,
    budget: &mut u64,
) -> Result<Result<Sections, String>, ContainerError> {
    let mut tables: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut record = last;
    loop {
        if let Err(reason) = check_record(&record) {
            return Ok(Err(reason));
        }
        let Some(left) = budget.checked_sub(record.table_bytes) else {
            return Ok(Err(format!(
                "more than {TABLE_BUDGET} bytes of tables were read without finding a complete commit"
            )));
        };
        *budget = left;
        let table = source.read(record.table_at, record.table_bytes)?;
        if digest(&table) != record.table_digest {
            return Ok(Err(format!(
                "its table at byte {:#x} does not agree with its digest",
                record.table_at
            )));
        }
        tables.push((record.table_at, table));
        if record.complete {
            break;
        }
        if tables.len() >= MAX_TABLES {
            return Ok(Err(format!("it depends on more than {MAX_TABLES} tables")));
        }
        let bytes = source.read(record.previous, RECORD_BYTES as u64)?;
        let Some(previous) = CommitRecord::decode(&bytes, record.previous) else {
            return Ok(Err(format!(
                "its base commit at byte {:#x} is damaged",
                record.previous
            )));
        };
        check_version(source, &previous, version)?;
        if previous.sequence.checked_add(1) != Some(record.sequence) {
            return Ok(Err(format!(
                "it has number {}, but its base commit has number {}",
                record.sequence, previous.sequence
            )));
        }
        record = previous;
    }
    let count = tables.len();
    let mut entries = Vec::new();
    for (at, table) in tables.iter().rev() {
        for (i, bytes) in table.chunks_exact(ENTRY_BYTES).enumerate() {
            let entry_at = at.saturating_add((i * ENTRY_BYTES) as u64);
            entries.extend(Entry::decode(bytes, entry_at));
        }
    }
    Ok(Ok((entries, count)))
}

/// Checks the parts of a record that need no further reads. Links must go strictly backwards, so that they cannot
/// loop.
pub(super) fn check_record(record: &CommitRecord) -> Result<(), String> {
    if record.table_bytes > MAX_TABLE || !record.table_bytes.is_multiple_of(ENTRY_BYTES as u64) {
        return Err(format!("its table size of {} bytes is invalid", record.table_bytes));
    }
    let end = record.table_at.checked_add(record.table_bytes);
    if record.table_at < SECTION_ALIGN || end.is_none_or(|end| end > record.at) {
        return Err(format!("its table at byte {:#x} is not before it", record.table_at));
    }
    let linked = record.previous >= SECTION_ALIGN && record.previous < record.at;
    if !linked && record.previous != 0 {
        return Err(format!(
            "it names a base commit at byte {:#x}, which is not a valid offset before it",
            record.previous
        ));
    }
    if !linked && !record.complete {
        return Err("it has a base commit but does not name it".to_owned());
    }
    Ok(())
}
