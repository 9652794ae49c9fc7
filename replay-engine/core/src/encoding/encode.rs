//! Encoder that writes actions into a caller's buffer.

use super::{
    CHECK, COPY, PAUSE, PUT, READ_ANY, READ_BEFORE, READ_EQUAL, READ_FEEDS, READ_MASKED, SLOTS, SPACE_FOLLOWS, UNTIL,
    WAIT_INTERRUPT, WIDTH_SHIFT, WRITE, WRITE_SLOT,
};
use crate::action::{Action, ReadClass, width_mask};
use core::fmt;

/// Reasons why an action cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The caller's buffer is full.
    Full,
    /// The event is before the event of the previous action.
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

/// Encoder that writes actions into a caller's buffer.
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
    /// Creates an encoder that starts at the first byte of `out`.
    pub fn new(out: &'a mut [u8]) -> Self {
        Self::with_last_event(out, 0)
    }

    /// Creates an encoder whose first action follows an action of `event` that was encoded elsewhere.
    pub fn with_last_event(out: &'a mut [u8], event: u32) -> Self {
        Self { out, at: 0, event }
    }

    /// Returns the number of bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at
    }

    /// Returns whether nothing is written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == 0
    }

    /// Appends an action and returns its encoded size in bytes. After an error nothing of the action is kept.
    ///
    /// # Errors
    /// When the buffer has no room, the action's event is before the event of the last action, or a field is out of
    /// range.
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
                    ReadClass::Before(_) => READ_BEFORE,
                    ReadClass::Feeds(_) => READ_FEEDS,
                };
                self.head(op, event, space, offset, width)?;
                self.fixed(expected, width)?;
                match class {
                    ReadClass::Equal | ReadClass::Any => Ok(()),
                    ReadClass::Masked(mask) | ReadClass::Before(mask) => self.fixed(mask, width),
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
            Action::Put {
                event,
                offset,
                width,
                value,
            } => {
                self.head(PUT, event, 0, offset, width)?;
                self.fixed(value, width)
            }
            Action::Copy {
                event,
                offset,
                bytes,
                image,
            } => {
                self.byte(COPY)?;
                self.event(event)?;
                self.number(offset)?;
                self.number(u64::from(bytes))?;
                self.number(u64::from(image))
            }
            Action::Check { event, expectation } => {
                self.byte(CHECK)?;
                self.event(event)?;
                self.number(u64::from(expectation))
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
