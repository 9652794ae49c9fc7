//! The compact encoding of actions: written into a caller's bytes, read in place. `docs/plan.md` tells it to the byte.

use crate::action::{Action, ReadClass, width_mask};
use core::fmt;

/// Most bytes that one action takes.
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

const OP_MASK: u8 = 0x0f;
const WIDTH_SHIFT: u32 = 4;
const SPACE_FOLLOWS: u8 = 0x40;
const RESERVED: u8 = 0x80;
/// Tag [`WRITE`] or [`READ_EQUAL`] of four bytes, a one-byte step, a two-byte offset.
const COMMON_SHAPE: u32 = 0x0080_0021;
/// The bits that tell the shape: all of the tag but the one in which [`WRITE`] and [`READ_EQUAL`] differ, and whether
/// step and offset go on.
const COMMON_MASK: u32 = 0x8080_80fd;
const MAX_COMMON_STEP: u32 = 0x7f;

/// Why an action cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The caller's bytes are full.
    Full,
    /// The event is before that of the action before it.
    EventsOutOfOrder,
    /// The width is not 1, 2, 4 or 8.
    BadWidth,
    /// A value or mask has bits beyond the width.
    ValueTooWide,
    /// The slot is not 0 to 7.
    BadSlot,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "there is no room for the action",
            Self::EventsOutOfOrder => "the action's event is before that of the action before it",
            Self::BadWidth => "the width is not 1, 2, 4 or 8 bytes",
            Self::ValueTooWide => "a value has bits beyond the width of its access",
            Self::BadSlot => "the slot is not 0 to 7",
        })
    }
}

impl core::error::Error for EncodeError {}

/// What is wrong with encoded actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeErrorKind {
    /// The tag byte names no action.
    UnknownTag(u8),
    /// The bytes end inside an action.
    Truncated,
    /// A number is longer than it needs to be, or than 64 bits.
    BadNumber,
    /// The event number passes 32 bits.
    EventTooLarge,
    /// A count or a set of lines passes 32 bits.
    CountTooLarge,
    /// The slot is not 0 to 7.
    BadSlot(u8),
}

/// Encoded actions cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Byte at which the action starts.
    pub at: usize,
    /// What is wrong.
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

/// Writes actions into a caller's bytes.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut [u8],
    at: usize,
    event: u32,
}

fn log2_width(width: u8) -> Result<u8, EncodeError> {
    match width {
        1 => Ok(0),
        2 => Ok(1),
        4 => Ok(2),
        8 => Ok(3),
        _ => Err(EncodeError::BadWidth),
    }
}

impl<'a> Encoder<'a> {
    /// An encoder that starts at the first byte of `out`.
    pub fn new(out: &'a mut [u8]) -> Self {
        Self::after(out, 0)
    }

    /// An encoder whose first action follows one of `event`, encoded elsewhere.
    pub fn after(out: &'a mut [u8], event: u32) -> Self {
        Self { out, at: 0, event }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at
    }

    /// Whether nothing is written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Adds an action, and gives the number of bytes that it took. After an error nothing of it is kept.
    ///
    /// # Errors
    /// When there is no room, the action's event is before that of the last one, or a field is out of its range.
    pub fn push(&mut self, action: &Action) -> Result<usize, EncodeError> {
        let start = self.at;
        let result = self.push_inner(action);
        match result {
            Ok(()) => {
                self.event = action.event();
                Ok(self.at - start)
            }
            Err(e) => {
                self.at = start;
                Err(e)
            }
        }
    }

    fn byte(&mut self, b: u8) -> Result<(), EncodeError> {
        let slot = self.out.get_mut(self.at).ok_or(EncodeError::Full)?;
        *slot = b;
        self.at += 1;
        Ok(())
    }

    fn number(&mut self, mut v: u64) -> Result<(), EncodeError> {
        while v >= 0x80 {
            self.byte(v as u8 | 0x80)?;
            v >>= 7;
        }
        self.byte(v as u8)
    }

