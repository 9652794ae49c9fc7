//! A guess of the element type of bytes whose type is unknown.

use crate::recording::ElementType;

/// Maximum number of words that are read: data of this length is uniform.
const LOOK: usize = 4096;
/// Maximum number of bytes that are read.
pub const MAX_SAMPLE_BYTES: usize = 4 * LOOK;
/// 32-bit integers from this value on count as other data: four bytes of a picture or a text.
const LARGE: u32 = 1 << 24;

/// Guesses the element type of bytes from the sizes of their words. Floats are neither tiny nor huge, integers are
/// small on either side of zero, and the two do not overlap. All other data are bytes.
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
    fn floats_and_integers_are_detected_in_bytes() {
        let floats: Vec<u8> = [0.5f32, -3e7, 0.0, 1e-9].iter().flat_map(|f| f.to_le_bytes()).collect();
        let integers: Vec<u8> = [1i32, -2, 3, 70_000].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(likely_element(&floats), ElementType::F32);
        assert_eq!(likely_element(&integers), ElementType::I32);
        let text = b"four by four is sixteen.";
        for other in [&text[..], &floats[..7], &[0; 16], &[], &[0xff, 0xfe, 0x7f, 0x80]] {
            assert_eq!(likely_element(other), ElementType::U8, "{other:?}");
        }
    }
}
