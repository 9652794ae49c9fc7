//! Frames: a topic, a length and a payload, cut into pieces that fit one Noise message each.

use num_enum::TryFromPrimitive;
use serde::de::DeserializeOwned;
use trace_core::encode::{self, EncodeError};

/// Maximum plain text in one Noise message, bytes: 65535 minus the authentication tag.
pub const PIECE: usize = 65_535 - 16;
/// Size of topic and length at the start of a frame, bytes.
pub const HEAD: usize = 5;
/// Maximum size of one bulk frame, bytes.
pub const BULK: usize = 1 << 20;
/// Maximum size of one frame of calls, bytes.
pub const MAX_CALLS_BYTES: usize = 2 << 20;

/// The topic of a frame. Each has its own message enums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u8)]
pub enum Topic {
    /// Heartbeat: one byte, 0 asks, 1 answers.
    Heartbeat = 0,
    /// Welcome or refusal.
    Session = 1,
    /// Pairing.
    Pair = 2,
    /// Leasing and releasing a device.
    Lease = 3,
    /// Offering a plan, and requesting its missing parts.
    Pages = 4,
    /// Running and its outcome.
    Run = 5,
    /// Raw bytes that an earlier message announced.
    Bulk = 6,
    /// Running a WebAssembly program, since version 6.
    Wasm = 7,
    /// Starting and ending a live program, since version 7.
    Live = 8,
    /// Raw frames of a live program, since version 7.
    Calls = 9,
}

/// The direction of frames, which determines the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// Limits for frames from a client to an agent.
    FromClient,
    /// Limits for frames from an agent to a client.
    FromAgent,
}

impl Limits {
    /// Returns the maximum payload of a frame, bytes.
    #[must_use]
    pub fn max_bytes(self, concern: Topic) -> usize {
        match (concern, self) {
            (Topic::Heartbeat, _) => 1,
            (Topic::Pair, _) => 1 << 10,
            (Topic::Session | Topic::Lease, Self::FromClient) => 4 << 10,
            (Topic::Session | Topic::Lease, Self::FromAgent) => 1 << 20,
            (Topic::Pages, _) | (Topic::Run | Topic::Wasm, Self::FromClient) => 16 << 20,
            (Topic::Run | Topic::Wasm, Self::FromAgent) => encode::MAX_RECORD,
            (Topic::Bulk, _) => BULK,
            (Topic::Live, Self::FromClient) => 16 << 10,
            (Topic::Live, Self::FromAgent) => 2 << 20,
            (Topic::Calls, _) => MAX_CALLS_BYTES,
        }
    }
}

/// A frame that breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A handshake message has the wrong length.
    #[error("a handshake message has the wrong length")]
    Handshake,
    /// A piece without content.
    #[error("a message has no content")]
    EmptyPiece,
    /// The first piece is shorter than a frame header.
    #[error("a frame is shorter than its head")]
    ShortHead,
    /// An unknown topic.
    #[error("a frame has the unknown concern {0}")]
    Concern(u8),
    /// Longer than its topic allows.
    #[error("a frame of {bytes} bytes exceeds the limit of {limit} for its concern")]
    TooLong {
        /// Announced length.
        bytes: u64,
        /// Limit.
        limit: usize,
    },
    /// A piece that is neither full nor the last one.
    #[error("a frame is cut into pieces in another way than the protocol says")]
    Cut,
}

/// A complete frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its topic.
    pub concern: Topic,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Decodes the message in the payload.
    ///
    /// # Errors
    /// If the payload is not such a message.
    pub fn message<T: DeserializeOwned>(&self) -> Result<T, EncodeError> {
        encode::from_bytes(&self.payload)
    }
}

/// Returns the topic and the length that a frame with a payload of `bytes` starts with.
///
/// # Errors
/// If the payload is longer than any limit.
pub(super) fn frame_head(concern: Topic, bytes: usize) -> Result<[u8; HEAD], FrameError> {
    let too_long = FrameError::TooLong {
        bytes: bytes as u64,
        limit: encode::MAX_RECORD,
    };
    let [l0, l1, l2, l3] = u32::try_from(bytes).map_err(|_| too_long)?.to_le_bytes();
    Ok([concern as u8, l0, l1, l2, l3])
}

/// Returns the first piece of a frame, and the rest of the payload for later pieces.
///
/// # Errors
/// If the payload is longer than any limit.
pub fn first_piece(concern: Topic, payload: &[u8]) -> Result<(Vec<u8>, &[u8]), FrameError> {
    let head = frame_head(concern, payload.len())?;
    let (now, rest) = payload.split_at(payload.len().min(PIECE - HEAD));
    Ok(([&head, now].concat(), rest))
}

/// How much of a frame has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameProgress {
    concern: Topic,
    /// Size of the payload, bytes.
    bytes: usize,
    /// Bytes of it that have arrived.
    arrived: usize,
}

impl FrameProgress {
    /// Reads the start of a frame from its first piece.
    ///
    /// # Errors
    /// If the piece breaks a rule.
    pub(super) fn begin(piece: &[u8], limits: Limits) -> Result<Self, FrameError> {
        let Some(&[raw, l0, l1, l2, l3]) = piece.first_chunk() else {
            return Err(FrameError::ShortHead);
        };
        let concern = Topic::try_from(raw).map_err(|_| FrameError::Concern(raw))?;
        let bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        let limit = limits.max_bytes(concern);
        if bytes > limit {
            let bytes = bytes as u64;
            return Err(FrameError::TooLong { bytes, limit });
        }
        let mut progress = Self {
            concern,
            bytes,
            arrived: 0,
        };
        progress.add(piece.len() - HEAD, piece.len() == PIECE)?;
        Ok(progress)
    }

