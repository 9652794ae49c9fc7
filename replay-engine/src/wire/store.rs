//! The key store: one TOML file, readable only by its owner, with the key pair of this end and its trusted peers.

mod closed_sessions;
mod error;
mod ownership;

pub use error::KeyStoreError;

use super::keys::{KeyPair, PublicKey, hex_bytes};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Name of the file in the store's folder.
pub const KEY_FILE: &str = "keys.toml";

/// Name of the lock file in the same folder. It is locked during changes of the key file. The key file itself is
/// replaced at each change, so a lock on it would be lost.
const LOCK_FILE: &str = "keys.lock";

/// Name of the file in the same folder that an agent locks while it serves these keys.
const SERVED_FILE: &str = "keys.served";

/// Maximum size of a key file, bytes.
const MAX_KEY_FILE: u64 = 1 << 20;

/// A paired peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name in this store.
    pub name: String,
    /// Its key.
    pub key: PublicKey,
    /// Its address: `HOST:PORT` or the path of a Unix socket. Empty for clients of an agent.
    pub address: String,
    /// Time of the pairing, seconds since 1970.
    pub paired_at: u64,
}

/// The data of a removed peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedPeer {
    /// Its name in this store.
    pub name: String,
    /// Its address; empty for clients of an agent.
    pub address: String,
    /// Its key, or `None` if the entry was not a valid key.
    pub key: Option<PublicKey>,
    /// Fingerprint of its key.
    pub fingerprint: Option<String>,
}

impl fmt::Display for RemovedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.address.is_empty() {
            write!(f, " at {}", self.address)?;
        }
        match &self.fingerprint {
            Some(key) => write!(f, ", key {key}"),
            None => f.write_str(", whose key could not be read"),
        }
    }
}

/// Keys on disk. Every query reads the file again, so that a running agent sees the changes of `keys forget`.
#[derive(Debug)]
pub struct KeyStore {
    path: PathBuf,
    own: KeyPair,
}

/// Held while a process reads, changes and writes the file.
struct StoreLock(std::fs::File);

impl Drop for StoreLock {
    fn drop(&mut self) {
        // A forked child shares the open file, so closing it would not release the lock.
        let _ = self.0.unlock();
    }
}

/// Identifies the state of a key file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    file: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Held by an agent while it serves the keys of a store: see [`KeyStore::is_served`].
#[derive(Debug)]
pub struct ServeLock(std::fs::File);

impl Drop for ServeLock {
    fn drop(&mut self) {
        // A forked child shares the open file.
        let _ = self.0.unlock();
    }
}

fn lock_file(path: &Path) -> Result<std::fs::File, KeyStoreError> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path);
    file.map_err(|e| io(path, &e))
}

