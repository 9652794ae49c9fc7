//! The import of a file of QEMU's trace backend `simple`.

use super::super::log::{Format, Log};
use super::super::names::Names;
use super::super::rows::UnusableLines;
use super::event_list;
use super::simple::{self, Record, SimpleReader};
use super::{Parsed, Qemu};
use crate::error::{FilePosition, ImportError};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::Clock;

/// Number of events that are handled at once, and of bytes between two reports of progress.
const BATCH: usize = 1 << 16;
const BATCH_BYTES: u64 = 1 << 22;

/// Reads a file of the backend `simple`.
///
/// # Errors
///
/// When the file cannot be read, is of a version that is not read, has no list of its events next to it although it
/// numbers them, or the work was cancelled. Damage ends the trace and is a finding.
pub(in super::super) fn read_simple(path: &Path, mut format: Qemu, progress: &Progress) -> Result<Log, ImportError> {
    let io = |e| ImportError::io(path, e);
    let file = File::open(path).map_err(io)?;
    progress.set_total(file.metadata().map_err(io)?.len().max(1));
    let mut from = BufReader::with_capacity(1 << 16, file);
    let mut head = [0; simple::HEAD_BYTES];
    io::Read::read_exact(&mut from, &mut head).map_err(io)?;
    let version = simple::version(&head).unwrap_or_default();
    let mut reader = SimpleReader::new(io::Read::chain(&head[..], from))
        .map_err(io)?
        .ok_or_else(|| ImportError::unknown(path))?;
    if simple::NUMBERED_VERSIONS.contains(&version) {
        let list = event_list::read_list(path).ok_or_else(|| {
            let message = format!(
                "QEMU's trace file has version {version}, which numbers its events; the list of that build, \
                 trace-events-all, must lie next to it as {}",
                event_list::list_path(path).display()
            );
            ImportError::malformed(path, FilePosition::Byte(16), message)
        })?;
        reader.set_events(&list);
    } else if version != simple::VERSION {
        let message = format!(
            "QEMU's trace file has version {version}; {} to {} are read. Trace again, or with -trace file=… of the \
             backend log",
            simple::NUMBERED_VERSIONS.start(),
            simple::VERSION
        );
        return Err(ImportError::malformed(path, FilePosition::Byte(16), message));
    }
    let mut log = Log::default();
    log.clock = Clock::Monotonic;
    let mut reported = 0;
    let mut unusable = 0u64;
    let mut damage = None;
    loop {
        let mut parsed = Parsed {
            items: Vec::new(),
            names: Names::default(),
            lines: 0,
            unusable: UnusableLines::default(),
            lost: Vec::new(),
        };
        let is_end = loop {
            match reader.next(&mut parsed.names) {
                Ok(Some(Record::Item(item))) => parsed.items.push(item),
                Ok(Some(Record::Lost(count))) => parsed.lost.push((parsed.items.len(), count)),
                Ok(Some(Record::Other)) => {}
                Ok(Some(Record::Unusable)) => unusable += 1,
                Ok(None) => break true,
                Err(e) if matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => {
                    damage = Some(e);
                    break true;
                }
                Err(e) => return Err(io(e)),
            }
            if parsed.items.len() >= BATCH || reader.position() - reported > BATCH_BYTES {
                break false;
            }
        };
        progress.advance(reader.position().saturating_sub(reported))?;
        reported = reader.position();
        format.take(parsed, &mut log);
        if is_end {
            break;
        }
    }
    format.finish(&mut log);
    if simple::NUMBERED_VERSIONS.contains(&version) {
        let message = "the trace file numbers its events; their names are those of the list next to it, which must be of \
                       the same build";
        log.findings.push(Finding::new(FindingKind::Assumed, "events", message));
    }
    if unusable > 0 {
        let message = format!("{unusable} events have other arguments than known, and are not imported");
        log.findings.push(Finding::new(FindingKind::NotUsed, "events", message));
    }
    if let Some(e) = damage {
        let message = format!("the trace file ends in a record or is damaged ({e}); the events before it were used");
        let place = format!("byte {:#x}", reader.position());
        log.findings
            .push(Finding::new(FindingKind::TruncatedSection, place, message));
    }
    Ok(log)
}
