//! Verification of the blocks of a file's section against their digests, at first use.

use super::block_codec::{CODEC_PLAIN, PACKED_BLOCK_BYTES, unpack};
use super::damage::{Damage, DamagedBlock};
use super::section_kind::SectionKind;
use super::shared_bytes::SharedBytes;
use super::unpacked_memory::UnpackedMemory;
use crate::progress::{Cancelled, Progress};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The digests of a section's blocks.
pub(crate) enum Digests {
    /// One digest of all bytes: version 1 of the format.
    Whole([u8; 32]),
    /// A table of digests at byte `start` of the file, with a digest of its own.
    Table {
        /// First byte of the table.
        start: usize,
        /// Digest of the table.
        digest: [u8; 32],
    },
    /// Packed blocks with such a table.
    Packed(PackedSection),
}

/// Where the packed blocks of a section are, and where they are unpacked.
pub(crate) struct PackedSection {
    /// The bytes of the file.
    pub file: Arc<dyn SharedBytes>,
    /// The stored blocks in the file, one after the other.
    pub stored: Range<usize>,
    /// First byte of the block table.
    pub table: usize,
    /// Digest of the table.
    pub digest: [u8; 32],
    /// The unpacked section.
    pub memory: Arc<UnpackedMemory>,
    /// First byte of each stored block in the file, and the end of the last one.
    pub starts: OnceLock<Box<[usize]>>,
}

impl PackedSection {
    /// Returns the place of a stored block in the file. The table is verified.
    fn stored_range(&self, block: usize, table: &[u8]) -> Option<Range<usize>> {
        let starts = self.starts.get_or_init(|| {
            let mut at = self.stored.start;
            let entries = table.chunks_exact(BLOCK_ENTRY_BYTES).map(|entry| {
                at = at.saturating_add(BlockEntry::read(entry).map_or(0, |entry| entry.stored_bytes));
                at
            });
            std::iter::once(self.stored.start)
                .chain(entries.collect::<Vec<_>>())
                .collect()
        });
        let place = *starts.get(block)?..*starts.get(block.checked_add(1)?)?;
        (place.end <= self.stored.end).then_some(place)
    }
}

/// An entry of a block table.
pub(crate) struct BlockEntry {
    pub digest: [u8; 32],
    /// Size of the stored block, bytes.
    pub stored_bytes: usize,
    pub codec: u8,
    /// How a packed block was prepared.
    pub preparation: u8,
}

impl BlockEntry {
    /// Reads an entry of [`BLOCK_ENTRY_BYTES`] bytes.
    pub fn read(entry: &[u8]) -> Option<Self> {
        let (digest, rest) = entry.split_first_chunk::<32>()?;
        let &[s0, s1, s2, s3, codec, preparation, _, _] = rest else {
            return None;
        };
        Some(Self {
            digest: *digest,
            stored_bytes: u32::from_le_bytes([s0, s1, s2, s3]) as usize,
            codec,
            preparation,
        })
    }

    /// Returns the bytes of an entry.
    pub fn to_bytes(&self) -> [u8; BLOCK_ENTRY_BYTES] {
        let mut bytes = [0; BLOCK_ENTRY_BYTES];
        let (digest, rest) = bytes.split_at_mut(32);
        digest.copy_from_slice(&self.digest);
        let [s0, s1, s2, s3] = u32::try_from(self.stored_bytes).unwrap_or(u32::MAX).to_le_bytes();
        rest.copy_from_slice(&[s0, s1, s2, s3, self.codec, self.preparation, 0, 0]);
        bytes
    }
}

/// Size of a block, bytes; the last one of a section may be shorter.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// Size of an entry in a section's block table: digest, stored size (four bytes), codec, preparation, two reserved bytes.
pub(crate) const BLOCK_ENTRY_BYTES: usize = 40;

/// States of a block.
const UNKNOWN: u8 = 0;
const SOUND: u8 = 1;
const DAMAGED: u8 = 2;

