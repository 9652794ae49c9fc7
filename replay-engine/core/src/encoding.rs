//! The compact encoding of actions: written into a caller's bytes, read in place. `docs/plan.md` tells it to the byte.

mod common;
mod decode;
mod encode;

pub(crate) use common::{BATCH_ACTIONS, CommonAction, decode_offsets, split_batch};
pub use decode::{Actions, DecodeError, DecodeErrorKind};
pub use encode::{EncodeError, Encoder};

/// Maximum number of bytes that one action takes.
pub const MAX_ACTION_BYTES: usize = 64;

/// Slots that a read can feed and a write can take from.
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
/// The largest event step of one byte.
const MAX_COMMON_STEP: u32 = 0x7f;
