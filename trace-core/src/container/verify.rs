//! Verification of a whole file: every digest, every length, every row reference.

use super::blocks;
use super::error::ContainerError;
use super::layout::{CommitRecord, Entry, RECORD_BYTES, digest};
use super::reader::KineFile;
use super::recover::check_record;
use super::verify_rows;
use crate::json_forms;
use crate::progress::Progress;
use crate::recording::BLOCK_BYTES;
use serde::Serialize;
use std::path::Path;

/// Maximum number of findings that are listed; the others are counted.
pub const MAX_VERIFY_FINDINGS: usize = 1000;

/// A defect in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyFinding {
    /// Byte offset in the file.
    #[serde(serialize_with = "json_forms::hex")]
    pub byte: u64,
    /// What is wrong.
    pub message: String,
}

/// The result of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of commits in the file, back to the first.
    pub commits: u64,
    /// Number of sections that the last commit lists.
    pub sections: u64,
    /// Number of bytes compared with a digest.
    pub bytes: u64,
    /// Number of bytes after the last complete commit.
    pub trailing_bytes: u64,
    /// The first [`MAX_VERIFY_FINDINGS`] findings, in the order of the checks.
    pub findings: Vec<VerifyFinding>,
    /// Number of all findings, listed or not.
    pub finding_count: u64,
}

impl VerifyReport {
    /// Returns whether there are no findings.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.finding_count == 0
    }

    pub(super) fn add(&mut self, byte: u64, message: String) {
        self.add_with(|| (byte, message));
    }

    /// Does the same as [`VerifyReport::add`], for findings that every row may have. The location, which takes time
    /// to find, and the message are computed only if the finding is listed.
    pub(super) fn add_with(&mut self, what: impl FnOnce() -> (u64, String)) {
        self.finding_count += 1;
        if self.findings.len() < MAX_VERIFY_FINDINGS {
            let (byte, message) = what();
            self.findings.push(VerifyFinding { byte, message });
        }
    }
}

/// Verifies a whole file. Takes as long as reading it.
///
/// # Errors
/// If the file cannot be opened at any commit: then there is nothing to verify.
pub fn verify(path: &Path) -> Result<VerifyReport, ContainerError> {
    verify_with(path, &Progress::new())
}

/// Does the same as [`verify`], with progress in bytes and cancellation.
///
/// # Errors
/// The same as [`verify`], or if cancelled.
pub fn verify_with(path: &Path, progress: &Progress) -> Result<VerifyReport, ContainerError> {
    check(KineFile::open_with(path, progress)?, progress)
}

/// Verifies the bytes of a file.
///
/// # Errors
/// The same as [`verify`].
pub fn verify_bytes(bytes: Vec<u8>) -> Result<VerifyReport, ContainerError> {
    check(KineFile::from_bytes(bytes)?, &Progress::new())
}

fn check(file: KineFile, progress: &Progress) -> Result<VerifyReport, ContainerError> {
    let mut report = VerifyReport {
        sections: file.entries.len() as u64,
        trailing_bytes: file.trailing_bytes(),
        ..VerifyReport::default()
    };
    for (at, why) in &file.state.skipped {
        report.add(*at, format!("a commit is not complete: {why}"));
    }
    progress.set_total(file.entries.iter().fold(1, |sum, e| sum.saturating_add(e.bytes)));
    let places = commits(&file, &mut report)?;
    overlaps(&file, places, &mut report);
    let shared = file.source.share(file.committed_bytes())?;
    let bytes = shared.slice(0..shared.len()).unwrap_or_default();
    digests(&file, bytes, progress, &mut report)?;
    verify_rows::check(&file, &shared, progress, &mut report)?;
    Ok(report)
}

/// A byte range of the file that is in use: first byte, one past the last, description.
type SectionExtent = (u64, u64, String);

