//! `gr_io_history`: one register access per line, read in parallel blocks straight into columns.
//!
//! A line is `DELTA,R|W,OFFSET,VALUE`: nanoseconds since the previous line in decimal, offset and value in hexadecimal,
//! with or without `0x`, padded or not.

use crate::error::ImportError::Cancelled;
use crate::error::{FilePosition, ImportError};
use rayon::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use trace_core::progress::Progress;
use trace_core::recording::{Column, ColumnBuilder, EventKind, Events};

/// Size of a worker's block in bytes: it fits in the cache and is long enough to hide the system call.
const BLOCK: usize = 1 << 20;
/// Maximum size of a line with its line end, bytes. The longest line of the recorder has 42.
const LINE_MAX: usize = 256;
/// Size of the shortest padded line; only a hint for the memory to reserve.
const LINE_HINT: usize = 24;
/// Width of a register access, bytes.
const WIDTH: u8 = 4;

/// The contents of the file.
pub(super) struct History {
    pub(super) events: Events,
    pub(super) lines: usize,
    /// Size of the file, and of its whole lines, bytes.
    pub(super) bytes: u64,
    pub(super) used: u64,
    /// Number of an unterminated last line, and its size in bytes.
    pub(super) cut: Option<(u64, u64)>,
}

/// The accesses of one block.
#[derive(Default)]
struct Rows {
    kind: Vec<u8>,
    time: Vec<u64>,
    offset: Vec<u32>,
    value: Vec<u64>,
    payload: Vec<u32>,
    /// Sum of the block's deltas.
    sum: u64,
}

/// A malformed line: the reason, and its number in its block.
struct BadLine {
    line: u64,
    message: String,
}

/// Reads the file.
pub(super) fn read(path: &Path, progress: &Progress) -> Result<History, ImportError> {
    let file = File::open(path).map_err(|e| ImportError::io(path, e))?;
    let bytes = file.metadata().map_err(|e| ImportError::io(path, e))?.len();
    let used = whole_lines(path, &file, bytes, progress)?;
    let blocks = usize::try_from(used.div_ceil(BLOCK as u64))
        .map_err(|_| ImportError::malformed(path, FilePosition::Whole, "the file is too long for this machine"))?;

    let parsed: Vec<Result<Result<Rows, BadLine>, ImportError>> = (0..blocks)
        .into_par_iter()
        .map_init(Vec::new, |buffer, block| {
            let start = block as u64 * BLOCK as u64;
            let rows = parse_block(&file, buffer, start, used).map_err(|e| ImportError::io(path, e))?;
            progress.advance((used - start).min(BLOCK as u64)).map_err(Cancelled)?;
            Ok(rows)
        })
        .collect();
    progress.advance(bytes - used)?;

    // Base time and row of each block; the first bad line in file order is reported.
    let mut blocks = Vec::with_capacity(parsed.len());
    let (mut time, mut row) = (0u64, 0u64);
    for block in parsed {
        let rows =
            block?.map_err(|bad| ImportError::malformed(path, FilePosition::Line(row + bad.line), bad.message))?;
        let base = (time, row);
        let late = || {
            ImportError::malformed(
                path,
                FilePosition::Line(row + 1),
                "the sum of the times exceeds 64 bits",
            )
        };
        time = time.checked_add(rows.sum).ok_or_else(late)?;
        row += rows.kind.len() as u64;
        blocks.push((base, rows));
    }
    if u32::try_from(row).is_err() {
        let message = format!(
            "the file has {row} lines, but a recording holds at most {} accesses",
            u32::MAX
        );
        return Err(ImportError::malformed(path, FilePosition::Whole, message));
    }
    let lines = row as usize;
    blocks.par_iter_mut().for_each(|((time, row), rows)| {
        if *time > 0 {
            rows.time.iter_mut().for_each(|t| *t += *time);
        }
        let first = *row as u32;
        rows.payload = (first..first + rows.kind.len() as u32).collect();
    });
    progress.check()?;

    let cut = (used < bytes).then(|| (row + 1, bytes - used));
    let events = columns(blocks.into_iter().map(|(_, rows)| rows), lines);
    Ok(History {
        events,
        lines,
        bytes,
        used,
        cut,
    })
}

