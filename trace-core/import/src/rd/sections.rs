//! The section reader of a file: a type, a length, and the contents.

use crate::error::{FilePosition, ImportError};
use crate::unpacked_file::{is_damage, unpacked};
use num_enum::TryFromPrimitive;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::GpuVa;
use trace_core::progress::Progress;

/// Maximum number of consecutive sections of unknown kinds: a file with more is another format, or damaged.
const MAX_UNKNOWN_SECTIONS: u64 = 1 << 12;
/// Maximum size of a section, bytes: a buffer of the GPU.
const MAX_BYTES: u32 = 1 << 30;
/// Two words that recorders put between sections for resynchronisation after damage.
const SYNC: u32 = u32::MAX;

/// The content of a section. The numbers are those of Mesa's `redump.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum Kind {
    /// Name of a test.
    Test = 1,
    /// The submitting process: its name, its id, a fence.
    Command = 2,
    /// Address and length of a buffer.
    Address = 3,
    /// State of a context.
    Context = 4,
    /// Commands.
    Commands = 5,
    /// Address and length of submitted commands.
    CommandsAt = 6,
    /// A parameter of a surface.
    Parameter = 7,
    /// Clears the parameters.
    Flush = 8,
    /// A program.
    Program = 9,
    /// A vertex shader.
    VertexShader = 10,
    /// A fragment shader.
    FragmentShader = 11,
    /// Contents of the previous buffer.
    Contents = 12,
    /// Number of the GPU, 630.
    GpuId = 13,
    /// The chip id of the GPU.
    ChipId = 14,
    /// Buffer that shaders log to.
    ShaderLog = 15,
    /// Buffer that the command processor logs to.
    CommandLog = 16,
    /// A buffer to be written to a file.
    WriteBuffer = 17,
}

impl Kind {
    /// Returns a description of the content.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Command => "process",
            Self::Address => "buffer address",
            Self::Context => "context",
            Self::Commands => "commands without an address",
            Self::CommandsAt => "submit",
            Self::Parameter => "parameter",
            Self::Flush => "flush of parameters",
            Self::Program => "program",
            Self::VertexShader => "vertex shader",
            Self::FragmentShader => "fragment shader",
            Self::Contents => "buffer contents",
            Self::GpuId => "GPU",
            Self::ChipId => "chip",
            Self::ShaderLog => "shader log",
            Self::CommandLog => "command-processor log",
            Self::WriteBuffer => "buffer to write out",
        }
    }
}

/// A section.
pub(super) struct Section {
    /// Offset in the unpacked file.
    pub at: u64,
    /// The kind; `None`: unknown, with the number in the second field.
    pub kind: Option<Kind>,
    pub number: u32,
    pub bytes: Vec<u8>,
}

/// The reason why there are no more sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The file ends after a section.
    Whole,
    /// The file is damaged: the reason, and the byte of the unpacked file.
    Broken(String, u64),
}

/// A reader of sections from a file, packed or not.
pub(super) struct Sections<'a> {
    from: BufReader<Box<dyn Read + Send>>,
    path: &'a Path,
    progress: &'a Progress,
    /// Number of bytes of the file that were read, compressed ones counted as they are.
    read: Arc<AtomicU64>,
    reported: u64,
    at: u64,
    /// Number of sections of unknown kinds since the last known one, and the offset of the first of them.
    unknown: (u64, u64),
}

impl<'a> Sections<'a> {
    pub(super) fn open(path: &'a Path, progress: &'a Progress) -> Result<Self, ImportError> {
        let io = |e| ImportError::io(path, e);
        let file = File::open(path).map_err(io)?;
        progress.set_total(file.metadata().map_err(io)?.len().max(1));
        let read = Arc::new(AtomicU64::new(0));
        let from = BufReader::with_capacity(1 << 16, unpacked(file, &read, progress));
        Ok(Self {
            from,
            path,
            progress,
            read,
            reported: 0,
            at: 0,
            unknown: (0, 0),
        })
    }

