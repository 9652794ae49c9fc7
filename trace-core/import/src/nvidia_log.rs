//! The importer of logs of what a program asks NVIDIA's kernel driver for, and of what it hands to the GPU: ioctls with
//! their arguments, mappings, ring entries with their push buffers, accesses to doorbells. Binary, plain or packed.
//!
//! An ioctl is a call, and the objects that it creates, frees, maps or unmaps follow it. A ring entry holds its commands.
//! The format has no magic: [`fits`] checks the first records.

mod arguments;
mod commands;
mod doorbells;
mod events;
mod format_check;
mod mappings;
mod names;
mod objects;
mod problems;
mod records;
mod requests;
#[cfg(test)]
mod tests;

use super::decompress::check_memory;
use super::error::{FilePosition, ImportError};
use super::unpacked_file::{is_damage, is_packed, read_head, unpacked};
use events::Import;
pub use events::SOURCE;
use nvidia_channel::rm::DriverBranch;
pub use nvidia_channel::rm::find_module_version;
use records::{End, Records};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Branches of the driver whose requests are known, for messages.
pub const KNOWN_BRANCHES: &str = "branch 570, 580 or 595";

/// Whether the requests of a version of the driver are known.
#[must_use]
pub fn is_known_version(version: &str) -> bool {
    DriverBranch::from_version(version).is_some()
}

/// Number of records between two checks for cancellation and memory.
const RECORDS_PER_CHECK: u64 = 1 << 8;

/// Whether a path is such a log, plain or packed by gzip, by its first records.
#[must_use]
pub fn fits(path: &Path) -> bool {
    path.is_file() && read_head(path, format_check::HEAD_BYTES as usize).is_ok_and(|head| format_check::is_log(&head))
}

/// Imports a log. A log with damage is read up to the damage, and a finding reports the rest.
///
/// # Errors
///
/// If the file cannot be read, has no record at its start, takes more memory than the limit of `progress`, or if the
/// work was cancelled.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let io = |e| ImportError::io(path, e);
    let file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    progress.set_total(bytes.max(1));
    let read = Arc::new(AtomicU64::new(0));
    let known_bytes = (!is_packed(&file)).then_some(bytes);
    let mut records = Records::new(unpacked(file, &read, progress), known_bytes);
    let mut import = Import::default();
    let mut reported = 0;
    let mut count = 0u64;
    let end = loop {
        if count.is_multiple_of(RECORDS_PER_CHECK) {
            let now = read.load(Ordering::Relaxed);
            progress.advance(now - reported)?;
            reported = now;
            // A push buffer of four bytes takes a page, so a plain file may need much more memory than its size.
            check_memory(path, import.memory_bytes(), progress)?;
        }
        count += 1;
        let at = records.at();
        match records.next() {
            Ok(Ok(_)) if import.is_full() => {
                let why = "the log has more events than a recording can hold; the rest is not used";
                break Some((at, why.to_owned()));
            }
            Ok(Ok(header)) => import.take(&header, records.content()),
            Ok(Err(End::Whole)) => break None,
            Ok(Err(End::Cut(why, at))) => break Some((at, why)),
            Ok(Err(End::Damaged(at))) => {
                let why = "no record begins here: the log is damaged, and the rest is not used";
                break Some((at, why.to_owned()));
            }
            Err(e) if is_damage(&e) => break Some((at, format!("the file cannot be decompressed further: {e}"))),
            Err(e) => return Err(io(e)),
        }
    };
    progress.advance(read.load(Ordering::Relaxed) - reported)?;
    if import.records == 0 {
        let (place, why) = match end {
            Some((at, why)) => (FilePosition::Byte(at), why),
            None => (FilePosition::Whole, "the log has no usable record".to_owned()),
        };
        return Err(ImportError::malformed(path, place, why));
    }
    check_memory(path, import.memory_bytes(), progress)?;
    progress.check()?;
    let end = end.map(|(at, why)| Finding::new(FindingKind::TruncatedSection, format!("byte {at:#x}"), why));
    Ok(import.finish(end))
}
