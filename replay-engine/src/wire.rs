//! The protocol between client and agent: preamble, encrypted channel, frames, messages, keys. See
//! `docs/agent-protocol.md`.

mod answers;
mod channel;
mod cipher;
pub mod delta;
mod error;
mod frame;
mod keys;
pub mod live_message;
pub mod message;
pub mod pairing_code;
mod preamble;
mod pump;
mod receive_buffer;
mod receiver;
mod sender;
mod store;
mod stream;
mod times;
mod transport_key;
pub mod wasm_message;

pub use channel::Channel;
pub use cipher::Cipher;
pub use error::WireError;
pub use frame::{BULK, Frame, FrameError, HEAD, Limits, MAX_CALLS_BYTES, PIECE, Pieces, Topic, first_piece};
pub use keys::{KeyError, KeyPair, NamedKey, NamedKeyError, PublicKey};
pub use message::HOW_TO_PAIR;
pub use preamble::{HIGHEST, LOWEST, MAGIC, PREAMBLE_BYTES, Preamble, PreambleError, PreambleWord, describe_mismatch};
pub use pump::{CallsHandler, CallsRoute, ReaderMessage, WAITING_FRAMES, start_heartbeat, start_reader};
pub use receiver::Receiver;
pub use sender::{MARGIN, Sender};
pub use store::{KEY_FILE, KeyStore, KeyStoreError, Peer, RemovedPeer, ServeLock, Stamp, is_valid_name};
pub use stream::{LIVE_WRITE_LIMIT, Stream};
pub use times::{HANDSHAKE_LIMIT, HEARTBEAT, SILENCE, WRITE_LIMIT};

/// The default TCP port of an agent.
pub const DEFAULT_PORT: u16 = 7117;
