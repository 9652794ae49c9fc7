//! The records of a replay.

use crate::bytes::Endian;
use std::io::{self, Read};

/// Magic number: `IRRP`.
const MAGIC: u64 = 0x5052_5249;
/// Size of a record's header, bytes.
const HEADER_BYTES: usize = 96;
/// Maximum size of a header, and of the payload of a record, bytes.
const MAX_HEADER_BYTES: u64 = 1 << 12;
const MAX_PAYLOAD_BYTES: u64 = 1 << 30;

/// The first bytes of a file.
pub(super) struct FileHeader {
    pub(super) major: u16,
    pub(super) minor: u16,
    header_bytes: u64,
    /// Size of the file; 0 if the recorder did not close it.
    pub(super) file_bytes: u64,
}

impl FileHeader {
    pub(super) const BYTES: usize = 24;
    /// The known major versions. Version 2 adds the names of functions to executables.
    pub(super) const KNOWN_MAJORS: [u16; 2] = [1, 2];

    /// Parses the first bytes, or returns `None` if the file is another one.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let field = |at, count| Endian::Little.read(bytes, at, count);
        (field(0, 4)? == MAGIC).then_some(())?;
        Some(Self {
            major: field(4, 2)? as u16,
            minor: field(6, 2)? as u16,
            header_bytes: field(8, 4)?,
            file_bytes: field(16, 8)?,
        })
    }

    pub(super) fn is_known(&self) -> bool {
        Self::KNOWN_MAJORS.contains(&self.major)
    }
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Session,
    Object,
    Operation,
    Blob,
    Unsupported,
    /// Another one, with its number.
    Unknown(u64),
}

/// A record.
pub(super) struct Record {
    /// Byte of the file.
    pub(super) at: u64,
    pub(super) kind: RecordKind,
    pub(super) thread: u64,
    pub(super) object: u64,
    pub(super) related_object: u64,
    pub(super) payload_kind: u64,
    pub(super) object_kind: u64,
    pub(super) operation: u64,
    pub(super) status: u32,
    pub(super) payload: Vec<u8>,
}

impl Record {
    /// Returns a field of the payload, or `None` if it ends before.
    pub(super) fn field(&self, at: usize, bytes: usize) -> Option<u64> {
        Endian::Little.read(&self.payload, at, bytes)
    }

    /// Returns a reader of the records of a file of `bytes` bytes.
    pub(super) fn reader<R: Read>(mut from: R, header: &FileHeader, bytes: u64) -> io::Result<RecordReader<R>> {
        let at = header.header_bytes.clamp(FileHeader::BYTES as u64, MAX_HEADER_BYTES);
        io::copy(&mut (&mut from).take(at), &mut io::sink())?;
        // Bytes after the stated end belong to nothing.
        let end = match header.file_bytes {
            0 => bytes,
            stated => stated.min(bytes),
        };
        let is_cut = header.file_bytes > bytes;
        Ok(RecordReader { from, at, end, is_cut })
    }
}

/// Why there are no more records.
pub(super) enum RecordEnd {
    /// The file ends after a record.
    Whole,
    /// The file is damaged at a byte, for a reason.
    Damaged(u64, String),
}

/// A reader of records.
pub(super) struct RecordReader<R> {
    from: R,
    at: u64,
    end: u64,
    is_cut: bool,
}

impl<R: Read> RecordReader<R> {
    /// Returns the number of bytes that were read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns the next record, or the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Result<Record, RecordEnd>> {
        let at = self.at;
        let left = self.end.saturating_sub(at);
        let damaged = |why: String| Ok(Err(RecordEnd::Damaged(at, why)));
        if left == 0 {
            return match self.is_cut {
                true => damaged("the file is shorter than its header states".to_owned()),
                false => Ok(Err(RecordEnd::Whole)),
            };
        }
        if left < HEADER_BYTES as u64 {
            return damaged(format!("the last {left} bytes are no record"));
        }
        let mut header = [0; HEADER_BYTES];
        self.from.read_exact(&mut header)?;
        let field = |at, count| Endian::Little.read(&header, at, count).unwrap_or_default();
        let (record_bytes, payload_bytes, header_bytes) = (field(0, 8), field(8, 8), field(56, 4));
        let is_sound = (HEADER_BYTES as u64..=MAX_HEADER_BYTES).contains(&header_bytes)
            && payload_bytes <= MAX_PAYLOAD_BYTES
            && header_bytes
                .checked_add(payload_bytes)
                .is_some_and(|needed| needed <= record_bytes);
        if !is_sound {
            return damaged(format!(
                "a record of {record_bytes} bytes with a header of {header_bytes} and a payload of {payload_bytes} is not \
                 possible"
            ));
        }
        if record_bytes > left {
            return damaged(format!(
                "a record of {record_bytes} bytes begins here; {left} are there"
            ));
        }
        let more = header_bytes - HEADER_BYTES as u64;
        io::copy(&mut (&mut self.from).take(more), &mut io::sink())?;
        let mut payload = Vec::new();
        (&mut self.from).take(payload_bytes).read_to_end(&mut payload)?;
        let rest = record_bytes - header_bytes - payload_bytes;
        io::copy(&mut (&mut self.from).take(rest), &mut io::sink())?;
        self.at += record_bytes;
        let kind = match field(60, 2) {
            1 => RecordKind::Session,
            2 => RecordKind::Object,
            3 => RecordKind::Operation,
            4 => RecordKind::Blob,
            5 => RecordKind::Unsupported,
            number => RecordKind::Unknown(number),
        };
        Ok(Ok(Record {
            at,
            kind,
            thread: field(24, 8),
            object: field(40, 8),
            related_object: field(48, 8),
            payload_kind: field(64, 4),
            object_kind: field(68, 4),
            operation: field(72, 4),
            status: field(76, 4) as u32,
            payload,
        }))
    }
}
