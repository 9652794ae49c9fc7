//! The reader of zip archives: by the directory at the end of the file, or member by member if that is missing.
//!
//! Members are stored, deflated, or packed by bzip2, zstd or xz. Sizes of 64 bits are read; encrypted members are not.

use super::member_names::member_path;
use crate::file_part::read_at;
use crate::packing::{XzReader, ZstdReader};
use bzip2::bufread::BzDecoder;
use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// First bytes of a member, of an entry of the directory, and of its end.
const LOCAL: u32 = 0x0403_4b50;
const ENTRY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;
/// Sizes without names and extra fields, bytes.
const LOCAL_BYTES: u64 = 30;
const ENTRY_BYTES: usize = 46;
const END_BYTES: u64 = 22;
const LOCATOR64_BYTES: u64 = 20;
/// Maximum size of the comment at the end of the file, bytes.
const MAX_COMMENT_BYTES: u64 = 0xffff;
/// Maximum size of a directory, bytes.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;
/// Number of the extra field with sizes of 64 bits.
const EXTRA64: u16 = 1;

/// A member of an archive.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Path below the folder of the archive; `None` if the name cannot be used.
    pub(super) path: Option<PathBuf>,
    /// Name for messages.
    pub(super) name: String,
    method: u16,
    flags: u16,
    crc: u32,
    packed: u64,
    /// Byte of its local header.
    at: u64,
}

/// The members of an archive, and what is wrong with its directory.
pub(super) struct Directory {
    pub(super) members: Vec<Member>,
    pub(super) damage: Option<String>,
}

