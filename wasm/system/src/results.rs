//! What a copy leaves in the memory of the system module: output and the log of its system calls.

use crate::SystemFunction;
use crate::layout::{ENTRY_BYTES, HEADER_BYTES, MAGIC, Region, Stream, SystemLayout, VERSION, header};
use std::fmt;
use std::ops::Range;

/// A system call of a copy, from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Number of the function.
    pub function: u32,
    /// Result: an error number of WASI, 0 for success; for `invoke` a length, or a negative error number.
    pub result: i32,
    /// The first two arguments, cut to 32 bits.
    pub arguments: [u32; 2],
    /// Virtual time of the call, in nanoseconds.
    pub time: u64,
    /// Number of bytes that the call moved to or from the program.
    pub bytes: u32,
}

impl SystemCall {
    /// Returns the name of the function, or `None` for an unknown number.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        SystemFunction::from_number(self.function).map(|f| f.name)
    }
}

/// Writes the call as text: `fd_write(fd=1, iovs=0x1000) = 0 (12 bytes)`.
impl fmt::Display for SystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(function) = SystemFunction::from_number(self.function) else {
            return write!(f, "function {} = {}", self.function, self.result);
        };
        write!(f, "{}(", function.name)?;
        let named = function.arguments.iter().zip(self.arguments);
        for (i, (name, value)) in named.filter(|(name, _)| !name.is_empty()).enumerate() {
            let separator = if i > 0 { ", " } else { "" };
            // Small values are descriptors, codes and counts.
            if value < 0x400 {
                write!(f, "{separator}{name}={value}")?;
            } else {
                write!(f, "{separator}{name}={value:#x}")?;
            }
        }
        write!(f, ") = {}", self.result)?;
        match self.bytes {
            0 => Ok(()),
            1 => f.write_str(" (1 byte)"),
            n => write!(f, " ({n} bytes)"),
        }
    }
}

/// The results in the memory of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemResults {
    /// Bytes in the buffer of standard output, after those that the host drained.
    pub standard_output: Vec<u8>,
    /// Bytes in the buffer of standard error, after those that the host drained.
    pub standard_error: Vec<u8>,
    /// The first calls, in their order.
    pub calls: Vec<SystemCall>,
    /// Number of calls that the log did not keep.
    pub lost_calls: u64,
}

/// The memory is not one that the system module left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultError {
    /// The memory is too short.
    #[error("memory of the system calls: byte {offset} is missing (the memory has {bytes} bytes)")]
    Truncated {
        /// Offset of the first missing part.
        offset: u64,
        /// Bytes that are there.
        bytes: u64,
    },
    /// The header is damaged.
    #[error("memory of the system calls: the header has {what} {value:#x}")]
    Header {
        /// The damaged field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
}

/// Ranges of the memory that hold the results of a copy, bytes from the start of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultRanges {
    /// Bytes in the buffer of standard output.
    pub output: Range<u32>,
    /// Bytes in the buffer of standard error.
    pub error_output: Range<u32>,
    /// Entries of the log.
    pub log: Range<u32>,
}

impl SystemLayout {
    /// Number of bytes at the start of the memory that [`SystemLayout::result_ranges`] needs.
    pub const HEADER_BYTES: u32 = HEADER_BYTES;

    /// Returns where the results of a copy are. A host without the whole memory at hand reads the header first.
    ///
    /// # Errors
    /// When `header` is too short or damaged.
    pub fn result_ranges(&self, header: &[u8]) -> Result<ResultRanges, ResultError> {
        self.check_header(header)?;
        let range = |stream: Stream| {
            let (region, length) = self.stream_length(header, stream)?;
            Ok(region.offset..region.offset + length)
        };
        let kept = read_u64(header, header::CALLS)?.min((self.log.capacity / ENTRY_BYTES).into());
        let log_bytes = u32::try_from(kept).unwrap_or(0) * ENTRY_BYTES;
        Ok(ResultRanges {
            output: range(Stream::Output)?,
            error_output: range(Stream::Error)?,
            log: self.log.offset..self.log.offset + log_bytes,
        })
    }

