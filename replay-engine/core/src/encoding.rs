//! Compact encoding of actions, written into a caller's buffer and read in place. `docs/plan.md` specifies every byte.

mod common;
mod decode;
mod encode;

pub(crate) use common::{BATCH_ACTIONS, CommonAction, decode_offsets, split_batch};
pub use decode::{Actions, DecodeError, DecodeErrorKind};
pub use encode::{EncodeError, Encoder};

/// Maximum size of one encoded action, bytes.
pub const MAX_ACTION_BYTES: usize = 64;

/// Number of slots that reads can fill and writes can take values from.
pub const SLOTS: usize = 8;

const WRITE: u8 = 1;
const WRITE_SLOT: u8 = 2;
const READ_EQUAL: u8 = 3;
const READ_MASKED: u8 = 4;
const READ_ANY: u8 = 5;
const READ_FEEDS: u8 = 6;
const UNTIL: u8 = 7;
const WAIT_INTERRUPT: u8 = 8;
const PAUSE: u8 = 9;
const READ_BEFORE: u8 = 10;
const PUT: u8 = 11;
const COPY: u8 = 12;
const CHECK: u8 = 13;

const OP_MASK: u8 = 0x0f;
const WIDTH_SHIFT: u32 = 4;
const SPACE_FOLLOWS: u8 = 0x40;
const RESERVED: u8 = 0x80;
/// Largest event step that fits in one byte.
const MAX_COMMON_STEP: u32 = 0x7f;
