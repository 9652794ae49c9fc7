//! In-place decoder of encoded actions.

use super::{
    CHECK, COPY, CommonAction, MAX_COMMON_STEP, OP_MASK, PAUSE, PUT, READ_ANY, READ_BEFORE, READ_EQUAL, READ_MASKED,
    RESERVED, SLOTS, SPACE_FOLLOWS, UNTIL, WAIT_INTERRUPT, WIDTH_SHIFT, WRITE, WRITE_SLOT,
};
use crate::action::{Action, ReadClass};
use core::fmt;

/// Kinds of error in encoded actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// The tag byte names no action.
    UnknownTag(u8),
    /// The bytes end inside an action.
    Truncated,
    /// A number is encoded in more bytes than it needs, or exceeds 64 bits.
    BadNumber,
    /// The event number exceeds 32 bits.
    EventTooLarge,
    /// A count or a set of lines exceeds 32 bits.
    CountTooLarge,
    /// The slot is not 0 to 7.
    BadSlot(u8),
}

/// Error that ends the decoding of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Byte offset at which the action starts.
    pub at: usize,
    /// Kind of the error.
    pub kind: DecodeErrorKind,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the action at byte {:#x} ", self.at)?;
        match self.kind {
            DecodeErrorKind::UnknownTag(tag) => write!(f, "has the unknown tag {tag:#04x}"),
            DecodeErrorKind::Truncated => f.write_str("is cut off"),
            DecodeErrorKind::BadNumber => f.write_str("has a number that is not in its shortest form"),
            DecodeErrorKind::EventTooLarge => f.write_str("has an event number beyond 32 bits"),
            DecodeErrorKind::CountTooLarge => f.write_str("has a count beyond 32 bits"),
            DecodeErrorKind::BadSlot(slot) => write!(f, "names slot {slot}; there are 8"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Iterator that decodes actions in place. It ends after an error.
#[derive(Clone, Debug)]
pub struct Actions<'a> {
    rest: &'a [u8],
    len: usize,
    event: u32,
}

type DecodeResult<T> = Result<T, DecodeErrorKind>;

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    #[inline(always)]
    fn byte(&mut self) -> DecodeResult<u8> {
        let (b, rest) = self.rest.split_first().ok_or(DecodeErrorKind::Truncated)?;
        self.rest = rest;
        Ok(*b)
    }

    #[inline(always)]
    fn number(&mut self) -> DecodeResult<u64> {
        // Nearly all numbers take one byte (event steps) or two bytes (offsets).
        if let Some((&[a], rest)) = self.rest.split_first_chunk::<1>()
            && a < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(a));
        }
        if let Some((&[a, b], rest)) = self.rest.split_first_chunk::<2>()
            && b.wrapping_sub(1) < 0x7f
        {
            self.rest = rest;
            return Ok(u64::from(a & 0x7f) | u64::from(b) << 7);
        }
        self.long_number()
    }

    #[inline(never)]
    fn long_number(&mut self) -> DecodeResult<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            // The tenth byte has room for one bit only.
            if shift == 63 && b > 1 {
                return Err(DecodeErrorKind::BadNumber);
            }
            value |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                let overlong = b == 0 && shift != 0;
                return if overlong {
                    Err(DecodeErrorKind::BadNumber)
                } else {
                    Ok(value)
                };
            }
        }
        Err(DecodeErrorKind::BadNumber)
    }

    fn number32(&mut self) -> DecodeResult<u32> {
        u32::try_from(self.number()?).map_err(|_| DecodeErrorKind::CountTooLarge)
    }

    #[inline(always)]
    fn fixed(&mut self, width: u8) -> DecodeResult<u64> {
        #[inline(always)]
        fn take<const N: usize>(c: &mut Cursor<'_>) -> DecodeResult<[u8; N]> {
            let (bytes, rest) = c.rest.split_first_chunk::<N>().ok_or(DecodeErrorKind::Truncated)?;
            c.rest = rest;
            Ok(*bytes)
        }
        Ok(match width {
            4 => u64::from(u32::from_le_bytes(take(self)?)),
            8 => u64::from_le_bytes(take(self)?),
            2 => u64::from(u16::from_le_bytes(take(self)?)),
            _ => u64::from(self.byte()?),
        })
    }

    fn slot(&mut self) -> DecodeResult<u8> {
        match self.byte()? {
            s if usize::from(s) < SLOTS => Ok(s),
            s => Err(DecodeErrorKind::BadSlot(s)),
        }
    }
}

