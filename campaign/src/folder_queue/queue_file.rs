//! The file of the queue, and commits to it. Threads that wait for the disk at the same time share one write to it: the
//! targets of a campaign do not wait for each other's.

use super::tables::Failure;
use crate::queue::QueueError;
use redb::{Builder, Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase as _, WriteTransaction};
use std::fs::{File, Permissions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tempfile::TempPath;

/// Memory for pages of the file, bytes.
const CACHE_BYTES: usize = 8 << 20;
/// Beginning and end of the name that a file has until it is complete.
const NEW_FILE: (&str, &str) = ("queue-", ".new");

/// The file of a queue, which is locked while it is open.
#[derive(Debug)]
pub(super) struct QueueFile {
    path: PathBuf,
    database: Database,
    state: Mutex<State>,
    /// A writer has ended, or a write to the disk has.
    changed: Condvar,
    /// The copy that the database is, if it is one. Fields are dropped in order: it is removed after it is closed.
    _copy: Option<TempPath>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of threads in a transaction, or before one.
    writers: usize,
    /// Number of commits.
    committed: u64,
    /// Number of commits that are on the disk.
    synced: u64,
    /// Whether a thread writes to the disk.
    is_syncing: bool,
    /// Number of writes to the disk.
    syncs: u64,
    /// The first failure of the disk, of which later operations only say that it was.
    disk_failure: Option<String>,
}

/// A thread in a transaction. It is counted until this is dropped.
struct Writer<'f>(&'f QueueFile);

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.writers = state.writers.saturating_sub(1);
        self.0.changed.notify_all();
    }
}

/// The write to the disk, until this is dropped.
struct DiskWrite<'f>(&'f QueueFile);

impl Drop for DiskWrite<'_> {
    fn drop(&mut self) {
        self.0.lock().is_syncing = false;
        self.0.changed.notify_all();
    }
}

