//! Parsers of QEMU output from another process: lines of the qtest socket, and memory listings of its monitor.

use std::ops::Range;
use trace_core::PhysAddr;

/// A line of the qtest socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// A command succeeded. `value` is the text after `OK`, empty for a command without a value.
    Done {
        /// The text of the value.
        value: &'a str,
    },
    /// A command was refused.
    Refused {
        /// The whole line.
        line: &'a str,
    },
    /// An interrupt line changed. This is not an answer to a command.
    Interrupt {
        /// Number of the line.
        number: u32,
        /// Whether the line is raised now.
        raised: bool,
    },
    /// The line has none of these forms.
    Odd,
}

impl<'a> Answer<'a> {
    /// Parses a line without its line end.
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Self {
        let Ok(line) = std::str::from_utf8(line) else {
            return Self::Odd;
        };
        let line = line.trim_end_matches('\r');
        if line == "OK" {
            return Self::Done { value: "" };
        }
        if let Some(value) = line.strip_prefix("OK ") {
            return Self::Done { value };
        }
        if let Some(interrupt) = line.strip_prefix("IRQ ") {
            let (raised, number) = match interrupt.split_once(' ') {
                Some(("raise", number)) => (true, number),
                Some(("lower", number)) => (false, number),
                _ => return Self::Odd,
            };
            return match number.parse() {
                Ok(number) => Self::Interrupt { number, raised },
                Err(_) => Self::Odd,
            };
        }
        if line.starts_with("FAIL") || line.starts_with("ERR") {
            return Self::Refused { line };
        }
        Self::Odd
    }
}

/// Parses a number as QEMU writes it, `0x0000000012345678`.
#[must_use]
pub fn number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    // Signs are not allowed, but the standard library accepts them.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Returns the plain memory ranges of the first flat view with system memory in a listing of `info mtree -f`. Stores to
/// them have no side effects. The ranges ascend, as in the listing.
///
/// A line of the listing is `  00000000e0000000-00000000e0ffffff (prio 1, ram): vga.vram`.
#[must_use]
pub fn list_plain_ranges(listing: &str) -> Vec<Range<PhysAddr>> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in listing.lines() {
        if line.starts_with("FlatView") {
            if !found.is_empty() {
                break;
            }
            inside = false;
        } else if line.contains("AS \"memory\"") {
            inside = true;
        } else if inside && let Some(range) = plain_range(line) {
            found.push(PhysAddr::new_range(range));
        }
    }
    found
}

fn plain_range(line: &str) -> Option<Range<u64>> {
    let (addresses, rest) = line.trim().split_once(' ')?;
    let (first, last) = addresses.split_once('-')?;
    let (kind, _) = rest.strip_prefix('(')?.split_once(')')?;
    if kind.split(", ").nth(1)? != "ram" {
        return None;
    }
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (first, end) = (hex(first)?, hex(last)?.checked_add(1)?);
    (first < end).then_some(first..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemu_answer_lines_are_classified() {
        assert_eq!(Answer::parse(b"OK"), Answer::Done { value: "" });
        assert_eq!(Answer::parse(b"OK 0x10"), Answer::Done { value: "0x10" });
        let raised = |number, raised| Answer::Interrupt { number, raised };
        assert_eq!(Answer::parse(b"IRQ raise 11"), raised(11, true));
        assert_eq!(Answer::parse(b"IRQ lower 0"), raised(0, false));
        let line = "FAIL Unknown command 'x'";
        assert_eq!(Answer::parse(line.as_bytes()), Answer::Refused { line });
        for odd in [&b""[..], b"OKAY", b"IRQ raise", b"IRQ raise x", b"IRQ up 1", b"\xff"] {
            assert_eq!(Answer::parse(odd), Answer::Odd, "{odd:?}");
        }
        assert_eq!(number("0x00000000010000ed"), Some(0x0100_00ed));
        for odd in ["", "0x", "12", "0x+1", "0x1_0", "0x10000000000000000"] {
            assert_eq!(number(odd), None, "{odd}");
        }
    }

    #[test]
    fn ram_is_found_in_qemus_flat_view() {
        let listing = "FlatView #0\n AS \"I/O\", root: io\n Root memory region: io\n  \
                       0000000000000000-0000000000000007 (prio 0, ram): odd\n\n\
                       FlatView #1\n AS \"memory\", root: system\n AS \"cpu-memory-0\", root: system\n Root memory region: system\n  \
                       0000000000000000-000000000009ffff (prio 0, ram): pc.ram KVM\n  \
                       00000000000c0000-00000000000dffff (prio 1, rom): pc.rom\n  \
                       00000000e0000000-00000000e0ffffff (prio 1, ram): vga.vram\n  \
                       00000000e1000000-00000000e1003fff (prio 1, i/o): ati-mmregs\n  \
                       ffffffffffffffff-0000000000000000 (prio 1, ram): upside down\n  \
                       0000000000000000-ffffffffffffffff (prio 1, ram): without an end\n\n\
                       FlatView #2\n AS \"memory\", root: other\n  0000000000000000-0000000000000fff (prio 0, ram): x\n";
        let expected = [0..0xa_0000, 0xe000_0000..0xe100_0000].map(PhysAddr::new_range);
        assert_eq!(list_plain_ranges(listing), expected);
        assert_eq!(list_plain_ranges("nothing of the kind"), []);
    }
}
