//! The records of `events.bin`.
//!
//! The file begins with 8 bytes: `EHRR`, the version (16 bits), zeros. Each record has a header of 32 bytes, packed and
//! little-endian: number of the call (16 bits), sequence number, nanoseconds of the monotonic clock, thread (64 bits
//! each), size of the record with its header (16 bits and zeros; 32 bits from version 4 on). A record of number 0xffff
//! with the number of calls and `HEOF` ends a complete file.

use crate::bytes::Endian;
use std::ops::RangeInclusive;
use trace_core::finding::{Finding, FindingKind};

/// Versions with the known numbers of calls.
pub(super) const VERSIONS: RangeInclusive<u16> = 3..=4;
/// Maximum size of the file, bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 30;
/// Magic number of the file, and of its end record.
const MAGIC: u64 = 0x5252_4845;
const END_MAGIC: u64 = 0x464f_4548;
/// Number of the end record, and its size in bytes.
const END: u16 = 0xffff;
const END_BYTES: usize = 44;
/// Size of a record's header, bytes.
const HEADER_BYTES: usize = 32;

/// The first bytes of the file.
pub(super) struct FileHeader {
    pub(super) version: u16,
}

impl FileHeader {
    pub(super) const BYTES: usize = 8;

    /// Parses the first bytes, or returns `None` if the file is another one.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let field = |at, count| Endian::Little.read(bytes, at, count);
        let version = u16::try_from(field(4, 2)?).ok()?;
        (field(0, 4)? == MAGIC).then_some(Self { version })
    }
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    /// Byte of the file.
    pub(super) at: u64,
    pub(super) call: u16,
    sequence: u64,
    pub(super) time: u64,
    pub(super) thread: u64,
    /// What follows the header.
    pub(super) payload: &'a [u8],
}

impl Record<'_> {
    /// Returns a field of the payload, or `None` if it ends before.
    pub(super) fn field(&self, at: usize, bytes: usize) -> Option<u64> {
        Endian::Little.read(self.payload, at, bytes)
    }
}

/// The calls of a file.
pub(super) struct Records;

impl Records {
    /// Reads all calls, in the order of their sequence numbers, and tells an early end.
    pub(super) fn read(bytes: &[u8]) -> (Vec<Record<'_>>, Option<Finding>) {
        let mut records = Vec::new();
        let mut at = FileHeader::BYTES;
        let end = loop {
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.is_empty() {
                break Some("the record of a complete end is missing: the capture was interrupted".to_owned());
            }
            let field = |at, count| Endian::Little.read(rest, at, count);
            let header = || Some((field(0, 2)?, field(2, 8)?, field(10, 8)?, field(18, 8)?, field(26, 4)?));
            let Some((call, sequence, time, thread, length)) = header() else {
                break Some(format!("the last {} bytes are no record", rest.len()));
            };
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let call = call as u16;
            if call == END {
                // The repair tool writes only the lower 16 bits of its length.
                let known = (field(HEADER_BYTES, 8), field(HEADER_BYTES + 8, 4));
                break match known {
                    (Some(total), Some(END_MAGIC)) if total == records.len() as u64 => {
                        let left = rest.len() - END_BYTES;
                        (left > 0).then(|| format!("{left} bytes follow the end record"))
                    }
                    (Some(total), Some(END_MAGIC)) => Some(format!(
                        "the end record counts {total} calls, but there are {}",
                        records.len()
                    )),
                    _ => Some("the end record is damaged".to_owned()),
                };
            }
            let Some(payload) = rest.get(..length).and_then(|r| r.get(HEADER_BYTES..)) else {
                break Some(format!(
                    "a record of {length} bytes begins here; {} are there",
                    rest.len()
                ));
            };
            records.push(Record {
                at: at as u64,
                call,
                sequence,
                time,
                thread,
                payload,
            });
            at += length;
        };
        records.sort_by_key(|r| r.sequence);
        let place = format!("byte {at:#x}");
        let end = end.map(|message| Finding::new(FindingKind::TruncatedSection, place, message));
        (records, end)
    }
}
