//! A column of an event table: plain values in one or more chunks, owned or mapped from a file.

use super::block_facts::{BlockFact, BlockFacts};
use super::damage::Damage;
use super::section_check::SectionCheck;
use super::shared_bytes::SharedBytes;
use crate::progress::{Cancelled, Progress};
use bytemuck::Pod;
use std::ops::Range;
use std::sync::Arc;

enum Data<T> {
    Owned(Vec<T>),
    Mapped {
        bytes: Arc<dyn SharedBytes>,
        start: usize,
        /// The digests that the bytes are verified against before they are lent.
        check: Option<Arc<SectionCheck>>,
    },
    Constant(Vec<T>),
}

/// Maximum number of blocks that are verified before a slice of them is lent: they must still be in the processor's
/// cache when the slice is read.
const BLOCKS_AHEAD: usize = 4;

/// Number of words in the replacement values of damaged rows.
const FILL_WORDS: usize = 2048;
static ONES: [u64; FILL_WORDS] = [u64::MAX; FILL_WORDS];
static ZEROS: [u64; FILL_WORDS] = [0; FILL_WORDS];

/// Contiguous rows of a chunk: valid ones, or a number of damaged ones with replacement values.
enum Stretch<'a, T> {
    Sound(&'a [T]),
    Damaged { rows: usize, fill: &'a [T] },
}

/// A run of values of a column.
struct Chunk<T> {
    /// Row of the first value.
    start: usize,
    len: usize,
    data: Data<T>,
}

/// Number of rows in a constant chunk's shared block: a constant run of any length lends slices of at most this many.
const CONSTANT_BLOCK: usize = super::BLOCK_ROWS;
/// Number of rows in the blocks of one column after which blocks have [`SHORT_BLOCK`] rows. A file can describe a
/// constant run in 96 bytes, millions of times.
const CONSTANT_ROWS: usize = 1 << 20;
/// Number of rows in a constant chunk's block if a column has very many of them.
const SHORT_BLOCK: usize = 16;

impl<T: Pod> Chunk<T> {
    /// Returns the value of a row, or `None` if it is damaged.
    fn get(&self, at: usize) -> Option<T> {
        match &self.data {
            Data::Owned(v) => v.get(at).copied(),
            Data::Mapped { check, .. } => {
                let sound = match check {
                    Some(check) => check.is_sound() || check.check(self.place(at..at + 1)),
                    None => true,
                };
                match sound {
                    true => self.mapped(at..at + 1).first().copied(),
                    false => None,
                }
            }
            Data::Constant(v) => v.first().copied(),
        }
    }

    /// Returns rows that are known to be valid.
    fn mapped(&self, rows: Range<usize>) -> &[T] {
        match &self.data {
            // Bounds and alignment were checked at construction.
            Data::Mapped { bytes, .. } => bytes.slice(self.place(rows)).map_or(&[], bytemuck::cast_slice),
            Data::Owned(v) | Data::Constant(v) => &v[rows],
        }
    }

    /// Returns the byte range of rows in the shared bytes.
    fn place(&self, rows: Range<usize>) -> Range<usize> {
        let start = match &self.data {
            Data::Mapped { start, .. } => *start,
            Data::Owned(_) | Data::Constant(_) => 0,
        };
        start + rows.start * size_of::<T>()..start + rows.end * size_of::<T>()
    }

    fn check(&self) -> Option<&Arc<SectionCheck>> {
        match &self.data {
            Data::Mapped { check, .. } => check.as_ref(),
            Data::Owned(_) | Data::Constant(_) => None,
        }
    }

    /// Returns the first rows of a range of a chunk that is not constant, verified against their digests, `max` blocks
    /// at once.
    fn stretch(&self, rows: Range<usize>, max: usize) -> Stretch<'_, T> {
        let Some(check) = self.check().filter(|c| !c.is_sound()) else {
            return Stretch::Sound(self.mapped(rows));
        };
        let size = size_of::<T>().max(1);
        let place = self.place(rows.clone());
        let (end, sound) = check.stretch(place.clone(), max);
        let bytes = end.saturating_sub(place.start);
        let damaged = |count: usize| Stretch::Damaged {
            rows: count.clamp(1, rows.len()),
            fill: fill(check.fills_with_ones()),
        };
        if !sound {
            // A row that starts in a damaged block is damaged as a whole.
            return damaged(bytes.div_ceil(size));
        }
        match bytes / size {
            // The first row reaches into another block.
            0 if check.check(self.place(rows.start..rows.start + 1)) => {
                Stretch::Sound(self.mapped(rows.start..rows.start + 1))
            }
            0 => damaged(1),
            count => Stretch::Sound(self.mapped(rows.start..rows.start + count)),
        }
    }
}

