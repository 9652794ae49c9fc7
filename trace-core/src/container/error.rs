//! Why a container could not be written or read, with its place.

use crate::encode::EncodeError;
use crate::progress::Cancelled;
use crate::recording::DamagedBlock;
use std::io;

/// Why a `.kine` file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The system refused to read or write.
    #[error("{place}: {source}")]
    Io {
        /// The file.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not begin as a `.kine` file does.
    #[error("{place}: not a .kine file: {reason}")]
    NotKine {
        /// The file.
        place: String,
        /// What was found instead.
        reason: String,
    },
    /// The file needs a newer program.
    #[error(
        "{place}: byte {byte:#x}: {what} has version {version}, this program reads up to {known}; a newer one is needed"
    )]
    TooNew {
        /// The file.
        place: String,
        /// Where the version is written.
        byte: u64,
        /// What has the version.
        what: &'static str,
        /// The version found.
        version: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// Blocks of the file are packed in a way that this program does not know.
    #[error(
        "{place}: byte {byte:#x}: blocks of the file have codec {codec}, and this program knows codec 0 (plain) alone; \
         a newer one is needed"
    )]
    UnknownCodec {
        /// The file.
        place: String,
        /// Where the codecs are listed.
        byte: u64,
        /// The number of the first codec that is not known.
        codec: u32,
    },
    /// The file holds no whole commit: its writer died before the first one, or it was cut.
    #[error("{place}: no whole commit in {bytes} bytes: {reason}")]
    NoCommit {
        /// The file.
        place: String,
        /// Bytes there are.
        bytes: u64,
        /// Why the last candidate is not one, or that there is none.
        reason: String,
    },
    /// Something in the file contradicts itself or its digest.
    #[error("{place}: byte {byte:#x}: {what}")]
    Damaged {
        /// The file.
        place: String,
        /// Where.
        byte: u64,
        /// What is wrong.
        what: String,
    },
    /// A metadata record could not be decoded.
    #[error("{place}: byte {byte:#x}: the {what} record: {source}")]
    Record {
        /// The file.
        place: String,
        /// First byte of the record.
        byte: u64,
        /// Which record.
        what: &'static str,
        /// Why.
        source: EncodeError,
    },
    /// What was to be written is lent from a file that is damaged: nothing makes it look sound.
    #[error(
        "{0}; nothing that is damaged is written as if it were sound. `kinescope verify` lists all damage, and \
         `kinescope events` prints what is sound: take the file from where it is whole, or record it again"
    )]
    DamagedSource(Box<DamagedBlock>),
    /// What was given to be written contradicts itself, or cannot be held by the format.
    #[error("cannot be written: {0}")]
    Refused(String),
    /// An earlier write or sync failed, so what the file holds is not known; open it again to go on.
    #[error("{place}: an earlier write failed; open the file again to go on from its last commit")]
    Poisoned {
        /// The file.
        place: String,
    },
    /// Another process is writing to the file.
    #[error("{place}: another program is writing to this file")]
    Busy {
        /// The file.
        place: String,
    },
    /// The person asked for the work to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl ContainerError {
    /// The byte of the file that the error is about, when it is about one.
    #[must_use]
    pub fn byte(&self) -> Option<u64> {
        match self {
            Self::TooNew { byte, .. }
            | Self::UnknownCodec { byte, .. }
            | Self::Damaged { byte, .. }
            | Self::Record { byte, .. } => Some(*byte),
            _ => None,
        }
    }

    /// Whether it is the file's own bytes that are wrong: it is damaged, cut, or no `.kine` file at all. Otherwise the
    /// file could not be looked at, or not understood by this version of the program.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::NotKine { .. }
            | Self::NoCommit { .. }
            | Self::Damaged { .. }
            | Self::Record { .. }
            | Self::DamagedSource(_) => true,
            Self::Io { .. }
            | Self::TooNew { .. }
            | Self::UnknownCodec { .. }
            | Self::Refused(_)
            | Self::Poisoned { .. }
            | Self::Busy { .. }
            | Self::Cancelled(_) => false,
        }
    }

    /// The file that the error is about, when it is about one.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        match self {
            Self::Io { place, .. }
            | Self::NotKine { place, .. }
            | Self::TooNew { place, .. }
            | Self::UnknownCodec { place, .. }
            | Self::NoCommit { place, .. }
            | Self::Damaged { place, .. }
            | Self::Record { place, .. }
            | Self::Poisoned { place }
            | Self::Busy { place } => Some(place),
            Self::Refused(_) | Self::DamagedSource(_) | Self::Cancelled(_) => None,
        }
    }
}