/// Waits until no other process changes the store.
fn lock(store: &Path) -> Result<StoreLock, KeyStoreError> {
    let path = store.with_file_name(LOCK_FILE);
    let file = lock_file(&path)?;
    file.lock().map_err(|e| io(&path, &e))?;
    Ok(StoreLock(file))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    private_key: String,
    public_key: String,
    #[serde(default)]
    peer: Vec<FilePeer>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePeer {
    name: String,
    public_key: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    paired_at: u64,
}

/// Returns whether a name is valid for a peer.
#[must_use]
pub fn is_valid_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

impl KeyStore {
    /// Opens the store in a folder, and creates both if they do not exist.
    ///
    /// # Errors
    /// If the folder or file cannot be read or created, is damaged, belongs to another user, or can be read or replaced
    /// by others.
    pub fn open(folder: &Path) -> Result<Self, KeyStoreError> {
        let path = folder.join(KEY_FILE);
        let own = match read(&path) {
            Ok(file) => own_pair(&path, &file)?,
            Err(KeyStoreError::Missing { .. }) => make(folder, &path)?,
            Err(e) => return Err(e),
        };
        Ok(Self { path, own })
    }

    /// Returns whether a folder has a store.
    #[must_use]
    pub fn exists(folder: &Path) -> bool {
        folder.join(KEY_FILE).exists()
    }

    /// Returns the folder for the keys of the window and the command line.
    ///
    /// # Errors
    /// If the user has no configuration folder.
    pub fn client_folder() -> Result<PathBuf, KeyStoreError> {
        folder("kinescope")
    }

    /// Returns the folder for an agent's keys.
    ///
    /// # Errors
    /// If the user has no configuration folder.
    pub fn agent_folder() -> Result<PathBuf, KeyStoreError> {
        folder("kinescope-agent")
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the key pair of this end.
    #[must_use]
    pub fn key_pair(&self) -> &KeyPair {
        &self.own
    }

    /// Returns the state of the key file, or `None` if it does not exist. It differs after every change.
    #[must_use]
    pub fn stamp(&self) -> Option<Stamp> {
        let meta = std::fs::metadata(&self.path).ok()?;
        Some(Stamp {
            file: (meta.dev(), meta.ino()),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }

    /// Shows other processes that an agent serves these keys, until the returned lock is dropped.
    ///
    /// # Errors
    /// If the lock file cannot be created.
    pub fn serve(&self) -> Result<ServeLock, KeyStoreError> {
        let path = self.path.with_file_name(SERVED_FILE);
        let file = lock_file(&path)?;
        file.lock_shared().map_err(|e| io(&path, &e))?;
        Ok(ServeLock(file))
    }

    /// Returns whether an agent serves these keys now, in this process or another.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let path = self.path.with_file_name(SERVED_FILE);
        let Ok(file) = std::fs::File::open(path) else {
            return false;
        };
        matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
    }

    /// Returns the current peers in the file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn peers(&self) -> Result<Vec<Peer>, KeyStoreError> {
        let damaged = |name: &str| KeyStoreError::Damaged {
            path: self.path.clone(),
            reason: format!("the key of peer `{name}` is not 64 hexadecimal digits"),
        };
        let file = read(&self.path)?;
        file.peer
            .into_iter()
            .map(|p| {
                let key = PublicKey::from_hex(&p.public_key).ok_or_else(|| damaged(&p.name))?;
                Ok(Peer {
                    name: p.name,
                    key,
                    address: p.address,
                    paired_at: p.paired_at,
                })
            })
            .collect()
    }

    /// Returns the peer with this key.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn find_by_key(&self, key: &PublicKey) -> Result<Option<Peer>, KeyStoreError> {
        Ok(self.peers()?.into_iter().find(|p| p.key == *key))
    }

    /// Returns the peer with this name.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn find_by_name(&self, name: &str) -> Result<Option<Peer>, KeyStoreError> {
        Ok(self.peers()?.into_iter().find(|p| p.name == name))
    }

    /// Pins a peer's key. An existing entry of the key gets the new name and address.
    ///
    /// # Errors
    /// If the name is invalid or belongs to another key, or the file cannot be written.
    pub fn pin(&self, name: &str, key: PublicKey, address: &str) -> Result<(), KeyStoreError> {
        if !is_valid_name(name) {
            return Err(KeyStoreError::BadName(name.to_owned()));
        }
        let _locked = lock(&self.path)?;
        let mut file = read(&self.path)?;
        let hex = key.to_hex();
        if file.peer.iter().any(|p| p.name == name && p.public_key != hex) {
            return Err(KeyStoreError::NameTaken(name.to_owned()));
        }
        file.peer.retain(|p| p.public_key != hex);
        let paired_at = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        file.peer.push(FilePeer {
            name: name.to_owned(),
            public_key: hex,
            address: address.to_owned(),
            paired_at,
        });
        write(&self.path, &file, false)
    }

    /// Removes a peer. Returns its data, or `None` if there is no peer of this name.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn forget(&self, name: &str) -> Result<Option<RemovedPeer>, KeyStoreError> {
        let _locked = lock(&self.path)?;
        let mut file = read(&self.path)?;
        let Some(at) = file.peer.iter().position(|p| p.name == name) else {
            return Ok(None);
        };
        let gone = file.peer.remove(at);
        self.clear_closed();
        write(&self.path, &file, false)?;
        let key = PublicKey::from_hex(&gone.public_key);
        Ok(Some(RemovedPeer {
            key,
            fingerprint: key.map(|k| k.fingerprint()),
            name: gone.name,
            address: gone.address,
        }))
    }
}

