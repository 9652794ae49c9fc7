//! Lines of a register history in debugfs and in the kernel log: the head, and one line per access.

use super::super::text::{self, Line};
use memchr::memmem;

/// Texts in every head and in every access: a line without either is not from a history.
pub(super) const HEAD: &[u8] = b" register accesses of ";
pub(super) const ACCESS: &[u8] = b": reg 0x";
/// Text that replaces a history that the driver does not keep.
pub(super) const OFF: &[u8] = b"The register access history is disabled";

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ParsedLine<'a> {
    /// `Last N register accesses of M total:`.
    Head(Head<'a>),
    /// `INDEX: r|w: reg 0xADDRESS val VALUE`.
    Access(Access),
    /// The driver keeps no history.
    Off,
    /// A malformed line of these forms: truncated, or with numbers that do not fit.
    Broken,
    /// Another line.
    Other,
}

/// The head of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// Number of accesses that follow.
    pub(super) last: u64,
    /// Number of accesses since the driver started counting.
    pub(super) total: u64,
    /// The device that printed it, `13000000.gpu`; empty in debugfs.
    pub(super) device: &'a [u8],
    /// Time of printing in nanoseconds, if the log has it.
    pub(super) time: Option<u64>,
}

/// An access of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// Its index in the dump, from 0.
    pub(super) index: u64,
    pub(super) write: bool,
    /// Its address, or `None` if the kernel printed no number.
    pub(super) address: Option<u64>,
    pub(super) value: u32,
}

/// Reads a line.
pub(super) fn parse_line(line: &[u8]) -> ParsedLine<'_> {
    if let Some(at) = memmem::find(line, ACCESS) {
        return access(line, at).map_or(ParsedLine::Broken, ParsedLine::Access);
    }
    if let Some(at) = memmem::find(line, HEAD) {
        return head(line, at).map_or(ParsedLine::Broken, ParsedLine::Head);
    }
    match memmem::find(line, OFF) {
        Some(_) => ParsedLine::Off,
        None => ParsedLine::Other,
    }
}

/// Parses a decimal number that fills a field.
fn decimal(digits: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(digits).ok()?;
    number
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| number.parse().ok())?
}

/// Splits a text at its last blank: the part after it, and the part before it.
fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let at = text
        .iter()
        .rposition(|b| matches!(b, b' ' | b'\t'))
        .map_or(0, |at| at + 1);
    (text.get(..at).unwrap_or_default(), text.get(at..).unwrap_or_default())
}

/// Parses the access in a line that has [`ACCESS`] at `at`.
fn access(line: &[u8], at: usize) -> Option<Access> {
    let before = line.get(..at)?;
    let (numbered, write) = match before {
        [numbered @ .., b':', b' ', b'r'] => (numbered, false),
        [numbered @ .., b':', b' ', b'w'] => (numbered, true),
        _ => return None,
    };
    let index = decimal(last_word(numbered).1)?;
    let mut rest = Line::new(line.get(at + ACCESS.len()..)?);
    // A short address has blanks before it. The kernel prints other words than numbers for addresses that it hides.
    let address = text::hex(rest.word()?);
    rest.blanks();
    rest.tag(b"val")?;
    let value = u32::try_from(rest.hex()?).ok()?;
    Some(Access {
        index,
        write,
        address,
        value,
    })
}

/// Parses the head in a line that has [`HEAD`] at `at`.
fn head(line: &[u8], at: usize) -> Option<Head<'_>> {
    let (before, last) = last_word(line.get(..at)?);
    let prefix = before.strip_suffix(b"Last ")?;
    let last = decimal(last)?;
    let rest = line.get(at + HEAD.len()..)?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let total = decimal(rest.get(..digits)?)?;
    let known = rest.get(digits..)?.starts_with(b" total:") && last <= total;
    let named = prefix.strip_suffix(b": ").map_or(&b""[..], |p| last_word(p).1);
    known.then(|| Head {
        last,
        total,
        device: named,
        time: stamp(prefix),
    })
}