/// The block verification of one section. Threads share it: two threads at one block both hash it and compute the same
/// result.
pub(crate) struct SectionCheck {
    pub bytes: Arc<dyn SharedBytes>,
    /// First byte of the section in the file.
    pub start: usize,
    /// Size of the section, bytes.
    pub len: usize,
    pub digests: Digests,
    pub kind: SectionKind,
    pub name: Option<String>,
    /// Size of a row, bytes; 0 if it is no column.
    pub row_bytes: usize,
    /// Row number of the section's first row in the whole column.
    pub first_row: u64,
    pub damage: Damage,
    /// Whether every block is known to be valid: then nothing else is read.
    sound: AtomicBool,
    /// Number of blocks that were not verified yet.
    left: AtomicU64,
    states: OnceLock<Box<[AtomicU8]>>,
    /// Error in the table of digests.
    table: OnceLock<Option<String>>,
}

impl SectionCheck {
    pub fn new(bytes: Arc<dyn SharedBytes>, place: Range<usize>, digests: Digests, kind: SectionKind) -> Self {
        let len = place.len();
        let check = Self {
            bytes,
            start: place.start,
            len,
            digests,
            kind,
            name: None,
            row_bytes: 0,
            first_row: 0,
            damage: Damage::default(),
            sound: AtomicBool::new(len == 0),
            left: AtomicU64::new(0),
            states: OnceLock::new(),
            table: OnceLock::new(),
        };
        check.left.store(check.blocks() as u64, Ordering::Relaxed);
        check
    }

    /// Returns the bytes of a block of this section.
    pub fn block_bytes(&self) -> usize {
        match self.digests {
            Digests::Whole(_) => self.len.max(1),
            Digests::Table { .. } => BLOCK_BYTES,
            Digests::Packed(_) => PACKED_BLOCK_BYTES,
        }
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.len.div_ceil(self.block_bytes())
    }

    /// Whether damaged rows read as all bits set, which names nothing in kinds, rows, places and widths. Times, values
    /// and counts read as 0.
    pub fn fills_with_ones(&self) -> bool {
        use SectionKind as K;
        !matches!(
            self.kind,
            K::EventTime | K::EventThread | K::AccessValue | K::CallBytes | K::PageDigests | K::Derived
        )
    }

    /// Whether all blocks were verified and are valid.
    pub fn is_sound(&self) -> bool {
        self.sound.load(Ordering::Relaxed)
    }

    fn state(&self, block: usize) -> Option<&AtomicU8> {
        let make = || (0..self.blocks()).map(|_| AtomicU8::new(UNKNOWN)).collect();
        self.states.get_or_init(make).get(block)
    }

    /// Returns the byte range of a block, from the start of the section.
    fn block_range(&self, block: usize) -> Range<usize> {
        let start = block.saturating_mul(self.block_bytes()).min(self.len);
        start..start.saturating_add(self.block_bytes()).min(self.len)
    }

    /// Verifies a block, if not done before. Returns whether it is valid.
    pub fn check_block(&self, block: usize) -> bool {
        if self.is_sound() {
            return true;
        }
        let Some(state) = self.state(block) else { return false };
        // No other memory depends on the state, and all threads compute the same value.
        match state.load(Ordering::Relaxed) {
            SOUND => true,
            DAMAGED => false,
            _ => self.verify_block(block, state),
        }
    }

    #[cold]
    fn verify_block(&self, block: usize, state: &AtomicU8) -> bool {
        let found = self.compare(block);
        let sound = found.is_ok();
        if let Err(reason) = found {
            self.damage.add(self.describe(block, reason));
        }
        let new = if sound { SOUND } else { DAMAGED };
        let first = state.compare_exchange(UNKNOWN, new, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() && sound && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.sound.store(true, Ordering::Relaxed);
        }
        sound
    }