/// Creates folder and key file. Returns the key pair of this end.
fn make(folder: &Path, path: &Path) -> Result<KeyPair, KeyStoreError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|e| io(folder, &e))?;
    let _locked = lock(path)?;
    match read(path) {
        Err(KeyStoreError::Missing { .. }) => {}
        // Another process created it meanwhile: its keys count.
        made => return own_pair(path, &made?),
    }
    let own = KeyPair::generate()?;
    let file = File {
        version: 1,
        private_key: own.private().iter().map(|b| format!("{b:02x}")).collect(),
        public_key: own.public().to_hex(),
        peer: Vec::new(),
    };
    write(path, &file, true)?;
    Ok(own)
}

fn folder(program: &str) -> Result<PathBuf, KeyStoreError> {
    directories::ProjectDirs::from("", "", program)
        .map(|d| d.config_dir().join("keys"))
        .ok_or(KeyStoreError::NoFolder)
}

fn io(path: &Path, e: &std::io::Error) -> KeyStoreError {
    KeyStoreError::Io {
        path: path.to_owned(),
        reason: e.to_string(),
    }
}

fn own_pair(path: &Path, file: &File) -> Result<KeyPair, KeyStoreError> {
    let damaged = |reason: &str| KeyStoreError::Damaged {
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    if file.version != 1 {
        return Err(damaged(&format!("unknown version {}", file.version)));
    }
    let private = hex_bytes(&file.private_key).ok_or_else(|| damaged("private_key is not 64 hexadecimal digits"))?;
    let public =
        PublicKey::from_hex(&file.public_key).ok_or_else(|| damaged("public_key is not 64 hexadecimal digits"))?;
    Ok(KeyPair::from_parts(private, public))
}

fn read(path: &Path) -> Result<File, KeyStoreError> {
    let (file, meta) = ownership::open(path)?;
    if meta.len() > MAX_KEY_FILE {
        return Err(KeyStoreError::Damaged {
            path: path.to_owned(),
            reason: "it is larger than 1 MiB".into(),
        });
    }
    let mut text = String::new();
    file.take(MAX_KEY_FILE)
        .read_to_string(&mut text)
        .map_err(|e| io(path, &e))?;
    // The parser's own message quotes the line, which may hold the private key. So only the position is reported.
    toml::from_str(&text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        let line = 1 + text.bytes().take(at).filter(|b| *b == b'\n').count();
        KeyStoreError::Damaged {
            path: path.to_owned(),
            reason: format!("line {line} cannot be read"),
        }
    })
}

