//! The fixed structures of the file format: header, commit record, table entry, and the frozen numbers.

use crate::recording::{BLOCK_BYTES, BLOCK_ENTRY_BYTES, PACKED_BLOCK_BYTES, SectionKind};
use num_enum::TryFromPrimitive;
use std::fmt;

/// Newest version of the format that this program reads, and the version that it writes.
pub const VERSION: u32 = 2;
/// The version in which a section has one digest and no blocks. Files of this version are read, and keep it when a
/// writer appends to them.
pub const VERSION_WITHOUT_BLOCKS: u32 = 1;
/// First bytes of every file.
pub(super) const MAGIC: [u8; 8] = *b"\x89KINE\r\n\x1a";
/// First bytes of every commit record.
pub(super) const RECORD_MAGIC: [u8; 8] = *b"KINEcmt\n";
/// Size of the header, bytes. The first section is at [`SECTION_ALIGN`].
pub(super) const HEADER_BYTES: usize = 64;
/// Alignment of sections, bytes.
pub(super) const SECTION_ALIGN: u64 = 4096;
/// Alignment of tables and commit records, bytes, so that a record never crosses a disk sector.
pub(super) const RECORD_ALIGN: u64 = 512;
/// Size of a commit record, bytes.
pub(super) const RECORD_BYTES: usize = 128;
/// Size of a table entry, bytes.
pub(super) const ENTRY_BYTES: usize = 96;
/// Size of the header of a named section, bytes.
pub(super) const NAMED_BYTES: usize = 256;
/// Offset of the name in a named section, bytes.
pub(super) const NAME_AT: usize = 48;
/// Maximum number of tables that make up one state of the file: a complete one and those that add to it.
pub(super) const MAX_TABLES: usize = 64;
/// Maximum total size of the data attached under all names, and of all metadata records, bytes: both are read into
/// memory when a file is opened.
pub(super) const MAX_EXTRAS: u64 = 256 << 20;
/// Maximum size of one table, bytes.
pub(super) const MAX_TABLE: u64 = 64 << 20;

/// Returns `at` rounded up to a multiple of `align` (a power of two); `None` on overflow.
pub(super) fn align_up(at: u64, align: u64) -> Option<u64> {
    at.checked_add(align - 1).map(|v| v & !(align - 1))
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

pub(super) fn digest_at(bytes: &[u8], at: usize) -> Option<[u8; 32]> {
    bytes_at(bytes, at)
}

/// Returns the BLAKE3 digest of some bytes.
pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// How the rows of a section are stored. The numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, TryFromPrimitive)]
#[repr(u32)]
pub enum Encoding {
    /// Rows one after another, little-endian.
    Plain = 0,
    /// One value, in the table entry, for every row; no bytes of data.
    Constant = 1,
    /// A record or named bytes, as the kind defines.
    Record = 2,
    /// Rows like [`Encoding::Plain`], in packed blocks.
    PackedRows = 3,
    /// Named bytes like [`Encoding::Record`], in packed blocks.
    PackedRecord = 4,
}

impl Encoding {
    /// Returns the encoding with this number.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }
}

/// Returns the header bytes of a file of this version.
pub(super) fn header(version: u32) -> [u8; HEADER_BYTES] {
    let mut h = [0; HEADER_BYTES];
    h[..8].copy_from_slice(&MAGIC);
    h[8..12].copy_from_slice(&version.to_le_bytes());
    h[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
    let d = digest(&h[..32]);
    h[32..].copy_from_slice(&d);
    h
}

/// The record that ends a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitRecord {
    /// Offset of the record itself in the file. A copy elsewhere, such as in a page image, is not a record.
    pub at: u64,
    /// 1 for the first commit of a file, then counting up.
    pub sequence: u64,
    pub table_at: u64,
    pub table_bytes: u64,
    /// Offset of the record of the previous commit, 0 for the first.
    pub previous: u64,
    pub version: u32,
    /// Whether the table lists every section; otherwise it adds to the table of the previous commit.
    pub complete: bool,
    /// Bit set of the codecs of all blocks of the sections in effect; 0 in version 1, which has no blocks.
    pub codecs: u64,
    pub table_digest: [u8; 32],
}

impl CommitRecord {
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut b = [0; RECORD_BYTES];
        b[..8].copy_from_slice(&RECORD_MAGIC);
        let words = [self.at, self.sequence, self.table_at, self.table_bytes, self.previous];
        for (slot, word) in b[8..48].chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        b[48..52].copy_from_slice(&self.version.to_le_bytes());
        b[52..56].copy_from_slice(&u32::from(self.complete).to_le_bytes());
        b[56..64].copy_from_slice(&self.codecs.to_le_bytes());
        b[64..96].copy_from_slice(&self.table_digest);
        let d = digest(&b[..96]);
        b[96..].copy_from_slice(&d);
        b
    }

    /// Decodes a record; returns `None` if the bytes are not one, or the record belongs to another offset.
    pub fn decode(bytes: &[u8], at: u64) -> Option<Self> {
        if bytes.get(..8)? != RECORD_MAGIC
            || u64_at(bytes, 8)? != at
            || digest(bytes.get(..96)?) != digest_at(bytes, 96)?
        {
            return None;
        }
        Some(Self {
            at,
            sequence: u64_at(bytes, 16)?,
            table_at: u64_at(bytes, 24)?,
            table_bytes: u64_at(bytes, 32)?,
            previous: u64_at(bytes, 40)?,
            version: u32_at(bytes, 48)?,
            complete: u32_at(bytes, 52)? & 1 != 0,
            codecs: u64_at(bytes, 56)?,
            table_digest: digest_at(bytes, 64)?,
        })
    }
}

