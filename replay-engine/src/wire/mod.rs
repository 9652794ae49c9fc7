//! The protocol between client and agent: preamble, encrypted channel, frames, messages, keys. `docs/agent-protocol.md`.

mod channel;
pub mod code;
pub mod delta;
mod frame;
mod keys;
pub mod message;
mod preamble;
mod pump;
mod store;
mod stream;

pub use channel::{Channel, HANDSHAKE_LIMIT, HEARTBEAT, Receiver, SILENCE, Sender, WRITE_LIMIT, WireError};
pub use frame::{BULK, Concern, Frame, FrameError, HEAD, Limits, PIECE, Pieces, first_piece};
pub use keys::{KeyError, KeyPair, NOISE_PATTERN, NamedKey, NamedKeyError, PublicKey};
pub use message::HOW_TO_PAIR;
pub use preamble::{HIGHEST, LOWEST, MAGIC, PREAMBLE_BYTES, Preamble, PreambleError, Word, mismatch};
pub use pump::{Arrived, WAITING_FRAMES, beat, read_into};
pub use store::{Forgotten, KEY_FILE, KeyStore, KeyStoreError, Peer, Serving, Stamp, name_is_sound};
pub use stream::Stream;

/// The TCP port that an agent listens on when none is named.
pub const DEFAULT_PORT: u16 = 7117;
