//! List form of a `.kine` file: its parts without offsets, digests and padding, which a fuzzer can change one at a
//! time.
//!
//! [`lay_out`] puts the parts into a file as `docs/format.md` describes. It makes every digest agree, so that mutated
//! input reaches the code behind the digest checks. It is written from that page and shares no code with the writer
//! that it tests.

use trace_core::container::{Encoding, KineFile};
use trace_core::recording::SectionKind;

/// Size of the header before a part's data, bytes.
const HEAD: usize = 20;
/// Number of the part kind that ends a commit.
const COMMIT: u8 = 0x1f;
/// Bit of the first part's kind: the file has version 2, its sections in blocks. Inputs of version 1 do not have it.
const IN_BLOCKS: u8 = 0x80;
/// Size of a block, and of an entry in a table of blocks, bytes.
const BLOCK: usize = 65536;
const BLOCK_ENTRY: usize = 40;
/// Size of a packed block before packing, bytes.
const PACKED_BLOCK: u64 = 262_144;
/// Maximum number of packed blocks of a section.
const MAX_PACKED_BLOCKS: u64 = 16;
/// Part flag of version 2: the first block's digest is left wrong.
const WRONG_BLOCK: u8 = 1;
/// Part flag of version 2: the first block has an unknown codec.
const OTHER_CODEC: u8 = 2;
/// Part flag of version 2: the table of blocks overlaps the section.
const BLOCKS_OVER: u8 = 64;
/// Part flag of version 2: the first block states one byte less than it has.
const SHORT_BLOCK: u8 = 128;
/// Part flag: the digest of the section is wrong.
const WRONG_DIGEST: u8 = 4;
/// Part flag: the section has the offset of the first section.
const AT_FIRST: u8 = 8;
/// Part flag: the section's content has version 2.
const VERSION_TWO: u8 = 16;
/// Part flag: derived data has the digest of the laid-out content as its stamp.
const STAMPED: u8 = 32;
/// Commit flag: the table extends the one before.
const ADDS: u8 = 1;
/// Maximum size of the file, bytes.
const MAX_FILE_BYTES: usize = 4 << 20;

/// Returns the kinds by the numbers that parts use, so that inputs found earlier stay valid. A kind that was added
/// later with a lower number in the format comes last.
fn kinds() -> impl Iterator<Item = SectionKind> {
    use SectionKind as K;
    let later = [K::HostWrites, K::Undecoded, K::DmaMaps, K::Metadata];
    let first = K::ALL.into_iter().filter(move |k| !later.contains(k));
    first.chain(later)
}

/// Lays parts out as a file.
#[must_use]
pub fn lay_out(parts: &[u8]) -> Vec<u8> {
    let first = lay_out_with(parts, [0; 32]);
    // The digest stays the same: only derived data has a stamp, and derived data is not part of the content.
    match KineFile::from_bytes(first.clone()) {
        Ok(file) if file.sections().iter().any(|s| s.number == SectionKind::Derived as u32) => {
            lay_out_with(parts, file.content_digest())
        }
        _ => first,
    }
}

struct Layout {
    /// Whether sections are in blocks (version 2).
    blocks: bool,
    out: Vec<u8>,
    table: Vec<u8>,
    /// All entries so far, for a complete table.
    all: Vec<u8>,
    images: Vec<[u8; 32]>,
    /// Whether a section has packed blocks.
    has_packed: bool,
    sequence: u64,
    previous: u64,
}

fn lay_out_with(parts: &[u8], stamp: [u8; 32]) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..8].copy_from_slice(b"\x89KINE\r\n\x1a");
    let blocks = parts.first().is_some_and(|b| b & IN_BLOCKS != 0);
    header[8..12].copy_from_slice(&(1 + u32::from(blocks)).to_le_bytes());
    header[12..16].copy_from_slice(&64u32.to_le_bytes());
    let d = blake3::hash(&header[..32]);
    header[32..].copy_from_slice(d.as_bytes());
    let mut to = Layout {
        blocks,
        out: header,
        table: Vec::new(),
        all: Vec::new(),
        images: images(parts),
        has_packed: false,
        sequence: 0,
        previous: 0,
    };
    let mut rest = parts;
    let mut open = true;
    while let Some((part, after)) = take(rest) {
        rest = after;
        if to.out.len() > MAX_FILE_BYTES {
            break;
        }
        if part.kind == COMMIT {
            to.commit(part.flags & ADDS == 0);
            open = false;
        } else {
            to.section(&part, stamp);
            open = true;
        }
    }
    if open {
        to.commit(true);
    }
    to.out
}

