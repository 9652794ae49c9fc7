//! Files of runs on this machine: read from the broker once, checked, and removed when the cache is full.

use crate::file_store::{FileError, FileStore};
use kinescope_campaign::{FileSignature, digest_path};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trace_core::progress::Progress;

/// A cached file or folder.
#[derive(Debug, Default)]
struct Entry {
    bytes: u64,
    /// Number of runs that use it.
    users: usize,
    /// Number of the last use.
    used: u64,
    /// The content whose digest this process computed, by name.
    checked: BTreeMap<String, FileSignature>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    uses: u64,
}

/// The files of runs on this machine.
pub struct FileCache {
    folder: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
    /// One download at a time.
    download: tokio::sync::Mutex<()>,
    /// Locked while this process uses the folder.
    _lock: File,
}

/// Use of a cached file: it is not removed before this is dropped.
pub struct CachedFile {
    cache: Arc<FileCache>,
    digest: String,
    /// Where it is.
    pub path: PathBuf,
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        if let Some(entry) = self.cache.lock().entries.get_mut(&self.digest) {
            entry.users = entry.users.saturating_sub(1);
        }
    }
}

impl FileCache {
    /// Opens the cache in a folder, which is created if it is missing. What an earlier process left incomplete is removed.
    ///
    /// # Errors
    /// If the folder cannot be used, or another process uses it.
    pub fn open(folder: &Path, max_bytes: u64) -> io::Result<Self> {
        fs::create_dir_all(folder.join("files"))?;
        let lock = File::create(folder.join("lock"))?;
        lock.try_lock().map_err(|_| {
            let reason = "another worker uses this folder; choose another one with --cache";
            io::Error::new(io::ErrorKind::ResourceBusy, reason)
        })?;
        let incomplete = folder.join("incomplete");
        if incomplete.exists() {
            fs::remove_dir_all(&incomplete)?;
        }
        fs::create_dir_all(&incomplete)?;
        let mut state = State::default();
        for entry in fs::read_dir(folder.join("files"))? {
            let entry = entry?;
            let found = Entry {
                bytes: FileSignature::read(&entry.path()).bytes(),
                ..Entry::default()
            };
            state
                .entries
                .insert(entry.file_name().to_string_lossy().into_owned(), found);
        }
        Ok(Self {
            folder: folder.to_owned(),
            max_bytes,
            state: Mutex::new(state),
            download: tokio::sync::Mutex::new(()),
            _lock: lock,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the use of a file that is cached.
    fn find(self: &Arc<Self>, digest: &str, name: &str) -> Option<CachedFile> {
        let path = self.folder.join("files").join(digest).join(name);
        let mut state = self.lock();
        if !state.entries.contains_key(digest) || !path.exists() {
            return None;
        }
        state.uses = state.uses.saturating_add(1);
        let uses = state.uses;
        let entry = state.entries.get_mut(digest)?;
        entry.users = entry.users.saturating_add(1);
        entry.used = uses;
        Some(CachedFile {
            cache: Arc::clone(self),
            digest: digest.to_owned(),
            path,
        })
    }

    /// Returns the use of a file that is cached and has its digest. One that was damaged is removed, with a warning.
    async fn find_sound(self: &Arc<Self>, digest: &str, name: &str) -> Option<CachedFile> {
        let found = self.find(digest, name)?;
        let (signature, path) = (FileSignature::read(&found.path), found.path.clone());
        let known = |state: &State| state.entries.get(digest)?.checked.get(name).cloned();
        if known(&self.lock()).as_ref() == Some(&signature) {
            return Some(found);
        }
        let computed = tokio::task::spawn_blocking(move || digest_path(&path, &Progress::new()));
        match computed.await {
            Ok(Ok(computed)) if computed == digest => {
                if let Some(entry) = self.lock().entries.get_mut(digest) {
                    entry.checked.insert(name.to_owned(), signature);
                }
                Some(found)
            }
            // Another target may have read it again meanwhile.
            _ if FileSignature::read(&found.path) != signature => None,
            _ => {
                tracing::warn!(
                    file = digest,
                    "a cached file is damaged, and is read from the broker again"
                );
                let removed = match found.path.is_dir() {
                    true => fs::remove_dir_all(&found.path),
                    false => fs::remove_file(&found.path),
                };
                if let Err(e) = removed {
                    tracing::warn!(file = digest, "the damaged file was not removed: {e}");
                }
                if let Some(entry) = self.lock().entries.get_mut(digest) {
                    entry.bytes = entry.bytes.saturating_sub(signature.bytes());
                }
                None
            }
        }
    }

    /// Returns a file or folder, and reads it from the store if it is not here. `name` is its name on this machine; both
    /// parts of its path must be checked by the caller.
    ///
    /// # Errors
    /// If the store does not have it, it does not fit the cache, or the folder cannot be written.
    pub async fn get(self: &Arc<Self>, store: &FileStore, digest: &str, name: &str) -> Result<CachedFile, FileError> {
        if let Some(found) = self.find_sound(digest, name).await {
            return Ok(found);
        }
        let _turn = self.download.lock().await;
        if let Some(found) = self.find_sound(digest, name).await {
            return Ok(found);
        }
        let target = self.folder.join("files").join(digest);
        let failed = |source| FileError::Io {
            path: target.clone(),
            source,
        };
        let incomplete = tempfile::tempdir_in(self.folder.join("incomplete")).map_err(failed)?;
        let path = incomplete.path().join(name);
        let bytes = store.download(digest, &path, self.max_bytes).await?;
        self.make_room(bytes);
        // The same bytes may be here under another name.
        match target.is_dir() {
            true => fs::rename(&path, target.join(name)).map_err(failed)?,
            false => {
                fs::create_dir(&target).map_err(failed)?;
                fs::rename(&path, target.join(name)).map_err(failed)?;
            }
        }
        {
            let mut state = self.lock();
            let entry = state.entries.entry(digest.to_owned()).or_default();
            entry.bytes = entry.bytes.saturating_add(bytes);
            // The download was checked.
            let signature = FileSignature::read(&target.join(name));
            entry.checked.insert(name.to_owned(), signature);
        }
        self.find(digest, name)
            .ok_or_else(|| failed(io::Error::other("the file vanished")))
    }

    /// Removes files that no run uses, those that were used first, until there is room.
    fn make_room(&self, bytes: u64) {
        let mut state = self.lock();
        loop {
            let total = state.entries.values().map(|e| e.bytes).fold(0, u64::saturating_add);
            if total.saturating_add(bytes) <= self.max_bytes {
                return;
            }
            let unused = state.entries.iter().filter(|(_, e)| e.users == 0);
            let Some(oldest) = unused.min_by_key(|(_, e)| e.used).map(|(digest, _)| digest.clone()) else {
                return;
            };
            state.entries.remove(&oldest);
            if let Err(e) = fs::remove_dir_all(self.folder.join("files").join(&oldest)) {
                tracing::warn!(file = %oldest, "a cached file was not removed: {e}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_use_stay() {
        let folder = tempfile::tempdir().unwrap();
        for (digest, bytes) in [("a", 40), ("b", 40)] {
            fs::create_dir_all(folder.path().join("files").join(digest)).unwrap();
            fs::write(folder.path().join("files").join(digest).join("x"), vec![0; bytes]).unwrap();
        }
        let cache = Arc::new(FileCache::open(folder.path(), 100).unwrap());
        assert!(FileCache::open(folder.path(), 100).is_err());
        let used = cache.find("a", "x").unwrap();
        cache.make_room(50);
        assert!(used.path.exists() && cache.find("b", "x").is_none());
        cache.make_room(90);
        assert!(used.path.exists());
        drop(used);
        cache.make_room(90);
        assert!(cache.find("a", "x").is_none());
    }

    /// A worker refused each run of a damaged file, in each later campaign too.
    #[tokio::test]
    async fn damaged_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let digest = blake3::hash(b"content").to_hex().to_string();
        let place = folder.path().join("files").join(&digest);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("x"), "content").unwrap();
        let cache = Arc::new(FileCache::open(folder.path(), 100).unwrap());
        assert!(cache.find_sound(&digest, "x").await.is_some());
        // It was checked, and is not read again.
        assert_eq!(cache.lock().entries[&digest].checked["x"].bytes(), 7);
        assert!(cache.find_sound(&digest, "x").await.is_some());
        fs::write(place.join("x"), "damage").unwrap();
        assert!(cache.find_sound(&digest, "x").await.is_none() && !place.join("x").exists());
        // Damage of an earlier process is found too.
        fs::write(place.join("x"), "contens").unwrap();
        drop(cache);
        let cache = Arc::new(FileCache::open(folder.path(), 100).unwrap());
        assert!(cache.find_sound(&digest, "x").await.is_none() && !place.join("x").exists());
    }
}
