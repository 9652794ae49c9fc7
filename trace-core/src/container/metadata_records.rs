//! Records of the section `metadata`: typed metadata besides `facts`, each with a tag, a version, a size and a body.
//!
//! Files of version 1, and older files of version 2, have the bodies of the same records in extras with the names of the
//! tags.

use super::error::{ContainerError, MetadataDefect, MetadataError};
use super::layout::{MAX_EXTRAS, u32_at, u64_at};
use crate::encode::MAX_RECORD;
use crate::recording::{Metadata, RegisterTraceMetadata, TraceKind, UnknownRecord};
use num_enum::TryFromPrimitive;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// Version of the records that this program writes, and the newest that it reads.
const RECORD_VERSION: u32 = 1;
/// Size of the header of a record, bytes: tag, version (four each), size of the body (eight).
const HEADER_BYTES: usize = 16;

/// The tag of a metadata record. The numbers are frozen; records with a number that this version does not know are
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, TryFromPrimitive)]
#[repr(u32)]
pub enum MetadataTag {
    /// Metadata of an API trace. A recording without this record and without [`MetadataTag::Driver`] is a register trace.
    Calls = 1,
    /// Register trace: the recorded device.
    Hardware = 2,
    /// How a recorder made the recording.
    Capture = 3,
    /// Shapes of buffers.
    BufferShapes = 4,
    /// Register trace: the results of chains.
    ChainReports = 5,
    /// Register trace: memory locations in the replayed recording.
    RecordedRanges = 6,
    /// Register trace: the picture on the screen at the end.
    ScreenAtEnd = 7,
    /// Cuts of the recording.
    Cuts = 8,
    /// Edited inputs.
    AppliedEdits = 9,
    /// The processes of the recorded program.
    Processes = 10,
    /// Metadata of a driver trace.
    Driver = 11,
    /// Register trace: names of the queues of jobs.
    JobQueues = 12,
}

impl MetadataTag {
    /// Every tag, in the order of the numbers.
    pub const ALL: [Self; 12] = [
        Self::Calls,
        Self::Hardware,
        Self::Capture,
        Self::BufferShapes,
        Self::ChainReports,
        Self::RecordedRanges,
        Self::ScreenAtEnd,
        Self::Cuts,
        Self::AppliedEdits,
        Self::Processes,
        Self::Driver,
        Self::JobQueues,
    ];

    /// Returns the tag with this number.
    #[must_use]
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::try_from(raw).ok()
    }

    /// Returns the tag of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tag| tag.name() == name)
    }

    /// Returns the name in messages. It is also that of the extra with the same content in older files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Hardware => "hardware",
            Self::Capture => "capture",
            Self::BufferShapes => "buffer-shapes",
            Self::ChainReports => "chain-reports",
            Self::RecordedRanges => "recorded-ranges",
            Self::ScreenAtEnd => "screen-at-end",
            Self::Cuts => "cuts",
            Self::AppliedEdits => "applied-edits",
            Self::Processes => "processes",
            Self::Driver => "driver-trace",
            Self::JobQueues => "job-queues",
        }
    }

    /// Returns the body of the record, or `None` if the metadata has no value for it.
    fn body(self, metadata: &Metadata) -> Result<Option<Vec<u8>>, serde_json::Error> {
        let (register, api, driver) = match &metadata.kind {
            TraceKind::Register(trace) => (Some(trace), None, None),
            TraceKind::Api(trace) => (None, Some(trace), None),
            TraceKind::Driver(trace) => (None, None, Some(trace)),
        };
        match self {
            Self::Calls => json(api),
            Self::Hardware => json(register.and_then(|r| r.hardware.as_ref())),
            Self::Capture => json(metadata.capture.as_ref()),
            Self::BufferShapes => json(Some(&metadata.buffer_shapes).filter(|s| !s.is_empty())),
            Self::ChainReports => json(register.map(|r| &r.chain_reports).filter(|l| !l.is_empty())),
            Self::RecordedRanges => json(register.map(|r| &r.recorded_ranges).filter(|l| !l.is_empty())),
            Self::ScreenAtEnd => Ok(register.and_then(|r| r.screen_at_end.clone())),
            Self::Cuts => json(Some(&metadata.cuts).filter(|l| !l.is_empty())),
            Self::AppliedEdits => json(Some(&metadata.applied_edits).filter(|l| !l.is_empty())),
            Self::Processes => json(metadata.processes.as_ref()),
            Self::Driver => json(driver),
            Self::JobQueues => json(register.map(|r| &r.job_queues).filter(|l| !l.is_empty())),
        }
    }

    /// Reads the body of a record. [`MetadataTag::Calls`] is read before the others, because it decides the kind.
    pub(super) fn read(self, body: &[u8], to: &mut Metadata) -> Result<(), MetadataDefect> {
        match self {
            Self::Calls => to.kind = TraceKind::Api(parse(body)?),
            Self::Hardware => register(to)?.hardware = Some(parse(body)?),
            Self::Capture => to.capture = Some(parse(body)?),
            Self::BufferShapes => to.buffer_shapes = parse(body)?,
            Self::ChainReports => register(to)?.chain_reports = parse(body)?,
            Self::RecordedRanges => {
                let ranges = &mut register(to)?.recorded_ranges;
                *ranges = parse(body)?;
                ranges.sort_by_key(|r| r.at);
            }
            Self::ScreenAtEnd => register(to)?.screen_at_end = Some(body.to_vec()),
            Self::Cuts => to.cuts = parse(body)?,
            Self::AppliedEdits => to.applied_edits = parse(body)?,
            Self::Processes => to.processes = Some(parse(body)?),
            Self::Driver => match to.kind {
                TraceKind::Register(ref trace) if *trace == RegisterTraceMetadata::default() => {
                    to.kind = TraceKind::Driver(parse(body)?);
                }
                _ => return Err(MetadataDefect::OtherKind),
            },
            Self::JobQueues => register(to)?.job_queues = parse(body)?,
        }
        Ok(())
    }
}

