//! The importer of HAL replays of IREE: what a program asked IREE's hardware abstraction layer for, with the bytes that
//! the host wrote and the code.
//!
//! The format is that of iree-org/iree, `runtime/src/iree/hal/replay/format.h`, major versions 1 and 2. A file begins with 24
//! bytes: `IRRP`, the version (16 bits each), the size of the header (32 bits), flags (32 bits), the size of the file. Each
//! record has a header of 96 bytes and a payload. Numbers are little-endian.
//!
//! Objects have numbers and no addresses, so the import gives each buffer an address of its own. Operations become the
//! calls of an API trace: a dispatch is a launch whose arguments are its constants and the addresses of its buffers. What
//! a command buffer holds happens when it is executed.

mod commands;
mod executables;
mod files;
mod operation_names;
mod operations;
mod placed_buffers;
mod records;
#[cfg(test)]
mod tests;

use super::error::{FilePosition, ImportError};
use operations::Import;
use records::{FileHeader, Record, RecordEnd, RecordKind};
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Value of [`trace_core::recording::Identity::source`] for a recording made from such a file.
pub const SOURCE: &str = "iree-replay";
/// Number of records between two checks for cancellation.
const RECORDS_PER_CHECK: u64 = 1 << 8;

fn read_header(path: &Path) -> Option<FileHeader> {
    let mut head = [0; FileHeader::BYTES];
    path.is_file().then_some(())?;
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    FileHeader::parse(&head)
}

/// Whether a path is a replay of the known major version.
#[must_use]
pub fn fits(path: &Path) -> bool {
    read_header(path).is_some_and(|header| header.is_known())
}

/// Describes a replay of another version.
pub(crate) fn describe_close(path: &Path) -> Option<String> {
    let header = read_header(path)?;
    Some(format!(
        "a HAL replay of IREE of version {}.{} (at byte 0x4; versions {} are read)",
        header.major,
        header.minor,
        FileHeader::KNOWN_MAJORS.map(|major| major.to_string()).join(" and ")
    ))
}

/// Imports a replay.
///
/// # Errors
///
/// When the file cannot be read, has another version or no operation, or the work was cancelled. A file with damage is
/// read up to the damage, and a finding tells the rest.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let io = |e| ImportError::io(path, e);
    let header = read_header(path).filter(FileHeader::is_known);
    let Some(header) = header else {
        let message = "no HAL replay of IREE of a known version begins here";
        return Err(ImportError::malformed(path, FilePosition::Byte(0), message));
    };
    let file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    progress.set_total(bytes.max(1));
    let mut records = Record::reader(BufReader::with_capacity(1 << 18, file), &header, bytes).map_err(io)?;
    let mut import = Import::new();
    let (mut count, mut reported) = (0u64, 0);
    let end = loop {
        if count.is_multiple_of(RECORDS_PER_CHECK) {
            progress.advance(records.at() - reported)?;
            reported = records.at();
        }
        count += 1;
        match records.next().map_err(io)? {
            Ok(record) if import.is_full() => {
                let why = "the file has more operations than a recording can hold; the rest is not used";
                break RecordEnd::Damaged(record.at, why.to_owned());
            }
            Ok(record) => match record.kind {
                RecordKind::Operation => import.operation(&record),
                RecordKind::Object => import.object(&record),
                RecordKind::Unsupported => import.unsupported(&record),
                RecordKind::Session | RecordKind::Blob => {}
                RecordKind::Unknown(number) => import.unknown(number),
            },
            Err(end) => break end,
        }
    };
    let mut findings = Vec::new();
    match end {
        RecordEnd::Whole if header.file_bytes == 0 => {
            let message = "the recorder did not close the file; its records are complete";
            findings.push(Finding::new(FindingKind::TruncatedSection, "header", message));
        }
        RecordEnd::Whole => {}
        RecordEnd::Damaged(at, why) => {
            findings.push(Finding::new(
                FindingKind::TruncatedSection,
                format!("byte {at:#x}"),
                why,
            ));
        }
    }
    if import.is_empty() {
        let message = "the file has no operation";
        return Err(ImportError::malformed(path, FilePosition::Whole, message));
    }
    progress.check()?;
    Ok(import.finish(&header, findings))
}
