//! The encrypted channel: a Noise XX handshake, then frames in pieces of at most 64 KiB.

use super::cipher::Cipher;
use super::error::WireError;
use super::frame::{FrameError, Limits};
use super::keys::{KeyPair, PublicKey};
use super::preamble::LOWEST;
use super::receiver::Receiver;
use super::sender::Sender;
use super::stream::Stream;
use super::times::{SILENCE, WRITE_LIMIT};
use super::transport_key::TransportKey;
use snow::HandshakeState;
use std::io::Write as _;
use std::time::Instant;

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
        Ok(Self::finish(state, Cipher::of_prologue(prologue), stream, limits)?)
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
        Self::finish(state, Cipher::of_prologue(prologue), stream, limits)
    }

    fn finish(mut state: HandshakeState, cipher: Cipher, stream: Stream, limits: Limits) -> Result<Self, WireError> {
        let remote = remote(&state)?;
        let hash = <[u8; 32]>::try_from(state.get_handshake_hash())
            .map_err(|_| WireError::Crypto("the handshake hash is not 32 bytes".into()))?;
        // Noise's `Split`: the keys of the initiator's and of the responder's messages.
        let (initiator, responder) = state.dangerously_get_raw_split();
        let (own, other) = match state.is_initiator() {
            true => (initiator, responder),
            false => (responder, initiator),
        };
        stream.set_limits(SILENCE, WRITE_LIMIT)?;
        Ok(Self {
            sender: Sender::new(TransportKey::new(cipher, &own)?, &stream)?,
            receiver: Receiver::new(TransportKey::new(cipher, &other)?, stream, limits),
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
