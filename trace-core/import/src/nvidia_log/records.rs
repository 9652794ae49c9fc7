//! The records of a log, all little endian.
//!
//! A record is a header of 24 bytes and its content. The header is `u32 type, u32 bytes of the content, u64 time,
//! u32 thread, u32 0`. Times are nanoseconds since the start of the program. [`Content::parse`] has the contents.

use std::io::{self, Read};
use trace_core::recording::Page;

/// Bytes of a header.
pub(super) const HEADER_BYTES: u64 = 24;
/// Maximum size of the content of a record, bytes: the recorder's buffer has half of it.
const MAX_CONTENT_BYTES: u32 = 128 << 20;
/// Maximum type of a record that a newer recorder may write. A larger number is damage.
const MAX_TYPE: u32 = 0xff;

/// The header of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// Position of the record, unpacked bytes from the start of the log.
    pub at: u64,
    /// Type of the content.
    pub kind: u32,
    /// Size of the content, bytes.
    pub bytes: u32,
    /// Nanoseconds since the start of the program.
    pub time: u64,
    /// Thread id.
    pub thread: u32,
}

impl Header {
    /// Parses a header, or returns `None` if it cannot be one.
    fn parse(at: u64, bytes: &[u8; HEADER_BYTES as usize]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let header = Self {
            at,
            kind: fields.u32()?,
            bytes: fields.u32()?,
            time: fields.u64()?,
            thread: fields.u32()?,
        };
        let sound = fields.u32()? == 0 && (1..=MAX_TYPE).contains(&header.kind) && header.bytes <= MAX_CONTENT_BYTES;
        sound.then_some(header)
    }
}

/// Why the records end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The log ends after a record, or zeros follow it.
    Whole,
    /// The log ends in a record, with the position of that record.
    Cut(String, u64),
    /// No record begins at this position.
    Damaged(u64),
}

/// A reader of records.
pub(super) struct Records<R> {
    from: R,
    /// Number of bytes left, if known: the length of a packed file is not.
    left: Option<u64>,
    at: u64,
    content: Vec<u8>,
}

impl<R: Read> Records<R> {
    /// Creates a reader; `bytes` is the length of the log, if known.
    pub fn new(from: R, bytes: Option<u64>) -> Self {
        Self {
            from,
            left: bytes,
            at: 0,
            content: Vec::new(),
        }
    }

    /// Returns the position after the last record, unpacked bytes.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the content of the last record.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Reads the next record, and returns its header.
    pub fn next(&mut self) -> io::Result<Result<Header, End>> {
        let at = self.at;
        let cut = |why: String| Ok(Err(End::Cut(why, at)));
        self.fill(HEADER_BYTES)?;
        if self.content.is_empty() {
            return Ok(Err(End::Whole));
        }
        let Some(bytes) = self.content.first_chunk() else {
            return cut(format!("the log ends in a header, after {} bytes", self.content.len()));
        };
        // A recorder reserves room in the file. A program that was killed leaves the rest of it: zeros.
        if at > 0 && *bytes == [0; HEADER_BYTES as usize] {
            return Ok(Err(End::Whole));
        }
        let Some(header) = Header::parse(at, bytes) else {
            return Ok(Err(End::Damaged(at)));
        };
        let wanted = u64::from(header.bytes);
        if let Some(left) = self.left.filter(|left| *left < wanted) {
            return cut(format!("the log ends in a record: it has {left} of {wanted} bytes"));
        }
        self.fill(wanted)?;
        if self.content.len() as u64 != wanted {
            let found = self.content.len();
            return cut(format!("the log ends in a record: it has {found} of {wanted} bytes"));
        }
        Ok(Ok(header))
    }

    /// Reads up to `bytes` bytes into the buffer. Its memory grows with the bytes that arrive.
    fn fill(&mut self, bytes: u64) -> io::Result<()> {
        self.content.clear();
        self.from.by_ref().take(bytes).read_to_end(&mut self.content)?;
        let read = self.content.len() as u64;
        self.at += read;
        self.left = self.left.map(|left| left.saturating_sub(read));
        Ok(())
    }
}

/// An ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ioctl<'a> {
    /// File descriptor.
    pub fd: u32,
    /// What the ioctl returned.
    pub returned: i32,
    /// Error of the operating system, 0 if it succeeded.
    pub errno: u32,
    /// The file belongs to unified memory.
    pub is_uvm: bool,
    /// The request.
    pub request: u64,
    /// Duration in nanoseconds.
    pub took: u64,
    /// Path of the file without `/dev/`.
    pub file: &'a str,
    /// The argument before the call.
    pub before: &'a [u8],
    /// The argument after the call.
    pub after: &'a [u8],
    /// The parameters that the argument points to, before the call.
    pub nested_before: &'a [u8],
    /// The parameters after the call.
    pub nested_after: &'a [u8],
}