/// Returns replacement values of damaged rows.
fn fill<T: Pod>(ones: bool) -> &'static [T] {
    let bytes: &[u8] = bytemuck::cast_slice(if ones { &ONES } else { &ZEROS });
    let whole = bytes.len() / size_of::<T>().max(1) * size_of::<T>();
    bytes
        .get(..whole)
        .and_then(|b| bytemuck::try_cast_slice(b).ok())
        .unwrap_or_default()
}

/// The reason why bytes cannot be lent as a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The chunk reaches past the end of the bytes.
    #[error("a column chunk of {len} rows at byte {start:#x} reaches past the end of {available} bytes")]
    OutOfRange {
        /// First byte of the chunk.
        start: usize,
        /// Number of rows requested.
        len: usize,
        /// Number of bytes available.
        available: usize,
    },
    /// The chunk's first byte is not aligned for its values.
    #[error("a column chunk at byte {start:#x} is not aligned to its {align}-byte values")]
    Misaligned {
        /// First byte of the chunk.
        start: usize,
        /// Required alignment.
        align: usize,
    },
}

/// A run of a column's rows, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a, T> {
    /// Contiguous values.
    Plain(&'a [T]),
    /// One value for every row.
    Constant {
        /// The value.
        value: T,
        /// Number of rows.
        rows: usize,
    },
}

impl<T> Part<'_, T> {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Plain(values) => values.len(),
            Self::Constant { rows, .. } => *rows,
        }
    }
}

/// A column of plain little-endian values. Cloning is cheap and shares the values.
///
/// Rows of a file are verified against their digests at first use. A damaged row has no value: a lookup returns `None`.
/// Iterators replace it by a value without meaning: all bits set in kinds, rows, places and widths, otherwise 0.
pub struct Column<T> {
    chunks: Arc<Vec<Chunk<T>>>,
    len: usize,
    facts: Arc<BlockFacts>,
    /// The damage list, for columns of a file.
    damage: Option<Damage>,
}

impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        Self {
            chunks: Arc::clone(&self.chunks),
            len: self.len,
            facts: Arc::clone(&self.facts),
            damage: self.damage.clone(),
        }
    }
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
            len: 0,
            facts: Arc::default(),
            damage: None,
        }
    }
}

impl<T: Pod> std::fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Column({} rows, {} chunks)", self.len, self.chunks.len())
    }
}

impl<T: Pod> From<Vec<T>> for Column<T> {
    fn from(values: Vec<T>) -> Self {
        let mut b = ColumnBuilder::new();
        b.push_owned(values);
        b.finish()
    }
}

impl<T: Pod> Column<T> {
    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn chunk_of(&self, row: usize) -> Option<&Chunk<T>> {
        if row >= self.len {
            return None;
        }
        let at = match self.chunks.len() {
            1 => 0,
            _ => self.chunks.partition_point(|c| c.start <= row) - 1,
        };
        self.chunks.get(at)
    }