/// Parses the kernel's timestamp before a line: `[   12.345678]`, after a level such as `<3>` or without one.
fn stamp(prefix: &[u8]) -> Option<u64> {
    let open = memchr::memchr(b'[', prefix)?;
    let rest = prefix.get(open + 1..)?;
    let close = memchr::memchr(b']', rest)?;
    let mut inside = Line::new(rest.get(..close)?);
    let time = inside.time()?;
    inside.rest().is_empty().then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access_of(text: &str) -> ParsedLine<'_> {
        parse_line(text.as_bytes())
    }

    #[test]
    fn history_lines_parse_in_every_driver_format() {
        let is = |address, write| {
            ParsedLine::Access(Access {
                index: 7,
                write,
                address,
                value: 0x6000_0000,
            })
        };
        for text in [
            // debugfs of 64-bit and 32-bit kernels, and with a field padded by blanks.
            "     7: r: reg 0xffffff8008a80000 val 60000000",
            "     7: r: reg 0xffffff8008a80000 val 60000000\r",
            "     7: r: reg 0x  ffffff8008a80000 val 60000000",
            "[   12.345678] mali 13000000.gpu:      7: r: reg 0xffffff8008a80000 val 60000000",
            "<3>[   12.345678] [0:  kworker/0:1:  123] mali 13000000.gpu:      7: r: reg 0xffffff8008a80000 val 60000000",
        ] {
            assert_eq!(access_of(text), is(Some(0xffff_ff80_08a8_0000), false), "{text}");
        }
        assert_eq!(
            access_of("     7: w: reg 0xf0a80030 val 60000000"),
            is(Some(0xf0a8_0030), true)
        );
        for hidden in ["(____ptrval____)", "(null)", "pK-error"] {
            let text = format!("     7: w: reg 0x{hidden} val 60000000");
            assert_eq!(access_of(&text), is(None, true), "{text}");
        }
        for broken in [
            "     7: r: reg 0xffffff8008a80000 val",
            "     7: r: reg 0xffffff8008a80000 val 600000000",
            "     7: x: reg 0xffffff8008a80000 val 60000000",
            "r: reg 0xffffff8008a80000 val 60000000",
            "     7: r: reg 0x",
            " -7: r: reg 0xffffff8008a80000 val 60000000",
            "99999999999999999999: r: reg 0x0 val 0",
        ] {
            assert_eq!(access_of(broken), ParsedLine::Broken, "{broken}");
        }
        for other in ["", "mali 13000000.gpu: Register IO History:", "reg 0x10 val 3"] {
            assert_eq!(access_of(other), ParsedLine::Other, "{other}");
        }
    }

    #[test]
    fn header_lines_give_access_counts_device_and_time() {
        let ParsedLine::Head(plain) = parse_line(b"Last 512 register accesses of 98765 total:") else {
            panic!("no head");
        };
        assert_eq!(
            plain,
            Head {
                last: 512,
                total: 98765,
                device: b"",
                time: None
            }
        );
        let logged = b"<3>[   12.345678] mali 13000000.gpu: Last 4 register accesses of 9 total:";
        let ParsedLine::Head(logged) = parse_line(logged) else {
            panic!("no head");
        };
        assert_eq!(
            (logged.device, logged.time),
            (&b"13000000.gpu"[..], Some(12_345_678_000))
        );
        for broken in [
            "Last 9 register accesses of 8 total:",
            "Last -1 register accesses of 8 total:",
            "Last 1 register accesses of 8",
            "First 1 register accesses of 8 total:",
            "Last 99999999999999999999 register accesses of 99999999999999999999 total:",
        ] {
            assert_eq!(parse_line(broken.as_bytes()), ParsedLine::Broken, "{broken}");
        }
        assert_eq!(parse_line(OFF), ParsedLine::Off);
    }
}