    /// Returns the number of bytes of the unpacked file that were read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Reads up to `bytes` bytes; fewer if the file ends.
    fn take(&mut self, bytes: u32) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let read = (&mut self.from).take(u64::from(bytes)).read_to_end(&mut out);
        self.at += out.len() as u64;
        read.map(|_| out)
    }

    /// Returns the next section, or the end of the file.
    pub(super) fn next(&mut self) -> Result<Result<Section, End>, ImportError> {
        let read = self.read.load(Ordering::Relaxed);
        self.progress.advance(read - self.reported)?;
        self.reported = read;
        let at = self.at;
        match self.section() {
            Ok(found) => Ok(found),
            // Damage of a compressed file is like other damage; a file that cannot be read is an error.
            Err(e) if is_damage(&e) => Ok(Err(End::Broken(
                format!("the file cannot be decompressed further: {e}"),
                at,
            ))),
            Err(e) => Err(ImportError::io(self.path, e)),
        }
    }

    fn section(&mut self) -> io::Result<Result<Section, End>> {
        loop {
            let at = self.at;
            let header = self.take(8)?;
            let words: Vec<u32> = header.chunks_exact(4).map(word).collect();
            let [number, bytes] = words[..] else {
                let end = match header.len() {
                    0 => End::Whole,
                    n => End::Broken(format!("the last {n} bytes are not a section"), at),
                };
                return Ok(Err(end));
            };
            if (number, bytes) == (SYNC, SYNC) {
                continue;
            }
            if bytes > MAX_BYTES {
                let why = format!("a section has {bytes} bytes, more than {MAX_BYTES}; the rest was not used");
                return Ok(Err(End::Broken(why, at)));
            }
            let contents = self.take(bytes)?;
            if contents.len() as u64 != u64::from(bytes) {
                let why = format!("a section of {bytes} bytes has {}", contents.len());
                return Ok(Err(End::Broken(why, at)));
            }
            let kind = Kind::try_from(number).ok();
            self.unknown = match (kind, self.unknown) {
                (Some(_), _) => (0, 0),
                (None, (0, _)) => (1, at),
                (None, (count, first)) => (count + 1, first),
            };
            if self.unknown.0 > MAX_UNKNOWN_SECTIONS {
                let why = format!(
                    "{MAX_UNKNOWN_SECTIONS} sections of unknown kinds follow each other from here on; the rest was not \
                     used"
                );
                return Ok(Err(End::Broken(why, self.unknown.1)));
            }
            return Ok(Ok(Section {
                at,
                kind,
                number,
                bytes: contents,
            }));
        }
    }
}

/// The first sections of a file.
struct HeadSections {
    /// Number of known sections.
    known: u32,
    /// Whether one of them names the GPU or a buffer.
    is_typical: bool,
    /// Byte of the first section that is not of the format, with its number and size.
    wrong: Option<(usize, u32, u32)>,
}

/// Minimum number of known sections that identify a file.
const MIN_KNOWN: u32 = 3;

/// Reads the sections that begin in the first bytes of a file.
fn read_head_sections(head: &[u8]) -> HeadSections {
    let mut found = HeadSections {
        known: 0,
        is_typical: false,
        wrong: None,
    };
    let mut at = 0;
    while let Some([number, bytes]) = head.get(at..).and_then(|rest| rest.first_chunk::<8>()).map(words) {
        if (number, bytes) != (SYNC, SYNC) {
            let expected = match Kind::try_from(number) {
                Ok(Kind::GpuId) => bytes == 4,
                Ok(Kind::ChipId) => bytes == 8,
                Ok(Kind::Address | Kind::CommandsAt) => bytes == 8 || bytes == 12,
                Ok(Kind::Test | Kind::Command) => bytes <= 1 << 16,
                Ok(_) => bytes <= MAX_BYTES,
                Err(_) => false,
            };
            if !expected {
                found.wrong = Some((at, number, bytes));
                return found;
            }
            found.known += 1;
            found.is_typical |= matches!(number, 3 | 6 | 13 | 14);
            at += bytes as usize;
        }
        at += 8;
    }
    found
}

fn words(bytes: &[u8; 8]) -> [u32; 2] {
    let (low, high) = bytes.split_at(4);
    [word(low), word(high)]
}

/// Whether the first bytes of a file are sections.
pub(super) fn begins_with_sections(head: &[u8]) -> bool {
    let found = read_head_sections(head);
    // A later section of an unknown kind is a finding.
    found.is_typical && (found.known >= MIN_KNOWN || found.wrong.is_none())
}

/// Describes the first bytes of a file that begins with a section, but does not go on with one.
pub(super) fn describe_close(head: &[u8]) -> Option<String> {
    let found = read_head_sections(head);
    let (at, number, bytes) = found.wrong.filter(|_| found.is_typical)?;
    Some(format!(
        "a file that begins like a recording of freedreno's tools, but at byte {at:#x} stands a section of kind {number} \
         with {bytes} bytes, which the format does not have"
    ))
}

/// Reads a little-endian word of four bytes.
pub(super) fn word(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |n, b| n << 8 | u32::from(*b))
}

/// Reads address and length from a section: two words, and a third with the upper half of the address.
pub(super) fn address(section: &Section, path: &Path) -> Result<(GpuVa, u32), ImportError> {
    let mut words = section.bytes.chunks_exact(4).map(word);
    let (Some(low), Some(length)) = (words.next(), words.next()) else {
        let message = format!("an address of {} bytes (expected 8 or 12)", section.bytes.len());
        return Err(ImportError::malformed(path, FilePosition::Byte(section.at), message));
    };
    let high = words.next().unwrap_or(0);
    Ok((GpuVa::new(u64::from(high) << 32 | u64::from(low)), length))
}
