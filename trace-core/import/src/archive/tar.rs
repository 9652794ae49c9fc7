//! The reader of tar archives: the forms of POSIX (`ustar`, pax), of GNU, and the old one, as one stream.

use super::member_names::member_path;
use std::io::{self, Read};
use std::path::PathBuf;

/// Size of a header, and the unit of everything else, bytes.
pub(super) const BLOCK_BYTES: usize = 512;
/// Maximum size of a long name or of extended attributes, bytes.
const MAX_EXTENSION_BYTES: u64 = 1 << 16;
/// Maximum number of extensions before a member.
const MAX_EXTENSIONS: usize = 16;

/// A member of an archive.
pub(super) struct Member {
    /// Path below the folder of the archive; `None` if the name cannot be used.
    pub(super) path: Option<PathBuf>,
    pub(super) bytes: u64,
    /// Whether it is a regular file. Others have no content.
    pub(super) is_file: bool,
    /// Name for messages.
    pub(super) name: String,
}

/// Whether the first bytes of a file are a header: its check value is right.
pub(super) fn is_header(block: &[u8]) -> bool {
    Header::parse(block).is_some()
}

struct Header<'a> {
    block: &'a [u8],
    bytes: u64,
    kind: u8,
}

impl<'a> Header<'a> {
    /// Parses a header, or returns `None` if the check value is wrong.
    fn parse(block: &'a [u8]) -> Option<Self> {
        let block = block.get(..BLOCK_BYTES)?;
        let expected = parse_number(block.get(148..156)?)?;
        let sums = |signed: bool| {
            let of = |(at, byte): (usize, &u8)| match at {
                148..156 => i64::from(b' '),
                _ if signed => i64::from(*byte as i8),
                _ => i64::from(*byte),
            };
            block.iter().enumerate().map(of).sum::<i64>()
        };
        let expected = i64::try_from(expected).ok()?;
        let is_named = block.first().is_some_and(|b| *b != 0);
        (is_named && (sums(false) == expected || sums(true) == expected)).then_some(())?;
        Some(Self {
            block,
            bytes: parse_number(block.get(124..136)?)?,
            kind: *block.get(156)?,
        })
    }

    fn field(&self, range: std::ops::Range<usize>) -> &'a [u8] {
        let field = self.block.get(range).unwrap_or_default();
        let end = memchr::memchr(0, field).unwrap_or(field.len());
        field.get(..end).unwrap_or_default()
    }

    /// Returns the name, with the prefix that POSIX's form has.
    fn name(&self) -> Vec<u8> {
        let name = self.field(0..100);
        let is_posix = self.block.get(257..263) == Some(b"ustar\0");
        match self.field(345..500) {
            prefix if is_posix && !prefix.is_empty() => [prefix, b"/", name].concat(),
            _ => name.to_vec(),
        }
    }
}

/// Parses a number: octal digits, or binary with the highest bit set.
fn parse_number(field: &[u8]) -> Option<u64> {
    let (first, rest) = field.split_first()?;
    if *first == 0x80 {
        let (high, low) = rest.split_at_checked(rest.len().checked_sub(8)?)?;
        return high
            .iter()
            .all(|b| *b == 0)
            .then(|| low.iter().fold(0, |n, b| n << 8 | u64::from(*b)));
    }
    let digits = field.split(|b| matches!(b, 0 | b' ')).find(|part| !part.is_empty());
    digits.unwrap_or_default().iter().try_fold(0u64, |n, digit| {
        let digit = char::from(*digit).to_digit(8)?;
        n.checked_mul(8)?.checked_add(u64::from(digit))
    })
}

/// Extensions of the next member.
#[derive(Default)]
struct Extensions {
    name: Option<Vec<u8>>,
    bytes: Option<u64>,
    is_sparse: bool,
}

impl Extensions {
    /// Takes the records of extended attributes: `LENGTH KEY=VALUE` and a line end each.
    fn take_pax(&mut self, mut text: &[u8]) {
        while let Some(space) = memchr::memchr(b' ', text) {
            let (length, _) = text.split_at(space);
            let length = std::str::from_utf8(length).ok().and_then(|t| t.parse::<usize>().ok());
            let record = length.and_then(|length| Some((text.get(space + 1..length.checked_sub(1)?)?, length)));
            let Some((record, length)) = record else { return };
            if let Some(at) = memchr::memchr(b'=', record) {
                let (key, value) = (record.get(..at).unwrap_or_default(), record.get(at + 1..));
                let value = value.unwrap_or_default();
                match key {
                    b"path" => self.name = Some(value.to_vec()),
                    b"size" => self.bytes = std::str::from_utf8(value).ok().and_then(|t| t.parse().ok()),
                    key if key.starts_with(b"GNU.sparse.") => self.is_sparse = true,
                    _ => {}
                }
            }
            text = text.get(length..).unwrap_or_default();
        }
    }
}

