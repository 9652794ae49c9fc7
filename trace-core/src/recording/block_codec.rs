//! The codec of packed blocks: rows of values become differences or are split into their bytes, then zstd.

use std::io;

/// Size of a packed block before packing, bytes; the last one of a section may be shorter.
pub(crate) const PACKED_BLOCK_BYTES: usize = 256 << 10;
/// The codec of a block that is stored as it is.
pub(crate) const CODEC_PLAIN: u8 = 0;
/// The codec of a block whose prepared bytes are a zstd frame.
pub(crate) const CODEC_ZSTD: u8 = 1;
/// Compression level: higher ones take several times as long for little on columns.
const LEVEL: i32 = 3;
/// Bits of the size of a value, as a power of two.
const WIDTH: u8 = 3;
const DIFFERENCES: u8 = 1 << 2;
const SPLIT: u8 = 1 << 3;
/// Lowest of the bits with the number of values of a row, less one.
const ROW_SHIFT: u32 = 4;
/// Maximum number of values of a row.
const MAX_ROW_VALUES: usize = 16;

/// How the bytes of a block are prepared for compression: rows of values become differences to the row before, and the
/// bytes of rows are split by their place. A stored number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preparation(u8);

/// The reason why a block cannot be unpacked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnpackError {
    /// An unknown codec.
    #[error("it has codec {0}, but this program knows 0 (plain) and 1 (zstd); use a newer version")]
    Codec(u8),
    /// The bytes are no zstd frame of the size of the block.
    #[error("its content cannot be unpacked to {expected} bytes: {reason}")]
    Content {
        /// Size of the block, bytes.
        expected: usize,
        /// What is wrong.
        reason: String,
    },
}

impl Preparation {
    /// The bytes as they are.
    pub const NONE: Self = Self(0);
    /// Preparations of tables with rows of several sizes.
    pub const MIXED: [Self; 10] = [
        Self(0),
        Self(2 | DIFFERENCES),
        Self(2 | DIFFERENCES | SPLIT),
        Self::rows_of_words(1),
        Self::rows_of_words(2),
        Self::rows_of_words(3),
        Self::rows_of_words(4),
        Self::rows_of_words(5),
        Self::rows_of_words(6),
        Self::rows_of_words(8),
    ];

    /// Returns the preparation for rows of some 64-bit words.
    const fn rows_of_words(count: u8) -> Self {
        Self(3 | DIFFERENCES | SPLIT | (count - 1) << ROW_SHIFT)
    }

    /// Returns the preparation with a stored number. Every number is one.
    pub const fn from_raw(raw: u8) -> Self {
        Self(raw)
    }

    /// Returns the stored number.
    pub const fn raw(self) -> u8 {
        self.0
    }

    /// Returns whether the bytes stay as they are.
    const fn is_none(self) -> bool {
        self.0 & (DIFFERENCES | SPLIT) == 0
    }

    /// Returns the number of values of a row.
    const fn row_values(self) -> usize {
        1 + (self.0 >> ROW_SHIFT) as usize
    }

    /// Returns the preparations that fit rows of a size, bytes.
    pub fn candidates(row_bytes: usize) -> Vec<Self> {
        let (width, values) = match row_bytes {
            1 | 2 | 4 | 8 => (row_bytes.ilog2() as u8, 1),
            _ if row_bytes.is_multiple_of(8) => (3, row_bytes / 8),
            _ if row_bytes.is_multiple_of(4) => (2, row_bytes / 4),
            _ => (0, row_bytes),
        };
        if !(1..=MAX_ROW_VALUES).contains(&values) {
            return vec![Self::NONE];
        }
        let row = width | (values as u8 - 1) << ROW_SHIFT;
        let ways = [0, DIFFERENCES, SPLIT, DIFFERENCES | SPLIT];
        let differ = ways.into_iter().filter(|way| row_bytes > 1 || way & SPLIT == 0);
        differ.map(|way| Self(row | way)).collect()
    }

    /// Returns the size of a row, bytes.
    const fn row_bytes(self) -> usize {
        self.row_values() << (self.0 & WIDTH)
    }

    fn prepare(self, bytes: &[u8]) -> Vec<u8> {
        let size = self.row_bytes();
        let rows = bytes.len() / size;
        let (body, rest) = bytes.split_at(rows * size);
        let mut out = Vec::with_capacity(bytes.len());
        out.extend_from_slice(body);
        if self.0 & DIFFERENCES != 0 {
            let row = self.row_values();
            match self.0 & WIDTH {
                0 => subtract(
                    body,
                    &mut out,
                    row,
                    u8::from_le_bytes,
                    u8::wrapping_sub,
                    u8::to_le_bytes,
                ),
                1 => subtract(
                    body,
                    &mut out,
                    row,
                    u16::from_le_bytes,
                    u16::wrapping_sub,
                    u16::to_le_bytes,
                ),
                2 => subtract(
                    body,
                    &mut out,
                    row,
                    u32::from_le_bytes,
                    u32::wrapping_sub,
                    u32::to_le_bytes,
                ),
                _ => subtract(
                    body,
                    &mut out,
                    row,
                    u64::from_le_bytes,
                    u64::wrapping_sub,
                    u64::to_le_bytes,
                ),
            }
        }
        if self.0 & SPLIT != 0 && rows > 0 {
            let joined = out.clone();
            for (place, bytes) in out.chunks_exact_mut(rows).enumerate() {
                let from = joined.get(place..).unwrap_or_default();
                for (to, byte) in bytes.iter_mut().zip(from.iter().step_by(size)) {
                    *to = *byte;
                }
            }
        }
        out.extend_from_slice(rest);
        out
    }

