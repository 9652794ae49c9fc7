//! The steps of a channel replay as bytes: memory, contents, submissions. `docs/plan.md` has the format.
//!
//! All numbers are little endian. A step is a byte that names it, and its fields.

use crate::Place;
use core::fmt;

/// Bytes of a page image.
pub const PAGE_BYTES: usize = 4096;

const MAP: u8 = 1;
const WRITE: u8 = 2;
const WRITE_PAGES: u8 = 3;
const SUBMIT: u8 = 4;
const READ: u8 = 5;
const MAP_SCHEDULER: u8 = 6;

/// The engine that a submission is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Compute, with copies by its own copy object.
    Compute,
    /// Copies.
    Copy,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Map zeroed memory.
    Map {
        /// Where it is.
        place: Place,
        /// GPU address.
        va: u64,
        /// Size in bytes.
        bytes: u64,
    },
    /// Map the page of the compute scheduler. It is no memory: see [`crate::Client::map_scheduler_page`].
    MapScheduler {
        /// GPU address of the page of 4 KiB.
        va: u64,
    },
    /// Write bytes to mapped memory.
    Write {
        /// GPU address.
        va: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// Write bytes of page images to mapped memory. The first byte is at `va` modulo 4096 of the first page.
    WritePages {
        /// GPU address.
        va: u64,
        /// Number of bytes.
        bytes: u64,
        /// Numbers of the page images, one for each page of the range; 0 is the page of zeros.
        pages: &'a [[u8; 4]],
    },
    /// Submit a push buffer in mapped memory, and wait until the GPU has executed it.
    Submit {
        /// Event of the recording.
        event: u64,
        /// The engine.
        engine: EngineKind,
        /// GPU address of the first word.
        va: u64,
        /// Number of words.
        words: u32,
    },
    /// Read an output.
    Read {
        /// Number of the output in the plan.
        output: u32,
        /// GPU address.
        va: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

/// Bytes that are not steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepError {
    /// Offset of the step.
    pub at: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of the steps: {}", self.at, self.what)
    }
}

impl core::error::Error for StepError {}

/// An iterator over steps. It ends after an error.
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Steps<'a> {
    /// Iterates over the steps in these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset of the next step.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(bytes)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|b| u64::from_le_bytes(*b))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.first_chunk().map(|b| u32::from_le_bytes(*b))
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn step(&mut self) -> Result<Step<'a>, &'static str> {
        const CUT: &str = "the step ends early";
        match self.u8().ok_or(CUT)? {
            MAP => {
                let place = match self.u8().ok_or(CUT)? {
                    0 => Place::Video,
                    1 => Place::System,
                    _ => return Err("the place is unknown"),
                };
                let va = self.u64().ok_or(CUT)?;
                let bytes = self.u64().ok_or(CUT)?;
                Ok(Step::Map { place, va, bytes })
            }
            MAP_SCHEDULER => {
                let va = self.u64().ok_or(CUT)?;
                Ok(Step::MapScheduler { va })
            }
            WRITE => {
                let va = self.u64().ok_or(CUT)?;
                let bytes = self.u32().ok_or(CUT)?;
                let data = self.take(bytes as usize).ok_or(CUT)?;
                Ok(Step::Write { va, data })
            }
            WRITE_PAGES => {
                let va = self.u64().ok_or(CUT)?;
                let bytes = self.u64().ok_or(CUT)?;
                let count = page_count(va, bytes).ok_or("the range has no end")?;
                let size = count.checked_mul(4).ok_or("the range is too long")?;
                let (pages, _) = self.take(size).ok_or(CUT)?.as_chunks::<4>();
                Ok(Step::WritePages { va, bytes, pages })
            }
            SUBMIT => {
                let event = self.u64().ok_or(CUT)?;
                let engine = match self.u8().ok_or(CUT)? {
                    0 => EngineKind::Compute,
                    1 => EngineKind::Copy,
                    _ => return Err("the engine is unknown"),
                };
                let va = self.u64().ok_or(CUT)?;
                let words = self.u32().ok_or(CUT)?;
                Ok(Step::Submit {
                    event,
                    engine,
                    va,
                    words,
                })
            }
            READ => {
                let output = self.u32().ok_or(CUT)?;
                let va = self.u64().ok_or(CUT)?;
                let bytes = self.u64().ok_or(CUT)?;
                Ok(Step::Read { output, va, bytes })
            }
            _ => Err("the step is unknown"),
        }
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Result<Step<'a>, StepError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let at = self.at;
        let step = self.step().map_err(|what| StepError { at, what });
        if step.is_err() {
            self.at = self.bytes.len();
        }
        Some(step)
    }
}

