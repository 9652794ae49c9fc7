//! The cache of compiled programs: machine code by the digest of text, device and driver.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum number of bytes of all files. The oldest are removed first.
const MAX_CACHE_BYTES: u64 = 1 << 30;
/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// First bytes of a file.
const MAGIC: &[u8; 8] = b"KWASMC01";
/// Bytes before the machine code: magic, stack bytes, digest of both.
const HEADER_BYTES: usize = 8 + 8 + 32;
/// Extension of the files.
const EXTENSION: &str = "cubin";

/// What a compilation depends on.
#[derive(Clone, Copy, Debug)]
pub struct CacheKey<'a> {
    /// The translated text.
    pub text: &'a str,
    /// Options of the compiler.
    pub options: &'a str,
    /// Compute capability of the device: major and minor number.
    pub capability: (i32, i32),
    /// Version of CUDA that the driver supports.
    pub driver_version: i32,
}

impl CacheKey<'_> {
    fn digest(&self) -> blake3::Hash {
        let mut hash = blake3::Hasher::new();
        hash.update(MAGIC);
        for number in [self.capability.0, self.capability.1, self.driver_version] {
            hash.update(&number.to_le_bytes());
        }
        hash.update(&(self.options.len() as u64).to_le_bytes());
        hash.update(self.options.as_bytes());
        hash.update(self.text.as_bytes());
        hash.finalize()
    }
}

/// Machine code with what its compiler said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedCode {
    /// The machine code.
    pub code: Vec<u8>,
    /// Largest stack frame of a function in bytes.
    pub frame_bytes: u64,
}

/// A folder with compiled programs.
#[derive(Clone, Debug)]
pub struct CodeCache {
    folder: PathBuf,
}

impl CodeCache {
    /// Returns the cache of the user, or `None` if the user has no folder for caches.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        let named = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let base = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
        Some(Self::new(&base.join("kinescope").join("wasm")))
    }

    /// Returns the cache in a folder, which need not exist.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    fn path(&self, key: &CacheKey<'_>) -> PathBuf {
        self.folder.join(format!("{}.{EXTENSION}", key.digest().to_hex()))
    }

    /// Returns the code for a key. A damaged file counts as missing.
    #[must_use]
    pub fn find(&self, key: &CacheKey<'_>) -> Option<CachedCode> {
        let path = self.path(key);
        let bytes = fs::metadata(&path).ok().filter(|m| m.len() <= MAX_FILE_BYTES)?.len();
        let content = fs::read(&path).ok().filter(|c| c.len() as u64 == bytes)?;
        let (header, code) = content.split_at_checked(HEADER_BYTES)?;
        let (start, digest) = header.split_at_checked(16)?;
        let frame_bytes = u64::from_le_bytes(*start.get(8..)?.first_chunk()?);
        let is_whole = start.starts_with(MAGIC) && digest == file_digest(frame_bytes, code).as_bytes();
        is_whole.then(|| CachedCode {
            code: code.to_vec(),
            frame_bytes,
        })
    }

    /// Stores code. A cache that cannot be written stays as it is.
    pub fn store(&self, key: &CacheKey<'_>, code: &CachedCode) {
        if code.code.len() as u64 > MAX_FILE_BYTES - HEADER_BYTES as u64 {
            return;
        }
        // The run goes on without a cache.
        let _ = self.try_store(key, code);
    }

    fn try_store(&self, key: &CacheKey<'_>, code: &CachedCode) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&code.frame_bytes.to_le_bytes())?;
        file.write_all(file_digest(code.frame_bytes, &code.code).as_bytes())?;
        file.write_all(&code.code)?;
        file.flush()?;
        file.persist(self.path(key))?;
        self.trim()
    }

    /// Removes the oldest files until all have at most the maximum size.
    fn trim(&self) -> std::io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let path = entry.path();
            if path.extension().is_some_and(|e| e == EXTENSION) {
                let metadata = entry.metadata()?;
                files.push((
                    metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    metadata.len(),
                    path,
                ));
            }
        }
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        files.sort();
        for (_, bytes, path) in files {
            if total <= MAX_CACHE_BYTES {
                break;
            }
            fs::remove_file(path)?;
            total = total.saturating_sub(bytes);
        }
        Ok(())
    }
}

fn file_digest(frame_bytes: u64, code: &[u8]) -> blake3::Hash {
    let mut hash = blake3::Hasher::new();
    hash.update(&frame_bytes.to_le_bytes());
    hash.update(code);
    hash.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_found_by_all_of_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CodeCache::new(&folder.path().join("below"));
        let key = CacheKey {
            text: "text",
            options: "O3",
            capability: (9, 0),
            driver_version: 13000,
        };
        let code = CachedCode {
            code: b"machine code".to_vec(),
            frame_bytes: 48,
        };
        assert_eq!(cache.find(&key), None);
        cache.store(&key, &code);
        assert_eq!(cache.find(&key), Some(code.clone()));
        for other in [
            CacheKey { text: "texts", ..key },
            CacheKey { options: "O2", ..key },
            CacheKey {
                capability: (9, 1),
                ..key
            },
            CacheKey {
                driver_version: 13010,
                ..key
            },
        ] {
            assert_eq!(cache.find(&other), None);
        }
        // A damaged file is replaced.
        let path = cache.path(&key);
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(cache.find(&key), None);
        fs::write(&path, b"KWASM").unwrap();
        assert_eq!(cache.find(&key), None);
        cache.store(&key, &code);
        assert_eq!(cache.find(&key), Some(code));
    }
}
