//! The encrypted channel: a Noise XX handshake, then frames in pieces of at most 64 KiB.

use super::cipher::Cipher;
use super::frame::{Frame, FrameError, Limits, PIECE, Pieces, Topic, frame_head};
use super::keys::{KeyPair, PublicKey};
use super::preamble::LOWEST;
use super::read_ahead::ReadAhead;
use super::stream::Stream;
use serde::Serialize;
use snow::{HandshakeState, StatelessTransportState};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace_core::encode::{self, EncodeError};

/// Maximum silence before the other end counts as gone. Agents send a heartbeat every [`HEARTBEAT`].
pub const SILENCE: Duration = Duration::from_secs(20);
/// Maximum time of one write.
pub const WRITE_LIMIT: Duration = Duration::from_secs(20);
/// Interval at which an agent checks that the client is alive.
pub const HEARTBEAT: Duration = Duration::from_secs(4);
/// Maximum time for preamble and handshake together, on both ends.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// Size of the authentication tag of a Noise message, bytes.
const TAG: usize = 16;
/// How long a read for calls looks for data before it sleeps: a few times what a sleep and a wake-up cost.
const SPIN: Duration = Duration::from_micros(100);
/// Minimum number of processors for that.
const MIN_SPIN_PROCESSORS: usize = 8;
/// Size of the read-ahead, bytes: one call to the system reads the length and the content of a small message.
const READ_AHEAD: usize = 8 << 10;
/// Size of the read-ahead of a connection for calls, bytes: a few messages of full size.
const CALLS_READ_AHEAD: usize = 256 << 10;
/// Number of pieces that are written with one call to the system. A piece alone is a little longer than a segment of the
/// loopback device, which would send its rest as a packet of its own.
const PIECES_PER_WRITE: usize = 4;

/// The reason why a channel ended or could not start.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end went silent.
    #[error("the other end has been silent for {} s", SILENCE.as_secs())]
    Silent,
    /// Preamble, handshake and the first messages took too long.
    #[error("it did not authenticate itself within {} s", limit.as_secs_f32())]
    Late {
        /// The time limit.
        limit: Duration,
    },
    /// This end does not serve the other one, with the reason.
    #[error("{0}")]
    Refused(String),
    /// The operating system reported an error.
    #[error("{0}")]
    Io(String),
    /// Bytes cannot be decrypted: damage or an attack.
    #[error("a message failed its authentication: {0}")]
    Crypto(String),
    /// A frame that breaks the rules.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message cannot be decoded or encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A message that is not allowed here.
    #[error("{0} is not allowed here")]
    Unexpected(String),
    /// This end did not take a frame of calls, with the reason.
    #[error("a frame of calls was not taken: {0}")]
    CallsRejected(String),
}

impl WireError {
    /// Converts the error for a connection that had `limit` to authenticate: silence then means that it took longer.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        match self {
            Self::Silent => Self::Late { limit },
            other => other,
        }
    }
}

impl From<io::Error> for WireError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected => Self::Closed,
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::Silent,
            _ => Self::Io(e.to_string()),
        }
    }
}

impl From<snow::Error> for WireError {
    fn from(e: snow::Error) -> Self {
        Self::Crypto(e.to_string())
    }
}

/// A channel on which both ends have proved their keys.
#[derive(Debug)]
pub struct Channel {
    /// The sending half.
    pub sender: Sender,
    /// The receiving half.
    pub receiver: Receiver,
    /// The other end's key.
    pub remote: PublicKey,
    /// Hash of the whole handshake: equal on both ends and different for every other connection.
    pub hash: [u8; 32],
    /// Protocol version of the connection: the lowest one until [`Channel::with_version`] sets it.
    pub version: u16,
}

fn builder<'a>(own: &'a KeyPair, prologue: &'a [u8]) -> Result<snow::Builder<'a>, WireError> {
    let params = Cipher::of_prologue(prologue)
        .noise_pattern()
        .parse()
        .map_err(|e: snow::Error| WireError::Crypto(e.to_string()))?;
    Ok(snow::Builder::new(params)
        .local_private_key(own.private())?
        .prologue(prologue)?)
}

fn put(state: &mut HandshakeState, stream: &mut Stream) -> Result<(), WireError> {
    let mut out = [0; 2 + 128];
    let (head, body) = out.split_at_mut(2);
    let n = state.write_message(&[], body)?;
    head.copy_from_slice(&(n as u16).to_le_bytes());
    Ok(stream.write_all(out.get(..2 + n).unwrap_or_default())?)
}

/// Reads the next handshake message, which must have `bytes` bytes.
fn take(state: &mut HandshakeState, stream: &mut Stream, bytes: usize, by: Instant) -> Result<(), WireError> {
    let mut head = [0; 2];
    stream.read_exact_by(&mut head, by)?;
    if usize::from(u16::from_le_bytes(head)) != bytes {
        return Err(FrameError::Handshake.into());
    }
    let mut body = vec![0; bytes];
    stream.read_exact_by(&mut body, by)?;
    state.read_message(&body, &mut [0; 128])?;
    Ok(())
}