    /// Returns the calls in the bytes of the log, and the number of calls that the log did not keep.
    ///
    /// # Errors
    /// When `header` or `log` is too short.
    pub fn decode_calls(&self, header: &[u8], log: &[u8]) -> Result<(Vec<SystemCall>, u64), ResultError> {
        let calls = read_u64(header, header::CALLS)?;
        let kept = calls.min((self.log.capacity / ENTRY_BYTES).into());
        let bytes = usize::try_from(kept)
            .map_err(|_| truncated(log, 0))?
            .saturating_mul(ENTRY_BYTES as usize);
        let entries = read(log, 0, bytes)?.chunks_exact(ENTRY_BYTES as usize);
        Ok((entries.map(read_call).collect::<Result<_, _>>()?, calls - kept))
    }

    /// Returns the region of a stream, and the number of its bytes that are in use.
    fn stream_length(&self, header: &[u8], stream: Stream) -> Result<(Region, u32), ResultError> {
        let region = match stream {
            Stream::Output => self.output,
            Stream::Error => self.error_output,
        };
        let length = read_u32(header, stream.header() + 8)?;
        if length > region.capacity {
            return Err(ResultError::Header {
                what: "a length of output of",
                value: length.into(),
            });
        }
        Ok((region, length))
    }

    /// Returns the results in the memory of a copy.
    ///
    /// # Errors
    /// When `memory` is too short, or its header is damaged.
    pub fn read_results(&self, memory: &[u8]) -> Result<SystemResults, ResultError> {
        self.check_header(memory)?;
        let ranges = self.result_ranges(memory)?;
        let log = read(memory, ranges.log.start as usize, ranges.log.len())?;
        let (calls, lost_calls) = self.decode_calls(memory, log)?;
        Ok(SystemResults {
            standard_output: self.read_stream(memory, Stream::Output)?.to_vec(),
            standard_error: self.read_stream(memory, Stream::Error)?.to_vec(),
            calls,
            lost_calls,
        })
    }

    /// Returns the bytes in the buffer of an output stream.
    ///
    /// # Errors
    /// When `memory` is too short, or its header is damaged.
    pub fn read_stream<'a>(&self, memory: &'a [u8], stream: Stream) -> Result<&'a [u8], ResultError> {
        let (region, length) = self.stream_length(memory, stream)?;
        read(memory, region.offset as usize, length as usize)
    }

    fn check_header(&self, memory: &[u8]) -> Result<(), ResultError> {
        for (what, offset, expected) in [("magic", header::MAGIC, MAGIC), ("version", header::VERSION, VERSION)] {
            let value = read_u32(memory, offset)?;
            if value != expected {
                let value = value.into();
                return Err(ResultError::Header { what, value });
            }
        }
        Ok(())
    }
}

fn read_call(entry: &[u8]) -> Result<SystemCall, ResultError> {
    Ok(SystemCall {
        function: read_u32(entry, 0)?,
        result: read_u32(entry, 4)?.cast_signed(),
        arguments: [read_u32(entry, 8)?, read_u32(entry, 12)?],
        time: read_u64(entry, 16)?,
        bytes: read_u32(entry, 24)?,
    })
}

fn truncated(memory: &[u8], offset: u64) -> ResultError {
    ResultError::Truncated {
        offset,
        bytes: memory.len() as u64,
    }
}

fn read(memory: &[u8], offset: usize, length: usize) -> Result<&[u8], ResultError> {
    let end = offset.checked_add(length);
    end.and_then(|end| memory.get(offset..end))
        .ok_or_else(|| truncated(memory, offset as u64))
}

fn read_u32(memory: &[u8], offset: usize) -> Result<u32, ResultError> {
    let bytes = read(memory, offset, 4)?;
    Ok(bytes.iter().rev().fold(0, |value, b| value << 8 | u32::from(*b)))
}

fn read_u64(memory: &[u8], offset: usize) -> Result<u64, ResultError> {
    let bytes = read(memory, offset, 8)?;
    Ok(bytes.iter().rev().fold(0, |value, b| value << 8 | u64::from(*b)))
}
