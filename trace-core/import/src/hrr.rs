//! The importer of archives of AMD's HIP record and replay (HRR): the calls of a program to the HIP runtime, with what it
//! copied to the device and back, and the arguments of its kernels.
//!
//! The format is that of ROCm/rocm-systems, `projects/clr/hipamd/src/hrr`, archive versions 3 and 4. Numbers of calls
//! differ from version 5 on, so later archives are refused. An archive is a folder:
//!
//! | entry | content |
//! |---|---|
//! | `manifest.json` | whether the capture is complete, numbers of events and blobs |
//! | `pid-N/` | the same for each process, if there are several |
//! | `events.bin` | the calls; see `records.rs` |
//! | `blobs/HH/HASH.blob` | memory of the host, by the hash of its content |
//! | `code_objects/HASH.hsaco` | device code |
//!
//! The calls become those of an API trace, in the order of their sequence numbers.

mod archive_files;
mod calls;
mod launch_record;
mod names;
mod records;
#[cfg(test)]
mod tests;

use super::error::{FilePosition, ImportError};
use calls::Import;
use records::{FileHeader, MAX_FILE_BYTES, Records, VERSIONS};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Value of [`trace_core::recording::Identity::source`] for a recording made from an archive.
pub const SOURCE: &str = "hrr";

/// Name of the file with the calls, and of that which describes an archive.
const EVENTS: &str = "events.bin";
const MANIFEST: &str = "manifest.json";
/// Start of the name of the folder of a process.
const PROCESS: &str = "pid-";
/// Maximum number of folders of processes that are looked at.
const MAX_PROCESSES: usize = 1 << 12;
/// Number of calls between two checks for cancellation.
const CALLS_PER_CHECK: usize = 1 << 10;

/// Whether a path is an archive of a known version, or its file with the calls.
#[must_use]
pub fn fits(path: &Path) -> bool {
    let process = find_process(path);
    process.is_some_and(|p| read_header(&p.events).is_some_and(|h| VERSIONS.contains(&h.version)))
}

/// Describes an archive of another version, or one without calls.
pub(crate) fn describe_close(path: &Path) -> Option<String> {
    let Some(process) = find_process(path) else {
        let is_archive = path.join("code_objects").is_dir() && path.join(MANIFEST).is_file();
        return is_archive.then(|| format!("an archive of AMD's HIP record and replay, but {EVENTS} is missing"));
    };
    let header = read_header(&process.events)?;
    Some(format!(
        "an archive of AMD's HIP record and replay of version {} (at byte 0x4 of {EVENTS}; versions {} and {} are read)",
        header.version,
        VERSIONS.start(),
        VERSIONS.end()
    ))
}

/// Returns the files with the calls of an archive.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    find_process(path).map_or_else(Vec::new, |p| vec![p.events])
}

/// The folder of a process.
struct Process {
    folder: PathBuf,
    events: PathBuf,
    /// Names of the folders of other processes.
    others: Vec<String>,
}

fn read_header(events: &Path) -> Option<FileHeader> {
    let mut head = [0; FileHeader::BYTES];
    File::open(events).ok()?.read_exact(&mut head).ok()?;
    FileHeader::parse(&head)
}

/// Returns the process of an archive: the one with the most calls, or the one that a path names.
fn find_process(path: &Path) -> Option<Process> {
    let of = |folder: PathBuf, others| {
        let events = folder.join(EVENTS);
        events.is_file().then_some(Process { folder, events, others })
    };
    if path.is_file() {
        let is_events = read_header(path).is_some();
        return is_events.then(|| Process {
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            events: path.to_owned(),
            others: Vec::new(),
        });
    }
    if let Some(process) = of(path.to_owned(), Vec::new()) {
        return Some(process);
    }
    let entries = std::fs::read_dir(path).ok()?.flatten().take(MAX_PROCESSES);
    let mut all: Vec<(u64, String)> = entries
        .filter_map(|e| {
            let name = e.file_name().into_string().ok().filter(|n| n.starts_with(PROCESS))?;
            let bytes = e.path().join(EVENTS).metadata().ok()?.len();
            Some((bytes, name))
        })
        .collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut names = all.into_iter().map(|(_, name)| name);
    let first = names.next()?;
    of(path.join(first), names.collect())
}

/// Imports an archive. Of several processes, the one with the most calls is taken.
///
/// # Errors
///
/// When a file cannot be read, the archive has another version or no call, its calls have more than 1 GiB, or the work
/// was cancelled. An archive with damage is read up to the damage, and a finding tells the rest.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let process = find_process(path).ok_or_else(|| ImportError::unknown(path))?;
    let events = &process.events;
    let io = |e| ImportError::io(events, e);
    let malformed = |place, message: String| ImportError::malformed(events, place, message);
    let mut bytes = Vec::new();
    let file = File::open(events).map_err(io)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let size = MAX_FILE_BYTES >> 20;
        return Err(malformed(
            FilePosition::Whole,
            format!("the calls have more than {size} MiB"),
        ));
    }
    let header = bytes.get(..FileHeader::BYTES).and_then(FileHeader::parse);
    let Some(header) = header.filter(|h| VERSIONS.contains(&h.version)) else {
        let message = "no archive of a known version begins here";
        return Err(malformed(FilePosition::Byte(0), message.to_owned()));
    };
    let (records, end) = Records::read(&bytes);
    if records.is_empty() {
        return Err(malformed(FilePosition::Whole, "the archive has no call".to_owned()));
    }
    progress.set_total(records.len() as u64);
    let mut import = Import::new(&process.folder);
    for part in records.chunks(CALLS_PER_CHECK) {
        for record in part {
            import.take(record)?;
        }
        progress.advance(part.len() as u64)?;
    }
    let mut findings: Vec<Finding> = end.into_iter().collect();
    if !process.others.is_empty() {
        let count = process.others.len();
        let names: Vec<&str> = process.others.iter().take(8).map(String::as_str).collect();
        let more = if count > 8 { ", ..." } else { "" };
        let message = format!(
            "the archive has {count} other processes with fewer calls, which open by their folders: {}{more}",
            names.join(", ")
        );
        findings.push(Finding::new(FindingKind::NotUsed, "processes", message));
    }
    Ok(import.finish(header.version, findings))
}