/// One part of the input.
struct Part<'a> {
    kind: u8,
    encoding: u8,
    /// Packed rows: codec of the blocks. The value has their preparation.
    codec: u8,
    flags: u8,
    row_bytes: u8,
    rows: u32,
    first_row: u32,
    /// Number of zeros after the data.
    zeros: u16,
    data: &'a [u8],
    value: u64,
}

impl Part<'_> {
    fn known(&self) -> Option<SectionKind> {
        kinds().nth(usize::from(self.kind))
    }

    /// Returns the size of packed rows before packing, bytes: the first block has all that is stored.
    fn unpacked_bytes(&self) -> Option<u64> {
        (self.encoding == Encoding::PackedRows as u8).then(|| u64::from(self.rows) * u64::from(self.row_bytes))
    }

    fn bytes(&self) -> Vec<u8> {
        let mut b = self.data.to_vec();
        b.resize(b.len() + usize::from(self.zeros), 0);
        b
    }
}

fn take(parts: &[u8]) -> Option<(Part<'_>, &[u8])> {
    let (head, after) = parts.split_at_checked(HEAD)?;
    let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let u32_at = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (data, after) = after.split_at(usize::from(u16_at(12)).min(after.len()));
    let part = Part {
        kind: head[0] & 0x1f,
        encoding: head[1] & 3,
        codec: head[1] >> 2 & 3,
        flags: head[2],
        row_bytes: head[3],
        rows: u32_at(4),
        first_row: u32_at(8),
        zeros: u16_at(14),
        data,
        value: u64::from(u32_at(16)),
    };
    Some((part, after))
}

/// Returns the digests of all page images, in the order of the parts.
fn images(parts: &[u8]) -> Vec<[u8; 32]> {
    let mut all = Vec::new();
    let mut rest = parts;
    while let Some((part, after)) = take(rest) {
        rest = after;
        if part.known() == Some(SectionKind::PageImages) && all.len() < MAX_FILE_BYTES / 4096 {
            all.extend(part.bytes().chunks_exact(4096).map(|p| *blake3::hash(p).as_bytes()));
        }
    }
    all
}

impl Layout {
    fn align(&mut self, to: usize) -> u64 {
        self.out.resize(self.out.len().next_multiple_of(to), 0);
        self.out.len() as u64
    }

    fn section(&mut self, part: &Part<'_>, stamp: [u8; 32]) {
        let mut bytes = part.bytes();
        let kind = part.known();
        if kind == Some(SectionKind::PageDigests) && part.flags & WRONG_DIGEST == 0 {
            let from = self.images.get(part.first_row as usize..).unwrap_or_default();
            for (row, digest) in bytes.chunks_exact_mut(32).zip(from) {
                row.copy_from_slice(digest);
            }
        }
        if kind == Some(SectionKind::Derived)
            && part.flags & STAMPED != 0
            && let Some(field) = bytes.get_mut(16..48)
        {
            field.copy_from_slice(&stamp);
        }
        let mut at = self.align(4096);
        self.out.extend(&bytes);
        if bytes.is_empty() {
            at = 0;
        } else if part.flags & AT_FIRST != 0 {
            at = 4096;
        }
        let size = part
            .unpacked_bytes()
            .filter(|_| self.blocks)
            .unwrap_or(bytes.len() as u64);
        let (blocks_at, mut digest) = match self.blocks {
            true if part.unpacked_bytes().is_some() => self.packed_blocks(part, &bytes),
            true => self.blocks(part, &bytes, at),
            false => (0, *blake3::hash(&bytes).as_bytes()),
        };
        if part.flags & WRONG_DIGEST != 0 {
            digest[0] ^= 1;
        }
        let number = kind.map_or(0x9000 | u32::from(part.kind), |k| k as u32);
        let version = if part.flags & VERSION_TWO == 0 { 1u32 } else { 2 };
        let mut e = Vec::with_capacity(96);
        e.extend(number.to_le_bytes());
        e.extend(version.to_le_bytes());
        for word in [at, size, u64::from(part.rows), u64::from(part.first_row), part.value] {
            e.extend(word.to_le_bytes());
        }
        e.extend(u32::from(part.encoding).to_le_bytes());
        // The value 255 means rows of page images.
        let row = if part.row_bytes == 255 {
            4096
        } else {
            u32::from(part.row_bytes)
        };
        e.extend(row.to_le_bytes());
        e.extend(blocks_at.to_le_bytes());
        e.extend(digest);
        self.table.extend(&e);
        self.all.extend(&e);
    }

