//! Rows of the bytes of a stream: lines of text, or hexadecimal bytes.

use std::fmt::Write as _;
use std::ops::Range;

/// Maximum number of bytes of a row of text. Longer lines go on in the next row.
const ROW_BYTES: usize = 256;
/// Number of bytes at the start that decide between text and hex.
const SAMPLE_BYTES: usize = 4096;

/// How bytes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamForm {
    /// As lines of text.
    Text,
    /// As hexadecimal bytes with their letters.
    Hex,
}

/// The bytes of a stream, divided into rows of text.
#[derive(Clone, Debug, Default)]
pub struct StreamRows {
    bytes: Vec<u8>,
    /// Start of each row of text.
    starts: Vec<usize>,
}

impl StreamRows {
    /// Divides bytes into rows.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let mut starts = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            starts.push(at);
            let rest = bytes.get(at..).unwrap_or_default();
            let line = rest.iter().position(|b| *b == b'\n').map_or(rest.len(), |end| end + 1);
            let mut row = line.min(ROW_BYTES);
            // A character stays in one row: its later bytes are 0b10xxxxxx.
            while row < line && row > ROW_BYTES - 4 && rest.get(row).is_some_and(|b| b & 0xc0 == 0x80) {
                row -= 1;
            }
            at += row;
        }
        Self { bytes, starts }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the form that suits the first bytes: text if they are UTF-8 without control characters.
    #[must_use]
    pub fn natural_form(&self) -> StreamForm {
        let sample = self.bytes.get(..SAMPLE_BYTES).unwrap_or(&self.bytes);
        let text = match std::str::from_utf8(sample) {
            Ok(text) => text,
            // The last character of the sample may be cut.
            Err(e) if e.error_len().is_none() && sample.len() < self.bytes.len() => {
                let valid = sample.get(..e.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(valid).unwrap_or_default()
            }
            Err(_) => return StreamForm::Hex,
        };
        let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
        if text.chars().all(is_text) {
            StreamForm::Text
        } else {
            StreamForm::Hex
        }
    }

    /// Returns the number of rows; in hex each row has `width` bytes.
    #[must_use]
    pub fn rows(&self, form: StreamForm, width: usize) -> u64 {
        match form {
            StreamForm::Text => self.starts.len() as u64,
            StreamForm::Hex => self.bytes.len().div_ceil(width.max(1)) as u64,
        }
    }

    fn range(&self, form: StreamForm, width: usize, row: u64) -> Option<Range<usize>> {
        let row = usize::try_from(row).ok()?;
        match form {
            StreamForm::Text => {
                let start = *self.starts.get(row)?;
                Some(start..self.starts.get(row + 1).copied().unwrap_or(self.bytes.len()))
            }
            StreamForm::Hex => {
                let start = row.checked_mul(width.max(1))?;
                (start < self.bytes.len()).then(|| start..self.bytes.len().min(start + width.max(1)))
            }
        }
    }

    /// Returns the offset of a row's first byte.
    #[must_use]
    pub fn offset(&self, form: StreamForm, width: usize, row: u64) -> Option<u64> {
        Some(self.range(form, width, row)?.start as u64)
    }

    /// Returns the text of a row: the line without its end, or bytes and letters.
    #[must_use]
    pub fn row(&self, form: StreamForm, width: usize, row: u64) -> String {
        let range = self.range(form, width, row).unwrap_or_default();
        let bytes = self.bytes.get(range).unwrap_or_default();
        match form {
            StreamForm::Text => {
                let text = String::from_utf8_lossy(bytes);
                text.trim_end_matches(['\n', '\r'])
                    .chars()
                    .map(|c| match c {
                        '\t' => ' ',
                        c if c.is_control() => '·',
                        c => c,
                    })
                    .collect()
            }
            StreamForm::Hex => {
                let mut text = String::new();
                for n in 0..width {
                    let _ = match bytes.get(n) {
                        Some(byte) => write!(text, "{byte:02x} "),
                        None => write!(text, "   "),
                    };
                }
                text.push(' ');
                text.extend(bytes.iter().map(|b| match b {
                    0x20..=0x7e => char::from(*b),
                    _ => '·',
                }));
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let rows = StreamRows::new(bytes.to_vec());
        (0..rows.rows(StreamForm::Text, 0))
            .map(|row| rows.row(StreamForm::Text, 0, row))
            .collect()
    }

    #[test]
    fn text_has_a_row_for_each_line() {
        assert_eq!(lines(b""), [""; 0]);
        assert_eq!(lines(b"a\tb\r\n\nlast"), ["a b", "", "last"]);
        assert_eq!(lines(b"end\n"), ["end"]);
        let long = "ä".repeat(200);
        let parts = lines(long.as_bytes());
        assert_eq!(parts.concat(), long);
        assert_eq!(parts.len(), 2);
        let odd = format!("a{}", "€".repeat(100));
        assert_eq!(lines(odd.as_bytes()).concat(), odd);
    }

    #[test]
    fn hex_has_rows_of_equal_width() {
        let rows = StreamRows::new(b"\0abcdefgh".to_vec());
        assert_eq!(rows.rows(StreamForm::Hex, 8), 2);
        assert_eq!(rows.row(StreamForm::Hex, 8, 0), "00 61 62 63 64 65 66 67  ·abcdefg");
        assert_eq!(rows.row(StreamForm::Hex, 8, 1), "68                       h");
        assert_eq!(rows.offset(StreamForm::Hex, 8, 1), Some(8));
        assert_eq!(rows.row(StreamForm::Hex, 8, 2).trim(), "");
    }

    #[test]
    fn content_decides_the_form() {
        let form = |bytes: &[u8]| StreamRows::new(bytes.to_vec()).natural_form();
        assert_eq!(form(b"text\n"), StreamForm::Text);
        assert_eq!(form(b"\x00\x01"), StreamForm::Hex);
        assert_eq!(form(b"\xff\xfe"), StreamForm::Hex);
        let cut = format!("{}ä{}", "a".repeat(SAMPLE_BYTES - 1), "b".repeat(9));
        assert_eq!(form(cut.as_bytes()), StreamForm::Text);
        assert_eq!(form(b""), StreamForm::Text);
    }
}
