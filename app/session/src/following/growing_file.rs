//! The file that a recorder writes for a requested path: under a temporary name while it grows, then under its own.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Prefix of the folder in which `record` and `run --record` collect the files of a program; its process id follows.
const RECORD_FOLDER: &str = ".kinescope-record-";
/// Middle of the name of the folder in which `kinescope-agent record` writes its log; its process id follows.
const AGENT_FOLDER: &str = ".recording-";
/// Suffix of the partial recording of a simulated GPU.
const UNFINISHED: &str = ".unfinished.kine";
/// Extension of the log of NVIDIA's kernel driver. The recorder writes it through mapped memory: its length and its time
/// of change do not show that it grows.
const KERNEL_LOG: &str = "klog";
/// Extension of the log of a Linux driver.
const TEXT_LOG: &str = "txt";

/// A file on the disk, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// Size and times of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStat {
    pub id: FileId,
    pub bytes: u64,
    pub modified: Option<SystemTime>,
    pub created: Option<SystemTime>,
}

impl FileStat {
    /// Returns size and times of a regular file, or `None` if there is none.
    pub fn read(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self {
            id: FileId {
                device: metadata.dev(),
                inode: metadata.ino(),
            },
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            created: metadata.created().ok(),
        })
    }
}

/// Whether a recorder still writes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterState {
    /// A process writes it.
    Writing,
    /// No process writes it any more.
    Gone,
    /// It cannot be determined.
    Unknown,
}

/// A file that grows, or that has grown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrowingFile {
    pub path: PathBuf,
    /// Whether it has the requested name. A file with a temporary name gets that name, or is replaced, at the end.
    pub is_final: bool,
    /// The process that moves a file with a temporary name, if its path names one.
    pub owner: Option<u32>,
}

impl GrowingFile {
    /// Returns whether a process with the id of the owner exists.
    pub fn has_owner(&self) -> bool {
        self.owner.is_some_and(is_alive)
    }

    /// Returns whether length and time of change show that the file grows.
    pub fn shows_growth(&self) -> bool {
        self.path.extension() != Some(OsStr::new(KERNEL_LOG))
    }

    /// Returns whether a recorder still writes the file. The writer of a container holds a lock on it; of other files,
    /// only a process id in the path tells.
    pub fn writer(&self, is_container: bool) -> WriterState {
        if is_container && let Ok(file) = File::open(&self.path) {
            // The lock is shared and released at once. A writer that wants the file at this moment tries again.
            return match file.try_lock_shared() {
                Ok(()) => WriterState::Gone,
                Err(TryLockError::WouldBlock) => WriterState::Writing,
                Err(TryLockError::Error(_)) => WriterState::Unknown,
            };
        }
        match self.owner {
            Some(owner) if is_alive(owner) => WriterState::Writing,
            Some(_) if !self.is_final => WriterState::Gone,
            _ => WriterState::Unknown,
        }
    }
}

/// Returns whether a process exists; `true` if that cannot be determined.
fn is_alive(process: u32) -> bool {
    !Path::new("/proc/self").exists() || Path::new(&format!("/proc/{process}")).exists()
}

/// Returns the process id at the start of a text.
fn parse_process(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// Returns the file that grows for a path. Files of living processes come first, then the requested path itself, then
/// what dead processes left. Among several, the one that changed last is taken.
pub(super) fn find(requested: &Path) -> Option<GrowingFile> {
    let (mut alive, mut dead) = (None, None);
    for file in list_temporary_files(requested) {
        let slot = if file.has_owner() { &mut alive } else { &mut dead };
        let changed = FileStat::read(&file.path).and_then(|s| s.modified);
        if slot.as_ref().is_none_or(|(at, _)| *at < changed) {
            *slot = Some((changed, file));
        }
    }
    let itself = requested.is_file().then(|| GrowingFile {
        path: requested.to_owned(),
        is_final: true,
        owner: None,
    });
    let file = |slot: Option<(_, GrowingFile)>| slot.map(|(_, file)| file);
    file(alive).or(itself).or_else(|| file(dead))
}

/// Returns the files with temporary names that recorders use for a path.
fn list_temporary_files(requested: &Path) -> Vec<GrowingFile> {
    let folder = match requested.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let stem = requested.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let agent = format!(".{stem}{AGENT_FOLDER}");
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(process) = name.strip_prefix(RECORD_FOLDER).and_then(parse_process) {
            all.extend(find_in_record_folder(&entry.path(), requested, &stem, process));
        } else if let Some(process) = name.strip_prefix(&agent).and_then(parse_process) {
            let log = entry.path().join(format!("{stem}.{TEXT_LOG}"));
            all.extend(log.is_file().then(|| new_temporary(log, process)));
        } else if let Some(process) = parse_unfinished(name, &stem) {
            all.push(new_temporary(entry.path(), process));
        }
    }
    all
}