    /// Returns the value of a row, or `None` past the end or if the file is damaged there.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<T> {
        let c = self.chunk_of(row)?;
        c.get(row - c.start)
    }

    /// Returns whether damage was found in the file of the column. Costs one load.
    #[must_use]
    pub fn has_damage(&self) -> bool {
        self.damage.as_ref().is_some_and(Damage::has_damage)
    }

    /// Verifies a row against its digest, if not done before. Returns whether it is damaged; a row past the end is not.
    #[must_use]
    pub fn is_damaged(&self, row: usize) -> bool {
        let Some(c) = self.chunk_of(row) else { return false };
        let at = row - c.start;
        c.check().is_some_and(|check| !check.check(c.place(at..at + 1)))
    }

    /// Verifies all rows against their digests.
    ///
    /// # Errors
    ///
    /// When the work was cancelled.
    pub fn check_all(&self, progress: &Progress) -> Result<(), Cancelled> {
        for c in self.chunks.iter() {
            if let Some(check) = c.check() {
                check.check_all(progress)?;
            }
        }
        Ok(())
    }

    /// Returns the rows of `range` (clipped to the column) as slices, in order. Slice lengths do not depend on the
    /// storage: zip columns by row, not by slice.
    pub fn slices(&self, range: Range<usize>) -> impl Iterator<Item = &[T]> + '_ {
        let end = range.end.min(self.len);
        let mut row = range.start;
        std::iter::from_fn(move || {
            if row >= end {
                return None;
            }
            let c = self.chunk_of(row)?;
            let stop = end.min(c.start + c.len);
            let s = match &c.data {
                Data::Constant(block) => &block[..(stop - row).min(block.len())],
                _ => match c.stretch(row - c.start..stop - c.start, BLOCKS_AHEAD) {
                    Stretch::Sound(s) => s,
                    Stretch::Damaged { rows, fill } => &fill[..rows.min(fill.len())],
                },
            };
            row += s.len();
            (!s.is_empty()).then_some(s)
        })
    }

    /// Returns the rows of `range` (clipped to the column) as stored, in order: a constant run of any length is one
    /// part. Damaged rows are a constant run of their replacement value.
    pub fn parts(&self, range: Range<usize>) -> impl Iterator<Item = Part<'_, T>> + '_ {
        let end = range.end.min(self.len);
        let mut row = range.start;
        std::iter::from_fn(move || {
            if row >= end {
                return None;
            }
            let c = self.chunk_of(row)?;
            let stop = end.min(c.start + c.len);
            let part = match &c.data {
                Data::Constant(block) => Part::Constant {
                    value: *block.first()?,
                    rows: stop - row,
                },
                _ => match c.stretch(row - c.start..stop - c.start, usize::MAX) {
                    Stretch::Sound(s) => Part::Plain(s),
                    Stretch::Damaged { rows, fill } => Part::Constant {
                        value: *fill.first()?,
                        rows,
                    },
                },
            };
            row += part.rows();
            Some(part)
        })
    }

    /// Returns the rows of `range` (clipped to the column), one after another.
    pub fn iter_range(&self, range: Range<usize>) -> impl Iterator<Item = T> + '_ {
        self.slices(range).flat_map(|s| s.iter().copied())
    }

    /// Returns a property of a block of [`super::BLOCK_ROWS`] rows, or `None` if it was not computed.
    pub(crate) fn fact(&self, block: usize, fact: BlockFact) -> Option<bool> {
        self.facts.get(block, fact)
    }

    /// Stores a property of a block for later callers, of this column or a clone.
    pub(crate) fn keep_fact(&self, block: usize, fact: BlockFact, holds: bool) {
        self.facts.keep(self.len, block, fact, holds);
    }

    /// Returns all rows, one after another.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.iter_range(0..self.len)
    }
}

/// A builder of a [`Column`] from chunks.
pub struct ColumnBuilder<T> {
    chunks: Vec<Chunk<T>>,
    len: usize,
    /// Number of rows in the blocks of constant chunks.
    blocks: usize,
}