    /// Appends the table of packed blocks: the first has all stored bytes, others none. Returns its offset and its digest.
    fn packed_blocks(&mut self, part: &Part<'_>, bytes: &[u8]) -> (u64, [u8; 32]) {
        self.has_packed = true;
        let blocks = part
            .unpacked_bytes()
            .unwrap_or(0)
            .div_ceil(PACKED_BLOCK)
            .min(MAX_PACKED_BLOCKS);
        let mut table = Vec::new();
        for block in 0..blocks {
            let stored = if block == 0 { bytes } else { &[] };
            table.extend(blake3::hash(stored).as_bytes());
            table.extend((stored.len() as u32).to_le_bytes());
            table.extend([part.codec, part.value as u8, 0, 0]);
        }
        let digest = *blake3::hash(&table).as_bytes();
        let at = self.align(8);
        self.out.extend(&table);
        (at, digest)
    }

    /// Appends the table of a section's blocks. Returns its offset and its digest.
    fn blocks(&mut self, part: &Part<'_>, bytes: &[u8], section_at: u64) -> (u64, [u8; 32]) {
        let mut table = Vec::with_capacity(bytes.len().div_ceil(BLOCK) * BLOCK_ENTRY);
        for block in bytes.chunks(BLOCK) {
            table.extend(blake3::hash(block).as_bytes());
            table.extend((block.len() as u32).to_le_bytes());
            table.extend([0; 4]);
        }
        if let Some(first) = table.get_mut(..BLOCK_ENTRY) {
            first[0] ^= u8::from(part.flags & WRONG_BLOCK != 0);
            first[32] = first[32].wrapping_sub(u8::from(part.flags & SHORT_BLOCK != 0));
            first[36] = u8::from(part.flags & OTHER_CODEC != 0);
        }
        let digest = *blake3::hash(&table).as_bytes();
        if table.is_empty() {
            return (0, digest);
        }
        let at = self.align(8);
        self.out.extend(&table);
        let over = part.flags & BLOCKS_OVER != 0;
        (if over { section_at } else { at }, digest)
    }

    fn commit(&mut self, complete: bool) {
        let complete = complete || self.sequence == 0;
        let table = if complete {
            self.all.clone()
        } else {
            std::mem::take(&mut self.table)
        };
        self.table.clear();
        let table_at = self.align(512);
        self.out.extend(&table);
        let at = self.align(512);
        self.sequence += 1;
        let mut r = Vec::with_capacity(128);
        r.extend(b"KINEcmt\n");
        for word in [at, self.sequence, table_at, table.len() as u64, self.previous] {
            r.extend(word.to_le_bytes());
        }
        r.extend((1 + u32::from(self.blocks)).to_le_bytes());
        r.extend(u32::from(complete).to_le_bytes());
        r.extend((u64::from(self.blocks) | u64::from(self.has_packed) << 1).to_le_bytes());
        r.extend(blake3::hash(&table).as_bytes());
        let d = blake3::hash(&r);
        r.extend(d.as_bytes());
        self.out.extend(r);
        self.previous = at;
    }
}