fn columns(blocks: impl Iterator<Item = Rows>, lines: usize) -> Events {
    let mut kind = ColumnBuilder::new();
    let mut time = ColumnBuilder::new();
    let mut payload = ColumnBuilder::new();
    let mut offset = ColumnBuilder::new();
    let mut value = ColumnBuilder::new();
    for rows in blocks {
        kind.push_owned(rows.kind);
        time.push_owned(rows.time);
        payload.push_owned(rows.payload);
        offset.push_owned(rows.offset);
        value.push_owned(rows.value);
    }
    Events {
        kind: kind.finish(),
        space: constant(0, lines),
        time: time.finish(),
        thread: constant(0, lines),
        payload: payload.finish(),
        offset: offset.finish(),
        width: constant(WIDTH, lines),
        value: value.finish(),
        ..Events::default()
    }
}

fn constant<T: bytemuck::Pod>(value: T, len: usize) -> Column<T> {
    let mut b = ColumnBuilder::new();
    b.push_constant(value, len);
    b.finish()
}

/// Returns the number of bytes up to and including the last line end.
fn whole_lines(path: &Path, file: &File, bytes: u64, progress: &Progress) -> Result<u64, ImportError> {
    let mut end = bytes;
    let mut buffer = [0u8; 4096];
    while end > 0 {
        // A sparse file without a line end would be searched to its start, so check for cancellation.
        progress.check()?;
        let start = end.saturating_sub(buffer.len() as u64);
        let Some(part) = buffer.get_mut(..(end - start) as usize) else {
            break;
        };
        file.read_exact_at(part, start).map_err(|e| ImportError::io(path, e))?;
        if let Some(at) = part.iter().rposition(|b| *b == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Parses the lines that start in the block at `start`; the last of them may end in the next block.
fn parse_block(file: &File, buffer: &mut Vec<u8>, start: u64, used: u64) -> std::io::Result<Result<Rows, BadLine>> {
    // The byte before the block shows whether a line starts with it.
    let from = start.saturating_sub(1);
    let want = (used - from).min((BLOCK + LINE_MAX + 1) as u64) as usize;
    buffer.resize(want, 0);
    file.read_exact_at(buffer, from)?;
    let mut text = buffer.as_slice();
    let mut in_block = (used - start).min(BLOCK as u64) as usize;
    if start > 0 {
        match text.iter().take(BLOCK + 1).position(|b| *b == b'\n') {
            Some(at) => {
                text = text.get(at + 1..).unwrap_or_default();
                in_block = in_block.saturating_sub(at);
            }
            None => return Ok(Ok(Rows::default())),
        }
    }
    Ok(parse_lines(text, in_block))
}

/// Parses the lines that start in the first `limit` bytes of `text`.
fn parse_lines(text: &[u8], limit: usize) -> Result<Rows, BadLine> {
    let room = limit / LINE_HINT + 1;
    let mut rows = Rows {
        kind: Vec::with_capacity(room),
        time: Vec::with_capacity(room),
        offset: Vec::with_capacity(room),
        value: Vec::with_capacity(room),
        ..Rows::default()
    };
    let mut at = 0;
    while at < limit {
        let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) else {
            break;
        };
        let bad = |rows: &Rows, message: String| BadLine {
            line: rows.kind.len() as u64 + 1,
            message,
        };
        let line = match padded_line(rest) {
            Some(line) => line,
            None => any_line(rest).map_err(|message| bad(&rows, message))?,
        };
        rows.sum = rows
            .sum
            .checked_add(line.delta)
            .ok_or_else(|| bad(&rows, "the sum of the times exceeds 64 bits".into()))?;
        rows.kind.push(line.kind);
        rows.time.push(rows.sum);
        rows.offset.push(line.offset);
        rows.value.push(u64::from(line.value));
        at += line.bytes;
    }
    Ok(rows)
}

/// A line as numbers.
struct Line {
    delta: u64,
    kind: u8,
    offset: u32,
    value: u32,
    /// Bytes of the line, its end included.
    bytes: usize,
}

/// Size of the padded line after the delta: `,R,0x00000000,60a00002` and the line end.
const PADDED_TAIL: usize = 23;

/// Parses a line in the notation of the published recordings. Returns `None` for others.
#[inline]
fn padded_line(text: &[u8]) -> Option<Line> {
    let mut delta = 0u64;
    let mut digits = 0;
    for byte in text.iter().take(19) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // Nineteen digits fit in 64 bits.
        delta = delta * 10 + u64::from(digit);
        digits += 1;
    }
    let tail: &[u8; PADDED_TAIL] = text.get(digits..)?.first_chunk()?;
    let [
        c0,
        way,
        c1,
        zero,
        x,
        o0,
        o1,
        o2,
        o3,
        o4,
        o5,
        o6,
        o7,
        c2,
        v0,
        v1,
        v2,
        v3,
        v4,
        v5,
        v6,
        v7,
        end,
    ] = *tail;
    if digits == 0 || [c0, c1, zero, x, c2, end] != *b",,0x,\n" {
        return None;
    }
    Some(Line {
        delta,
        kind: kind_of(way)?,
        offset: hex8([o0, o1, o2, o3, o4, o5, o6, o7])?,
        value: hex8([v0, v1, v2, v3, v4, v5, v6, v7])?,
        bytes: digits + PADDED_TAIL,
    })
}

#[inline]
fn kind_of(letter: u8) -> Option<u8> {
    match letter {
        b'R' => Some(EventKind::Read as u8),
        b'W' => Some(EventKind::Write as u8),
        _ => None,
    }
}

/// Returns a word with `byte` in every byte.
const fn each(byte: u8) -> u64 {
    0x0101_0101_0101_0101 * byte as u64
}

/// Parses eight hexadecimal digits at once, one per byte lane.
#[inline]
fn hex8(text: [u8; 8]) -> Option<u32> {
    let v = u64::from_le_bytes(text);
    // Lanes with bit 6 must be letters, 0x41 to 0x46 or 0x61 to 0x66; the others 0x30 to 0x39.
    let letter = (v >> 6) & each(1);
    let low = v & each(0x0f);
    let high_wrong = (v ^ (each(0x30) + letter * 0x10)) & (each(0xf0) - letter * 0x20);
    let too_big = (low + each(6) + letter * 3) & each(0x10);
    let letter_zero = (letter << 4) & !(low + each(15));
    if (high_wrong | too_big | letter_zero) != 0 {
        return None;
    }
    let nibbles = (low + letter * 9).swap_bytes();
    let bytes = (nibbles | (nibbles >> 4)) & 0x00ff_00ff_00ff_00ff;
    let halves = (bytes | (bytes >> 8)) & 0x0000_ffff_0000_ffff;
    Some((halves | (halves >> 16)) as u32)
}

/// Parses a line in any notation that the recorder is known to write.
#[cold]
fn any_line(text: &[u8]) -> Result<Line, String> {
    let end = text
        .iter()
        .take(LINE_MAX)
        .position(|b| *b == b'\n')
        .ok_or_else(|| format!("the line is longer than {LINE_MAX} bytes, the maximum for a history"))?;
    let line = text.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let shown = || {
        String::from_utf8_lossy(line)
            .escape_debug()
            .take(80)
            .collect::<String>()
    };
    let fields: Vec<&str> = std::str::from_utf8(line)
        .map_err(|_| format!("expected nanoseconds,R or W,offset,value; found `{}`", shown()))?
        .split(',')
        .map(|f| f.trim_matches(' '))
        .collect();
    let [delta, way, offset, value] = fields[..] else {
        return Err(format!("expected nanoseconds,R or W,offset,value; found `{}`", shown()));
    };
    let all_digits = |s: &str, hex: bool| {
        !s.is_empty()
            && s.bytes()
                .all(|b| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() })
    };
    let delta = Some(delta)
        .filter(|d| all_digits(d, false))
        .and_then(|d| d.parse().ok())
        .ok_or_else(|| format!("`{delta}` is not a number of nanoseconds"))?;
    let kind = match way.as_bytes() {
        [letter] => kind_of(*letter),
        _ => None,
    }
    .ok_or_else(|| format!("expected R or W; found `{}`", way.escape_debug()))?;
    let hex = |s: &str, what: &str| {
        let digits = s.strip_prefix("0x").or_else(|| s.strip_prefix("0X")).unwrap_or(s);
        Some(digits)
            .filter(|d| all_digits(d, true))
            .and_then(|d| u32::from_str_radix(d, 16).ok())
            .ok_or_else(|| format!("`{}` is not a 32-bit hexadecimal {what}", s.escape_debug()))
    };
    Ok(Line {
        delta,
        kind,
        offset: hex(offset, "offset")?,
        value: hex(value, "value")?,
        bytes: end + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn history(text: &[u8]) -> Result<History, ImportError> {
        let mut f = tempfile::NamedTempFile::new().unwrap();
        f.write_all(text).unwrap();
        read(f.path(), &Progress::new())
    }

    #[test]
    fn hex_parser_agrees_with_the_standard_library() {
        for byte in 0..=255u8 {
            for lane in 0..8 {
                let mut text = *b"1a2B9f0F";
                text[lane] = byte;
                let expected = std::str::from_utf8(&text)
                    .ok()
                    .filter(|s| s.bytes().all(|b| b.is_ascii_hexdigit()))
                    .and_then(|s| u32::from_str_radix(s, 16).ok());
                assert_eq!(hex8(text), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn history_accepts_both_number_formats() {
        let a = history(b"0,R,0x00000000,60a00002\n521,W,0x0000100c,0000000f\n20,R,0x00000004,ffffffff\n").unwrap();
        let b = history(b"0,R,0,60a00002\n521,W,100c,f\r\n20,R,0x4,FFFFFFFF\n").unwrap();
        for h in [a, b] {
            assert_eq!(h.events.len(), 3);
            assert_eq!(h.events.time.iter().collect::<Vec<_>>(), [0, 521, 541]);
            assert_eq!(h.events.offset.iter().collect::<Vec<_>>(), [0, 0x100c, 4]);
            assert_eq!(
                h.events.value.iter().collect::<Vec<_>>(),
                [0x60a0_0002, 15, 0xffff_ffff]
            );
            assert_eq!(h.events.kind.iter().collect::<Vec<_>>(), [1, 2, 1]);
            assert_eq!((h.used, h.cut), (h.bytes, None));
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        for bad in [
            "x,R,0,0",
            "1,X,0,0",
            "1,R,0",
            "1,R,0,0,0",
            "1,R,,0",
            "1,R,0x,0",
            "1,R,0,123456789",
            "",
            "-1,R,0,0",
            "+1,R,0,0",
            "1,R,+1,0",
            "18446744073709551616,R,0,0",
            "1,R,0,\u{e9}",
            "1,RW,0,0",
        ] {
            let text = format!("0,R,0,0\n{bad}\n0,R,0,0\n");
            match history(text.as_bytes()) {
                Err(ImportError::Malformed {
                    place: FilePosition::Line(2),
                    ..
                }) => {}
                other => panic!("{bad:?}: {:?}", other.map(|h| h.lines)),
            }
        }
        let long = format!("0,R,{}0,0\n", "0".repeat(400));
        assert!(matches!(
            history(long.as_bytes()),
            Err(ImportError::Malformed {
                place: FilePosition::Line(1),
                ..
            })
        ));
    }

    #[test]
    fn times_that_overflow_are_refused() {
        let text = format!("{0},R,0,0\n{0},R,0,0\n", u64::MAX);
        assert!(matches!(
            history(text.as_bytes()),
            Err(ImportError::Malformed {
                place: FilePosition::Line(2),
                ..
            })
        ));
    }

    #[test]
    fn unterminated_last_line_is_ignored() {
        let h = history(b"0,R,0,1\n5,R,0x00000004,1").unwrap();
        assert_eq!((h.lines, h.used, h.cut), (1, 8, Some((2, 16))));
        let h = history(b"0,R,0,1").unwrap();
        assert_eq!((h.lines, h.used, h.cut), (0, 0, Some((1, 7))));
        assert_eq!(history(b"").unwrap().lines, 0);
    }

    #[test]
    fn lines_across_blocks_are_read_once() {
        // Lines of many lengths, so that block ends fall everywhere in a line.
        let mut text = String::new();
        let mut expected = Vec::new();
        let mut n = 0u32;
        while text.len() < 3 * BLOCK + 1000 {
            n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            expected.push(u64::from(n));
            match n >> 29 {
                0..4 => text += &format!("{},R,0x{:08x},{:08x}\n", n % 3000, n % 0x4000, n),
                _ => text += &format!("{},W,{:x},{:x}\n", n % 7, n % 0x4000, n),
            }
        }
        let h = history(text.as_bytes()).unwrap();
        assert_eq!(h.lines, expected.len());
        assert!(h.events.value.iter().eq(expected.iter().copied()));
        assert!(h.events.payload.iter().eq(0..expected.len() as u32));
        // A bad line in a later block has the number that it has in the file.
        let at = text[2 * BLOCK + 500..].find('\n').unwrap() + 2 * BLOCK + 501;
        let line = text[..at].lines().count() as u64 + 1;
        text.insert_str(at, "bad\n");
        match history(text.as_bytes()) {
            Err(ImportError::Malformed {
                place: FilePosition::Line(l),
                ..
            }) => assert_eq!(l, line),
            other => panic!("{:?}", other.map(|h| h.lines)),
        }
    }

    #[test]
    fn a_cancelled_import_stops() {
        let mut f = tempfile::NamedTempFile::new().unwrap();
        f.write_all(b"0,R,0,1\n").unwrap();
        let progress = Progress::new();
        progress.cancel();
        assert!(matches!(read(f.path(), &progress), Err(Cancelled(_))));
    }
}
