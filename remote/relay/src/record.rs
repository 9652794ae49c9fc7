//! Frames between the two ends: records, one after the other.
//!
//! A record is a byte with its kind, then its fields: little-endian numbers, and byte strings with a `u32` count.

use remote_calls::{Decoder, Encoder, MessageError};

/// Maximum number of lanes beside the main connection.
pub const MAX_LANES: u32 = 8;
/// Size of a digest of contents, bytes: BLAKE3.
pub const DIGEST_BYTES: usize = 32;

/// A digest of contents: BLAKE3.
pub type ContentDigest = [u8; DIGEST_BYTES];

/// Memory that both ends have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The staging area.
    Staging,
    /// Host memory that the program maps.
    Window,
}

/// Bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'f> {
    /// The bytes.
    Plain(&'f [u8]),
    /// The bytes, which the receiver keeps for later programs of the same client.
    Kept {
        /// Their digest. The receiver does not check it: a wrong one is the client's own loss.
        digest: ContentDigest,
        /// The bytes.
        bytes: &'f [u8],
    },
    /// Bytes that the receiver has from an earlier program.
    Known {
        /// Their digest.
        digest: ContentDigest,
        /// Their number.
        bytes: u32,
    },
}

/// Sizes of the program's shared memory, for equal memory at the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramMemory {
    /// Address at which the program maps the window.
    pub window_address: u64,
    /// Size of the window, bytes.
    pub window_bytes: u64,
    /// Size of the request ring, bytes.
    pub request_bytes: u32,
    /// Size of the answer ring, bytes.
    pub answer_bytes: u32,
    /// Size of the staging area, bytes.
    pub staging_bytes: u64,
}

