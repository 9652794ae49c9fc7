//! The type that bytes seem to have whose type nothing tells.

use crate::recording::ElementType;

/// Words that are looked at, at most: what is so long is of one kind from its beginning on.
const LOOK: usize = 4096;
/// Bytes that are looked at, at most.
pub const MAX_SAMPLE_BYTES: usize = 4 * LOOK;
/// Whole numbers of 32 bits that are as large as this are taken for something else: four bytes of a picture, a text.
const LARGE: u32 = 1 << 24;

/// The type that bytes seem to have, by the sizes of their words: floats are neither tiny nor huge, whole numbers are small
/// on either side of zero, and each of them looks like no other. All others are bytes.
#[must_use]
pub fn likely_element(bytes: &[u8]) -> ElementType {
    let (words, rest) = bytes.as_chunks::<4>();
    let words = words.get(..LOOK).unwrap_or(words);
    let float = |w: &[u8; 4]| {
        let size = f32::from_le_bytes(*w).abs();
        size == 0.0 || (1e-20..1e20).contains(&size)
    };
    let whole = |w: &[u8; 4]| i32::from_le_bytes(*w).unsigned_abs() < LARGE;
    match words.iter().any(|w| *w != [0; 4]) && rest.is_empty() {
        true if words.iter().all(float) => ElementType::F32,
        true if words.iter().all(whole) => ElementType::I32,
        _ => ElementType::U8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_and_whole_numbers_are_told_from_bytes() {
        let floats: Vec<u8> = [0.5f32, -3e7, 0.0, 1e-9].iter().flat_map(|f| f.to_le_bytes()).collect();
        let whole: Vec<u8> = [1i32, -2, 3, 70_000].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(likely_element(&floats), ElementType::F32);
        assert_eq!(likely_element(&whole), ElementType::I32);
        let text = b"four by four is sixteen.";
        for other in [&text[..], &floats[..7], &[0; 16], &[], &[0xff, 0xfe, 0x7f, 0x80]] {
            assert_eq!(likely_element(other), ElementType::U8, "{other:?}");
        }
    }
}
