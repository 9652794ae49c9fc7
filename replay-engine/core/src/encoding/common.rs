//! The forms that nearly all encoded actions have: told by one look, and the longer one read several at a time.

use super::{MAX_COMMON_STEP, READ_EQUAL, WRITE};

/// Bytes that an action of the longer form takes.
const LONG: usize = 8;
/// Bytes that an action of the shorter form takes.
const SHORT: usize = 7;

/// Actions that [`together`] reads.
pub(crate) const BATCH_ACTIONS: usize = 8;

/// Tag [`WRITE`] or [`READ_EQUAL`] of four bytes, a one-byte step, an offset of two bytes.
const LONG_SHAPE: u32 = 0x0080_0021;
/// The bits that tell the shape: all of the tag but the one in which [`WRITE`] and [`READ_EQUAL`] differ, and whether
/// step and offset go on.
const LONG_MASK: u32 = 0x8080_80fd;
/// The same for an offset of one byte.
const SHORT_SHAPE: u32 = 0x0000_0021;
const SHORT_MASK: u32 = 0x0080_80fd;

/// A 32-bit write, or a read that must match, of space 0.
#[derive(Clone, Copy)]
pub(crate) struct CommonAction {
    pub write: bool,
    pub event: u32,
    pub offset: u32,
    /// Value to write, or expected.
    pub value: u32,
}

/// The bytes of [`BATCH_ACTIONS`] actions of the longer form.
pub(crate) type LongActionBatch = [[u8; LONG]; BATCH_ACTIONS];

/// Writes the offsets of as many actions, and gives how many events they step on, if all of them have the longer form.
/// Free of branches and kept apart, so that it compiles to vector instructions where there are any.
#[inline(never)]
pub(crate) fn decode_offsets(actions: &LongActionBatch, offsets: &mut [u32; BATCH_ACTIONS]) -> Option<u32> {
    let (mut odd, mut small, mut steps) = (0, 0, 0);
    for (to, bytes) in offsets.iter_mut().zip(actions) {
        // What of the form is set is cleared.
        let low = u64::from_le_bytes(*bytes) as u32 ^ LONG_SHAPE;
        odd |= low & LONG_MASK;
        // A high byte of 0 would be an offset longer than it needs to be. Below zero where there is one: the form has
        // the top bit clear.
        small |= low.wrapping_sub(1 << 24);
        steps += low & MAX_COMMON_STEP << 8;
        // The low byte's top bit is gone: the high byte moves down by it.
        let two = low >> 16;
        *to = two - (two & 0xff00) / 2;
    }
    (odd | small >> 31 == 0).then_some(steps >> 8)
}

/// What is left behind [`BATCH_ACTIONS`] actions of the longer form, if the bytes are enough for them.
#[inline(always)]
pub(crate) fn split_batch(bytes: &[u8]) -> Option<(&LongActionBatch, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<{ LONG * BATCH_ACTIONS }>()?;
    Some((first.as_chunks::<LONG>().0.as_array()?, rest))
}

impl CommonAction {
    /// The action that `bytes` begin with, and what follows it, where it has one of the forms that nearly all have: a
    /// 32-bit write or compared read of space 0, event step below 128, offset of one or two bytes. One look at eight
    /// bytes tells it and holds all of it.
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

    /// The action that these bytes of the longer form are, with its offset.
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
            // The caller made sure that there is room for the step.
            event: before.wrapping_add(low >> 8 & MAX_COMMON_STEP),
            // Fourteen bits: said again for those who check it.
            offset: offset & 0x3fff,
            value,
        }
    }

    /// Whether it has the shorter form.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        self.offset < 0x80
    }
}