/// Follows the links from the last commit to the first. Returns the locations of records and tables.
fn commits(file: &KineFile, report: &mut VerifyReport) -> Result<Vec<SectionExtent>, ContainerError> {
    let mut places = Vec::new();
    let mut record = file.state.record;
    // Tables do not overlap in a valid file. A hostile one must not cause the same bytes to be read again and again.
    let mut budget = file.source.len;
    loop {
        report.commits += 1;
        let table_end = record.table_at.saturating_add(record.table_bytes);
        places.push((
            record.at,
            record.at.saturating_add(RECORD_BYTES as u64),
            format!("commit {}", record.sequence),
        ));
        places.push((
            record.table_at,
            table_end,
            format!("the table of commit {}", record.sequence),
        ));
        let Some(left) = budget.checked_sub(record.table_bytes) else {
            report.add(
                record.at,
                "the tables of the commits are longer than the file".to_owned(),
            );
            break;
        };
        budget = left;
        let whole = check_record(&record).and_then(|()| {
            let table = file
                .source
                .read(record.table_at, record.table_bytes)
                .map_err(|e| e.to_string())?;
            report.bytes += record.table_bytes;
            if digest(&table) == record.table_digest {
                Ok(())
            } else {
                Err(format!(
                    "its table at byte {:#x} does not agree with its digest",
                    record.table_at
                ))
            }
        });
        if let Err(why) = whole {
            report.add(record.at, format!("commit {} is not complete: {why}", record.sequence));
        }
        if record.previous == 0 {
            if record.sequence != 1 {
                report.add(record.at, format!("the first commit has number {}", record.sequence));
            }
            break;
        }
        if record.previous >= record.at {
            break;
        }
        let bytes = file.source.read(record.previous, RECORD_BYTES as u64)?;
        let Some(previous) = CommitRecord::decode(&bytes, record.previous) else {
            let what = format!("commit {} names a commit here, which is damaged", record.sequence);
            report.add(record.previous, what);
            break;
        };
        if previous.sequence.checked_add(1) != Some(record.sequence) {
            let what = format!("commit {} follows commit {}", record.sequence, previous.sequence);
            report.add(record.at, what);
        }
        record = previous;
    }
    Ok(places)
}

/// Checks that no records or tables share bytes with anything else. Overlaps between sections were checked at the
/// open.
fn overlaps(file: &KineFile, mut places: Vec<SectionExtent>, report: &mut VerifyReport) {
    for e in file.entries.iter().filter(|e| e.bytes > 0) {
        places.push((e.offset, e.end().unwrap_or(u64::MAX), e.to_string()));
        if !file.is_without_blocks() {
            let end = e.table_bytes().and_then(|n| e.blocks_at.checked_add(n));
            let what = format!("the table of blocks of {e}");
            places.push((e.blocks_at, end.unwrap_or(u64::MAX), what));
        }
    }
    places.sort();
    for pair in places.windows(2) {
        if let [(_, end, a), (start, _, b)] = pair
            && end > start
        {
            report.add(*start, format!("{b} overlaps {a}"));
        }
    }
}

/// Compares every section with its digest.
fn digests(
    file: &KineFile,
    bytes: &[u8],
    progress: &Progress,
    report: &mut VerifyReport,
) -> Result<(), ContainerError> {
    let part = |e: &Entry| bytes.get(usize::try_from(e.offset).ok()?..usize::try_from(e.end()?).ok()?);
    for e in &file.entries {
        let Some(data) = part(e) else {
            report.add(e.entry_at, format!("{e} is outside the file"));
            continue;
        };
        if file.is_without_blocks() {
            let mut hasher = blake3::Hasher::new();
            for piece in data.chunks(1 << 20) {
                hasher.update(piece);
                progress.advance(piece.len() as u64)?;
            }
            if *hasher.finalize().as_bytes() != e.digest {
                report.add(e.offset, format!("{e} does not agree with its digest"));
            }
        } else {
            in_blocks(file, e, data, progress, report)?;
        }
        report.bytes += data.len() as u64;
    }
    Ok(())
}

/// Compares every packed block of a section with its digest, and unpacks it.
fn packed_blocks(
    e: &Entry,
    table: &[u8],
    stored: &[u8],
    progress: &Progress,
    report: &mut VerifyReport,
) -> Result<(), ContainerError> {
    let mut at = 0usize;
    for block in 0..e.blocks() {
        let size = match blocks::unpack_block(e, table, block, stored.get(at..).unwrap_or_default()) {
            Ok((size, _)) => size,
            Err(what) => {
                report.add(e.offset.saturating_add(at as u64), what);
                blocks::stored_size(table, block)
            }
        };
        at = at.saturating_add(size);
        progress.advance(e.block_bytes() as u64)?;
    }
    Ok(())
}

/// Compares every block of a section with its digest.
fn in_blocks(
    file: &KineFile,
    e: &Entry,
    data: &[u8],
    progress: &Progress,
    report: &mut VerifyReport,
) -> Result<(), ContainerError> {
    if data.is_empty() {
        return Ok(());
    }
    let table = file.source.read(e.blocks_at, e.table_bytes().unwrap_or(u64::MAX))?;
    report.bytes += table.len() as u64;
    if let Err(what) = blocks::check_table(e, &table) {
        report.add(e.blocks_at, what);
        progress.advance(e.bytes)?;
        return Ok(());
    }
    if e.is_packed() {
        return packed_blocks(e, &table, data, progress, report);
    }
    for (block, data) in (0u64..).zip(data.chunks(BLOCK_BYTES)) {
        if let Err(what) = blocks::check_block(e, &table, block, data) {
            let at = e.offset.saturating_add(block.saturating_mul(BLOCK_BYTES as u64));
            report.add(at, what);
        }
        progress.advance(data.len() as u64)?;
    }
    Ok(())
}