impl<T: Pod> Default for ColumnBuilder<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Pod> ColumnBuilder<T> {
    /// Creates an empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
            blocks: 0,
        }
    }

    fn push(&mut self, len: usize, data: Data<T>) {
        if len > 0 {
            self.chunks.push(Chunk {
                start: self.len,
                len,
                data,
            });
            self.len += len;
        }
    }

    /// Adds values that the column will own.
    pub fn push_owned(&mut self, values: Vec<T>) {
        self.push(values.len(), Data::Owned(values));
    }

    /// Adds `len` rows of one value, at no cost per row. Adjacent runs of the same value are merged.
    pub fn push_constant(&mut self, value: T, len: usize) {
        if let Some(Chunk {
            len: rows,
            data: Data::Constant(block),
            ..
        }) = self.chunks.last_mut()
            && block
                .first()
                .is_some_and(|v| bytemuck::bytes_of(v) == bytemuck::bytes_of(&value))
        {
            *rows += len;
            self.len += len;
            let before = block.len();
            if self.blocks < CONSTANT_ROWS {
                block.resize((*rows).min(CONSTANT_BLOCK), value);
            }
            self.blocks += block.len() - before;
            return;
        }
        let max = if self.blocks < CONSTANT_ROWS {
            CONSTANT_BLOCK
        } else {
            SHORT_BLOCK
        };
        let block = vec![value; len.min(max)];
        self.blocks += block.len();
        self.push(len, Data::Constant(block));
    }

    /// Lends `len` rows that start at byte `start` of `bytes`.
    ///
    /// # Errors
    /// When they reach past the end, or are not aligned for `T` in memory.
    pub fn push_mapped(&mut self, bytes: Arc<dyn SharedBytes>, start: usize, len: usize) -> Result<(), ColumnError> {
        self.lend(bytes, start, len, None)
    }

    /// Same as [`ColumnBuilder::push_mapped`], for rows of a section that are verified against their digests at first
    /// use.
    ///
    /// # Errors
    ///
    /// Same as [`ColumnBuilder::push_mapped`].
    pub(crate) fn push_checked(
        &mut self,
        check: Arc<SectionCheck>,
        start: usize,
        len: usize,
    ) -> Result<(), ColumnError> {
        self.lend(Arc::clone(&check.bytes), start, len, Some(check))
    }

    fn lend(
        &mut self,
        bytes: Arc<dyn SharedBytes>,
        start: usize,
        len: usize,
        check: Option<Arc<SectionCheck>>,
    ) -> Result<(), ColumnError> {
        let out = ColumnError::OutOfRange {
            start,
            len,
            available: bytes.len(),
        };
        let size = len.checked_mul(size_of::<T>()).ok_or(out)?;
        let end = start.checked_add(size).ok_or(out)?;
        if end > bytes.len() {
            return Err(out);
        }
        // Bytes of a packed section are aligned to a page, and cannot be lent yet.
        let is_aligned = match bytes.slice(start..end) {
            Some(part) => bytemuck::try_cast_slice::<u8, T>(part).is_ok(),
            None => start.is_multiple_of(align_of::<T>()),
        };
        if !is_aligned {
            return Err(ColumnError::Misaligned {
                start,
                align: align_of::<T>(),
            });
        }
        self.push(len, Data::Mapped { bytes, start, check });
        Ok(())
    }

    /// Returns the column.
    #[must_use]
    pub fn finish(self) -> Column<T> {
        let damage = self.chunks.iter().find_map(Chunk::check).map(|c| c.damage.clone());
        Column {
            chunks: Arc::new(self.chunks),
            len: self.len,
            facts: Arc::default(),
            damage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u64>);
    impl SharedBytes for Bytes {
        fn len(&self) -> usize {
            self.0.len() * 8
        }

        fn slice(&self, range: Range<usize>) -> Option<&[u8]> {
            bytemuck::cast_slice::<u64, u8>(&self.0).get(range)
        }
    }

    #[test]
    fn chunks_of_three_kinds_read_as_one_column() {
        let mut b = ColumnBuilder::<u32>::new();
        b.push_owned(vec![1, 2, 3]);
        b.push_constant(7, 3);
        b.push_constant(7, 0);
        b.push_constant(7, 4997);
        let mapped: Arc<dyn SharedBytes> = Arc::new(Bytes(vec![0x0000_000b_0000_000a]));
        b.push_mapped(Arc::clone(&mapped), 0, 2).unwrap();
        let c = b.finish();
        assert_eq!(c.len(), 5005);
        let all: Vec<u32> = c.iter().collect();
        assert_eq!(all.len(), 5005);
        assert_eq!((all[2], all[3], all[5002], all[5003], all[5004]), (3, 7, 7, 10, 11));
        for (i, v) in all.iter().enumerate() {
            assert_eq!(c.get(i), Some(*v));
        }
        assert_eq!(c.get(5005), None);
        assert_eq!(c.iter_range(2..4).collect::<Vec<_>>(), [3, 7]);
        let parts: Vec<Part<'_, u32>> = c.parts(1..5004).collect();
        assert_eq!(
            parts,
            [
                Part::Plain(&[2, 3]),
                Part::Constant { value: 7, rows: 5000 },
                Part::Plain(&[10])
            ]
        );
    }

    #[test]
    fn a_chunk_outside_or_misaligned_is_refused() {
        let mapped: Arc<dyn SharedBytes> = Arc::new(Bytes(vec![0, 0]));
        let mut b = ColumnBuilder::<u32>::new();
        assert!(matches!(
            b.push_mapped(Arc::clone(&mapped), 8, 3),
            Err(ColumnError::OutOfRange { .. })
        ));
        assert!(matches!(
            b.push_mapped(Arc::clone(&mapped), 0, usize::MAX),
            Err(ColumnError::OutOfRange { .. })
        ));
        assert!(matches!(
            b.push_mapped(mapped, 2, 1),
            Err(ColumnError::Misaligned { .. })
        ));
    }

    #[test]
    fn constant_runs_share_blocks() {
        let mut b = ColumnBuilder::new();
        for i in 0..100_000u64 {
            b.push_constant(i, 5000);
        }
        assert!(
            b.blocks <= CONSTANT_ROWS + CONSTANT_BLOCK + 100_000 * SHORT_BLOCK,
            "{}",
            b.blocks
        );
        let c = b.finish();
        assert_eq!(
            (c.get(4_999), c.get(5_000), c.get(499_999_999)),
            (Some(0), Some(1), Some(99_999))
        );
        let tail = c
            .iter_range(499_989_990..500_000_000)
            .fold((0, 0u64), |(n, sum), v| (n + 1, sum + v));
        assert_eq!(tail, (10_010, 10 * 99_997 + 5000 * (99_998 + 99_999)));
    }
}
