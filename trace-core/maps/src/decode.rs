//! The text of a file: its encoding, by byte order mark, declaration or form.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use std::borrow::Cow;

/// Maximum size of a file, bytes, before and after it is decoded.
pub(crate) const MAX_FILE: u64 = 64 << 20;
/// Maximum length of the start of a file that is searched for the declaration of its encoding, bytes.
const MAX_DECLARATION: usize = 1024;

/// A text, and what was assumed to read it.
pub(crate) struct DecodedText {
    pub text: String,
    /// The byte where the text is not in the encoding of the file, and what was done.
    pub doubt: Option<(usize, String)>,
}

/// Decodes a file. Characters that its encoding does not have are replaced, and reported once.
///
/// # Errors
///
/// When the decoded text has more than [`MAX_FILE`] bytes: that limit.
pub(crate) fn decode(bytes: &[u8]) -> Result<DecodedText, u64> {
    let (encoding, rest) = match Encoding::for_bom(bytes) {
        Some((encoding, mark)) => (encoding, bytes.get(mark..).unwrap_or_default()),
        None => (declared(bytes), bytes),
    };
    let skipped = bytes.len() - rest.len();
    if encoding == UTF_8 {
        let damage = match std::str::from_utf8(rest) {
            Ok(text) => return within(text.to_owned(), None),
            Err(e) => skipped + e.valid_up_to(),
        };
        // Vendors' tools write the encoding of the system and declare UTF-8.
        let (text, _) = WINDOWS_1252.decode_without_bom_handling(rest);
        let doubt = "the bytes are no UTF-8, which the file declares or has by default; they are read as Windows-1252";
        return within(text.into_owned(), Some((damage, doubt.to_owned())));
    }
    let (text, damaged) = encoding.decode_without_bom_handling(rest);
    let doubt = damaged.then(|| {
        let name = encoding.name();
        (
            skipped,
            format!("the file has bytes that {name} does not have; they are replaced"),
        )
    });
    within(text.into_owned(), doubt)
}

fn within(text: String, doubt: Option<(usize, String)>) -> Result<DecodedText, u64> {
    if text.len() as u64 > MAX_FILE {
        return Err(MAX_FILE);
    }
    Ok(DecodedText { text, doubt })
}

/// Returns the encoding that a file without a byte order mark declares, UTF-8 if it declares none.
fn declared(bytes: &[u8]) -> &'static Encoding {
    match bytes {
        [b'<', 0, ..] => return UTF_16LE,
        [0, b'<', ..] => return UTF_16BE,
        _ => {}
    }
    let start = bytes.get(..MAX_DECLARATION).unwrap_or(bytes);
    let start: Cow<'_, str> = String::from_utf8_lossy(start);
    let declaration = start
        .trim_start()
        .strip_prefix("<?xml")
        .and_then(|s| s.split_once("?>"));
    let label = declaration.and_then(|(inside, _)| {
        let value = inside
            .split_once("encoding")?
            .1
            .trim_start()
            .strip_prefix('=')?
            .trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        value.get(1..)?.split(quote).next()
    });
    let encoding = label.and_then(|l| Encoding::for_label(l.as_bytes())).unwrap_or(UTF_8);
    // A file whose declaration can be read byte by byte is not in UTF-16, whatever it declares.
    if encoding.is_ascii_compatible() {
        encoding
    } else {
        UTF_8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn encodings_are_found_by_mark_declaration_and_form() {
        let text = |bytes: &[u8]| {
            let decoded = decode(bytes).unwrap_or_else(|_| panic!("too long"));
            (decoded.text, decoded.doubt.map(|(at, _)| at))
        };
        let in_latin = |declaration: &str| [declaration.as_bytes(), b"<a>5 \xb5s</a>"].concat();
        let clean = |bytes: &[u8]| assert!(matches!(text(bytes), (t, None) if t.ends_with("<a>5 µs</a>")));
        clean("<a>5 µs</a>".as_bytes());
        clean("\u{feff}<a>5 µs</a>".as_bytes());
        for name in ["ISO-8859-1", "iso-8859-1", "Windows-1252", "latin1"] {
            clean(&in_latin(&format!("<?xml version='1.0' encoding = '{name}'?>")));
        }
        clean(&utf16(
            "<?xml version=\"1.0\" encoding=\"utf-16\"?><a>5 µs</a>",
            u16::to_le_bytes,
        ));
        clean(&utf16("\u{feff}<a>5 µs</a>", u16::to_be_bytes));
        clean(&utf16("\u{feff}<a>5 µs</a>", u16::to_le_bytes));
        // Another encoding than the declared one: read all the same, and reported.
        let (read, doubt) = text(&in_latin("<?xml version=\"1.0\" encoding=\"utf-8\"?>"));
        assert!(read.contains("5 µs") && doubt == Some(43), "{read} {doubt:?}");
        assert_eq!(text(b"<?xml encoding='utf-16'?><a/>").1, None);
        assert_eq!(text(b"<?xml encoding='no such'?><a/>").1, None);
    }
}