/// A range of the program's memory that is mapped from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MappedRange {
    /// First address.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Handle of the mapped object, 0 if unknown.
    pub handle: u32,
    /// Offset in the object.
    pub offset: u64,
}

/// How a program accessed a page of doorbells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DoorbellAccess {
    /// A store of four bytes.
    Store,
    /// A load of four bytes.
    Load,
    /// An instruction that the recorder did not decode.
    Unknown,
}

/// Why a recorder lacks content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapReason {
    /// The source of a copy is video memory that the program can write through a mapping.
    MappedVideoMemory,
    /// The source of a copy is memory that the recorder cannot read.
    UnreadableSource,
    /// The recorder cannot read the commands of a ring entry.
    UnreadableCommands,
    /// The recorder did not save a launch descriptor or a constant bank.
    LaunchMemory,
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    Open {
        fd: i32,
        flags: u32,
        errno: u32,
        path: &'a str,
    },
    Close {
        fd: u32,
    },
    Ioctl(Ioctl<'a>),
    Map {
        /// The address that the program asked for, 0 if any.
        wanted: u64,
        /// The address that it got, all bits set if the call failed.
        address: u64,
        bytes: u64,
        offset: u64,
        protection: u32,
        flags: u32,
        fd: u32,
        /// Handle of the mapped object, 0 if unknown.
        handle: u32,
        file: &'a str,
    },
    Unmap {
        address: u64,
        bytes: u64,
    },
    /// A page of the memory of an object, as the program sees it.
    SavedPage {
        offset: u64,
        handle: u32,
        page: &'a Page,
    },
    Mark(String),
    RingEntry {
        channel: u32,
        index: u32,
        entry: u64,
        /// A push buffer follows.
        has_commands: bool,
    },
    PushBuffer {
        va: u64,
        words: &'a [u8],
    },
    Doorbell {
        /// Address in the program's memory.
        address: u64,
        /// First bytes of the instruction.
        code: [u8; 3],
        value: u32,
        access: DoorbellAccess,
    },
    /// The ranges that are mapped at this time.
    MappedRanges(Vec<MappedRange>),
    /// Bytes that the next ring entry copies.
    Memory {
        va: u64,
        bytes: &'a [u8],
    },
    /// The recorder, before all other records.
    Recorder {
        /// Start of the times on the machine's monotonic clock, nanoseconds.
        start: u64,
        /// Process id.
        process: u32,
        /// Version of the driver.
        version: &'a str,
    },
    /// The recording ends before the program, with the reason.
    Stop(String),
    /// Content that the next ring entry uses and that the log lacks.
    Gap {
        reason: GapReason,
    },
}

impl<'a> Content<'a> {
    /// Parses the content of a record, or returns `None` if it does not have the form of its type.
    pub fn parse(kind: u32, bytes: &'a [u8]) -> Option<Self> {
        let mut f = Fields(bytes);
        let content = match kind {
            1 => {
                let (fd, flags, errno, _) = (f.u32()? as i32, f.u32()?, f.u32()?, f.u32()?);
                let path = f.text(48)?;
                Self::Open { fd, flags, errno, path }
            }
            2 => {
                let (fd, _) = (f.u32()?, f.u32()?);
                Self::Close { fd }
            }
            3 => Self::Ioctl(parse_ioctl(&mut f)?),
            4 => Self::Map {
                wanted: f.u64()?,
                bytes: f.u64()?,
                offset: f.u64()?,
                address: f.u64()?,
                protection: f.u32()?,
                flags: f.u32()?,
                fd: f.u32()?,
                handle: f.u32()?,
                file: f.text(24)?,
            },
            5 => Self::Unmap {
                address: f.u64()?,
                bytes: f.u64()?,
            },
            6 => {
                let (_, offset, handle, _) = (f.u64()?, f.u64()?, f.u32()?, f.u32()?);
                let page = <&Page>::try_from(f.rest()).ok()?;
                Self::SavedPage { offset, handle, page }
            }
            7 => Self::Mark(String::from_utf8_lossy(f.rest()).into_owned()),
            8 => {
                let (channel, index, entry, has_commands, _) = (f.u32()?, f.u32()?, f.u64()?, f.u32()?, f.u32()?);
                Self::RingEntry {
                    channel,
                    index,
                    entry,
                    has_commands: has_commands != 0,
                }
            }
            9 => {
                let (va, words) = (f.u64()?, f.rest());
                words
                    .len()
                    .is_multiple_of(4)
                    .then_some(Self::PushBuffer { va, words })?
            }
            10 => parse_doorbell(&mut f)?,
            11 => {
                let mut ranges = Vec::new();
                while !f.0.is_empty() {
                    ranges.push(parse_range(&mut f)?);
                }
                Self::MappedRanges(ranges)
            }
            12 => Self::Memory {
                va: f.u64()?,
                bytes: f.rest(),
            },
            13 => parse_recorder(&mut f)?,
            14 => Self::Stop(String::from_utf8_lossy(f.rest()).into_owned()),
            15 => {
                // Channel, address and number of bytes.
                let (reason, _, _, _) = (f.u32()?, f.u32()?, f.u64()?, f.u64()?);
                let reason = match reason {
                    1 => GapReason::MappedVideoMemory,
                    2 => GapReason::UnreadableSource,
                    3 => GapReason::UnreadableCommands,
                    4 => GapReason::LaunchMemory,
                    _ => return None,
                };
                Self::Gap { reason }
            }
            _ => return None,
        };
        f.0.is_empty().then_some(content)
    }

