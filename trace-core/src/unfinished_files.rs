//! Unfinished files that a killed program left next to the file it was writing.
//!
//! Each file is written under a temporary name that contains the id of the writing process, with a lock. It gets its
//! final name when it is complete. The next writer of the same file removes temporary files whose writer is gone.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Suffix of the name of a `.kine` that is being written.
const UNFINISHED_KINE: &str = ".kine.tmp";

/// Returns the temporary name under which a process writes a `.kine` until it is complete.
pub(crate) fn unfinished_kine(name: &OsStr, process: u32, count: u64) -> std::ffi::OsString {
    let mut unfinished = name.to_owned();
    unfinished.push(format!(".{process}-{count}{UNFINISHED_KINE}"));
    unfinished
}

/// Returns the process that writes, or wrote, a temporary file of this name for `name`.
pub(crate) fn parse_kine_writer(file: &str, name: &str) -> Option<u32> {
    parse_process_id(
        file.strip_prefix(name)?
            .strip_prefix('.')?
            .strip_suffix(UNFINISHED_KINE)?,
    )
}

/// Returns whether a path has the name of a `.kine` that is being written, or was left unfinished.
#[must_use]
pub fn is_unfinished_kine(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let stem = name.and_then(|n| n.strip_suffix(UNFINISHED_KINE));
    stem.and_then(|s| s.rsplit_once('.'))
        .is_some_and(|(_, writer)| parse_process_id(writer).is_some())
}

/// Returns the process id in `PROCESS-COUNT`.
#[must_use]
pub fn parse_process_id(text: &str) -> Option<u32> {
    let (process, count) = text.split_once('-')?;
    count.parse::<u64>().ok()?;
    process.parse().ok()
}

/// Returns whether a process has ended; `false` if that cannot be determined.
fn is_gone(process: u32) -> bool {
    Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{process}")).exists()
}

/// Removes the unfinished files in a folder whose writer has ended, and returns their number. `writer` returns the
/// process for the name of such a file, and `None` for every other name. A locked file stays: in a shared folder its
/// writer may be a process of another machine.
///
/// The cost is one check per name in the folder. Files that cannot be removed stay, and no error is returned: the
/// caller's own file does not depend on them.
pub fn remove(folder: &Path, writer: impl Fn(&str) -> Option<u32>) -> usize {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let left = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        let gone = name.and_then(&writer).is_some_and(is_gone);
        let is_file = || fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
        // The lock is released with the file, so the name is removed while nobody else can hold the lock.
        gone && is_file() && File::open(path).is_ok_and(|f| f.try_lock().is_ok() && fs::remove_file(path).is_ok())
    };
    entries.filter_map(|e| Some(e.ok()?.path())).filter(left).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the id of a process that has ended.
    fn dead_process_id() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id();
        child.wait().unwrap();
        id
    }

    #[test]
    fn unlocked_unfinished_files_of_dead_writers_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (dead_id, own_id) = (dead_process_id(), std::process::id());
        let make = |name: &OsStr| {
            let path = dir.path().join(name);
            fs::write(&path, "half").unwrap();
            path
        };
        let name = OsStr::new("x.kine");
        let goes = [unfinished_kine(name, dead_id, 0), unfinished_kine(name, dead_id, 7)].map(|n| make(&n));
        let locked = make(&unfinished_kine(name, dead_id, 1));
        let writer = File::open(&locked).unwrap();
        writer.lock().unwrap();
        let stays = [
            locked,
            make(&unfinished_kine(name, own_id, 0)),
            make(&unfinished_kine(OsStr::new("y.kine"), dead_id, 0)),
            make(name),
            make(OsStr::new("x.kine.12-0.kine.tmp.bak")),
            make(OsStr::new("x.kine.kine.tmp")),
        ];
        let found = remove(dir.path(), |file| parse_kine_writer(file, "x.kine"));
        assert_eq!(found, 2);
        assert!(goes.iter().all(|p| !p.exists()) && stays.iter().all(|p| p.exists()));
        drop(writer);
        assert_eq!(remove(dir.path(), |file| parse_kine_writer(file, "x.kine")), 1);
    }

    #[test]
    fn unfinished_recording_is_identified_by_file_name() {
        let named = |name: &str| is_unfinished_kine(Path::new(name));
        assert!(named("a/x.kine.123-0.kine.tmp") && named("x.123-4.kine.tmp"));
        assert!(!named("x.kine") && !named("x.kine.tmp") && !named(".kine.tmp") && !named("x.kine.a-0.kine.tmp"));
    }
}