/// Splits a sound file into parts, as one commit. Sections of more than 128 KiB are left out.
#[must_use]
pub fn split(file: &[u8]) -> Vec<u8> {
    let Ok(kine) = KineFile::from_bytes(file.to_vec()) else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    for s in kine.sections() {
        let start = usize::try_from(s.offset).unwrap_or(usize::MAX);
        let is_packed = s.encoding == Some(Encoding::PackedRows);
        let entry = usize::try_from(s.blocks_at)
            .ok()
            .and_then(|at| file.get(at..)?.first_chunk::<BLOCK_ENTRY>());
        let (stored, codec, preparation) = match entry.filter(|_| is_packed) {
            Some([.., s0, s1, s2, s3, codec, preparation, _, _]) => {
                let stored = u32::from_le_bytes([*s0, *s1, *s2, *s3]);
                (u64::from(stored), *codec, u64::from(*preparation))
            }
            None => (s.bytes, 0, s.value),
        };
        // Packed derived data has no form here.
        if is_packed && s.bytes > PACKED_BLOCK || s.encoding == Some(Encoding::PackedRecord) {
            return Vec::new();
        }
        let end = usize::try_from(s.offset.saturating_add(stored)).unwrap_or(usize::MAX);
        let content = file.get(start..end).unwrap_or_default();
        let mut head = s.clone();
        head.value = preparation;
        let mut first = true;
        // Page images are in pieces of 15, so that their length fits.
        for piece in content.chunks(15 * 4096).chain(content.is_empty().then_some(&[][..])) {
            if !first && s.kind != Some(SectionKind::PageImages) {
                return Vec::new();
            }
            first = false;
            if s.kind == Some(SectionKind::PageImages) {
                head.rows = (piece.len() / 4096) as u64;
            }
            put(&mut parts, &head, codec, piece);
            head.first_row += head.rows;
        }
    }
    parts
}

fn put(parts: &mut Vec<u8>, s: &trace_core::container::SectionInfo, codec: u8, bytes: &[u8]) {
    let kind = kinds().position(|k| k as u32 == s.number);
    // `lay_out` computes the digests of pages again.
    let data_bytes = match s.kind {
        Some(SectionKind::PageDigests) => 0,
        _ => bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1),
    };
    let encoding = s.encoding.unwrap_or(Encoding::Plain) as u8 | codec << 2;
    let flags = if s.kind == Some(SectionKind::Derived) {
        STAMPED
    } else {
        0
    };
    let row = match s.kind.and_then(SectionKind::row_bytes) {
        Some(4096) => 255,
        Some(n) => n as u8,
        None => 0,
    };
    parts.extend([kind.unwrap_or(0x1e) as u8, encoding, flags, row]);
    parts.extend((s.rows as u32).to_le_bytes());
    parts.extend((s.first_row as u32).to_le_bytes());
    parts.extend((data_bytes as u16).to_le_bytes());
    parts.extend(((bytes.len() - data_bytes) as u16).to_le_bytes());
    parts.extend((s.value as u32).to_le_bytes());
    parts.extend(bytes.get(..data_bytes).unwrap_or_default());
}

/// Changes parts so that they are laid out in version 2.
#[must_use]
pub fn with_blocks(mut parts: Vec<u8>) -> Vec<u8> {
    if let Some(first) = parts.first_mut() {
        *first |= IN_BLOCKS;
    }
    parts
}

/// Returns a part that ends a commit.
#[must_use]
pub fn end_of_commit(adds: bool) -> Vec<u8> {
    let mut part = vec![0; HEAD];
    part[0] = COMMIT;
    part[2] = u8::from(adds);
    part
}

/// Returns a named section as a part: extra (15) or derived data (16).
#[must_use]
pub fn named_section(kind: u8, name: &str, content: &[u8], current: bool) -> Vec<u8> {
    let mut data = vec![0; 256];
    data[..4].copy_from_slice(&(name.len() as u32).to_le_bytes());
    data[4..8].copy_from_slice(&trace_core::timeline::ANALYSIS_VERSION.to_le_bytes());
    data[48..48 + name.len()].copy_from_slice(name.as_bytes());
    data.extend(content);
    let mut part = vec![kind, Encoding::Record as u8, if current { STAMPED } else { 0 }, 0];
    part.extend(1u32.to_le_bytes());
    part.extend([0; 4]);
    part.extend((data.len() as u16).to_le_bytes());
    part.extend([0; 6]);
    part.extend(data);
    part
}
