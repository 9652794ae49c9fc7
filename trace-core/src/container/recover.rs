//! Finds the last whole commit from the end of a file, and puts its list of sections together.
//!
//! Everything here reads untrusted bytes: each count and link is bounded before it is followed.

use super::blocks::KNOWN_CODECS;
use super::error::ContainerError;
use super::layout::{
    CommitRecord, ENTRY_BYTES, Entry, HEADER_BYTES, MAGIC, MAX_TABLE, MAX_TABLES, RECORD_ALIGN, RECORD_BYTES,
    RECORD_MAGIC, SECTION_ALIGN, VERSION, VERSION_WITHOUT_BLOCKS, digest, digest_at, header, u32_at,
};
use super::source::Source;
use crate::progress::Progress;
use std::path::Path;

/// Most bytes of tables that one search reads, all candidates together: a hostile file cannot make it read the same
/// megabytes from each of its thousands of records.
const TABLE_BUDGET: u64 = 256 << 20;
/// Maximum number of sound records with unsound tables that a search looks at.
const MAX_CANDIDATES: usize = 1000;
/// Bytes read at once while scanning back, at first and at most.
const SCAN_BLOCK: (u64, u64) = (4096, 1 << 20);

/// The file as its last whole commit left it.
#[derive(Debug)]
pub(super) struct CommitState {
    /// Version of the format that the whole file is in.
    pub version: u32,
    pub record: CommitRecord,
    /// Every section listed, in the order written, those that a later one replaced included.
    pub entries: Vec<Entry>,
    /// Tables that `entries` were put together from.
    pub tables: usize,
    /// Why the search went on past records nearer to the end: byte and reason.
    pub skipped: Vec<(u64, String)>,
}

impl CommitState {
    /// One past the last byte of the commit.
    pub fn end(&self) -> u64 {
        self.record.at.saturating_add(RECORD_BYTES as u64)
    }
}

/// Checks the header.
fn check_header(source: &Source) -> Result<u32, ContainerError> {
    let bytes = source.read(0, source.len.min(HEADER_BYTES as u64))?;
    if bytes.len() < HEADER_BYTES {
        let begins = |version| header(version).starts_with(&bytes);
        if !bytes.is_empty() && (1..=VERSION).any(begins) {
            return Err(no_commit(source, "it ends within its header".to_owned()));
        }
        let reason = format!("{} bytes are too few for a header", bytes.len());
        return Err(ContainerError::NotKine {
            place: source.place.clone(),
            reason,
        });
    }
    if bytes.get(..8) != Some(MAGIC.as_slice()) {
        let reason = "its first eight bytes are others".to_owned();
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

/// Refuses a version that this program does not know.
pub(super) fn too_new_error(
    source: &Source,
    byte: u64,
    what: &'static str,
    version: u32,
    known: u32,
) -> Result<(), ContainerError> {
    match version {
        v if (1..=known).contains(&v) => Ok(()),
        0 => Err(source.damaged_error(byte, format!("{what} has version 0, which never was"))),
        _ => Err(ContainerError::TooNew {
            place: source.place.clone(),
            byte,
            what,
            version,
            known,
        }),
    }
}

/// Refuses a commit that is in another version than its file, or has blocks of a codec that is not known.
fn check_version(source: &Source, record: &CommitRecord, file: u32) -> Result<(), ContainerError> {
    let byte = record.at.saturating_add(48);
    too_new_error(source, byte, "a commit", record.version, VERSION)?;
    if record.version != file {
        let what = format!("a commit of version {} is in a file of version {file}", record.version);
        return Err(source.damaged_error(byte, what));
    }
    match record.codecs & !KNOWN_CODECS {
        0 => Ok(()),
        // Nothing is said there in version 1.
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

/// Finds the last whole commit. Where what lies behind it is long, or all there is, that is scanned: progress counts
/// its bytes.
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
        None if crate::unfinished_files::is_unfinished_kine(Path::new(&source.place)) => {
            "it is the unfinished file of an import or a recorder that was killed, and holds nothing that can be read: \
             remove it"
                .to_owned()
        }
        Some((at, why)) => format!("the record at byte {at:#x} is the last, and {why}"),
        None => "it holds no commit record; its writer did not finish, or the file was cut: copy it again, or record it again".to_owned(),
    };
    Err(no_commit(source, reason))
}

/// Walks the places where a record can be, from the end of the file back to its first section, and stops at those
/// that begin with a record's first bytes.
struct Scan<'a> {
    source: &'a Source,
    progress: &'a Progress,
    /// One past the last place not yet read.
    before: u64,
    block: Vec<u8>,
    block_at: u64,
    /// Offset in the block one past the next place to look at.
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

    /// The next place and the bytes of a record there.
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
            // Blocks begin at multiples of the alignment; the last place may have fewer bytes than a whole one behind
            // it.
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

/// The sections of a commit: its table, and those before it back to a complete one. The inner error says why this
/// commit is not whole.
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
                "more than {TABLE_BUDGET} bytes of tables were read without finding a whole commit"
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
            return Ok(Err(format!("it hangs on more than {MAX_TABLES} tables")));
        }
        let bytes = source.read(record.previous, RECORD_BYTES as u64)?;
        let Some(previous) = CommitRecord::decode(&bytes, record.previous) else {
            return Ok(Err(format!(
                "the commit that it adds to, at byte {:#x}, is damaged",
                record.previous
            )));
        };
        check_version(source, &previous, version)?;
        if previous.sequence.checked_add(1) != Some(record.sequence) {
            return Ok(Err(format!(
                "it is number {} and adds to number {}",
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

/// Checks what can be checked of a record without reading anything else. Links go strictly backwards, so that they
/// cannot loop.
pub(super) fn check_record(record: &CommitRecord) -> Result<(), String> {
    if record.table_bytes > MAX_TABLE || !record.table_bytes.is_multiple_of(ENTRY_BYTES as u64) {
        return Err(format!("its table of {} bytes is none", record.table_bytes));
    }
    let end = record.table_at.checked_add(record.table_bytes);
    if record.table_at < SECTION_ALIGN || end.is_none_or(|end| end > record.at) {
        return Err(format!(
            "its table at byte {:#x} does not lie before it",
            record.table_at
        ));
    }
    let linked = record.previous >= SECTION_ALIGN && record.previous < record.at;
    if !linked && record.previous != 0 {
        return Err(format!(
            "it names a commit at byte {:#x}, which cannot be one before it",
            record.previous
        ));
    }
    if !linked && !record.complete {
        return Err("it adds to a commit that it does not name".to_owned());
    }
    Ok(())
}
