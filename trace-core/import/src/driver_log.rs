//! Importers of text logs about requests to a kernel driver: one file per format, and shared code. Logs are plain or
//! compressed by gzip, and detected by lines anywhere in their first part.
//!
//! | format | file |
//! |---|---|
//! | Gdev's messages in the kernel log | `gdev` |
//! | nouveau's messages and `NVRM: Xid` lines in the kernel log | `nouveau`, `kernel_error` |
//! | push buffers that libdrm_nouveau and NVK print | `nouveau_pushbuf`, `nvk` |
//! | strace's output of a program on NVIDIA's driver | `strace`, `mappings` |
//! | gVisor's debug log of such a program | `gvisor`, `mappings` |
//! | the text of valgrind's tool mmt | `mmt_text` |
//!
//! The result is a driver trace. Each line of a kernel log or of a push buffer is a mark, so the text stays visible; the
//! events that a line stands for follow its mark. Of logs of system calls, only calls to the driver are imported.

mod class_kind;
pub mod gdev;
pub mod gvisor;
mod kernel_error;
mod kernel_line;
mod log;
mod mappings;
pub mod mmt_text;
pub mod nouveau;
pub mod nouveau_pushbuf;
mod nvk;
mod scan;
pub mod strace;

use crate::error::ImportError;
use crate::trace::source;
use crate::trace::text;
use log::DriverLog;
use memchr::memmem;
use std::borrow::Cow;
use std::path::Path;
use trace_core::Recording;
use trace_core::progress::Progress;

/// Number of bytes of a file that are read to detect text.
const HEAD: usize = 1 << 14;
/// Number of bytes of a text in which the first line of a log may start.
const SEARCHED: usize = 4 << 20;
/// Maximum number of candidate lines that are parsed for each marker.
const MAX_TRIED: usize = 64;

/// Describes the error of a GPU that a line of the kernel log reports, or returns `None` if it reports none.
pub(crate) fn describe_kernel_error(line: &str) -> Option<String> {
    kernel_error::describe_error(kernel_line::KernelLine::parse(line).text)
}

/// A log format. Lines come in order.
trait LogFormat {
    /// Value of [`trace_core::recording::Identity::source`].
    const SOURCE: &'static str;
    /// What a log of the format must have, for the message about a log that lacks it.
    const NEEDED: &'static str;

    /// Handles a line, which is not empty and has no line end. Returns whether it is a line of the format.
    fn take(&mut self, line: &str, log: &mut DriverLog) -> bool;

    /// Handles the end of the log.
    fn finish(&mut self, log: &mut DriverLog);
}

/// Returns whether a file is a text with a line that has one of the markers and that `is_line` accepts.
fn has_line(path: &Path, markers: &[&str], is_line: impl Fn(&str) -> bool) -> bool {
    if !path.is_file() {
        return false;
    }
    let is_text = |bytes: &[u8]| !bytes.is_empty() && memchr::memchr(0, bytes).is_none();
    let found = |bytes: &[u8]| markers.iter().any(|marker| has_marked_line(bytes, marker, &is_line));
    match source::head(path, HEAD) {
        Ok(head) if is_text(&head) && found(&head) => true,
        Ok(head) if is_text(&head) && head.len() == HEAD => source::head(path, SEARCHED).is_ok_and(|b| found(&b)),
        _ => false,
    }
}

fn has_marked_line(bytes: &[u8], marker: &str, is_line: &impl Fn(&str) -> bool) -> bool {
    let line_at = |at: usize| {
        let (before, after) = bytes.split_at_checked(at)?;
        let begin = memchr::memrchr(b'\n', before).map_or(0, |n| n + 1);
        let end = memchr::memchr(b'\n', after).map_or(bytes.len(), |n| at + n);
        bytes.get(begin..end)
    };
    let mut candidates = memmem::find_iter(bytes, marker).take(MAX_TRIED);
    candidates.any(|at| line_at(at).is_some_and(|line| is_line(text_of(line).trim_end())))
}

/// Returns a line as text; bytes that are not UTF-8 are replaced.
fn text_of(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line)
}

/// Imports a log of a format.
///
/// # Errors
/// When the file cannot be read, has no line of the format, or the work was cancelled. Unusable lines are findings.
fn import<F: LogFormat>(path: &Path, mut format: F, progress: &Progress) -> Result<Recording, ImportError> {
    let mut log = DriverLog::default();
    let packed = source::is_compressed(path);
    let mut used = 0u64;
    let end = source::blocks(path, progress, |batch| {
        for line in batch.iter().flat_map(|block| text::lines(block)) {
            log.begin_line();
            let line = text_of(line);
            let line = line.trim_end();
            if !line.is_empty() {
                used += u64::from(format.take(line, &mut log));
            }
        }
        if packed {
            crate::decompress::check_memory(path, log.bytes(), progress)?;
        }
        Ok(())
    })?;
    if used == 0 {
        let message = format!("no line of it is {} ({} lines read)", F::NEEDED, log.lines());
        return Err(ImportError::malformed(path, crate::error::FilePosition::Whole, message));
    }
    format.finish(&mut log);
    progress.check()?;
    Ok(log.finish(F::SOURCE, &end))
}

#[cfg(test)]
mod test_logs;