/// A record of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'f> {
    /// The first record of the program's end.
    Begin(ProgramMemory),
    /// A request, or an answer.
    Message(&'f [u8]),
    /// A request or an answer, with its end as content.
    LongMessage {
        /// The first bytes.
        head: &'f [u8],
        /// All others.
        tail: Content<'f>,
    },
    /// A call of a host function, or the end of one.
    HostFunction(&'f [u8]),
    /// Bytes of an area.
    Data {
        /// The area.
        area: Area,
        /// Offset in the area, bytes.
        offset: u64,
        /// The bytes.
        content: Content<'f>,
    },
    /// Bytes of the window at the moment from which kernels use them. Copies that are on their way to them win.
    Exposed {
        /// Offset in the window, bytes.
        offset: u64,
        /// The bytes.
        bytes: &'f [u8],
    },
    /// Output of the worker: what kernels print.
    Output(&'f [u8]),
    /// The next bytes of the recording that the worker makes.
    Recording(&'f [u8]),
    /// The recording is complete, and has this number of bytes.
    RecordingEnd(u64),
    /// What follows waits for this number of records on each lane.
    Fence(Vec<u64>),
}

const BEGIN: u8 = 0;
const MESSAGE: u8 = 1;
const LONG_MESSAGE: u8 = 2;
const HOST_FUNCTION: u8 = 3;
const DATA: u8 = 4;
const EXPOSED: u8 = 5;
const FENCE: u8 = 6;
const OUTPUT: u8 = 7;
const RECORDING: u8 = 8;
const RECORDING_END: u8 = 9;

fn unknown(what: &'static str, value: u8, at: usize) -> MessageError {
    MessageError::Unknown {
        what,
        value: value.into(),
        at,
    }
}

fn read_digest(decoder: &mut Decoder<'_>) -> Result<ContentDigest, MessageError> {
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(decoder.read_raw(DIGEST_BYTES)?);
    Ok(digest)
}

impl<'f> Content<'f> {
    /// Appends the content but for its end, the bytes. They need not be copied into a frame.
    fn write_start(self, encoder: &mut Encoder) -> &'f [u8] {
        match self {
            Self::Plain(bytes) => {
                encoder.write(0u8);
                encoder.write(bytes.len() as u32);
                bytes
            }
            Self::Kept { digest, bytes } => {
                encoder.write(1u8);
                encoder.write_raw(&digest);
                encoder.write(bytes.len() as u32);
                bytes
            }
            Self::Known { digest, bytes } => {
                encoder.write(2u8);
                encoder.write_raw(&digest);
                encoder.write(bytes);
                &[]
            }
        }
    }

    fn write(self, encoder: &mut Encoder) {
        let end = self.write_start(encoder);
        encoder.write_raw(end);
    }

    fn read(decoder: &mut Decoder<'f>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        match decoder.read::<u8>()? {
            0 => Ok(Self::Plain(decoder.read_bytes()?)),
            1 => Ok(Self::Kept {
                digest: read_digest(decoder)?,
                bytes: decoder.read_bytes()?,
            }),
            2 => Ok(Self::Known {
                digest: read_digest(decoder)?,
                bytes: decoder.read()?,
            }),
            other => Err(unknown("the form of the bytes", other, at)),
        }
    }
}

impl<'f> Record<'f> {
    /// Appends the start of a record with bytes of an area. The returned bytes are its end, which follow in the frame.
    pub fn write_data_start(area: Area, offset: u64, content: Content<'f>, encoder: &mut Encoder) -> &'f [u8] {
        encoder.write(DATA);
        encoder.write(u8::from(area == Area::Window));
        encoder.write(offset);
        content.write_start(encoder)
    }

    /// Appends the record to a frame.
    pub fn write(&self, encoder: &mut Encoder) {
        match self {
            Self::Begin(memory) => {
                encoder.write(BEGIN);
                encoder.write(memory.window_address);
                encoder.write(memory.window_bytes);
                encoder.write(memory.request_bytes);
                encoder.write(memory.answer_bytes);
                encoder.write(memory.staging_bytes);
            }
            Self::Message(message) => {
                encoder.write(MESSAGE);
                encoder.write_bytes(message);
            }
            Self::LongMessage { head, tail } => {
                encoder.write(LONG_MESSAGE);
                encoder.write_bytes(head);
                tail.write(encoder);
            }
            Self::HostFunction(message) => {
                encoder.write(HOST_FUNCTION);
                encoder.write_bytes(message);
            }
            Self::Data { area, offset, content } => {
                let end = Self::write_data_start(*area, *offset, *content, encoder);
                encoder.write_raw(end);
            }
            Self::Exposed { offset, bytes } => {
                encoder.write(EXPOSED);
                encoder.write(*offset);
                encoder.write_bytes(bytes);
            }
            Self::Output(bytes) => {
                encoder.write(OUTPUT);
                encoder.write_bytes(bytes);
            }
            Self::Recording(bytes) => {
                encoder.write(RECORDING);
                encoder.write_bytes(bytes);
            }
            Self::RecordingEnd(bytes) => {
                encoder.write(RECORDING_END);
                encoder.write(*bytes);
            }
            Self::Fence(counts) => {
                encoder.write(FENCE);
                encoder.write_list(counts);
            }
        }
    }

    /// Reads the next record of a frame.
    ///
    /// # Errors
    /// If the bytes are none.
    pub fn read(decoder: &mut Decoder<'f>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        match decoder.read::<u8>()? {
            BEGIN => Ok(Self::Begin(ProgramMemory {
                window_address: decoder.read()?,
                window_bytes: decoder.read()?,
                request_bytes: decoder.read()?,
                answer_bytes: decoder.read()?,
                staging_bytes: decoder.read()?,
            })),
            MESSAGE => Ok(Self::Message(decoder.read_bytes()?)),
            LONG_MESSAGE => Ok(Self::LongMessage {
                head: decoder.read_bytes()?,
                tail: Content::read(decoder)?,
            }),
            HOST_FUNCTION => Ok(Self::HostFunction(decoder.read_bytes()?)),
            DATA => {
                let at = decoder.offset();
                let area = match decoder.read::<u8>()? {
                    0 => Area::Staging,
                    1 => Area::Window,
                    other => return Err(unknown("the area", other, at)),
                };
                Ok(Self::Data {
                    area,
                    offset: decoder.read()?,
                    content: Content::read(decoder)?,
                })
            }
            EXPOSED => Ok(Self::Exposed {
                offset: decoder.read()?,
                bytes: decoder.read_bytes()?,
            }),
            OUTPUT => Ok(Self::Output(decoder.read_bytes()?)),
            RECORDING => Ok(Self::Recording(decoder.read_bytes()?)),
            RECORDING_END => Ok(Self::RecordingEnd(decoder.read()?)),
            FENCE => Ok(Self::Fence(decoder.read_list("the list of lanes", MAX_LANES)?)),
            other => Err(unknown("the kind of record", other, at)),
        }
    }
}

/// Returns a frame with one record.
#[must_use]
pub fn encode_record(record: &Record<'_>) -> Vec<u8> {
    let mut encoder = Encoder::default();
    record.write(&mut encoder);
    encoder.into_buffer()
}

/// Returns whether a frame is about the recording of the worker. Such a frame has no other records.
#[must_use]
pub fn is_about_recording(frame: &[u8]) -> bool {
    matches!(frame.first(), Some(&(RECORDING | RECORDING_END)))
}

/// Calls `take` with each record of a frame.
///
/// # Errors
/// If the frame is invalid, or the error of `take`.
pub fn read_records<'f, E: From<MessageError>>(
    frame: &'f [u8],
    mut take: impl FnMut(Record<'f>) -> Result<(), E>,
) -> Result<(), E> {
    let mut decoder = Decoder::new(frame);
    while decoder.offset() < frame.len() {
        take(Record::read(&mut decoder)?)?;
    }
    Ok(())
}