/// A table entry: the location and the content of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Number of the kind, known or unknown.
    pub kind: u32,
    /// Version of the section's content.
    pub version: u32,
    /// Offset of the first byte in the file; 0 if the section has no bytes.
    pub offset: u64,
    /// Size of the content, bytes: before packing, if its blocks are packed.
    pub bytes: u64,
    /// Number of rows of a column chunk, or of elements of a record.
    pub rows: u64,
    /// Number of the first row in the whole column.
    pub first_row: u64,
    /// The value of a constant chunk, zero-extended.
    pub value: u64,
    pub encoding: u32,
    pub row_bytes: u32,
    /// Offset of the section's block table, 0 if the section has no bytes. Version 1 does not use it but keeps it.
    pub blocks_at: u64,
    /// BLAKE3 digest of the block table; in version 1, of the section's bytes.
    pub digest: [u8; 32],
    /// Offset of this entry in the file, for messages; 0 until it is written.
    pub entry_at: u64,
    /// Name of a named section, once it has been read.
    pub name: Option<String>,
}

impl Entry {
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut b = [0; ENTRY_BYTES];
        b[..4].copy_from_slice(&self.kind.to_le_bytes());
        b[4..8].copy_from_slice(&self.version.to_le_bytes());
        let words = [self.offset, self.bytes, self.rows, self.first_row, self.value];
        for (slot, word) in b[8..48].chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        b[48..52].copy_from_slice(&self.encoding.to_le_bytes());
        b[52..56].copy_from_slice(&self.row_bytes.to_le_bytes());
        b[56..64].copy_from_slice(&self.blocks_at.to_le_bytes());
        b[64..].copy_from_slice(&self.digest);
        b
    }

    pub fn decode(bytes: &[u8], entry_at: u64) -> Option<Self> {
        Some(Self {
            kind: u32_at(bytes, 0)?,
            version: u32_at(bytes, 4)?,
            offset: u64_at(bytes, 8)?,
            bytes: u64_at(bytes, 16)?,
            rows: u64_at(bytes, 24)?,
            first_row: u64_at(bytes, 32)?,
            value: u64_at(bytes, 40)?,
            encoding: u32_at(bytes, 48)?,
            row_bytes: u32_at(bytes, 52)?,
            blocks_at: u64_at(bytes, 56)?,
            digest: digest_at(bytes, 64)?,
            entry_at,
            name: None,
        })
    }

    pub fn section_kind(&self) -> Option<SectionKind> {
        SectionKind::from_raw(self.kind)
    }

    /// Returns whether the blocks are packed. Then `bytes` is the size before packing.
    pub fn is_packed(&self) -> bool {
        self.encoding == Encoding::PackedRows as u32 || self.encoding == Encoding::PackedRecord as u32
    }

    /// Returns the size of a block of the section, bytes.
    pub fn block_bytes(&self) -> usize {
        if self.is_packed() {
            PACKED_BLOCK_BYTES
        } else {
            BLOCK_BYTES
        }
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.bytes.div_ceil(self.block_bytes() as u64)
    }

    /// Returns the size of the block table, bytes; `None` on overflow.
    pub fn table_bytes(&self) -> Option<u64> {
        self.blocks().checked_mul(BLOCK_ENTRY_BYTES as u64)
    }

    /// Returns the offset one past the last stored byte; `None` on overflow. Packed blocks end at their table at the latest.
    pub fn end(&self) -> Option<u64> {
        if self.is_packed() {
            return Some(self.blocks_at);
        }
        self.offset.checked_add(self.bytes)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.section_kind(), &self.name) {
            (Some(k), Some(n)) => write!(f, "section {} {n:?}", k.name()),
            (Some(k), None) => write!(f, "section {}", k.name()),
            (None, _) => write!(f, "section of unknown kind {:#x}", self.kind),
        }
    }
}