fn new_temporary(path: PathBuf, owner: u32) -> GrowingFile {
    GrowingFile {
        path,
        is_final: false,
        owner: Some(owner),
    }
}

/// Returns the process of the partial recording `STEM-PROCESS.unfinished.kine`.
fn parse_unfinished(name: &str, stem: &str) -> Option<u32> {
    let process = name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(UNFINISHED)?;
    process.parse().ok()
}

/// Returns the file of a program's first process in the folder of `record`.
fn find_in_record_folder(folder: &Path, requested: &Path, stem: &str, process: u32) -> Option<GrowingFile> {
    let own = folder.join(requested.file_name()?);
    if own.is_file() {
        return Some(new_temporary(own, process));
    }
    let mut others: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|name| parse_unfinished(name, stem).is_some() || is_kernel_log(name, stem))
        .collect();
    // The process with the lowest id started first, as far as ids show.
    others.sort_by_key(|name| (name.len(), name.clone()));
    Some(new_temporary(folder.join(others.first()?), process))
}

/// Returns whether a file is a log of NVIDIA's kernel driver for a recording of this stem.
fn is_kernel_log(name: &str, stem: &str) -> bool {
    let path = Path::new(name);
    path.extension() == Some(OsStr::new(KERNEL_LOG)) && name.starts_with(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the id of a process that has ended.
    fn dead_process() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id();
        child.wait().unwrap();
        id
    }

    #[test]
    fn file_of_a_living_recorder_comes_before_the_requested_one() {
        let dir = tempfile::tempdir().unwrap();
        let requested = dir.path().join("F.kine");
        assert_eq!(find(&requested), None);
        let (own, dead) = (std::process::id(), dead_process());
        let left = dir.path().join(format!("{RECORD_FOLDER}{dead}"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("F.kine"), "left").unwrap();
        let found = find(&requested).unwrap();
        assert!(found.path == left.join("F.kine") && !found.is_final && !found.has_owner());
        fs::write(&requested, "earlier").unwrap();
        let found = find(&requested).unwrap();
        assert!(found.is_final && found.path == requested && found.owner.is_none());
        let folder = dir.path().join(format!("{RECORD_FOLDER}{own}"));
        fs::create_dir(&folder).unwrap();
        assert!(find(&requested).unwrap().is_final, "the folder is empty");
        let log = folder.join("F-12.klog");
        fs::write(&log, "log").unwrap();
        fs::write(folder.join("G-12.klog"), "other").unwrap();
        let found = find(&requested).unwrap();
        assert!(found.path == log && found.has_owner() && !found.shows_growth());
        fs::write(folder.join("F-9.unfinished.kine"), "part").unwrap();
        fs::write(folder.join("F.kine"), "whole").unwrap();
        assert_eq!(find(&requested).unwrap().path, folder.join("F.kine"));
    }

    #[test]
    fn partial_recordings_and_logs_next_to_the_path_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let requested = dir.path().join("F.kine");
        let own = std::process::id();
        let partial = dir.path().join(format!("F-{own}{UNFINISHED}"));
        fs::write(&partial, "part").unwrap();
        fs::write(dir.path().join(format!("F-x{UNFINISHED}")), "other").unwrap();
        assert_eq!(find(&requested).unwrap().path, partial);
        fs::remove_file(&partial).unwrap();
        let folder = dir.path().join(format!(".F{AGENT_FOLDER}{own}-2"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("F.txt"), "log").unwrap();
        assert_eq!(find(&requested).unwrap().path, folder.join("F.txt"));
    }

    #[test]
    fn lock_tells_whether_a_container_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("F.kine");
        let writer = trace_core::container::Writer::create(&path).unwrap();
        let file = find(&path).unwrap();
        assert_eq!(file.writer(true), WriterState::Writing);
        drop(writer);
        assert_eq!(file.writer(true), WriterState::Gone);
        assert_eq!(file.writer(false), WriterState::Unknown);
        let left = new_temporary(path, dead_process());
        assert_eq!(left.writer(false), WriterState::Gone);
        assert_eq!(
            new_temporary(left.path, std::process::id()).writer(false),
            WriterState::Writing
        );
    }
}