/// How an archive ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With its end mark, or after a member.
    Whole,
    /// In the middle; the reason.
    Cut(String),
}

/// Passes the members of an archive to `each`, in order, with a reader of the content. Content that `each` does not
/// read is skipped.
///
/// # Errors
///
/// Errors of `each`, and of reading other than damage of a packed archive: damage is an end of the archive.
pub(super) fn read_members<E>(
    from: &mut dyn Read,
    is_damage: impl Fn(&io::Error) -> bool,
    mut each: impl FnMut(&Member, &mut dyn Read) -> Result<(), E>,
    read_error: impl Fn(io::Error) -> E,
) -> Result<End, E> {
    let mut extensions = Extensions::default();
    let mut count = 0;
    loop {
        let mut block = [0; BLOCK_BYTES];
        match read_block(from, &mut block) {
            Ok(0) => return Ok(End::Whole),
            Ok(BLOCK_BYTES) => {}
            Ok(_) => return Ok(End::Cut("the file ends in a header".to_owned())),
            Err(e) if is_damage(&e) => return Ok(End::Cut(describe_damage(&e))),
            Err(e) => return Err(read_error(e)),
        }
        if block.iter().all(|b| *b == 0) {
            return Ok(End::Whole);
        }
        let Some(header) = Header::parse(&block) else {
            return Ok(End::Cut("a header has a wrong check value".to_owned()));
        };
        if matches!(header.kind, b'L' | b'K' | b'x' | b'g') {
            count += 1;
            if header.bytes > MAX_EXTENSION_BYTES || count > MAX_EXTENSIONS {
                return Ok(End::Cut("the attributes of a member are too long".to_owned()));
            }
            let mut content = Vec::new();
            let read = from.take(header.bytes).read_to_end(&mut content);
            let skipped = read.and_then(|_| skip(from, padding(header.bytes)));
            match skipped {
                Ok(()) if content.len() as u64 == header.bytes => {}
                Ok(()) => return Ok(End::Cut("the file ends in a header".to_owned())),
                Err(e) if is_damage(&e) => return Ok(End::Cut(describe_damage(&e))),
                Err(e) => return Err(read_error(e)),
            }
            match header.kind {
                b'L' => {
                    let end = memchr::memchr(0, &content).unwrap_or(content.len());
                    content.truncate(end);
                    extensions.name = Some(content);
                }
                b'x' => extensions.take_pax(&content),
                // Long names of links, and attributes of all members.
                _ => {}
            }
            continue;
        }
        count = 0;
        let known = std::mem::take(&mut extensions);
        let name = known.name.unwrap_or_else(|| header.name());
        let bytes = known.bytes.unwrap_or(header.bytes);
        let member = Member {
            path: member_path(&name),
            bytes,
            is_file: matches!(header.kind, 0 | b'0' | b'7') && !known.is_sparse && !name.ends_with(b"/"),
            name: String::from_utf8_lossy(&name).into_owned(),
        };
        // Links, folders and devices have no content, whatever size they give.
        let stored = match header.kind {
            b'1'..=b'6' => 0,
            _ => bytes,
        };
        let mut content = from.take(stored);
        each(&member, &mut content)?;
        let left = content.limit();
        match skip(from, left).and_then(|()| skip(from, padding(stored))) {
            Ok(()) => {}
            Err(e) if is_damage(&e) => {
                return Ok(End::Cut(format!("{}: {}", member.name, describe_damage(&e))));
            }
            Err(e) => return Err(read_error(e)),
        }
    }
}

fn describe_damage(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file ends early".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the number of bytes after content of a size, up to the next block.
fn padding(bytes: u64) -> u64 {
    bytes.wrapping_neg() % BLOCK_BYTES as u64
}

/// Skips bytes. The end of the file before them is an error.
fn skip(from: &mut dyn Read, bytes: u64) -> io::Result<()> {
    match io::copy(&mut from.take(bytes), &mut io::sink())? {
        skipped if skipped == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Reads a block. Returns fewer bytes at the end of the file.
fn read_block(from: &mut dyn Read, block: &mut [u8; BLOCK_BYTES]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(room) = block.get_mut(filled..).filter(|r| !r.is_empty()) {
        match from.read(room) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