    /// Returns the device file that the content names.
    pub fn file(&self) -> Option<&'a str> {
        match self {
            Self::Open { path, .. } => path.strip_prefix("/dev/"),
            Self::Ioctl(ioctl) => Some(ioctl.file),
            Self::Map { file, .. } => Some(file),
            _ => None,
        }
    }
}

/// Whether a type has a known form.
pub(super) fn is_known_kind(kind: u32) -> bool {
    (1..=15).contains(&kind)
}

/// Parses `u64 start, u32 process, u32 0, u8 version[40]` and the command line, which is not used.
fn parse_recorder<'a>(f: &mut Fields<'a>) -> Option<Content<'a>> {
    let (start, process, _) = (f.u64()?, f.u32()?, f.u32()?);
    let version = f.text(40)?;
    f.rest();
    Some(Content::Recorder {
        start,
        process,
        version,
    })
}

fn parse_ioctl<'a>(f: &mut Fields<'a>) -> Option<Ioctl<'a>> {
    let (fd, returned, errno) = (f.u32()?, f.u32()? as i32, f.u32()?);
    let (size, nested, is_uvm) = (f.u32()? as usize, f.u32()? as usize, f.u32()? != 0);
    Some(Ioctl {
        fd,
        returned,
        errno,
        is_uvm,
        request: f.u64()?,
        took: f.u64()?,
        file: f.text(24)?,
        before: f.take(size)?,
        after: f.take(size)?,
        nested_before: f.take(nested)?,
        nested_after: f.take(nested)?,
    })
}

fn parse_doorbell(f: &mut Fields<'_>) -> Option<Content<'static>> {
    let (address, _) = (f.u64()?, f.u64()?);
    let code = *f.take(16)?.first_chunk()?;
    let (value, access) = (f.u32()?, f.u32()?);
    let access = match access {
        0 => DoorbellAccess::Store,
        1 => DoorbellAccess::Load,
        2 => DoorbellAccess::Unknown,
        _ => return None,
    };
    Some(Content::Doorbell {
        address,
        code,
        value,
        access,
    })
}

/// Parses `u64 address, u64 bytes, i32 fd, u32 handle, u64 offset, u32 memory of the device, u32 0`.
fn parse_range(f: &mut Fields<'_>) -> Option<MappedRange> {
    let (address, bytes) = (f.u64()?, f.u64()?);
    let (_, handle, offset, _) = (f.u32()?, f.u32()?, f.u64()?, f.u64()?);
    Some(MappedRange {
        address,
        bytes,
        handle,
        offset,
    })
}

/// The bytes that are not yet parsed.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|b| u32::from_le_bytes(*b))
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|b| u64::from_le_bytes(*b))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Takes a text of printable letters that fills `bytes` bytes with zeros.
    fn text(&mut self, bytes: usize) -> Option<&'a str> {
        let field = self.take(bytes)?;
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        let text = std::str::from_utf8(field.get(..end)?).ok()?;
        text.bytes().all(|b| b.is_ascii_graphic()).then_some(text)
    }
}