fn remote(state: &HandshakeState) -> Result<PublicKey, WireError> {
    let key = state.get_remote_static().and_then(|k| <[u8; 32]>::try_from(k).ok());
    key.map(PublicKey)
        .ok_or_else(|| WireError::Crypto("the other end sent no key".into()))
}

impl Channel {
    /// Performs the client's side of the handshake. `accept` checks the agent's key before this end sends its own.
    ///
    /// # Errors
    /// If the handshake fails, or the error of `accept`.
    pub fn initiate<E: From<WireError>>(
        mut stream: Stream,
        own: &KeyPair,
        prologue: &[u8],
        limits: Limits,
        by: Instant,
        accept: impl FnOnce(PublicKey) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut state = builder(own, prologue)?.build_initiator().map_err(WireError::from)?;
        put(&mut state, &mut stream)?;
        take(&mut state, &mut stream, 96, by)?;
        accept(remote(&state)?)?;
        put(&mut state, &mut stream)?;
        Ok(Self::finish(state, stream, limits)?)
    }

    /// Performs the agent's side of the handshake.
    ///
    /// # Errors
    /// If the handshake fails.
    pub fn respond(
        mut stream: Stream,
        own: &KeyPair,
        prologue: &[u8],
        limits: Limits,
        by: Instant,
    ) -> Result<Self, WireError> {
        let mut state = builder(own, prologue)?.build_responder()?;
        take(&mut state, &mut stream, 32, by)?;
        put(&mut state, &mut stream)?;
        take(&mut state, &mut stream, 64, by)?;
        Self::finish(state, stream, limits)
    }

    fn finish(state: HandshakeState, stream: Stream, limits: Limits) -> Result<Self, WireError> {
        let remote = remote(&state)?;
        let hash = <[u8; 32]>::try_from(state.get_handshake_hash())
            .map_err(|_| WireError::Crypto("the handshake hash is not 32 bytes".into()))?;
        let state = Arc::new(state.into_stateless_transport_mode()?);
        stream.set_limits(SILENCE, WRITE_LIMIT)?;
        let out = Out {
            stream: stream.try_clone()?,
            nonce: 0,
            plain: Vec::with_capacity(PIECE),
            buffer: vec![0; 2 + PIECE + TAG],
            filled: 0,
        };
        let sender = Sender {
            state: Arc::clone(&state),
            out: Arc::new(Mutex::new(out)),
            closer: Arc::new(stream.try_clone()?),
            sent: Arc::new(AtomicU64::new(0)),
        };
        let receiver = Receiver {
            state,
            stream: ReadAhead::new(stream, READ_AHEAD),
            nonce: 0,
            limits,
            plain: vec![0; PIECE],
            spare: Vec::new(),
            spin: Duration::ZERO,
        };
        Ok(Self {
            sender,
            receiver,
            remote,
            hash,
            version: LOWEST,
        })
    }

    /// Returns the same channel with the protocol version that both ends agreed on.
    #[must_use]
    pub fn with_version(self, version: u16) -> Self {
        Self { version, ..self }
    }
}

#[derive(Debug)]
struct Out {
    stream: Stream,
    nonce: u64,
    /// Start of the next piece, gathered from several parts.
    plain: Vec<u8>,
    /// Encrypted pieces that are written together. It grows with the first long frame.
    buffer: Vec<u8>,
    /// Bytes of the buffer that are in use.
    filled: usize,
}

impl Out {
    /// Writes the encrypted pieces.
    fn flush(&mut self, sent: &AtomicU64) -> Result<(), WireError> {
        let bytes = self.buffer.get(..std::mem::take(&mut self.filled)).unwrap_or_default();
        sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(self.stream.write_all(bytes)?)
    }
}

/// The sending half; clones share it.
#[derive(Clone, Debug)]
pub struct Sender {
    state: Arc<StatelessTransportState>,
    out: Arc<Mutex<Out>>,
    closer: Arc<Stream>,
    sent: Arc<AtomicU64>,
}

impl Sender {
    /// Sends a message as one frame.
    ///
    /// # Errors
    /// If it cannot be encoded or the connection fails.
    pub fn send<T: Serialize>(&self, concern: Topic, message: &T) -> Result<(), WireError> {
        self.send_bytes(concern, &encode::to_bytes(message)?)
    }

    /// Sends bytes as one frame.
    ///
    /// # Errors
    /// If there are too many or the connection fails.
    pub fn send_bytes(&self, concern: Topic, payload: &[u8]) -> Result<(), WireError> {
        self.send_parts(concern, &[payload])
    }

