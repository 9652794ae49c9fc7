//! Errors of reading and writing containers, with their locations.

use crate::encode::EncodeError;
use crate::progress::Cancelled;
use crate::recording::DamagedBlock;
use std::io;

/// Why a `.kine` file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The operating system returned an I/O error.
    #[error("{place}: {source}")]
    Io {
        /// The file.
        place: String,
        /// The error from the operating system.
        source: io::Error,
    },
    /// The file does not start like a `.kine` file.
    #[error("{place}: not a .kine file: {reason}")]
    NotKine {
        /// The file.
        place: String,
        /// Description of what was found instead.
        reason: String,
    },
    /// The file needs a newer version of the program.
    #[error(
        "{place}: byte {byte:#x}: {what} has version {version}, but this program reads up to {known}; use a newer \
         version"
    )]
    TooNew {
        /// The file.
        place: String,
        /// Byte offset of the version.
        byte: u64,
        /// The structure that has the version.
        what: &'static str,
        /// The version found.
        version: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The file has blocks with a codec that this program does not support.
    #[error(
        "{place}: byte {byte:#x}: blocks of the file have codec {codec}, but this program only knows codec 0 (plain); \
         use a newer version"
    )]
    UnknownCodec {
        /// The file.
        place: String,
        /// Byte offset of the codec list.
        byte: u64,
        /// The number of the first unknown codec.
        codec: u32,
    },
    /// The file holds no complete commit: its writer died before the first one, or the file was truncated.
    #[error("{place}: no complete commit in {bytes} bytes: {reason}")]
    NoCommit {
        /// The file.
        place: String,
        /// Size of the file, bytes.
        bytes: u64,
        /// Why the last candidate is not a commit, or that there is none.
        reason: String,
    },
    /// Something in the file contradicts itself or its digest.
    #[error("{place}: byte {byte:#x}: {what}")]
    Damaged {
        /// The file.
        place: String,
        /// Byte offset of the damage.
        byte: u64,
        /// What is wrong.
        what: String,
    },
    /// A metadata record could not be decoded.
    #[error("{place}: byte {byte:#x}: the {what} record: {source}")]
    Record {
        /// The file.
        place: String,
        /// Offset of the first byte of the record.
        byte: u64,
        /// Which record.
        what: &'static str,
        /// Why.
        source: EncodeError,
    },
    /// A record of the section `metadata` could not be read.
    #[error("{place}: byte {:#x}: {source}", .source.byte)]
    Metadata {
        /// The file.
        place: String,
        /// The record, and why.
        source: MetadataError,
    },
    /// The data to write is lent from a damaged file; writing it would give it valid digests.
    #[error(
        "{0}; damaged data is not copied into a new file. `kinescope verify` lists all damage and `kinescope events` \
         prints the intact events: take the file from an intact copy, or record it again"
    )]
    DamagedSource(Box<DamagedBlock>),
    /// The data to write contradicts itself, or the format cannot hold it.
    #[error("cannot be written: {0}")]
    Refused(String),
    /// An earlier write or sync failed, so the content of the file is not known. Open it again to continue.
    #[error("{place}: an earlier write failed; open the file again to continue from its last commit")]
    Poisoned {
        /// The file.
        place: String,
    },
    /// Another process is writing the file.
    #[error("{place}: another program is writing to this file")]
    Busy {
        /// The file.
        place: String,
    },
    /// The user cancelled the work.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl ContainerError {
    /// Returns the byte offset in the file that the error refers to, if there is one.
    #[must_use]
    pub fn byte(&self) -> Option<u64> {
        match self {
            Self::TooNew { byte, .. }
            | Self::UnknownCodec { byte, .. }
            | Self::Damaged { byte, .. }
            | Self::Record { byte, .. } => Some(*byte),
            Self::Metadata { source, .. } => Some(source.byte),
            _ => None,
        }
    }

    /// Returns whether the file's own bytes are wrong: it is damaged, truncated, or not a `.kine` file. Otherwise the
    /// file could not be read, or this version of the program does not support it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::NotKine { .. }
            | Self::NoCommit { .. }
            | Self::Damaged { .. }
            | Self::Record { .. }
            | Self::DamagedSource(_) => true,
            Self::Metadata { source, .. } => !matches!(source.defect, MetadataDefect::TooNew { .. }),
            Self::Io { .. }
            | Self::TooNew { .. }
            | Self::UnknownCodec { .. }
            | Self::Refused(_)
            | Self::Poisoned { .. }
            | Self::Busy { .. }
            | Self::Cancelled(_) => false,
        }
    }

    /// Returns the file that the error refers to, if there is one.
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
            | Self::Metadata { place, .. }
            | Self::Poisoned { place }
            | Self::Busy { place } => Some(place),
            Self::Refused(_) | Self::DamagedSource(_) | Self::Cancelled(_) => None,
        }
    }
}

/// Why a metadata record could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("section metadata, record {tag}: {defect}")]
pub struct MetadataError {
    /// Offset of the first byte of the record: in the file, or in the bytes of [`super::decode_metadata`].
    pub byte: u64,
    /// Name or number of the record's tag.
    pub tag: String,
    /// What is wrong.
    pub defect: MetadataDefect,
}

/// What is wrong with a metadata record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataDefect {
    /// The section ends within the header.
    #[error("its header has 16 bytes, but the section ends after {left}")]
    TruncatedHeader {
        /// Number of bytes left.
        left: u64,
    },
    /// The section ends within the body.
    #[error("its body has {bytes} bytes, but the section ends after {left}")]
    TruncatedBody {
        /// Size of the body, bytes.
        bytes: u64,
        /// Number of bytes left.
        left: u64,
    },
    /// The body is longer than a record may be.
    #[error("its body has {bytes} bytes, more than the limit of {limit}")]
    TooLong {
        /// Size of the body, bytes.
        bytes: u64,
        /// The limit, bytes.
        limit: u64,
    },
    /// An earlier record has the same tag.
    #[error("the section has an earlier record with this tag")]
    Repeated,
    /// The record has a version that this program does not know.
    #[error("it has version {version}, but this program reads up to {known}; use a newer version")]
    TooNew {
        /// The version found.
        version: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The record has version 0.
    #[error("it has version 0, which does not exist")]
    VersionZero,
    /// The record belongs to another kind of trace.
    #[error("it belongs to another kind of trace than this recording")]
    OtherKind,
    /// The body does not have the form of its tag.
    #[error("its body cannot be read: {reason}")]
    Body {
        /// What is wrong.
        reason: String,
    },
}
