//! Deterministic mutations of the bytes of a buffer: the same seed gives the same bytes on every machine.
//!
//! The random numbers are the extendable output of BLAKE3 over the seed and the name of the buffer, in the key context
//! [`GENERATOR`]. docs/campaigns.md describes the order in which they are used.

use serde::{Deserialize, Serialize};
use trace_core::recording::ElementType;

/// Context of the generator. Another order of its numbers needs another context.
pub(crate) const GENERATOR: &str = "kinescope 2026 mutations of inputs 1";
/// Maximum number of mutations of one seed.
const MAX_MUTATIONS: u64 = 8;
/// Maximum number of bits, bytes or elements that one mutation changes.
const MAX_CHANGES: u64 = 16;

/// A kind of mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MutationKind {
    /// Some bits are flipped.
    Bits,
    /// Some bytes are replaced: half of them by 0, 1, 127, 128 or 255, the others by any value.
    Bytes,
    /// A range is filled with a byte, or replaced by another range of the buffer.
    Ranges,
    /// All bytes are random.
    Random,
    /// Some elements are special values of their type: zeros, infinities, NaN, the largest, the smallest.
    Special,
}

impl MutationKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Bits, Self::Bytes, Self::Ranges, Self::Random, Self::Special];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bits => "bits",
            Self::Bytes => "bytes",
            Self::Ranges => "ranges",
            Self::Random => "random",
            Self::Special => "special",
        }
    }

    /// Returns the kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Random numbers of a seed.
struct Numbers {
    stream: blake3::OutputReader,
}

impl Numbers {
    fn new(seed: u64, buffer: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(GENERATOR);
        hasher.update(&seed.to_le_bytes());
        hasher.update(buffer.as_bytes());
        Self {
            stream: hasher.finalize_xof(),
        }
    }

    /// Returns the next number: eight bytes of the stream, little-endian.
    fn next(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.stream.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns a number below `end`: the upper half of the product of the next number and `end`. 0 if `end` is 0.
    fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(end);
        (product >> 64) as u64
    }

    /// Returns an index below a length.
    fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }
}

/// Mutates the bytes of a buffer: one to eight mutations of these kinds. A buffer without bytes stays as it is.
pub(crate) fn mutate(bytes: &mut [u8], element: ElementType, seed: u64, buffer: &str, kinds: &[MutationKind]) {
    if bytes.is_empty() || kinds.is_empty() {
        return;
    }
    let mut numbers = Numbers::new(seed, buffer);
    for _ in 0..=numbers.below(MAX_MUTATIONS) {
        let Some(kind) = kinds.get(numbers.index(kinds.len())) else {
            return;
        };
        match kind {
            MutationKind::Bits => flip_bits(bytes, &mut numbers),
            MutationKind::Bytes => replace_bytes(bytes, &mut numbers),
            MutationKind::Ranges => change_range(bytes, &mut numbers),
            MutationKind::Random => numbers.stream.fill(bytes),
            MutationKind::Special => set_special_values(bytes, element, &mut numbers),
        }
    }
}

fn flip_bits(bytes: &mut [u8], numbers: &mut Numbers) {
    for _ in 0..=numbers.below(MAX_CHANGES) {
        let (at, bit) = (numbers.index(bytes.len()), numbers.below(8));
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << bit;
        }
    }
}

/// Bytes at the borders of signed and unsigned numbers.
const BORDER_BYTES: [u8; 5] = [0, 1, 0x7f, 0x80, 0xff];

fn replace_bytes(bytes: &mut [u8], numbers: &mut Numbers) {
    for _ in 0..=numbers.below(MAX_CHANGES) {
        let (at, choice) = (numbers.index(bytes.len()), numbers.next());
        let value = match choice & 1 {
            0 => BORDER_BYTES[((choice >> 8) % 5) as usize],
            _ => (choice >> 8) as u8,
        };
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
    }
}

fn change_range(bytes: &mut [u8], numbers: &mut Numbers) {
    let start = numbers.index(bytes.len());
    let len = 1 + numbers.index(bytes.len() - start);
    match numbers.below(4) {
        0 => fill(bytes, start, len, 0),
        1 => fill(bytes, start, len, 0xff),
        2 => fill(bytes, start, len, numbers.next() as u8),
        _ => {
            let from = numbers.index(bytes.len() - len + 1);
            bytes.copy_within(from..from + len, start);
        }
    }
}