    /// Writes the values of prepared bytes. Both have the same size.
    fn restore(self, prepared: &[u8], out: &mut [u8]) {
        let size = self.row_bytes();
        let rows = out.len() / size;
        let (body, rest) = out.split_at_mut(rows * size);
        let (prepared, end) = prepared.split_at(prepared.len().min(body.len()));
        rest.copy_from_slice(end.get(..rest.len()).unwrap_or_default());
        if self.0 & SPLIT == 0 {
            body.copy_from_slice(prepared);
        } else if rows > 0 {
            for (place, bytes) in prepared.chunks_exact(rows).enumerate() {
                let places = body.get_mut(place..).unwrap_or_default();
                for (to, byte) in places.iter_mut().step_by(size).zip(bytes) {
                    *to = *byte;
                }
            }
        }
        if self.0 & DIFFERENCES != 0 {
            let row = self.row_values();
            match self.0 & WIDTH {
                0 => add(body, row, u8::from_le_bytes, u8::wrapping_add, u8::to_le_bytes),
                1 => add(body, row, u16::from_le_bytes, u16::wrapping_add, u16::to_le_bytes),
                2 => add(body, row, u32::from_le_bytes, u32::wrapping_add, u32::to_le_bytes),
                _ => add(body, row, u64::from_le_bytes, u64::wrapping_add, u64::to_le_bytes),
            }
        }
    }
}

/// Writes the differences of values to those `row` values before. `out` has the values of the first row.
fn subtract<const N: usize, T>(
    bytes: &[u8],
    out: &mut [u8],
    row: usize,
    read: impl Fn([u8; N]) -> T,
    difference: impl Fn(T, T) -> T,
    write: impl Fn(T) -> [u8; N],
) {
    let (values, _) = bytes.as_chunks::<N>();
    let (differences, _) = out.as_chunks_mut::<N>();
    let later = differences.iter_mut().zip(values).skip(row);
    for ((to, now), before) in later.zip(values) {
        *to = write(difference(read(*now), read(*before)));
    }
}

/// Adds to each value the one `row` values before.
fn add<const N: usize, T: Copy + Default>(
    bytes: &mut [u8],
    row: usize,
    read: impl Fn([u8; N]) -> T,
    sum: impl Fn(T, T) -> T,
    write: impl Fn(T) -> [u8; N],
) {
    let (values, _) = bytes.as_chunks_mut::<N>();
    if row == 1 {
        let mut before = T::default();
        for value in values {
            before = sum(before, read(*value));
            *value = write(before);
        }
        return;
    }
    let mut before = [T::default(); MAX_ROW_VALUES];
    for now in values.chunks_exact_mut(row) {
        for (value, before) in now.iter_mut().zip(&mut before) {
            *before = sum(*before, read(*value));
            *value = write(*before);
        }
    }
}

/// Packs the blocks of one section, one after the other.
pub(crate) struct BlockPacker {
    compressor: zstd::bulk::Compressor<'static>,
}

/// A block as it is stored.
pub(crate) struct PackedBlock {
    pub codec: u8,
    pub preparation: Preparation,
    pub bytes: Vec<u8>,
}

impl BlockPacker {
    /// Creates a packer.
    ///
    /// # Errors
    /// If there is no memory for its state.
    pub fn new() -> io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        // The reader knows the size, and each block has a digest of its own.
        compressor.include_contentsize(false)?;
        compressor.include_checksum(false)?;
        Ok(Self { compressor })
    }

    /// Packs a block. One that does not become smaller is stored as it is.
    ///
    /// # Errors
    /// If the compression fails, for want of memory.
    pub fn pack(&mut self, block: &[u8], preparation: Preparation) -> io::Result<PackedBlock> {
        let packed = match preparation {
            none if none.is_none() => self.compressor.compress(block)?,
            other => self.compressor.compress(&other.prepare(block))?,
        };
        Ok(match packed.len() < block.len() {
            true => PackedBlock {
                codec: CODEC_ZSTD,
                preparation,
                bytes: packed,
            },
            false => PackedBlock {
                codec: CODEC_PLAIN,
                preparation: Preparation::NONE,
                bytes: block.to_vec(),
            },
        })
    }

    /// Returns the preparation of some with which a block becomes smallest.
    ///
    /// # Errors
    /// Same as [`BlockPacker::pack`].
    pub fn choose(&mut self, block: &[u8], candidates: &[Preparation]) -> io::Result<Preparation> {
        let mut best = (usize::MAX, Preparation::NONE);
        for preparation in candidates {
            let size = self.pack(block, *preparation)?.bytes.len();
            if size < best.0 {
                best = (size, *preparation);
            }
        }
        Ok(best.1)
    }
}