impl<'a> Actions<'a> {
    /// Creates a decoder of the actions in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            len: bytes.len(),
            event: 0,
        }
    }

    /// Returns the number of bytes read so far, which is the offset of the next action.
    #[must_use]
    pub fn consumed(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Returns the remaining bytes, the event of the last action, and a number of further actions, at most `max`. So
    /// many actions with the maximum step of a [`CommonAction`] cannot exceed 32 bits of event number.
    #[inline(always)]
    pub(crate) fn remaining(&self, max: u64) -> (&'a [u8], u32, u64) {
        let steps = u64::from((u32::MAX - self.event) / MAX_COMMON_STEP);
        (self.rest, self.event, max.min(steps))
    }

    /// Continues at `rest`, a tail of the bytes that [`Self::remaining`] returned, after an action of `event`.
    #[inline(always)]
    pub(crate) fn advance_to(&mut self, rest: &'a [u8], event: u32) {
        (self.rest, self.event) = (rest, event);
    }

    /// Decodes the next action if it has a common form.
    #[inline(always)]
    fn next_common(&mut self) -> Option<Action> {
        if self.event > u32::MAX - MAX_COMMON_STEP {
            return None;
        }
        let (c, rest) = CommonAction::decode_first(self.rest, self.event)?;
        (self.rest, self.event) = (rest, c.event);
        let (event, offset, value) = (c.event, u64::from(c.offset), u64::from(c.value));
        let (space, width) = (0, 4);
        Some(if c.write {
            Action::Write {
                event,
                space,
                offset,
                width,
                value,
            }
        } else {
            Action::Read {
                event,
                space,
                offset,
                width,
                class: ReadClass::Equal,
                expected: value,
            }
        })
    }

    #[inline(never)]
    fn decode(&mut self) -> DecodeResult<Action> {
        let mut c = Cursor { rest: self.rest };
        let tag = c.byte()?;
        if tag & RESERVED != 0 {
            return Err(DecodeErrorKind::UnknownTag(tag));
        }
        let op = tag & OP_MASK;
        if matches!(op, WAIT_INTERRUPT | PAUSE | COPY | CHECK) && tag & !OP_MASK != 0
            || op == PUT && tag & SPACE_FOLLOWS != 0
        {
            return Err(DecodeErrorKind::UnknownTag(tag));
        }
        let step = c.number()?;
        let event = u32::try_from(step)
            .ok()
            .and_then(|s| self.event.checked_add(s))
            .ok_or(DecodeErrorKind::EventTooLarge)?;
        let action = match op {
            WRITE..=UNTIL | READ_BEFORE => {
                let width = 1u8 << (tag >> WIDTH_SHIFT & 3);
                let space = if tag & SPACE_FOLLOWS != 0 {
                    match c.byte()? {
                        // Space 0 has a shorter encoding.
                        0 => return Err(DecodeErrorKind::BadNumber),
                        s => s,
                    }
                } else {
                    0
                };
                let offset = c.number()?;
                match op {
                    WRITE => Action::Write {
                        event,
                        space,
                        offset,
                        width,
                        value: c.fixed(width)?,
                    },
                    WRITE_SLOT => Action::WriteSlot {
                        event,
                        space,
                        offset,
                        width,
                        slot: c.slot()?,
                    },
                    UNTIL => {
                        let (expected, mask) = (c.fixed(width)?, c.fixed(width)?);
                        let (reads, limit_ns) = (c.number32()?, c.number()?);
                        Action::Until {
                            event,
                            reads,
                            space,
                            offset,
                            width,
                            mask,
                            expected,
                            limit_ns,
                        }
                    }
                    _ => {
                        let expected = c.fixed(width)?;
                        let class = match op {
                            READ_EQUAL => ReadClass::Equal,
                            READ_MASKED => ReadClass::Masked(c.fixed(width)?),
                            READ_BEFORE => ReadClass::Before(c.fixed(width)?),
                            READ_ANY => ReadClass::Any,
                            _ => ReadClass::Feeds(c.slot()?),
                        };
                        Action::Read {
                            event,
                            space,
                            offset,
                            width,
                            class,
                            expected,
                        }
                    }
                }
            }
            WAIT_INTERRUPT => Action::WaitInterrupt {
                event,
                lines: c.number32()?,
                limit_ns: c.number()?,
            },
            PUT => {
                let width = 1u8 << (tag >> WIDTH_SHIFT & 3);
                Action::Put {
                    event,
                    offset: c.number()?,
                    width,
                    value: c.fixed(width)?,
                }
            }
            COPY => Action::Copy {
                event,
                offset: c.number()?,
                bytes: c.number32()?,
                image: c.number32()?,
            },
            CHECK => Action::Check {
                event,
                expectation: c.number32()?,
            },
            PAUSE => Action::Pause { event, ns: c.number()? },
            _ => return Err(DecodeErrorKind::UnknownTag(tag)),
        };
        self.rest = c.rest;
        self.event = event;
        Ok(action)
    }
}

impl Iterator for Actions<'_> {
    type Item = Result<Action, DecodeError>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(action) = self.next_common() {
            return Some(Ok(action));
        }
        if self.rest.is_empty() {
            return None;
        }
        match self.decode() {
            Ok(action) => Some(Ok(action)),
            Err(kind) => {
                let at = self.consumed();
                self.rest = &[];
                Some(Err(DecodeError { at, kind }))
            }
        }
    }
}