fn fill(bytes: &mut [u8], start: usize, len: usize, value: u8) {
    if let Some(range) = bytes.get_mut(start..start + len) {
        range.fill(value);
    }
}

fn set_special_values(bytes: &mut [u8], element: ElementType, numbers: &mut Numbers) {
    let values = special_values(element);
    let size = values.first().map_or(1, Vec::len);
    let count = bytes.len() / size;
    for _ in 0..=numbers.below(MAX_CHANGES) {
        let (at, choice) = (numbers.index(count), numbers.index(values.len()));
        let (slot, value) = (bytes.get_mut(at * size..(at + 1) * size), values.get(choice));
        if let (Some(slot), Some(value)) = (slot, value) {
            slot.copy_from_slice(value);
        }
    }
}

/// Returns the special values of a type, little-endian. All have the size of the type.
fn special_values(element: ElementType) -> Vec<Vec<u8>> {
    /// Zero, the smallest and largest numbers, -1 and 1 of an integer of this many bits, unsigned or signed.
    fn integers(bits: u32) -> Vec<Vec<u8>> {
        let highest = 1u64 << (bits - 1);
        let all = highest | (highest - 1);
        let size = (bits / 8) as usize;
        [0, 1, highest - 1, highest, all]
            .map(|n| n.to_le_bytes().into_iter().take(size).collect())
            .to_vec()
    }
    match element {
        ElementType::U8 | ElementType::I8 => integers(8),
        ElementType::U16 | ElementType::I16 => integers(16),
        ElementType::U32 | ElementType::I32 => integers(32),
        ElementType::U64 | ElementType::I64 => integers(64),
        // 0, -0, 1, infinities, NaN, the smallest subnormal, the smallest normal, the largest finite one.
        ElementType::F16 => [0, 0x8000, 0x3c00, 0x7c00, 0xfc00, 0x7e00, 1, 0x0400, 0x7bff]
            .map(|n: u16| n.to_le_bytes().to_vec())
            .to_vec(),
        ElementType::BF16 => [0, 0x8000, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 1, 0x0080, 0x7f7f]
            .map(|n: u16| n.to_le_bytes().to_vec())
            .to_vec(),
        ElementType::F32 => [
            0.0,
            -0.0,
            1.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::from_bits(0x7fc0_0000),
            f32::from_bits(1),
            f32::MIN_POSITIVE,
            f32::MAX,
        ]
        .map(|n| n.to_le_bytes().to_vec())
        .to_vec(),
        ElementType::F64 => [
            0.0,
            -0.0,
            1.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::from_bits(0x7ff8_0000_0000_0000),
            f64::from_bits(1),
            f64::MIN_POSITIVE,
            f64::MAX,
        ]
        .map(|n| n.to_le_bytes().to_vec())
        .to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutated(len: usize, seed: u64, kinds: &[MutationKind]) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
        mutate(&mut bytes, ElementType::F32, seed, "image", kinds);
        bytes
    }

    #[test]
    fn seeds_give_the_same_bytes_in_later_versions() {
        let all: Vec<u8> = (0..64).flat_map(|seed| mutated(64, seed, &MutationKind::ALL)).collect();
        let digest = blake3::hash(&all).to_hex();
        assert_eq!(digest.as_str().get(..16), Some("ccbceb654a116be8"));
        assert_eq!(mutated(64, 3, &MutationKind::ALL), mutated(64, 3, &MutationKind::ALL));
        let mut other = mutated(64, 0, &[]);
        mutate(&mut other, ElementType::F32, 3, "other", &MutationKind::ALL);
        assert_ne!(other, mutated(64, 3, &MutationKind::ALL));
    }

    #[test]
    fn every_kind_changes_buffers_of_every_size() {
        for kind in MutationKind::ALL {
            assert_eq!(MutationKind::from_name(kind.name()), Some(kind));
            for len in [0, 1, 3, 4, 1000] {
                for seed in 0..50 {
                    assert_eq!(mutated(len, seed, &[kind]).len(), len);
                }
            }
            let changed = (0..50).filter(|seed| mutated(1000, *seed, &[kind]) != mutated(1000, 0, &[]));
            assert!(changed.count() > 40, "{kind:?}");
        }
    }

    #[test]
    fn special_values_have_the_size_of_their_type() {
        for element in ElementType::ALL {
            let values = special_values(element);
            let size = values[0].len() as u64;
            assert!(values.iter().all(|v| v.len() as u64 == size), "{element:?}");
            assert_eq!(size, element.bytes() as u64, "{element:?}");
        }
    }
}