/// Creates an empty file under another name, and renames it when it is complete: a process that is killed meanwhile leaves no
/// damaged queue. Another process can be faster; then its file stays.
fn create_file(builder: &Builder, path: &Path) -> Result<(), String> {
    let folder = path
        .parent()
        .filter(|f| !f.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut name = tempfile::Builder::new();
    // As other files of the folder: the user's mask decides who reads it.
    name.permissions(Permissions::from_mode(0o666));
    let new = name.prefix(NEW_FILE.0).suffix(NEW_FILE.1).tempfile_in(folder);
    let new = new.map_err(|e| e.to_string())?.into_temp_path();
    drop(builder.create(&new).map_err(|e| e.to_string())?);
    if let Err(e) = new.persist_noclobber(path)
        // A process that was faster may also have removed this one's file, below.
        && !path.exists()
    {
        return Err(e.error.to_string());
    }
    // What killed processes left. A process that creates one now does not need it any more.
    for entry in std::fs::read_dir(folder).map_err(|e| e.to_string())?.flatten() {
        let name = entry.file_name();
        let is_new = |name: &str| name.starts_with(NEW_FILE.0) && name.ends_with(NEW_FILE.1);
        if name.to_str().is_some_and(is_new) {
            // The other process may have removed it.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

impl QueueFile {
    /// Opens a file, and creates it if there is none.
    pub(super) fn open(path: &Path) -> Result<Self, QueueError> {
        Self::open_with(path, None)
    }

    /// Opens a file to read it. One that this process may not write is copied, and the copy is opened: opening a database
    /// writes to it.
    pub(super) fn open_to_read(path: &Path) -> Result<Self, QueueError> {
        let opened = File::options().read(true).write(true).open(path);
        match opened.map_err(|e| e.kind()) {
            Err(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {}
            _ => return Self::open(path),
        }
        Self::open_copy(path)
    }

    /// Copies a file, and opens the copy.
    fn open_copy(path: &Path) -> Result<Self, QueueError> {
        let failed = |e: &dyn std::fmt::Display| QueueError::Storage {
            path: path.to_owned(),
            reason: e.to_string(),
        };
        let mut file = File::open(path).map_err(|e| failed(&e))?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(QueueError::InUse(path.to_owned())),
            Err(TryLockError::Error(e)) => return Err(failed(&e)),
        }
        let mut copy = tempfile::NamedTempFile::new().map_err(|e| failed(&e))?;
        std::io::copy(&mut file, &mut copy)
            .map_err(|e| failed(&format_args!("no copy can be made to read it: {e}")))?;
        Self::open_with(path, Some(copy.into_temp_path()))
    }

    /// Opens the file at a path, or the copy of it.
    fn open_with(path: &Path, copy: Option<TempPath>) -> Result<Self, QueueError> {
        let opened = copy.as_deref().unwrap_or(path);
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        // A damaged file is an error. Without the check, redb panics at some damage.
        builder.set_check_integrity_on_open(true);
        if !opened.exists() {
            create_file(&builder, path).map_err(|reason| QueueError::Storage {
                path: path.to_owned(),
                reason,
            })?;
        }
        // redb takes an empty file for a new database, but a new one is here with its tables. Its results would be lost
        // without a word.
        if std::fs::metadata(opened).is_ok_and(|file| file.len() == 0) {
            return Err(QueueError::Storage {
                path: path.to_owned(),
                reason: "the file is empty: its content was lost; remove it to run the campaign from its start"
                    .to_owned(),
            });
        }
        let database = builder.create(opened).map_err(|e| match e {
            DatabaseError::DatabaseAlreadyOpen => QueueError::InUse(path.to_owned()),
            e => QueueError::Storage {
                path: path.to_owned(),
                reason: e.to_string(),
            },
        })?;
        Ok(Self {
            path: path.to_owned(),
            database,
            state: Mutex::default(),
            changed: Condvar::new(),
            _copy: copy,
        })
    }

    fn error(&self, failure: Failure) -> QueueError {
        let path = self.path.clone();
        match failure {
            Failure::Storage(e) => QueueError::Storage {
                path,
                reason: self.describe_failure(&e),
            },
            Failure::Entry(entry, reason) => QueueError::Entry { path, entry, reason },
        }
    }

    /// Describes an error of the database. After a failure of the disk, it is that failure.
    fn describe_failure(&self, e: &redb::Error) -> String {
        let known = &mut self.lock().disk_failure;
        match e {
            redb::Error::Io(_) => known.get_or_insert_with(|| e.to_string()).clone(),
            redb::Error::PreviousIo => known.clone().unwrap_or_else(|| e.to_string()),
            _ => e.to_string(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads in one transaction.
    pub(super) fn read<T>(&self, work: impl FnOnce(&ReadTransaction) -> Result<T, Failure>) -> Result<T, QueueError> {
        let done = || work(&self.database.begin_read()?);
        done().map_err(|e| self.error(e))
    }

    /// Does some work in one commit, which is on the disk when this returns. An error of `work` leaves the file as it was.
    pub(super) fn write<T>(&self, work: impl FnOnce(&WriteTransaction) -> Result<T, Failure>) -> Result<T, QueueError> {
        let value = self.write_later(work)?;
        self.sync()?;
        Ok(value)
    }

    /// Does some work in one commit. The next write to the disk stores it, or the end of the process if it is not killed.
    pub(super) fn write_later<T>(
        &self,
        work: impl FnOnce(&WriteTransaction) -> Result<T, Failure>,
    ) -> Result<T, QueueError> {
        let mut state = self.lock();
        // What waits now is committed together, before the next write to the disk.
        while state.is_syncing {
            state = self.wait(state);
        }
        state.writers = state.writers.saturating_add(1);
        drop(state);
        let writer = Writer(self);
        let done = || -> Result<T, Failure> {
            let mut write = self.database.begin_write()?;
            write.set_durability(Durability::None)?;
            let value = work(&write)?;
            write.commit()?;
            Ok(value)
        };
        let value = done().map_err(|e| self.error(e))?;
        self.lock().committed += 1;
        drop(writer);
        Ok(value)
    }

    /// Waits until all commits of this thread are on the disk. One thread writes for all that wait.
    pub(super) fn sync(&self) -> Result<(), QueueError> {
        let mut state = self.lock();
        let number = state.committed;
        while state.synced < number {
            if state.is_syncing || state.writers > 0 {
                state = self.wait(state);
                continue;
            }
            state.is_syncing = true;
            let committed = state.committed;
            drop(state);
            let disk_write = DiskWrite(self);
            let write = || -> Result<(), Failure> {
                // It also stores the commits before it.
                self.database.begin_write()?.commit()?;
                Ok(())
            };
            write().map_err(|e| self.error(e))?;
            state = self.lock();
            state.synced = committed;
            state.syncs += 1;
            drop(state);
            drop(disk_write);
            state = self.lock();
        }
        Ok(())
    }

    /// Returns the number of writes to the disk.
    #[cfg(test)]
    pub(super) fn count_syncs(&self) -> u64 {
        self.lock().syncs
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::META;
    use super::*;
    use redb::ReadableTable as _;
    use std::time::Duration;

    #[test]
    fn threads_share_a_write_to_the_disk() {
        const THREADS: u64 = 4;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("q");
        let file = QueueFile::open(&path).unwrap();
        let add = |wait: &dyn Fn()| {
            let added = file.write(|write| {
                let mut meta = write.open_table(META)?;
                let n = meta.get("n")?.map_or(0, |n| n.value());
                meta.insert("n", n + 1)?;
                wait();
                Ok(())
            });
            added.unwrap();
        };
        std::thread::scope(|scope| {
            let (add, file) = (&add, &file);
            for _ in 0..THREADS {
                // The first one waits in its transaction until all have begun.
                scope.spawn(move || {
                    add(&|| {
                        while file.lock().committed == 0 && file.lock().writers < THREADS as usize {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    });
                });
            }
        });
        assert_eq!(file.count_syncs(), 1);
        add(&|| ());
        assert_eq!(file.count_syncs(), 2);
        // An error changes nothing.
        let failed = file.write(|write| {
            write.open_table(META)?.insert("n", 0)?;
            Err::<(), _>(Failure::Entry("n".to_owned(), "is wrong".to_owned()))
        });
        assert!(failed.is_err());
        assert!(matches!(QueueFile::open(&path), Err(QueueError::InUse(_))));
        let n = file.read(|read| Ok(read.open_table(META)?.get("n")?.map(|n| n.value())));
        assert_eq!(n.unwrap(), Some(THREADS + 1));
        file.write_later(|_| Ok(())).unwrap();
        file.sync().unwrap();
        file.sync().unwrap();
        assert_eq!(file.count_syncs(), 3, "nothing is new");
    }

    #[test]
    fn a_copy_is_read_and_the_file_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("q");
        let file = QueueFile::open(&path).unwrap();
        let set = |write: &WriteTransaction| {
            write.open_table(META)?.insert("n", 7)?;
            Ok(())
        };
        file.write(set).unwrap();
        // Others read it if the user's mask lets them, as any new file.
        std::fs::write(folder.path().join("other"), "").unwrap();
        let mode = |name: &str| {
            std::fs::metadata(folder.path().join(name))
                .unwrap()
                .permissions()
                .mode()
        };
        assert_eq!(mode("q"), mode("other"));
        assert!(matches!(QueueFile::open_copy(&path), Err(QueueError::InUse(_))));
        drop(file);
        let before = std::fs::read(&path).unwrap();
        let copy = QueueFile::open_copy(&path).unwrap();
        let at = copy._copy.as_ref().unwrap().to_path_buf();
        let n = copy.read(|read| Ok(read.open_table(META)?.get("n")?.map(|n| n.value())));
        assert!(n.unwrap() == Some(7) && at.exists());
        copy.write(set).unwrap();
        drop(copy);
        assert!(std::fs::read(&path).unwrap() == before && !at.exists());
    }

    #[test]
    fn a_failure_of_the_disk_is_named_again_later() {
        let folder = tempfile::tempdir().unwrap();
        let file = QueueFile::open(&folder.path().join("q")).unwrap();
        let full = std::io::Error::from_raw_os_error(28);
        for failure in [redb::Error::Io(full), redb::Error::PreviousIo] {
            let text = file.error(Failure::Storage(failure)).to_string();
            assert!(text.contains("No space left on device"), "{text}");
        }
    }

    /// A process that removed what others leave could remove the file that another one was about to rename.
    #[test]
    fn processes_that_create_the_file_at_once_get_it_or_find_it_in_use() {
        const THREADS: usize = 6;
        for _ in 0..10 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("q.redb");
            let left = folder.path().join("queue-killed.new");
            std::fs::write(&left, "half").unwrap();
            // All files are open until the last thread has its answer.
            let opened: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| QueueFile::open(&path))).collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            let in_use = opened.iter().filter(|o| matches!(o, Err(QueueError::InUse(_)))).count();
            let failures: Vec<_> = opened.iter().filter_map(|o| o.as_ref().err()).collect();
            assert_eq!(in_use, THREADS - 1, "{failures:?}");
            assert!(!left.exists());
        }
    }
}
