//! Folders that only this user can enter, for sockets and files of a process. Those of killed processes are removed.

use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// File that its process holds locked. The lock of a killed process is free.
const LOCK: &str = "lock";
/// Name of the file until it is locked: another process would take a free lock for that of a killed process.
const NEW_LOCK: &str = "lock.new";
/// Maximum number of names that are tried.
const MAX_ATTEMPTS: u32 = 1000;

/// A folder that only this user can enter. It is removed on drop.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    _lock: File,
}

impl PrivateFolder {
    /// Creates a folder whose name begins with `prefix`, in the user's folder for sockets or in that for temporary files.
    /// Folders of this prefix that killed processes left are removed.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(prefix: &str) -> std::io::Result<Self> {
        let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|base| Path::new(base).is_dir());
        Self::create_in(&base.map_or_else(std::env::temp_dir, PathBuf::from), prefix)
    }

    fn create_in(base: &Path, prefix: &str) -> std::io::Result<Self> {
        remove_abandoned(base, prefix);
        for attempt in 0..MAX_ATTEMPTS {
            let path = base.join(format!("{prefix}-{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            }
            let lock = File::create(path.join(NEW_LOCK))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            std::fs::rename(path.join(NEW_LOCK), path.join(LOCK))?;
            return Ok(Self { path, _lock: lock });
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the folders of a prefix whose processes are gone.
fn remove_abandoned(base: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(&format!("{prefix}-"));
        // A folder without a lock is being created, or belongs to somebody else.
        let Some(lock) = is_ours.then(|| File::open(entry.path().join(LOCK)).ok()).flatten() else {
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // What cannot be removed stays.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary folder of the system.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_ended_processes_are_removed() {
        let prefix = format!("kinescope-folder-test-{}", std::process::id());
        let first = PrivateFolder::create(&prefix).unwrap();
        let second = PrivateFolder::create(&prefix).unwrap();
        assert!(first.path().exists() && first.path() != second.path());
        // As a killed process leaves it: the folder without the lock.
        let left = first.path().with_file_name(format!("{prefix}-0-0"));
        std::fs::create_dir(&left).unwrap();
        File::create(left.join(LOCK)).unwrap();
        let third = PrivateFolder::create(&prefix).unwrap();
        assert!(!left.exists() && first.path().exists() && second.path().exists());
        let path = third.path().to_owned();
        drop(third);
        assert!(!path.exists());
    }

    #[test]
    fn folders_that_are_being_created_are_not_removed_by_others() {
        let base = PrivateFolder::create(&format!("kinescope-base-test-{}", std::process::id())).unwrap();
        let create = || {
            for _ in 0..200 {
                let folder = PrivateFolder::create_in(base.path(), "kinescope-run").unwrap();
                std::fs::create_dir(folder.path().join("lib")).unwrap();
            }
        };
        std::thread::scope(|scope| {
            let creators: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
            creators.into_iter().for_each(|creator| creator.join().unwrap());
        });
    }
}
