//! Ownership checks of a key store: its file, its folder, and the links on the path to it, similar to the checks of
//! ssh.

use super::KeyStoreError;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Permission bits that let other users read a file.
const OTHERS: u32 = 0o077;
/// Permission bits that let other users change the contents of a folder.
const OTHERS_WRITE: u32 = 0o022;

/// Returns whether a user is this one or root, who has full access anyway.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == current_user()
}

/// Returns the effective user of this process.
pub(super) fn current_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn io_error(path: &Path, e: &io::Error) -> KeyStoreError {
    match e.kind() {
        io::ErrorKind::NotFound => KeyStoreError::Missing { path: path.to_owned() },
        _ => KeyStoreError::Io {
            path: path.to_owned(),
            reason: e.to_string(),
        },
    }
}

fn check_owner(path: &Path, meta: &Metadata) -> Result<(), KeyStoreError> {
    if is_trusted(meta.uid()) {
        return Ok(());
    }
    Err(KeyStoreError::Foreign {
        path: path.to_owned(),
        owner: meta.uid(),
        user: current_user(),
    })
}

/// Refuses a folder that other users own or can change: they could replace the key file.
fn folder(path: &Path) -> Result<(), KeyStoreError> {
    let meta = fs::metadata(path).map_err(|e| io_error(path, &e))?;
    check_owner(path, &meta)?;
    let mode = meta.permissions().mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(KeyStoreError::OpenFolder {
        path: path.to_owned(),
        mode,
    })
}

/// Refuses links owned by other users anywhere on the path to a file: the owner decides where they lead.
fn links(whole: &Path) -> Result<(), KeyStoreError> {
    for part in whole.ancestors() {
        // A missing part is not a link. The open call reports it.
        let Ok(meta) = fs::symlink_metadata(part) else { continue };
        if meta.is_symlink() && !is_trusted(meta.uid()) {
            return Err(KeyStoreError::ForeignLink {
                path: part.to_owned(),
                owner: meta.uid(),
            });
        }
    }
    Ok(())
}

/// Opens a key file for reading, if only this user and root could have written it or can read it. The open file is
/// checked, not its name.
pub(super) fn open(path: &Path) -> Result<(File, Metadata), KeyStoreError> {
    let whole = std::path::absolute(path).map_err(|e| io_error(path, &e))?;
    links(&whole)?;
    if let Some(parent) = whole.parent() {
        folder(parent)?;
    }
    // If the file is a link, its target's folder is checked too.
    let real = whole.canonicalize().map_err(|e| io_error(path, &e))?;
    if let Some(parent) = real.parent() {
        folder(parent)?;
    }
    let file = File::open(&real).map_err(|e| io_error(path, &e))?;
    let meta = file.metadata().map_err(|e| io_error(path, &e))?;
    check_owner(path, &meta)?;
    let mode = meta.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(KeyStoreError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    Ok((file, meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::KeyStore;
    use std::os::unix::fs::{chown, lchown, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn writable_key_folder_is_refused_with_advice() {
        let dir = tempfile::tempdir().unwrap();
        let keys = dir.path().join("keys");
        let store = KeyStore::open(&keys).unwrap();
        for open in [0o777, 0o770, 0o702, 0o1777, 0o720] {
            mode(&keys, open);
            let all = [KeyStore::open(&keys).map(drop), store.peers().map(drop)];
            for e in all.map(Result::unwrap_err) {
                assert!(
                    matches!(&e, KeyStoreError::OpenFolder { mode, .. } if *mode == open),
                    "{e}"
                );
                assert!(e.to_string().contains(&format!("chmod go-w {}", keys.display())), "{e}");
            }
        }
        for closed in [0o700, 0o750, 0o755] {
            mode(&keys, closed);
            KeyStore::open(&keys).unwrap();
        }
        // The store creates no keys in a writable folder that existed before it.
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        mode(&empty, 0o777);
        assert!(matches!(KeyStore::open(&empty), Err(KeyStoreError::OpenFolder { .. })));
        assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    }

    #[test]
    fn key_store_checks_the_symlink_target() {
        let dir = tempfile::tempdir().unwrap();
        let (keys, link) = (dir.path().join("keys"), dir.path().join("link"));
        let key = KeyStore::open(&keys).unwrap().key_pair().public();
        symlink(&keys, &link).unwrap();
        assert_eq!(KeyStore::open(&link).unwrap().key_pair().public(), key);
        // Only the file is a link. It points into a folder that other users can write.
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        mode(&open, 0o777);
        fs::rename(keys.join("keys.toml"), open.join("keys.toml")).unwrap();
        symlink(open.join("keys.toml"), keys.join("keys.toml")).unwrap();
        let e = KeyStore::open(&keys).unwrap_err();
        assert!(
            matches!(&e, KeyStoreError::OpenFolder { path, .. } if *path == open),
            "{e}"
        );
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "says what it skips")]
    fn key_files_of_another_owner_are_refused_with_a_remedy() {
        if current_user() != 0 {
            println!("skipped: only root can change the owner of a file");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let keys = dir.path().join("keys");
        let store = KeyStore::open(&keys).unwrap();
        for path in [keys.join("keys.toml"), keys.clone()] {
            chown(&path, Some(4242), None).unwrap();
            for e in [KeyStore::open(&keys).map(drop), store.peers().map(drop)].map(Result::unwrap_err) {
                assert!(matches!(&e, KeyStoreError::Foreign { owner: 4242, .. }), "{e}");
                assert!(e.to_string().contains(&format!("chown 0 {}", path.display())), "{e}");
            }
            chown(&path, Some(0), None).unwrap();
        }
        let link = dir.path().join("link");
        symlink(&keys, &link).unwrap();
        KeyStore::open(&link).unwrap();
        lchown(&link, Some(4242), None).unwrap();
        let e = KeyStore::open(&link).unwrap_err();
        assert!(matches!(&e, KeyStoreError::ForeignLink { owner: 4242, .. }), "{e}");
    }
}