    /// Counts a later piece of `bytes` bytes.
    ///
    /// # Errors
    /// If it is longer than the rest of the frame, or neither full nor the last one.
    pub(super) fn advance(&mut self, bytes: usize) -> Result<(), FrameError> {
        self.add(bytes, bytes == PIECE)
    }

    fn add(&mut self, bytes: usize, is_full: bool) -> Result<(), FrameError> {
        self.arrived += bytes;
        match self.arrived.cmp(&self.bytes) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less if is_full => Ok(()),
            _ => Err(FrameError::Cut),
        }
    }

    /// Returns the topic.
    pub(super) const fn concern(self) -> Topic {
        self.concern
    }

    /// Returns whether all of the frame has arrived.
    pub(super) const fn is_complete(self) -> bool {
        self.arrived == self.bytes
    }

    /// Returns the number of bytes that have not arrived.
    pub(super) const fn rest_bytes(self) -> usize {
        self.bytes - self.arrived
    }

    /// Returns the payload of a complete frame.
    ///
    /// # Errors
    /// If the frame has another size.
    pub(super) fn payload_of(self, frame: &[u8]) -> Result<&[u8], FrameError> {
        let payload = frame.get(HEAD..).filter(|payload| payload.len() == self.bytes);
        payload.ok_or(FrameError::Cut)
    }
}

/// Assembles a frame from its pieces.
#[derive(Debug)]
pub struct Pieces {
    limits: Limits,
    progress: Option<FrameProgress>,
    payload: Vec<u8>,
}

impl Pieces {
    /// Creates an assembler without any pieces.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            progress: None,
            payload: Vec::new(),
        }
    }

    /// Adds the next piece. Returns the frame if it was the last one. Every piece but the last must be full.
    ///
    /// # Errors
    /// If the frame breaks a rule. Nothing is allocated for an announced length.
    pub fn push(&mut self, piece: &[u8]) -> Result<Option<Frame>, FrameError> {
        let (progress, body) = match &mut self.progress {
            Some(progress) => {
                progress.advance(piece.len())?;
                (*progress, piece)
            }
            None => {
                let progress = FrameProgress::begin(piece, self.limits)?;
                self.progress = Some(progress);
                (progress, piece.get(HEAD..).unwrap_or_default())
            }
        };
        self.payload.extend_from_slice(body);
        if !progress.is_complete() {
            return Ok(None);
        }
        self.progress = None;
        Ok(Some(Frame {
            concern: progress.concern,
            payload: std::mem::take(&mut self.payload),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through(concern: Topic, payload: &[u8], limits: Limits) -> Result<Option<Frame>, FrameError> {
        let (first, rest) = first_piece(concern, payload)?;
        let mut pieces = Pieces::new(limits);
        let mut got = pieces.push(&first)?;
        for piece in rest.chunks(PIECE) {
            assert_eq!(got, None);
            got = pieces.push(piece)?;
        }
        Ok(got)
    }

    #[test]
    fn frames_around_the_piece_size_round_trip() {
        for n in [
            0,
            1,
            PIECE - HEAD - 1,
            PIECE - HEAD,
            PIECE - HEAD + 1,
            2 * PIECE - HEAD,
            2 * PIECE,
            BULK,
        ] {
            let payload: Vec<u8> = (0..n).map(|i| i as u8).collect();
            let frame = through(Topic::Bulk, &payload, Limits::FromClient).unwrap().unwrap();
            assert_eq!(
                frame,
                Frame {
                    concern: Topic::Bulk,
                    payload
                },
                "{n} bytes"
            );
        }
    }

    #[test]
    fn frame_limits_are_enforced() {
        let push = |piece: &[u8]| Pieces::new(Limits::FromClient).push(piece);
        assert_eq!(push(&[1, 0, 0]), Err(FrameError::ShortHead));
        assert_eq!(push(&[10, 0, 0, 0, 0]), Err(FrameError::Concern(10)));
        let limit = Limits::FromClient.max_bytes(Topic::Lease);
        assert_eq!(
            push(&[3, 0xff, 0xff, 0xff, 0xff]),
            Err(FrameError::TooLong {
                bytes: 0xffff_ffff,
                limit
            })
        );
        assert_eq!(
            push(&[3, 2, 0, 0, 0, 7]),
            Err(FrameError::Cut),
            "the piece is short but not the last"
        );
        assert_eq!(
            push(&[3, 1, 0, 0, 0, 7, 7]),
            Err(FrameError::Cut),
            "the piece is longer than announced"
        );
        assert!(through(Topic::Lease, &[0; 5000], Limits::FromClient).is_err());
        assert!(through(Topic::Lease, &[0; 5000], Limits::FromAgent).is_ok());
    }

    proptest! {
        #[test]
        fn arbitrary_frame_parts_use_memory_in_proportion(
            cut in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)
        ) {
            let mut pieces = Pieces::new(Limits::FromAgent);
            let mut arrived = 0;
            for piece in &cut {
                arrived += piece.len();
                match pieces.push(piece) {
                    Ok(Some(f)) => prop_assert!(f.payload.len() <= piece.len()),
                    Ok(None) => prop_assert!(pieces.payload.capacity() <= 64 + 2 * arrived),
                    Err(_) => break,
                }
            }
        }
    }
}
