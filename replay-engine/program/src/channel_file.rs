//! Writer of a channel plan as one file for the static executable `replay-channel`: steps with their bytes, no images.

use nvidia_client::Control;
use nvidia_client::steps::{ChannelFile, MAX_FILE_RANGES, Step, StepError, StepSink, Steps};
use replay_engine::plan::{Compiled, PageSource as _};
use std::io::{self, Write};
use trace_core::PAGE_SIZE;
use trace_core::recording::{Page, ZERO_PAGE};

/// Maximum number of bytes of a write in the file.
pub const MAX_WRITE_BYTES: usize = 1 << 20;

/// Error of writing a channel file.
#[derive(Debug, thiserror::Error)]
pub enum ChannelFileError {
    /// The plan is of another kind.
    #[error("the plan has no submissions to channels; only a plan for an NVIDIA GPU becomes a channel file")]
    OtherPlan,
    /// The executable has a fixed number of ranges.
    #[error(
        "the plan maps {ranges} ranges of memory, more than {MAX_FILE_RANGES}, which is the limit of a channel file"
    )]
    TooManyRanges {
        /// Number of ranges.
        ranges: u64,
    },
    /// A page image that a step refers to is missing.
    #[error("the page image {image} of the plan is missing")]
    MissingPage {
        /// Number of the image.
        image: u32,
    },
    /// The steps cannot be decoded.
    #[error("the plan's body: {0}")]
    Steps(StepError),
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] io::Error),
}

/// A written channel file in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelFileSummary {
    /// Size of the file.
    pub bytes: u64,
    /// Number of steps in the file. A long write of the plan has several.
    pub steps: u64,
}

/// Encoded steps on their way into a file.
struct FileSink<'w> {
    file: &'w mut dyn Write,
    bytes: u64,
    /// The first error.
    error: Option<io::Error>,
}

impl StepSink for FileSink<'_> {
    fn add(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.file.write_all(bytes).err();
            self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        }
    }
}

impl FileSink<'_> {
    /// Returns the first error of a write so far.
    fn check(&mut self) -> Result<(), ChannelFileError> {
        self.error.take().map_or(Ok(()), |e| Err(e.into()))
    }
}

/// Writes a channel plan as a [`ChannelFile`]. The steps are those of the plan, in order; bytes of page images stand in
/// the file, in writes of up to [`MAX_WRITE_BYTES`].
///
/// # Errors
/// If the plan has another kind, does not fit the executable, lacks a page image, or the file cannot be written.
pub fn write_channel_file(compiled: &Compiled, to: &mut dyn Write) -> Result<ChannelFileSummary, ChannelFileError> {
    let channel = compiled.plan.channel().ok_or(ChannelFileError::OtherPlan)?;
    let is_map = |step: &Result<Step<'_>, StepError>| matches!(step, Ok(Step::Map { .. }));
    let ranges = Steps::new(&channel.body).filter(is_map).count();
    if ranges > MAX_FILE_RANGES {
        return Err(ChannelFileError::TooManyRanges { ranges: ranges as u64 });
    }
    let mut sink = FileSink {
        file: to,
        bytes: 0,
        error: None,
    };
    let control = Control {
        va: channel.control.get(),
    };
    ChannelFile::encode_head(control, &mut sink);
    let mut steps = 0;
    for step in Steps::new(&channel.body) {
        steps += match step.map_err(ChannelFileError::Steps)? {
            Step::Write { va, data } => write_bytes(&mut sink, va, data),
            Step::WritePages { va, bytes, pages } => write_pages(&mut sink, compiled, va, bytes, pages)?,
            step => {
                step.encode(&mut sink);
                1
            }
        };
        sink.check()?;
    }
    Ok(ChannelFileSummary {
        bytes: sink.bytes,
        steps,
    })
}

/// Writes bytes in parts, and returns the number of steps.
fn write_bytes(sink: &mut FileSink<'_>, va: u64, data: &[u8]) -> u64 {
    let mut at = va;
    let mut steps = 0;
    for part in data.chunks(MAX_WRITE_BYTES) {
        Step::Write { va: at, data: part }.encode(sink);
        at = at.wrapping_add(part.len() as u64);
        steps += 1;
    }
    steps
}

/// Writes the bytes of page images in parts, and returns the number of steps.
fn write_pages(
    sink: &mut FileSink<'_>,
    compiled: &Compiled,
    va: u64,
    bytes: u64,
    pages: &[[u8; 4]],
) -> Result<u64, ChannelFileError> {
    let mut part: Vec<u8> = Vec::new();
    let mut steps = 0;
    // Address of the next byte, and of the first byte of `part`.
    let (mut at, mut start) = (va, va);
    let mut left = bytes;
    for number in pages {
        let number = u32::from_le_bytes(*number);
        let image = find_image(compiled, number)?;
        let skip = (at % PAGE_SIZE as u64) as usize;
        let now = left.min((PAGE_SIZE - skip) as u64) as usize;
        if part.len() + now > MAX_WRITE_BYTES {
            steps += write_bytes(sink, start, &part);
            sink.check()?;
            part.clear();
            start = at;
        }
        part.extend(image.iter().skip(skip).take(now));
        at = at.wrapping_add(now as u64);
        left -= now as u64;
    }
    Ok(steps + write_bytes(sink, start, &part))
}

/// Returns a page image by its number; 0 is the page of zeros.
fn find_image(compiled: &Compiled, number: u32) -> Result<&Page, ChannelFileError> {
    let Some(index) = number.checked_sub(1) else {
        return Ok(&ZERO_PAGE);
    };
    let digest = compiled.plan.images.get(index as usize);
    let image = digest.and_then(|d| compiled.pages.page(d));
    image.ok_or(ChannelFileError::MissingPage { image: number })
}

#[cfg(test)]
mod tests;
