//! Text that holds words of 32 bits in base 85, as the kernel's `ascii85.h` writes it: five characters a word, the most
//! significant first, or `z` for a word that is 0.

/// First and last character of a digit.
const DIGITS: std::ops::RangeInclusive<u8> = b'!'..=b'u';
/// The character of a word that is 0.
const ZERO_WORD: u8 = b'z';

/// Maximum number of decoded bytes of a text: a character of a zero word gives four.
const MAX_DECODED_BYTES: u64 = 1 << 30;

/// Why text could not be decoded to its end. Columns are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Ascii85Error {
    /// A character is no digit.
    #[error("column {column}: the character {:?} is no digit of ascii85", char::from(*character))]
    NoDigit {
        /// Column of the character.
        column: usize,
        /// The character.
        character: u8,
    },
    /// A group of five digits is more than a word of 32 bits.
    #[error("column {column}: five digits of ascii85 are more than a word of 32 bits")]
    TooLarge {
        /// Column of the first digit.
        column: usize,
    },
    /// The text ends inside of a word.
    #[error("the text ends after {digits} of the five digits of a word")]
    PartialWord {
        /// Number of digits.
        digits: usize,
    },
    /// The text holds more than was declared.
    #[error("column {column}: the text holds more than the {max_bytes} bytes that the dump states or that are read")]
    TooLong {
        /// Column of the first word that is too much.
        column: usize,
        /// Number of bytes that the dump states, or the limit.
        max_bytes: u64,
    },
}

/// Decoded text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DecodedText {
    /// The words before the first error, little-endian.
    pub bytes: Vec<u8>,
    /// The first error.
    pub error: Option<Ascii85Error>,
}

/// Decodes text to at most `max_bytes` bytes. Takes memory for what the text holds, whatever `max_bytes` is.
pub(super) fn decode(text: &[u8], max_bytes: u64) -> DecodedText {
    let max_bytes = max_bytes.min(MAX_DECODED_BYTES);
    let mut bytes = Vec::new();
    let mut rest = text.iter().copied().enumerate();
    let error = loop {
        let Some((at, first)) = rest.next() else { break None };
        if bytes.len() as u64 + 4 > max_bytes {
            break Some(Ascii85Error::TooLong {
                column: at + 1,
                max_bytes,
            });
        }
        if first == ZERO_WORD {
            bytes.extend([0; 4]);
            continue;
        }
        match take_word(at, first, &mut rest) {
            Ok(word) => bytes.extend(word.to_le_bytes()),
            Err(error) => break Some(error),
        }
    };
    DecodedText { bytes, error }
}

/// Decodes a word that begins with the character `first` at `at`.
fn take_word(at: usize, first: u8, rest: &mut impl Iterator<Item = (usize, u8)>) -> Result<u32, Ascii85Error> {
    let mut value = 0u64;
    let mut next = Some((at, first));
    for digits in 0..5 {
        let Some((at, character)) = next else {
            return Err(Ascii85Error::PartialWord { digits });
        };
        if !DIGITS.contains(&character) {
            return Err(Ascii85Error::NoDigit {
                column: at + 1,
                character,
            });
        }
        value = value * 85 + u64::from(character - DIGITS.start());
        next = if digits < 4 { rest.next() } else { None };
    }
    u32::try_from(value).map_err(|_| Ascii85Error::TooLarge { column: at + 1 })
}

/// Encodes words, as the kernel does. Tests and seeds make dumps with it.
#[cfg(test)]
pub(super) fn encode(words: &[u32]) -> String {
    let mut text = String::new();
    for word in words {
        if *word == 0 {
            text.push(char::from(ZERO_WORD));
            continue;
        }
        for power in (0..5u32).rev() {
            let digit = word / 85u32.pow(power) % 85;
            text.push(char::from(DIGITS.start() + digit as u8));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_encoding_and_decoding() {
        let words = [0, 1, 84, 85, 0x4eff_0001, u32::MAX, 0];
        let text = encode(&words);
        let decoded = decode(text.as_bytes(), 1 << 20);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!((decoded.bytes, decoded.error), (bytes, None));
        assert_eq!(encode(&[0, 1]), "z!!!!\"");
    }

    #[test]
    fn bad_text_is_used_up_to_its_error() {
        for (text, max_bytes, bytes, error) in [
            ("z!!!!\"v!!!!", 100, 8, "column 7: the character 'v' is no digit"),
            ("zuuuuu", 100, 4, "column 2: five digits"),
            ("z!!!", 100, 4, "after 3 of the five digits"),
            ("z!!z!!", 100, 4, "column 4: the character 'z'"),
            ("zzz", 8, 8, "column 3: the text holds more than the 8 bytes"),
        ] {
            let decoded = decode(text.as_bytes(), max_bytes);
            let message = decoded.error.map(|e| e.to_string()).unwrap_or_default();
            assert_eq!(decoded.bytes.len(), bytes, "{text}");
            assert!(message.contains(error), "{text}: {message}");
        }
    }
}