/// Returns the digest that shows whether derived data still matches a recording. It covers the entries of the
/// recording's content, without the locations of the sections and their block tables.
pub(super) fn content_digest<'a>(version: u32, entries: impl Iterator<Item = &'a Entry>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for e in entries.filter(|e| e.section_kind().is_some_and(SectionKind::is_content)) {
        let mut b = e.encode();
        b[8..16].fill(0);
        if version != VERSION_WITHOUT_BLOCKS {
            b[56..64].fill(0);
        }
        hasher.update(&b);
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_records_round_trip_and_moved_ones_are_invalid() {
        let r = CommitRecord {
            at: 512,
            sequence: 3,
            table_at: 4,
            table_bytes: 5,
            previous: 6,
            version: 1,
            complete: true,
            codecs: 1,
            table_digest: [7; 32],
        };
        assert_eq!(CommitRecord::decode(&r.encode(), 512), Some(r));
        assert_eq!(CommitRecord::decode(&r.encode(), 1024), None);
        for i in 0..RECORD_BYTES {
            let mut b = r.encode();
            b[i] ^= 0x10;
            assert_eq!(CommitRecord::decode(&b, 512), None, "byte {i}");
            assert_eq!(CommitRecord::decode(&r.encode()[..i], 512), None);
        }
        let e = Entry {
            kind: 0x103,
            version: 1,
            offset: 4096,
            bytes: 80,
            rows: 10,
            first_row: 3,
            value: 9,
            encoding: 0,
            row_bytes: 8,
            blocks_at: 11,
            digest: [5; 32],
            entry_at: 99,
            name: None,
        };
        assert_eq!(Entry::decode(&e.encode(), 99), Some(e));
    }

    #[test]
    fn section_numbers_are_stable() {
        let numbers: Vec<u32> = SectionKind::ALL.iter().map(|k| *k as u32).collect();
        assert_eq!(
            numbers,
            [
                0x001, 0x101, 0x102, 0x103, 0x104, 0x105, 0x201, 0x202, 0x203, 0x301, 0x401, 0x501, 0x502, 0x601,
                0x602, 0x603, 0x604, 0x701, 0x801, 0x901, 0xa01, 0xb01, 0xc01, 0xd01, 0xe01, 0xf01, 0x1001, 0x1101,
                0x1201, 0x1301, 0x1401, 0x1501
            ]
        );
        for k in SectionKind::ALL {
            assert_eq!(SectionKind::from_raw(k as u32), Some(k));
            assert!(!k.may_be_constant() || k.row_bytes().is_some_and(|b| b <= 8));
        }
    }
}
