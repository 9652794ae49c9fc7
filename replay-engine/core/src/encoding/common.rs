//! Fast path for the two encoded forms of nearly all actions: one check detects a form, and long-form actions are
//! decoded in batches.

use super::{MAX_COMMON_STEP, READ_EQUAL, WRITE};

/// Size of an action in the long form, bytes.
const LONG: usize = 8;
/// Size of an action in the short form, bytes.
const SHORT: usize = 7;

/// Number of actions that [`decode_offsets`] decodes together.
pub(crate) const BATCH_ACTIONS: usize = 8;

/// Shape of the long form: tag [`WRITE`] or [`READ_EQUAL`] of four bytes, a one-byte step, an offset of two bytes.
const LONG_SHAPE: u32 = 0x0080_0021;
/// Bits that identify the shape: all of the tag except the bit that differs between [`WRITE`] and [`READ_EQUAL`], and
/// the continuation bits of step and offset.
const LONG_MASK: u32 = 0x8080_80fd;
/// Shape of the short form: the same with an offset of one byte.
const SHORT_SHAPE: u32 = 0x0000_0021;
const SHORT_MASK: u32 = 0x0080_80fd;

/// A 32-bit write to space 0, or a 32-bit read of space 0 that must match.
#[derive(Clone, Copy)]
pub(crate) struct CommonAction {
    pub write: bool,
    pub event: u32,
    pub offset: u32,
    /// Value to write, or expected value.
    pub value: u32,
}

/// Encoded bytes of [`BATCH_ACTIONS`] actions in the long form.
pub(crate) type LongActionBatch = [[u8; LONG]; BATCH_ACTIONS];

/// Writes the offsets of a batch to `offsets` and returns the sum of its event steps, if all actions have the long
/// form. The function is free of branches and is not inlined, so that it compiles to vector instructions where
/// available.
#[inline(never)]
pub(crate) fn decode_offsets(actions: &LongActionBatch, offsets: &mut [u32; BATCH_ACTIONS]) -> Option<u32> {
    let (mut odd, mut small, mut steps) = (0, 0, 0);
    for (to, bytes) in offsets.iter_mut().zip(actions) {
        // XOR clears the bits that the form sets.
        let low = u64::from_le_bytes(*bytes) as u32 ^ LONG_SHAPE;
        odd |= low & LONG_MASK;
        // A high byte of 0 would be a non-minimal offset. The subtraction is negative in that case, because the form
        // has the top bit clear.
        small |= low.wrapping_sub(1 << 24);
        steps += low & MAX_COMMON_STEP << 8;
        // The continuation bit of the low byte is removed: the high byte moves down by one bit.
        let two = low >> 16;
        *to = two - (two & 0xff00) / 2;
    }
    (odd | small >> 31 == 0).then_some(steps >> 8)
}

/// Splits [`BATCH_ACTIONS`] actions of the long form from the start of `bytes` and returns them with the remaining
/// bytes. Returns `None` if there are too few bytes.
#[inline(always)]
pub(crate) fn split_batch(bytes: &[u8]) -> Option<(&LongActionBatch, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<{ LONG * BATCH_ACTIONS }>()?;
    Some((first.as_chunks::<LONG>().0.as_array()?, rest))
}

impl CommonAction {
    /// Decodes the first action of `bytes` and returns it with the remaining bytes, if it has one of the common forms.
    /// These are a 32-bit write or compared read of space 0, with an event step below 128 and an offset of one or two
    /// bytes. One load of eight bytes covers the whole action.
    #[inline(always)]
    pub(crate) fn decode_first(bytes: &[u8], before: u32) -> Option<(Self, &[u8])> {
        let word = u64::from_le_bytes(*bytes.first_chunk::<LONG>()?);
        let low = word as u32;
        let (offset, value, used) = if low & LONG_MASK == LONG_SHAPE && low >> 24 != 0 {
            (low >> 16 & 0x7f | low >> 17 & 0x3f80, (word >> 32) as u32, LONG)
        } else if low & SHORT_MASK == SHORT_SHAPE {
            (low >> 16 & 0x7f, (word >> 24) as u32, SHORT)
        } else {
            return None;
        };
        Some((Self::new(low, before, offset, value), bytes.get(used..)?))
    }

    /// Returns the action that these bytes encode in the long form, with its offset already decoded.
    #[inline(always)]
    pub(crate) fn from_long_form(bytes: &[u8; LONG], before: u32, offset: u32) -> Self {
        let word = u64::from_le_bytes(*bytes);
        Self::new(word as u32, before, offset, (word >> 32) as u32)
    }

    #[inline(always)]
    fn new(low: u32, before: u32, offset: u32, value: u32) -> Self {
        Self {
            // The two operations of the form differ in one bit.
            write: low as u8 & (WRITE ^ READ_EQUAL) == 0,
            // The caller checked that the event number does not overflow.
            event: before.wrapping_add(low >> 8 & MAX_COMMON_STEP),
            // The offset has fourteen bits. The mask repeats this for code that checks the range.
            offset: offset & 0x3fff,
            value,
        }
    }

    /// Returns whether the action has the short form.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        self.offset < 0x80
    }
}