/// Writes a new file next to the old one and moves it into place: a reader sees one or the other.
fn write(path: &Path, file: &File, new: bool) -> Result<(), KeyStoreError> {
    let text = toml::to_string(file).map_err(|e| KeyStoreError::Damaged {
        path: path.to_owned(),
        reason: e.to_string(),
    })?;
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let _ = std::fs::remove_file(&temporary);
    let put = || -> std::io::Result<()> {
        let mut f = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        f.write_all(text.as_bytes())?;
        f.sync_all()?;
        // A hard link fails if the file exists; a rename replaces it.
        if new {
            std::fs::hard_link(&temporary, path)?
        } else {
            std::fs::rename(&temporary, path)?
        }
        Ok(())
    };
    let done = put().map_err(|e| io(path, &e));
    let _ = std::fs::remove_file(&temporary);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn key_store_stamp_changes_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::open(dir.path()).unwrap();
        let first = store.stamp();
        assert_eq!(store.stamp(), first);
        store.pin("x", KeyPair::generate().unwrap().public(), "").unwrap();
        let second = store.stamp();
        assert!(second.is_some() && second != first);
        store.forget("x").unwrap();
        assert!(store.stamp() != second && store.stamp() != first);
        assert!(!store.is_served());
        let serving = (store.serve().unwrap(), store.serve().unwrap());
        assert!(store.is_served() && store.is_served());
        drop(serving);
        assert!(!store.is_served());
        std::fs::remove_file(store.path()).unwrap();
        assert_eq!(store.stamp(), None);
        assert!(matches!(store.peers(), Err(KeyStoreError::Missing { .. })));
    }

    #[test]
    fn keys_are_stored_owner_only_and_restored() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::open(&dir.path().join("a/keys")).unwrap();
        let mode = std::fs::metadata(store.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let peer = KeyPair::generate().unwrap().public();
        store.pin("board-1", peer, "127.0.0.1:7").unwrap();
        let again = KeyStore::open(&dir.path().join("a/keys")).unwrap();
        assert_eq!(again.key_pair().public(), store.key_pair().public());
        assert_eq!(again.key_pair().private(), store.key_pair().private());
        assert_eq!(again.find_by_name("board-1").unwrap().unwrap().key, peer);
        assert_eq!(again.find_by_key(&peer).unwrap().unwrap().address, "127.0.0.1:7");
        let mode = std::fs::metadata(store.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "pinning keeps the mode");
        let removed = again.forget("board-1").unwrap().unwrap();
        assert_eq!(
            removed.to_string(),
            format!("board-1 at 127.0.0.1:7, key {}", peer.fingerprint())
        );
        assert_eq!(again.forget("board-1").unwrap(), None);
        assert_eq!(store.peers().unwrap(), [], "an open store sees the change");
    }

    /// Environment variables that pass the key and the folder to a child process of the test below.
    const CHILD: (&str, &str) = ("KINESCOPE_TEST_PIN", "KINESCOPE_TEST_PIN_FOLDER");

    fn pin_many(folder: &Path, name: &str) {
        let store = KeyStore::open(folder).unwrap();
        for n in 0..8 {
            let key = KeyPair::generate().unwrap().public();
            store.pin(&format!("{name}-{n}"), key, "").unwrap();
            store.pin("passing", KeyPair::generate().unwrap().public(), "").ok();
            store.forget("passing").unwrap();
        }
    }

    #[test]
    fn concurrent_pins_of_several_processes_are_all_stored() {
        if let (Ok(name), Some(folder)) = (std::env::var(CHILD.0), std::env::var_os(CHILD.1)) {
            return pin_many(Path::new(&folder), &name);
        }
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("keys");
        let mut children: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|name| {
                std::process::Command::new(std::env::current_exe().unwrap())
                    .args([
                        "--exact",
                        "wire::store::tests::concurrent_pins_of_several_processes_are_all_stored",
                    ])
                    .env(CHILD.0, name)
                    .env(CHILD.1, &folder)
                    .stdout(std::process::Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        pin_many(&folder, "here");
        assert!(children.iter_mut().all(|c| c.wait().unwrap().success()));
        let mut names: Vec<_> = KeyStore::open(&folder)
            .unwrap()
            .peers()
            .unwrap()
            .into_iter()
            .map(|p| p.name)
            .collect();
        names.retain(|n| n != "passing");
        assert_eq!(names.len(), 32, "{names:?}");
        let mode = std::fs::metadata(folder.join(LOCK_FILE)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn a_name_belongs_to_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::open(dir.path()).unwrap();
        let (a, b) = (
            KeyPair::generate().unwrap().public(),
            KeyPair::generate().unwrap().public(),
        );
        store.pin("x", a, "").unwrap();
        assert!(matches!(store.pin("x", b, ""), Err(KeyStoreError::NameTaken(n)) if n == "x"));
        assert!(matches!(store.pin("a/b", b, ""), Err(KeyStoreError::BadName(_))));
        assert!(matches!(store.pin("", b, ""), Err(KeyStoreError::BadName(_))));
        store.pin("y", a, "").unwrap();
        assert_eq!(
            store.peers().unwrap().len(),
            1,
            "the same key under a new name is the same peer"
        );
    }

    #[test]
    fn exposed_or_damaged_key_file_is_refused_without_its_text() {
        let dir = tempfile::tempdir().unwrap();
        let store = KeyStore::open(dir.path()).unwrap();
        let path = store.path().to_owned();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(
            KeyStore::open(dir.path()),
            Err(KeyStoreError::Exposed { mode: 0o644, .. })
        ));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "version = 1\nprivate_key = secret-bytes\n").unwrap();
        let e = KeyStore::open(dir.path()).unwrap_err().to_string();
        assert!(e.contains("line 2") && !e.contains("secret"), "{e}");
    }
}