fn json<T: Serialize>(value: Option<&T>) -> Result<Option<Vec<u8>>, serde_json::Error> {
    value.map(serde_json::to_vec).transpose()
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, MetadataDefect> {
    serde_json::from_slice(body).map_err(|e| MetadataDefect::Body { reason: e.to_string() })
}

fn register(metadata: &mut Metadata) -> Result<&mut RegisterTraceMetadata, MetadataDefect> {
    match &mut metadata.kind {
        TraceKind::Register(trace) => Ok(trace),
        TraceKind::Api(_) | TraceKind::Driver(_) => Err(MetadataDefect::OtherKind),
    }
}

/// Returns the bodies of all records of known tags, in the order of the tags.
pub(super) fn bodies(metadata: &Metadata) -> Result<Vec<(MetadataTag, Vec<u8>)>, ContainerError> {
    let mut all = Vec::new();
    for tag in MetadataTag::ALL {
        let refused =
            |e: &dyn std::fmt::Display| ContainerError::Refused(format!("the metadata record {}: {e}", tag.name()));
        let Some(body) = tag.body(metadata).map_err(|e| refused(&e))? else {
            continue;
        };
        if body.len() > MAX_RECORD {
            return Err(refused(&MetadataDefect::TooLong {
                bytes: body.len() as u64,
                limit: MAX_RECORD as u64,
            }));
        }
        all.push((tag, body));
    }
    Ok(all)
}

/// Returns the section `metadata` of a recording: everything besides the record `facts`. Empty if there is nothing.
///
/// # Errors
/// If a record, or all of them, are longer than the format allows.
pub fn encode_metadata(metadata: &Metadata) -> Result<Vec<u8>, ContainerError> {
    let mut out = Vec::new();
    let mut put = |tag: u32, version: u32, body: &[u8]| {
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&(body.len() as u64).to_le_bytes());
        out.extend_from_slice(body);
    };
    for (tag, body) in bodies(metadata)? {
        put(tag as u32, RECORD_VERSION, &body);
    }
    for r in &metadata.unknown_records {
        put(r.tag, r.version, &r.body);
    }
    if out.len() as u64 > MAX_EXTRAS {
        let what = format!("the metadata records have {} bytes, more than {MAX_EXTRAS}", out.len());
        return Err(ContainerError::Refused(what));
    }
    Ok(out)
}

/// Returns the metadata of a section `metadata`. The fields that the record `facts` holds are empty.
///
/// # Errors
/// If a record is truncated or has another form than its tag and version say.
pub fn decode_metadata(bytes: &[u8]) -> Result<Metadata, MetadataError> {
    let mut metadata = Metadata::default();
    decode(bytes, 0, &mut metadata)?;
    Ok(metadata)
}

/// Adds the records of a section that starts at byte `start` of the file.
pub(super) fn decode(bytes: &[u8], start: u64, to: &mut Metadata) -> Result<(), MetadataError> {
    let mut known: BTreeMap<MetadataTag, (u64, &[u8])> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let byte = start.saturating_add((bytes.len() - rest.len()) as u64);
        let number = u32_at(rest, 0);
        let tag = number.and_then(MetadataTag::from_raw);
        let error = |defect| MetadataError {
            byte,
            tag: match (tag, number) {
                (Some(tag), _) => tag.name().to_owned(),
                (None, Some(number)) => format!("with tag {number}"),
                (None, None) => "without a tag".to_owned(),
            },
            defect,
        };
        let left = rest.len() as u64;
        let (Some(number), Some(version), Some(size)) = (number, u32_at(rest, 4), u64_at(rest, 8)) else {
            return Err(error(MetadataDefect::TruncatedHeader { left }));
        };
        let after = rest.get(HEADER_BYTES..).unwrap_or_default();
        let body = usize::try_from(size).ok().and_then(|n| after.split_at_checked(n));
        let Some((body, after)) = body else {
            let left = after.len() as u64;
            return Err(error(MetadataDefect::TruncatedBody { bytes: size, left }));
        };
        if body.len() > MAX_RECORD {
            return Err(error(MetadataDefect::TooLong {
                bytes: size,
                limit: MAX_RECORD as u64,
            }));
        }
        if !seen.insert(number) {
            return Err(error(MetadataDefect::Repeated));
        }
        match (tag, version) {
            (None, _) => to.unknown_records.push(UnknownRecord {
                tag: number,
                version,
                body: body.to_vec(),
            }),
            (Some(_), 0) => return Err(error(MetadataDefect::VersionZero)),
            (Some(tag), 1..=RECORD_VERSION) => {
                known.insert(tag, (byte, body));
            }
            (Some(_), version) => {
                return Err(error(MetadataDefect::TooNew {
                    version,
                    known: RECORD_VERSION,
                }));
            }
        }
        rest = after;
    }
    // The order of the tags: the first one decides the kind of the recording.
    for (tag, (byte, body)) in known {
        tag.read(body, to).map_err(|defect| MetadataError {
            byte,
            tag: tag.name().to_owned(),
            defect,
        })?;
    }
    Ok(())
}