    /// Verifies a block against its digest. The inner error gives another reason than the digest.
    fn compare(&self, block: usize) -> Result<(), Option<String>> {
        let place = self.block_range(block);
        let place = self.start.saturating_add(place.start)..self.start.saturating_add(place.end);
        let data = || self.bytes.slice(place.clone()).ok_or(None);
        match &self.digests {
            Digests::Whole(digest) if blake3::hash(data()?).as_bytes() == digest => Ok(()),
            Digests::Whole(_) => Err(None),
            Digests::Table { start, digest } => {
                let table = self.table(&*self.bytes, *start, *digest)?;
                check_block_entry(entry_of(table, block).ok_or(None)?, data()?)
            }
            Digests::Packed(packed) => {
                let table = self.table(&*packed.file, packed.table, packed.digest)?;
                let entry = entry_of(table, block).and_then(BlockEntry::read).ok_or(None)?;
                let stored = packed.stored_range(block, table);
                let stored = stored
                    .and_then(|place| packed.file.slice(place))
                    .ok_or_else(|| Some("its stored bytes reach past the end of the section".to_owned()))?;
                if *blake3::hash(stored).as_bytes() != entry.digest {
                    return Err(None);
                }
                let unpacked = packed
                    .memory
                    .fill(block, |to| unpack(entry.codec, entry.preparation, stored, to));
                unpacked.map_err(|e| Some(e.to_string()))
            }
        }
    }

    /// Returns the place of a block in the file.
    fn place_in_file(&self, block: usize) -> Range<usize> {
        if let Digests::Packed(packed) = &self.digests {
            let table = self.table(&*packed.file, packed.table, packed.digest);
            let stored = table.ok().and_then(|table| packed.stored_range(block, table));
            return stored.unwrap_or_else(|| packed.stored.clone());
        }
        let place = self.block_range(block);
        self.start.saturating_add(place.start)..self.start.saturating_add(place.end)
    }

    /// Returns the table of digests, verified against its own digest the first time.
    fn table<'a>(&self, all: &'a dyn SharedBytes, start: usize, digest: [u8; 32]) -> Result<&'a [u8], Option<String>> {
        let table = self
            .blocks()
            .checked_mul(BLOCK_ENTRY_BYTES)
            .and_then(|len| all.slice(start..start.checked_add(len)?));
        let wrong = self.table.get_or_init(|| match table {
            Some(table) if *blake3::hash(table).as_bytes() == digest => None,
            _ => Some(format!(
                "the table of its blocks at byte {start:#x} does not agree with its digest"
            )),
        });
        match (wrong, table) {
            (None, Some(table)) => Ok(table),
            (Some(reason), _) => Err(Some(reason.clone())),
            (None, None) => Err(None),
        }
    }

    fn describe(&self, block: usize, reason: Option<String>) -> DamagedBlock {
        let place = self.block_range(block);
        let stored = self.place_in_file(block);
        let rows = match self.row_bytes {
            0 => 0..0,
            size => {
                let row = |v: usize| self.first_row.saturating_add(v as u64);
                row(place.start / size)..row(place.end.div_ceil(size))
            }
        };
        DamagedBlock {
            kind: self.kind,
            name: self.name.clone(),
            block: (!matches!(self.digests, Digests::Whole(_))).then_some(block as u64),
            bytes: stored.start as u64..stored.end as u64,
            rows,
            reason,
        }
    }

    /// Verifies all blocks of a byte range of the file. Returns whether they are all valid.
    pub fn check(&self, bytes: Range<usize>) -> bool {
        if self.is_sound() {
            return true;
        }
        let end = bytes.end;
        let (sound_to, sound) = self.stretch(bytes, usize::MAX);
        sound && sound_to == end
    }

    /// Verifies up to `max` blocks of a byte range of the file. Returns the end of the first stretch of equal results,
    /// at most the end of the range, and whether the stretch is valid.
    pub fn stretch(&self, bytes: Range<usize>, max: usize) -> (usize, bool) {
        if self.is_sound() || bytes.is_empty() {
            return (bytes.end, true);
        }
        let size = self.block_bytes();
        let first = bytes.start.saturating_sub(self.start) / size;
        let last = (bytes.end - 1).saturating_sub(self.start) / size;
        let like = self.check_block(first);
        let mut next = first + 1;
        while next <= last && next - first < max && self.check_block(next) == like {
            next += 1;
        }
        if next > last {
            return (bytes.end, like);
        }
        (
            self.start.saturating_add(next.saturating_mul(size)).min(bytes.end),
            like,
        )
    }

    /// Verifies every block.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub fn check_all(&self, progress: &Progress) -> Result<bool, Cancelled> {
        let mut sound = true;
        for block in 0..self.blocks() {
            if self.is_sound() {
                break;
            }
            if block % 16 == 0 {
                progress.check()?;
            }
            sound &= self.check_block(block);
        }
        Ok(sound)
    }
}