/// Whether first bytes are those of a zip archive, also an empty one.
pub(super) fn is_archive(head: &[u8]) -> bool {
    let word = head.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
    matches!(word, Some(LOCAL | END))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the list of members, at most `max`.
///
/// # Errors
///
/// Errors of reading the file. A missing directory is reported, and members are found from the start of the file.
pub(super) fn read_directory(file: &File, max: usize) -> io::Result<Directory> {
    let length = file.metadata()?.len();
    if let Some((at, bytes)) = find_directory(file, length)? {
        let bytes = bytes.min(MAX_DIRECTORY_BYTES).min(length.saturating_sub(at));
        let bytes = read_at(file, at, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let mut members = Vec::new();
        let mut left = bytes.as_slice();
        while members.len() < max
            && let Some((member, length)) = parse_entry(left)
        {
            members.push(member);
            left = left.get(length..).unwrap_or_default();
        }
        let damage = (!left.is_empty() && members.len() < max)
            .then(|| format!("the list of files is damaged after {} of them", members.len()));
        return Ok(Directory { members, damage });
    }
    let mut members = Vec::new();
    let mut at = 0;
    while members.len() < max
        && let Some((member, next)) = read_local(file, at)?
    {
        members.push(member);
        match next {
            Some(next) if next > at => at = next,
            _ => break,
        }
    }
    let damage = "the list of files at the end of the archive is missing: the file is cut".to_owned();
    Ok(Directory {
        members,
        damage: Some(damage),
    })
}

/// Returns where the directory begins, and its size in bytes.
fn find_directory(file: &File, length: u64) -> io::Result<Option<(u64, u64)>> {
    let searched = length.min(END_BYTES + MAX_COMMENT_BYTES);
    let begin = length - searched;
    let tail = read_at(file, begin, usize::try_from(searched).unwrap_or_default())?;
    let magic = END.to_le_bytes();
    let ends = memchr::memmem::rfind(&tail, &magic);
    let Some((found, end)) = ends.and_then(|at| Some((at, tail.get(at..)?))) else {
        return Ok(None);
    };
    let (Some(bytes), Some(at)) = (u32_at(end, 12), u32_at(end, 16)) else {
        return Ok(None);
    };
    if at != u32::MAX && bytes != u32::MAX {
        return Ok(Some((u64::from(at), u64::from(bytes))));
    }
    let Some(at) = (begin + found as u64).checked_sub(LOCATOR64_BYTES) else {
        return Ok(None);
    };
    let locator = read_at(file, at, LOCATOR64_BYTES as usize)?;
    let at = u64_at(&locator, 8).filter(|_| u32_at(&locator, 0) == Some(LOCATOR64));
    let Some(at) = at else { return Ok(None) };
    let end = read_at(file, at, 56)?;
    let found = (u32_at(&end, 0) == Some(END64)).then_some(());
    Ok(found.and_then(|()| Some((u64_at(&end, 48)?, u64_at(&end, 40)?))))
}

/// Parses an entry of the directory, and returns its length.
fn parse_entry(bytes: &[u8]) -> Option<(Member, usize)> {
    if u32_at(bytes, 0)? != ENTRY {
        return None;
    }
    let name_bytes = usize::from(u16_at(bytes, 28)?);
    let extra_bytes = usize::from(u16_at(bytes, 30)?);
    let comment_bytes = usize::from(u16_at(bytes, 32)?);
    let name = bytes.get(ENTRY_BYTES..ENTRY_BYTES + name_bytes)?;
    let extra = bytes.get(ENTRY_BYTES + name_bytes..)?.get(..extra_bytes)?;
    let mut sizes = [u32_at(bytes, 24)?, u32_at(bytes, 20)?, u32_at(bytes, 42)?].map(u64::from);
    widen(&mut sizes, extra);
    let [_, packed, at] = sizes;
    let member = Member {
        path: member_path(name),
        name: String::from_utf8_lossy(name).into_owned(),
        method: u16_at(bytes, 10)?,
        flags: u16_at(bytes, 8)?,
        crc: u32_at(bytes, 16)?,
        packed,
        at,
    };
    Some((member, ENTRY_BYTES + name_bytes + extra_bytes + comment_bytes))
}

/// Replaces sizes of all ones by those of 64 bits, which stand in this order.
fn widen(sizes: &mut [u64], mut extra: &[u8]) {
    while let (Some(kind), Some(bytes)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let content = extra.get(4..).unwrap_or_default();
        if kind == EXTRA64 {
            let mut words = content.chunks_exact(8).filter_map(|c| u64_at(c, 0));
            for size in sizes.iter_mut().filter(|s| **s == u64::from(u32::MAX)) {
                *size = words.next().unwrap_or(*size);
            }
            return;
        }
        extra = content.get(usize::from(bytes)..).unwrap_or_default();
    }
}

/// Reads the member whose local header is at a byte, and returns the byte after it; `None` if its size is not known
/// there.
fn read_local(file: &File, at: u64) -> io::Result<Option<(Member, Option<u64>)>> {
    let head = read_at(file, at, LOCAL_BYTES as usize)?;
    let parse = || {
        let fields = (u16_at(&head, 26)?, u16_at(&head, 28)?);
        (u32_at(&head, 0)? == LOCAL).then_some(fields)
    };
    let Some((name_bytes, extra_bytes)) = parse() else {
        return Ok(None);
    };
    let rest = usize::from(name_bytes) + usize::from(extra_bytes);
    let names = read_at(file, at + LOCAL_BYTES, rest)?;
    let parse = || {
        let (name, extra) = names.split_at_checked(usize::from(name_bytes))?;
        let mut sizes = [u32_at(&head, 22)?, u32_at(&head, 18)?].map(u64::from);
        widen(&mut sizes, extra);
        let [_, packed] = sizes;
        let member = Member {
            path: member_path(name),
            name: String::from_utf8_lossy(name).into_owned(),
            method: u16_at(&head, 8)?,
            flags: u16_at(&head, 6)?,
            crc: u32_at(&head, 14)?,
            packed,
            at,
        };
        Some(member)
    };
    let Some(mut member) = parse() else {
        return Ok(None);
    };
    let data = at + LOCAL_BYTES + rest as u64;
    // The sizes of a streamed member follow its data.
    let is_streamed = member.flags & 8 != 0 && member.packed == 0;
    let next = (!is_streamed).then(|| data.saturating_add(member.packed));
    if is_streamed {
        member.packed = file.metadata()?.len().saturating_sub(data);
    }
    Ok(Some((member, next)))
}

impl Member {
    /// Whether it is a folder.
    pub(super) fn is_folder(&self) -> bool {
        self.name.ends_with('/')
    }

    /// Returns a reader of the unpacked bytes, which checks them at the end.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or the member is encrypted or packed in another way.
    pub(super) fn open(&self, file: &Arc<File>) -> io::Result<Box<dyn Read>> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
        if self.flags & 1 != 0 {
            return Err(invalid("it is encrypted".to_owned()));
        }
        let head = read_at(file, self.at, LOCAL_BYTES as usize)?;
        let names = (u16_at(&head, 26), u16_at(&head, 28));
        let (Some(LOCAL), (Some(name), Some(extra))) = (u32_at(&head, 0), names) else {
            return Err(invalid("its header is missing".to_owned()));
        };
        let at = self.at.saturating_add(LOCAL_BYTES + u64::from(name) + u64::from(extra));
        let packed = BufReader::with_capacity(
            1 << 16,
            FilePart {
                file: Arc::clone(file),
                at,
                end: at.saturating_add(self.packed),
            },
        );
        let bytes: Box<dyn Read> = match self.method {
            0 => Box::new(packed),
            8 => Box::new(DeflateDecoder::new(packed)),
            12 => Box::new(BzDecoder::new(packed)),
            93 => Box::new(ZstdReader::new(packed)),
            95 => Box::new(XzReader::new(packed)),
            method => {
                return Err(invalid(format!(
                    "it is packed by method {method} (expected stored, deflate, bzip2, zstd or xz)"
                )));
            }
        };
        let expected = (self.flags & 8 == 0 || self.crc != 0).then_some(self.crc);
        Ok(Box::new(CheckedReader {
            from: bytes,
            crc: Crc::new(),
            expected,
        }))
    }
}

/// A part of a file.
struct FilePart {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for FilePart {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let max = left.min(out.len());
        let read = self.file.read_at(out.get_mut(..max).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A reader that checks all bytes at the end.
struct CheckedReader {
    from: Box<dyn Read>,
    crc: Crc,
    expected: Option<u32>,
}

impl Read for CheckedReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(out)?;
        self.crc.update(out.get(..read).unwrap_or_default());
        if read == 0 && !out.is_empty() && self.expected.is_some_and(|crc| crc != self.crc.sum()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its check value is wrong"));
        }
        Ok(read)
    }
}
