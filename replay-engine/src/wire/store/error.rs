//! Reasons why keys could not be read or stored, with advice.

use crate::wire::keys::KeyError;
use std::path::PathBuf;

/// The reason why keys could not be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The operating system refused.
    #[error("{path}: {reason}")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Its message.
        reason: String,
    },
    /// There is no key file.
    #[error("{path}: there is no key file")]
    Missing {
        /// The file, or the folder for it.
        path: PathBuf,
    },
    /// The file is not a key store.
    #[error("{path}: this is not a key store: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Others can read the private key.
    #[error("{path}: mode {mode:o} lets others read the private key; run: chmod 600 {path}")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user owns the key file or its folder.
    #[error(
        "{path}: this belongs to user {owner}, who could replace the keys; only user {user} and root may own it. If the \
         keys are yours, run: chown {user} {path}"
    )]
    Foreign {
        /// The file or folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// Others can replace the key file.
    #[error(
        "{path}: mode {mode:o} lets others replace the keys in this folder; run: chmod go-w {path}. Then check that \
         the list of keys names only keys that you know"
    )]
    OpenFolder {
        /// The folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user controls a link on the path to the keys.
    #[error(
        "{path}: this link belongs to user {owner}, who can change its target; name the folder of the keys itself \
         with --keys"
    )]
    ForeignLink {
        /// The link.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// There is no folder for keys.
    #[error("no configuration folder is known for this user; name one with --keys")]
    NoFolder,
    /// The name is not valid for a peer.
    #[error("`{0}` is not a valid name for a peer: use 1 to 64 letters, digits, `-`, `_` and `.`")]
    BadName(String),
    /// The name belongs to another key.
    #[error("a peer called `{0}` is known already with another key; forget it first, or choose another name")]
    NameTaken(String),
    /// No key pair could be generated.
    #[error(transparent)]
    Key(#[from] KeyError),
}