/// Returns the number of pages that a range touches, or `None` if its end is no address.
#[must_use]
pub fn page_count(va: u64, bytes: u64) -> Option<usize> {
    let first = va % PAGE_BYTES as u64;
    va.checked_add(bytes)?;
    let end = first.checked_add(bytes)?;
    usize::try_from(end.div_ceil(PAGE_BYTES as u64)).ok()
}

/// A receiver of encoded steps.
pub trait StepSink {
    /// Adds bytes at the end.
    fn add(&mut self, bytes: &[u8]);
}

impl Step<'_> {
    /// Encodes the step. A [`Step::Write`] has less than 4 GiB.
    pub fn encode(&self, to: &mut impl StepSink) {
        match self {
            Self::Map { place, va, bytes } => {
                let place = match place {
                    Place::Video => 0,
                    Place::System => 1,
                };
                to.add(&[MAP, place]);
                to.add(&va.to_le_bytes());
                to.add(&bytes.to_le_bytes());
            }
            Self::MapScheduler { va } => {
                to.add(&[MAP_SCHEDULER]);
                to.add(&va.to_le_bytes());
            }
            Self::Write { va, data } => {
                to.add(&[WRITE]);
                to.add(&va.to_le_bytes());
                to.add(&(data.len() as u32).to_le_bytes());
                to.add(data);
            }
            Self::WritePages { va, bytes, pages } => {
                to.add(&[WRITE_PAGES]);
                to.add(&va.to_le_bytes());
                to.add(&bytes.to_le_bytes());
                to.add(pages.as_flattened());
            }
            Self::Submit {
                event,
                engine,
                va,
                words,
            } => {
                to.add(&[SUBMIT]);
                to.add(&event.to_le_bytes());
                to.add(&[u8::from(*engine == EngineKind::Copy)]);
                to.add(&va.to_le_bytes());
                to.add(&words.to_le_bytes());
            }
            Self::Read { output, va, bytes } => {
                to.add(&[READ]);
                to.add(&output.to_le_bytes());
                to.add(&va.to_le_bytes());
                to.add(&bytes.to_le_bytes());
            }
        }
    }
}

/// Magic bytes of a channel file.
pub const CHANNEL_FILE_MAGIC: [u8; 8] = *b"KINECHAN";
/// Version of channel files.
pub const CHANNEL_FILE_VERSION: u32 = 1;
/// Maximum number of ranges of memory in a channel file: its player has no heap.
pub const MAX_FILE_RANGES: usize = 256;

/// A plan in one file, for a program without heap: where the player's memory is, and the steps.
#[derive(Clone, Copy, Debug)]
pub struct ChannelFile<'a> {
    /// The player's own memory.
    pub control: crate::Control,
    /// The steps; they take no page images.
    pub steps: &'a [u8],
}

impl<'a> ChannelFile<'a> {
    /// Parses a file, or returns `None` if it is none of this version.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&CHANNEL_FILE_MAGIC)?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (_reserved, rest) = rest.split_first_chunk::<4>()?;
        let (control, steps) = rest.split_first_chunk::<8>()?;
        let control = crate::Control {
            va: u64::from_le_bytes(*control),
        };
        (u32::from_le_bytes(*version) == CHANNEL_FILE_VERSION).then_some(Self { control, steps })
    }

    /// Adds the bytes before the steps.
    pub fn encode_head(control: crate::Control, to: &mut impl StepSink) {
        to.add(&CHANNEL_FILE_MAGIC);
        to.add(&CHANNEL_FILE_VERSION.to_le_bytes());
        to.add(&[0; 4]);
        to.add(&control.va.to_le_bytes());
    }
}
