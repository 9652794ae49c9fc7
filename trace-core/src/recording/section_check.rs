//! Verification of the blocks of a file's section against their digests, at first use.

use super::damage::{Damage, DamagedBlock};
use super::section_kind::SectionKind;
use crate::progress::{Cancelled, Progress};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that outlive the chunk built on them, such as a mapped file.
pub trait SharedBytes: Send + Sync {
    /// Returns the bytes. Must return the same slice at every call.
    fn bytes(&self) -> &[u8];
}

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
}

/// Size of a block, bytes; the last one of a section may be shorter.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// Size of an entry in a section's block table: digest, stored size (four bytes), codec, three reserved bytes.
pub(crate) const BLOCK_ENTRY_BYTES: usize = 40;
/// The codec of an uncompressed block.
pub(crate) const CODEC_PLAIN: u8 = 0;

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
        let all = self.bytes.bytes();
        let place = self.block_range(block);
        let data = all
            .get(self.start.saturating_add(place.start)..self.start.saturating_add(place.end))
            .ok_or(None)?;
        match self.digests {
            Digests::Whole(digest) if *blake3::hash(data).as_bytes() == digest => Ok(()),
            Digests::Whole(_) => Err(None),
            Digests::Table { start, digest } => {
                let table = self.table(all, start, digest)?;
                let entry = block
                    .checked_mul(BLOCK_ENTRY_BYTES)
                    .and_then(|at| table.get(at..at.checked_add(BLOCK_ENTRY_BYTES)?))
                    .ok_or(None)?;
                check_block_entry(entry, data)
            }
        }
    }

    /// Returns the table of digests, verified against its own digest the first time.
    fn table<'a>(&self, all: &'a [u8], start: usize, digest: [u8; 32]) -> Result<&'a [u8], Option<String>> {
        let table = self
            .blocks()
            .checked_mul(BLOCK_ENTRY_BYTES)
            .and_then(|len| all.get(start..start.checked_add(len)?));
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
        let at = |v: usize| self.start.saturating_add(v) as u64;
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
            block: matches!(self.digests, Digests::Table { .. }).then_some(block as u64),
            bytes: at(place.start)..at(place.end),
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

/// Verifies a block's bytes against its entry in the block table. The inner error gives another reason than the digest.
pub(crate) fn check_block_entry(entry: &[u8], data: &[u8]) -> Result<(), Option<String>> {
    let (digest, rest) = entry.split_at_checked(32).ok_or(None)?;
    let stored = rest.get(..4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    match rest.get(4) {
        Some(&CODEC_PLAIN) => {}
        Some(codec) => {
            return Err(Some(format!(
                "it has codec {codec}, but this program only knows codec {CODEC_PLAIN} (plain); use a newer version"
            )));
        }
        None => return Err(None),
    }
    if stored.map(|n| n as usize) != Some(data.len()) {
        return Err(Some(format!(
            "its block table states {} bytes, but it has {}",
            stored.unwrap_or(0),
            data.len()
        )));
    }
    if blake3::hash(data).as_bytes() == digest {
        Ok(())
    } else {
        Err(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Column, ColumnBuilder, Part};

    struct Bytes(Vec<u64>);
    impl SharedBytes for Bytes {
        fn bytes(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
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