    /// Sends the parts of a payload as one frame, without a copy of the whole payload.
    ///
    /// # Errors
    /// Same as [`Sender::send_bytes`].
    pub fn send_parts(&self, concern: Topic, parts: &[&[u8]]) -> Result<(), WireError> {
        let bytes = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        let head = frame_head(concern, bytes)?;
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let out = &mut *out;
        // A frame that could not be written ends the connection; nothing of it may come before the next one.
        out.filled = 0;
        if bytes > PIECE && out.buffer.len() < PIECES_PER_WRITE * (2 + PIECE + TAG) {
            out.buffer.resize(PIECES_PER_WRITE * (2 + PIECE + TAG), 0);
        }
        let mut plain = std::mem::take(&mut out.plain);
        plain.clear();
        plain.extend_from_slice(&head);
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                if plain.len() == PIECE {
                    self.encrypt_piece(out, &plain)?;
                    plain.clear();
                }
                // A full piece of one part needs no copy.
                if plain.is_empty()
                    && let Some((piece, after)) = rest.split_at_checked(PIECE)
                {
                    self.encrypt_piece(out, piece)?;
                    rest = after;
                    continue;
                }
                let (now, after) = rest.split_at(rest.len().min(PIECE - plain.len()));
                plain.extend_from_slice(now);
                rest = after;
            }
        }
        if !plain.is_empty() {
            self.encrypt_piece(out, &plain)?;
        }
        out.plain = plain;
        out.flush(&self.sent)
    }

    /// Encrypts a piece behind those that are not written yet, and writes them first if it has no room.
    fn encrypt_piece(&self, out: &mut Out, plain: &[u8]) -> Result<(), WireError> {
        if out.buffer.len() - out.filled < 2 + plain.len() + TAG {
            out.flush(&self.sent)?;
        }
        let free = out.buffer.get_mut(out.filled..).unwrap_or_default();
        let (head, body) = free.split_at_mut_checked(2).ok_or(FrameError::Cut)?;
        let n = self.state.write_message(out.nonce, plain, body)?;
        out.nonce += 1;
        head.copy_from_slice(&u16::try_from(n).unwrap_or(u16::MAX).to_le_bytes());
        out.filled += 2 + n;
        Ok(())
    }

    /// Returns the number of bytes written so far, including envelopes.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ends the connection in both directions.
    pub fn close(&self) {
        self.closer.close();
    }

    /// Returns whether the connection has ended, even if received data is still unread.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.closer.has_ended()
    }
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiver {
    state: Arc<StatelessTransportState>,
    stream: ReadAhead,
    nonce: u64,
    limits: Limits,
    plain: Vec<u8>,
    /// Memory for the next payload.
    spare: Vec<u8>,
    /// How long a read looks for data before it sleeps.
    spin: Duration,
}

impl Receiver {
    /// Receives the next frame. Memory grows with the received bytes, never with an announced length.
    ///
    /// # Errors
    /// If the connection ends or goes silent, bytes cannot be decrypted, or a frame exceeds its limit.
    pub fn receive(&mut self) -> Result<Frame, WireError> {
        self.next(None)
    }

    /// Receives a frame like [`Receiver::receive`], but all of it has to arrive before `by`, even if its bytes trickle
    /// in. Later reads need [`Receiver::set_silence`] again.
    ///
    /// # Errors
    /// Same as [`Receiver::receive`].
    pub fn receive_by(&mut self, by: Instant) -> Result<Frame, WireError> {
        self.next(Some(by))
    }

    fn next(&mut self, by: Option<Instant>) -> Result<Frame, WireError> {
        let mut pieces = Pieces::with_buffer(self.limits, std::mem::take(&mut self.spare));
        loop {
            if !self.spin.is_zero() && self.stream.is_empty() {
                self.stream.stream().spin_for_data(self.spin);
            }
            let &[l0, l1, ..] = self.stream.take(2, by)? else {
                return Err(FrameError::EmptyPiece.into());
            };
            let n = usize::from(u16::from_le_bytes([l0, l1]));
            if n <= TAG {
                return Err(FrameError::EmptyPiece.into());
            }
            let cipher = self.stream.take(n, by)?;
            let got = self.state.read_message(self.nonce, cipher, &mut self.plain)?;
            self.nonce += 1;
            if let Some(frame) = pieces.push(self.plain.get(..got).unwrap_or_default())? {
                return Ok(frame);
            }
        }
    }

    /// Takes back the payload of a frame: fresh memory for each large frame would cost as much as its decryption.
    pub(super) fn recycle(&mut self, payload: Vec<u8>) {
        self.spare = payload;
    }

    /// Prepares for calls, which somebody waits for, and for their bytes: the next reads look for data for a while before
    /// they sleep, on a machine with processors to spare, and read more at a time.
    pub(super) fn expect_calls(&mut self) {
        self.stream.grow(CALLS_READ_AHEAD);
        let has_spare = std::thread::available_parallelism().is_ok_and(|n| n.get() >= MIN_SPIN_PROCESSORS);
        self.spin = if has_spare { SPIN } else { Duration::ZERO };
    }

    /// Sets the timeout of the next reads.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn set_silence(&self, limit: Duration) -> Result<(), WireError> {
        Ok(self.stream.stream().set_limits(limit, WRITE_LIMIT)?)
    }
}
