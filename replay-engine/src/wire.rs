//! The protocol between client and agent: preamble, encrypted channel, frames, messages, keys. See
//! `docs/agent-protocol.md`.

mod answers;
mod channel;
mod cipher;
pub mod delta;
mod frame;
mod keys;
pub mod live_message;
pub mod message;
pub mod pairing_code;
mod preamble;
mod pump;
mod read_ahead;
mod store;
mod stream;
pub mod wasm_message;

pub use channel::{Channel, HANDSHAKE_LIMIT, HEARTBEAT, Receiver, SILENCE, Sender, WRITE_LIMIT, WireError};
pub use cipher::Cipher;
pub use frame::{BULK, Frame, FrameError, HEAD, Limits, MAX_CALLS_BYTES, PIECE, Pieces, Topic, first_piece};
pub use keys::{KeyError, KeyPair, NamedKey, NamedKeyError, PublicKey};
pub use message::HOW_TO_PAIR;
pub use preamble::{HIGHEST, LOWEST, MAGIC, PREAMBLE_BYTES, Preamble, PreambleError, PreambleWord, describe_mismatch};
pub use pump::{CallsHandler, CallsRoute, ReaderMessage, WAITING_FRAMES, start_heartbeat, start_reader};
pub use store::{KEY_FILE, KeyStore, KeyStoreError, Peer, RemovedPeer, ServeLock, Stamp, is_valid_name};
pub use stream::{LIVE_WRITE_LIMIT, Stream};

/// The default TCP port of an agent.
pub const DEFAULT_PORT: u16 = 7117;