    fn fixed(&mut self, v: u64, width: u8) -> Result<(), EncodeError> {
        if v & !width_mask(width) != 0 {
            return Err(EncodeError::ValueTooWide);
        }
        for b in v.to_le_bytes().into_iter().take(usize::from(width)) {
            self.byte(b)?;
        }
        Ok(())
    }

    fn event(&mut self, event: u32) -> Result<(), EncodeError> {
        let step = event.checked_sub(self.event).ok_or(EncodeError::EventsOutOfOrder)?;
        self.number(u64::from(step))
    }

    fn head(&mut self, op: u8, event: u32, space: u8, offset: u64, width: u8) -> Result<(), EncodeError> {
        let follows = if space == 0 { 0 } else { SPACE_FOLLOWS };
        self.byte(op | log2_width(width)? << WIDTH_SHIFT | follows)?;
        self.event(event)?;
        if space != 0 {
            self.byte(space)?;
        }
        self.number(offset)
    }

    fn push_inner(&mut self, action: &Action) -> Result<(), EncodeError> {
        match *action {
            Action::Write {
                event,
                space,
                offset,
                width,
                value,
            } => {
                self.head(WRITE, event, space, offset, width)?;
                self.fixed(value, width)
            }
            Action::WriteSlot {
                event,
                space,
                offset,
                width,
                slot,
            } => {
                self.head(WRITE_SLOT, event, space, offset, width)?;
                self.slot(slot)
            }
            Action::Read {
                event,
                space,
                offset,
                width,
                class,
                expected,
            } => {
                let op = match class {
                    ReadClass::Equal => READ_EQUAL,
                    ReadClass::Masked(_) => READ_MASKED,
                    ReadClass::Any => READ_ANY,
                    ReadClass::Feeds(_) => READ_FEEDS,
                };
                self.head(op, event, space, offset, width)?;
                self.fixed(expected, width)?;
                match class {
                    ReadClass::Equal | ReadClass::Any => Ok(()),
                    ReadClass::Masked(mask) => self.fixed(mask, width),
                    ReadClass::Feeds(slot) => self.slot(slot),
                }
            }
            Action::Until {
                event,
                reads,
                space,
                offset,
                width,
                mask,
                expected,
                limit_ns,
            } => {
                self.head(UNTIL, event, space, offset, width)?;
                self.fixed(expected, width)?;
                self.fixed(mask, width)?;
                self.number(u64::from(reads))?;
                self.number(limit_ns)
            }
            Action::WaitInterrupt { event, lines, limit_ns } => {
                self.byte(WAIT_INTERRUPT)?;
                self.event(event)?;
                self.number(u64::from(lines))?;
                self.number(limit_ns)
            }
            Action::Pause { event, ns } => {
                self.byte(PAUSE)?;
                self.event(event)?;
                self.number(ns)
            }
        }
    }

    fn slot(&mut self, slot: u8) -> Result<(), EncodeError> {
        if usize::from(slot) >= SLOTS {
            return Err(EncodeError::BadSlot);
        }
        self.byte(slot)
    }
}

/// Encoded actions, read one after another in place. After an error it ends.
#[derive(Clone, Debug)]
pub struct Actions<'a> {
    rest: &'a [u8],
    len: usize,
    event: u32,
}

/// A 32-bit write, or a read that must match, of space 0.
#[derive(Clone, Copy)]
pub(crate) struct Common {
    pub write: bool,
    pub event: u32,
    pub offset: u32,
    /// Value to write, or expected.
    pub value: u32,
}