/// Returns the entry of a block in a block table.
pub(crate) fn entry_of(table: &[u8], block: usize) -> Option<&[u8]> {
    let at = block.checked_mul(BLOCK_ENTRY_BYTES)?;
    table.get(at..at.checked_add(BLOCK_ENTRY_BYTES)?)
}

/// Verifies the bytes of a plain block against its entry in the block table. The inner error gives another reason than the
/// digest.
pub(crate) fn check_block_entry(entry: &[u8], data: &[u8]) -> Result<(), Option<String>> {
    let entry = BlockEntry::read(entry).ok_or(None)?;
    if entry.codec != CODEC_PLAIN {
        return Err(Some(format!(
            "it has codec {}, but a block of this section has codec {CODEC_PLAIN} (plain)",
            entry.codec
        )));
    }
    if entry.stored_bytes != data.len() {
        return Err(Some(format!(
            "its block table states {} bytes, but it has {}",
            entry.stored_bytes,
            data.len()
        )));
    }
    match *blake3::hash(data).as_bytes() == entry.digest {
        true => Ok(()),
        false => Err(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Column, ColumnBuilder, Part};

    struct Bytes(Vec<u64>);
    impl SharedBytes for Bytes {
        fn len(&self) -> usize {
            self.0.len() * 8
        }

        fn slice(&self, range: Range<usize>) -> Option<&[u8]> {
            bytemuck::cast_slice::<u64, u8>(&self.0).get(range)
        }
    }

    /// Returns a section of `len` bytes of counted words, followed by its block table; some of its bytes are changed
    /// after the digests were computed.
    fn section(len: usize, row_bytes: usize, changed: &[usize]) -> Arc<SectionCheck> {
        let mut data: Vec<u8> = (0..len.div_ceil(8) as u64).flat_map(u64::to_le_bytes).collect();
        data.truncate(len);
        let mut table = Vec::new();
        for block in data.chunks(BLOCK_BYTES) {
            table.extend(blake3::hash(block).as_bytes());
            table.extend((block.len() as u32).to_le_bytes());
            table.extend([CODEC_PLAIN, 0, 0, 0]);
        }
        for at in changed {
            data[*at] ^= 0x20;
        }
        let start = len.next_multiple_of(8);
        data.resize(start, 0);
        let digest = *blake3::hash(&table).as_bytes();
        data.extend(&table);
        data.resize(data.len().next_multiple_of(8), 0);
        let words = data.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
        let digests = Digests::Table { start, digest };
        let mut check = SectionCheck::new(Arc::new(Bytes(words)), 0..len, digests, SectionKind::AccessOffset);
        check.row_bytes = row_bytes;
        check.first_row = 5;
        Arc::new(check)
    }

    fn column<T: bytemuck::Pod>(check: &Arc<SectionCheck>) -> Column<T> {
        let mut b = ColumnBuilder::new();
        b.push_checked(Arc::clone(check), 0, check.len / size_of::<T>())
            .unwrap();
        b.finish()
    }

    #[test]
    fn damaged_block_loses_only_its_rows() {
        let rows = BLOCK_BYTES * 5 / 2 / 4;
        let check = section(rows * 4, 4, &[BLOCK_BYTES + 9]);
        let c: Column<u32> = column(&check);
        let each = BLOCK_BYTES / 4;
        assert!(
            !c.has_damage() && check.damage.count() == 0,
            "a block is checked before it is used"
        );
        assert_eq!(c.get(each - 1), Some(0), "{each}");
        assert!(!c.has_damage());
        assert_eq!((c.get(each), c.get(2 * each - 1)), (None, None));
        assert_eq!(c.get(2 * each), Some(each as u32));
        assert!(c.has_damage() && c.is_damaged(each) && !c.is_damaged(2 * each) && !c.is_damaged(rows));
        let all: Vec<u32> = c.iter().collect();
        assert_eq!(all.len(), rows);
        for (row, v) in all.iter().enumerate() {
            let original = if row % 2 == 0 { row as u32 / 2 } else { 0 };
            let expected = if row / each == 1 { u32::MAX } else { original };
            assert_eq!(*v, expected, "row {row}");
        }
        let parts: Vec<Part<'_, u32>> = c.parts(0..rows).collect();
        assert_eq!(
            parts.iter().map(Part::rows).collect::<Vec<_>>(),
            [each, each, rows - 2 * each]
        );
        assert!(matches!(parts[1], Part::Constant { value: u32::MAX, .. }));
        let found = check.damage.blocks();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].block, found[0].bytes.clone()), (Some(1), 0x10000..0x20000));
        assert_eq!(found[0].rows, 5 + each as u64..5 + 2 * each as u64);
        assert_eq!(
            found[0].to_string(),
            "section access-offset, block 1 (bytes 0x10000 to 0x20000) does not agree with its digest"
        );
    }

    /// Rows of 72 bytes do not end where blocks do.
    #[test]
    fn a_row_that_reaches_into_a_damaged_block_is_damaged() {
        type Row = [u64; 9];
        let rows = BLOCK_BYTES * 3 / 72;
        for changed in [0, BLOCK_BYTES - 1, BLOCK_BYTES, 2 * BLOCK_BYTES, rows * 72 - 1] {
            let check = section(rows * 72, 72, &[changed]);
            let c: Column<Row> = column(&check);
            let bad = changed / BLOCK_BYTES * BLOCK_BYTES..(changed / BLOCK_BYTES + 1) * BLOCK_BYTES;
            let is_bad = |row: usize| row * 72 < bad.end && (row + 1) * 72 > bad.start;
            for (row, value) in c.iter().enumerate() {
                assert_eq!(value == [u64::MAX; 9], is_bad(row), "row {row}, {changed:#x}");
                assert_eq!(c.get(row).is_none(), is_bad(row), "row {row}, {changed:#x}");
            }
            // A range that ends in a damaged block is damaged, wherever it starts.
            let last = bad.end.min(check.len) - 1;
            assert!(!check.check(0..bad.start + 1) && !check.check(last..check.len));
            let parts: usize = c.parts(3..rows).map(|p| p.rows()).sum();
            assert_eq!(parts, rows - 3);
        }
    }

    #[test]
    fn damaged_block_table_loses_its_section() {
        let check = section(BLOCK_BYTES * 2, 8, &[]);
        let c: Column<u64> = column(&check);
        assert_eq!(c.get(3), Some(3));
        assert!(!check.is_sound());
        assert!(c.iter().enumerate().all(|(i, v)| i as u64 == v));
        assert!(check.is_sound() && check.damage.count() == 0);
        let mut damaged = section(BLOCK_BYTES * 2, 8, &[]);
        let check = Arc::get_mut(&mut damaged).unwrap();
        if let Digests::Table { digest, .. } = &mut check.digests {
            digest[0] ^= 1;
        }
        let c: Column<u64> = column(&damaged);
        assert_eq!(c.get(0), None);
        let found = damaged.damage.blocks();
        assert!(found[0].to_string().contains("the table of its blocks"), "{}", found[0]);
    }

    #[test]
    fn unknown_block_codec_is_refused_with_its_number() {
        let data = [7u8; 100];
        let entry = |codec: u8, stored: u32| {
            let mut e = blake3::hash(&data).as_bytes().to_vec();
            e.extend(stored.to_le_bytes());
            e.extend([codec, 0, 0, 0]);
            e
        };
        assert_eq!(check_block_entry(&entry(0, 100), &data), Ok(()));
        let refused = check_block_entry(&entry(9, 100), &data).unwrap_err().unwrap();
        assert!(refused.contains("codec 9"), "{refused}");
        assert!(check_block_entry(&entry(0, 99), &data).is_err());
        assert!(check_block_entry(&entry(0, 100)[..36], &data).is_err());
    }

    #[test]
    fn concurrent_readers_of_a_block_find_the_same_damage() {
        let check = section(BLOCK_BYTES * 20, 8, &[BLOCK_BYTES * 7, BLOCK_BYTES * 13]);
        let c: Column<u64> = column(&check);
        let counts: Vec<usize> = std::thread::scope(|scope| {
            let count = || c.iter().filter(|v| *v == u64::MAX).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(counts, [BLOCK_BYTES / 8 * 2; 4]);
        assert_eq!(check.damage.count(), 2);
    }
}
