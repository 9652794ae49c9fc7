//! The ways in which a file may be packed, recognised by its first bytes, and their unpackers.

#[cfg(test)]
mod tests;
mod xz;
mod zstd;

pub(crate) use xz::XzReader;
pub(crate) use zstd::ZstdReader;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use std::io::{BufRead, Read};

/// A way to pack one stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Xz,
    Bzip2,
    Zstd,
}

impl Packing {
    /// Number of first bytes that [`Packing::detect`] needs.
    pub(crate) const HEAD_BYTES: usize = 10;

    /// Returns how a file with these first bytes is packed, or `None` if it is not.
    pub(crate) fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            // The level, and the mark of a block or of the end.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => Some(Self::Bzip2),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns the name of the program that unpacks such files.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Zstd => "zstd",
        }
    }

    /// Returns a reader of the unpacked bytes. Streams that follow each other are read as one.
    pub(crate) fn unpack<'a, R: BufRead + Send + 'a>(self, from: R) -> Box<dyn Read + Send + 'a> {
        match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(from)),
            Self::Xz => Box::new(XzReader::new(from)),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(from)),
            Self::Zstd => Box::new(ZstdReader::new(from)),
        }
    }
}

/// Endings of names of packed files.
const ENDINGS: [&str; 5] = [".gz", ".xz", ".bz2", ".zst", ".zstd"];
/// Returns a file name without the ending of its packing.
pub(crate) fn strip_ending(name: &str) -> &str {
    let lower = name.to_ascii_lowercase();
    let found = ENDINGS.iter().find(|ending| lower.ends_with(*ending));
    let kept = found.and_then(|ending| name.get(..name.len() - ending.len()));
    kept.filter(|kept| !kept.is_empty()).unwrap_or(name)
}