impl Common {
    /// The form that nearly all actions have: a 32-bit write or compared read of space 0, event step below 128, offset
    /// of two bytes. One look at its eight bytes tells it and holds all of it.
    #[inline(always)]
    pub(crate) fn of(bytes: &[u8; 8], before: u32) -> Option<Self> {
        let word = u64::from_le_bytes(*bytes);
        let low = word as u32;
        let high = low >> 24;
        // A high byte of 0 would be an offset longer than it needs to be.
        if low & COMMON_MASK != COMMON_SHAPE || high == 0 {
            return None;
        }
        Some(Self {
            write: low & 0xf == u32::from(WRITE),
            // The caller made sure that there is room for the step.
            event: before.wrapping_add(low >> 8 & MAX_COMMON_STEP),
            offset: low >> 16 & 0x7f | high << 7,
            value: (word >> 32) as u32,
        })
    }
}

type Decoded<T> = Result<T, DecodeErrorKind>;

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    #[inline(always)]
    fn byte(&mut self) -> Decoded<u8> {
        let (b, rest) = self.rest.split_first().ok_or(DecodeErrorKind::Truncated)?;
        self.rest = rest;
        Ok(*b)
    }

    #[inline(always)]
    fn number(&mut self) -> Decoded<u64> {
        // Nearly all numbers take one byte (event steps) or two (offsets).
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
    fn long_number(&mut self) -> Decoded<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            // The tenth byte has room for one bit.
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

    fn number32(&mut self) -> Decoded<u32> {
        u32::try_from(self.number()?).map_err(|_| DecodeErrorKind::CountTooLarge)
    }

    #[inline(always)]
    fn fixed(&mut self, width: u8) -> Decoded<u64> {
        #[inline(always)]
        fn take<const N: usize>(c: &mut Cursor<'_>) -> Decoded<[u8; N]> {
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

    fn slot(&mut self) -> Decoded<u8> {
        match self.byte()? {
            s if usize::from(s) < SLOTS => Ok(s),
            s => Err(DecodeErrorKind::BadSlot(s)),
        }
    }
}

impl<'a> Actions<'a> {
    /// The actions that `bytes` hold.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            len: bytes.len(),
            event: 0,
        }
    }

    /// Bytes read so far: where the next action starts.
    #[must_use]
    pub fn consumed(&self) -> usize {
        self.len - self.rest.len()
    }

    /// The next actions cut into eight bytes each, as many as `most` and as could all step to a later event without
    /// passing 32 bits: the form that nearly all actions have takes eight bytes, so while [`Common::of`] knows one,
    /// the next chunk is the next action.
    #[inline(always)]
    pub(crate) fn chunks(&self, most: u64) -> (&'a [[u8; 8]], u32) {
        let chunks = self.rest.as_chunks::<8>().0;
        let steps = u64::from((u32::MAX - self.event) / MAX_COMMON_STEP);
        let n = usize::try_from(most.min(steps)).unwrap_or(usize::MAX).min(chunks.len());
        (chunks.get(..n).unwrap_or(&[]), self.event)
    }

    /// Passes `chunks` actions, the last of which was of `event`.
    #[inline(always)]
    pub(crate) fn pass(&mut self, chunks: usize, event: u32) {
        self.rest = chunks.checked_mul(8).and_then(|n| self.rest.get(n..)).unwrap_or(&[]);
        self.event = event;
    }

    #[inline(never)]
    fn decode(&mut self) -> Decoded<Action> {
        let mut c = Cursor { rest: self.rest };
        let tag = c.byte()?;
        if tag & RESERVED != 0 {
            return Err(DecodeErrorKind::UnknownTag(tag));
        }
        let op = tag & OP_MASK;
        if op >= WAIT_INTERRUPT && tag & !OP_MASK != 0 {
            return Err(DecodeErrorKind::UnknownTag(tag));
        }
        let step = c.number()?;
        let event = u32::try_from(step)
            .ok()
            .and_then(|s| self.event.checked_add(s))
            .ok_or(DecodeErrorKind::EventTooLarge)?;
        let action = match op {
            WRITE..=UNTIL => {
                let width = 1u8 << (tag >> WIDTH_SHIFT & 3);
                let space = if tag & SPACE_FOLLOWS != 0 {
                    match c.byte()? {
                        // Space 0 has a shorter form.
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