/// Unpacks a stored block into `out`, which has the size of the block.
///
/// # Errors
/// If the block is invalid. `out` has no meaning then.
pub(crate) fn unpack(codec: u8, preparation: u8, stored: &[u8], out: &mut [u8]) -> Result<(), UnpackError> {
    let preparation = Preparation::from_raw(preparation);
    let expected = out.len();
    let wrong = |reason: String| UnpackError::Content { expected, reason };
    match codec {
        CODEC_PLAIN if stored.len() == expected => {
            out.copy_from_slice(stored);
            Ok(())
        }
        CODEC_PLAIN => Err(wrong(format!("it has {} bytes", stored.len()))),
        CODEC_ZSTD => {
            let unpack_to = |to: &mut [u8]| match zstd::bulk::decompress_to_buffer(stored, to) {
                Ok(size) if size == expected => Ok(()),
                Ok(size) => Err(wrong(format!("it has {size} bytes"))),
                Err(e) => Err(wrong(e.to_string())),
            };
            if preparation.is_none() {
                return unpack_to(out);
            }
            let mut prepared = vec![0; expected];
            unpack_to(&mut prepared)?;
            preparation.restore(&prepared, out);
            Ok(())
        }
        other => Err(UnpackError::Codec(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(block: &[u8], preparation: Preparation) {
        let packed = BlockPacker::new().unwrap().pack(block, preparation).unwrap();
        let mut out = vec![0xee; block.len()];
        unpack(packed.codec, packed.preparation.raw(), &packed.bytes, &mut out).unwrap();
        assert!(out == block, "{preparation:?}, {} bytes", block.len());
    }

    #[test]
    fn times_and_rows_pack_well() {
        let times: Vec<u8> = (0..32_768u64).flat_map(|i| (i * 1000 + i % 7).to_le_bytes()).collect();
        let mut packer = BlockPacker::new().unwrap();
        let chosen = packer.choose(&times, &Preparation::candidates(8)).unwrap();
        let packed = packer.pack(&times, chosen).unwrap();
        assert!(
            packed.bytes.len() * 100 < times.len(),
            "{chosen:?}: {} bytes",
            packed.bytes.len()
        );
        round_trip(&times, chosen);
        // What cannot become smaller is stored as it is.
        let mut seed = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        })
        .take(5000)
        .collect();
        assert_eq!(packer.pack(&noise, Preparation::NONE).unwrap().codec, CODEC_PLAIN);
        round_trip(&noise, Preparation::NONE);
    }

    #[test]
    fn rows_of_words_pack_well() {
        let row = |i: u64| {
            [
                i,
                0,
                i * 38 + 5,
                i * 38 + 30,
                0xb8f5_b040 + i % 4096 * 64,
                i * 20_000,
                i * 20_000 + 900,
                0,
            ]
        };
        let rows: Vec<u8> = (0..4000).flat_map(row).flat_map(u64::to_le_bytes).collect();
        let mut packer = BlockPacker::new().unwrap();
        for candidates in [Preparation::candidates(64), Preparation::MIXED.to_vec()] {
            let chosen = packer.choose(&rows, &candidates).unwrap();
            let packed = packer.pack(&rows, chosen).unwrap();
            assert!(
                packed.bytes.len() * 200 < rows.len(),
                "{chosen:?}: {} bytes",
                packed.bytes.len()
            );
            round_trip(&rows, chosen);
        }
    }

    #[test]
    fn invalid_blocks_are_refused() {
        let packed = BlockPacker::new().unwrap().pack(&[7; 1000], Preparation::NONE).unwrap();
        let unpack_as = |codec, preparation, bytes: &[u8], size| {
            let mut out = vec![0; size];
            unpack(codec, preparation, bytes, &mut out)
        };
        assert_eq!(unpack_as(CODEC_ZSTD, 0, &packed.bytes, 1000), Ok(()));
        for size in [0, 999, 1001] {
            let e = unpack_as(CODEC_ZSTD, 0, &packed.bytes, size).unwrap_err();
            assert!(
                matches!(e, UnpackError::Content { expected, .. } if expected == size),
                "{e}"
            );
        }
        assert!(unpack_as(CODEC_ZSTD, 0, &packed.bytes[..packed.bytes.len() - 1], 1000).is_err());
        assert!(unpack_as(CODEC_PLAIN, 0, &[1, 2], 3).is_err());
        assert_eq!(unpack_as(9, 0, &packed.bytes, 1000), Err(UnpackError::Codec(9)));
    }

    proptest! {
        #[test]
        fn every_preparation_round_trips(block in prop::collection::vec(0u8..4, 0..3000), raw: u8) {
            round_trip(&block, Preparation::from_raw(raw));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            stored in prop::collection::vec(any::<u8>(), 0..300), raw: u8, codec in 0u8..3, size in 0usize..2000
        ) {
            let mut out = vec![0; size];
            let _ = unpack(codec, raw, &stored, &mut out);
        }
    }
}
