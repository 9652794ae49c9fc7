//! Facts that the compiler leaves for the driver: records of a format, an attribute and a value.
//!
//! Sections `.nv.info`, `.nv.info.NAME` and `.nv.compat` are runs of them. A record is four bytes, the third and fourth
//! of which are the value or, for the format with bytes, how many bytes of value follow.

use crate::{Error, read};

/// Threads of a block at most, x, y and z (`.maxntid`).
pub(super) const MAX_THREADS: u8 = 0x05;
/// Where the parameters are: symbol of the section, offset in bank 0, size.
pub(super) const PARAM_CBANK: u8 = 0x0a;
/// Threads that a block must have, x, y and z (`.reqntid`).
pub(super) const REQUIRED_THREADS: u8 = 0x10;
/// Symbol of a function, and bytes of its stack frame.
pub(super) const FRAME_SIZE: u8 = 0x11;
/// Symbol of a function, and bytes of stack that it and what it calls need.
pub(super) const MIN_STACK_SIZE: u8 = 0x12;
/// A parameter.
pub(super) const KPARAM_INFO: u8 = 0x17;
/// Bytes of the parameters.
pub(super) const CBANK_PARAM_SIZE: u8 = 0x19;
/// Registers that the compiler was held to; 255 where it was not.
pub(super) const MAX_REGISTERS: u8 = 0x1b;
/// Symbol of a function, and how many registers a thread of it takes.
pub(super) const REGISTERS: u8 = 0x2f;
/// Blocks of a cluster, x, y and z (`.reqnctapercluster`).
pub(super) const CLUSTER: u8 = 0x3d;
/// Blocks of a cluster at most.
pub(super) const MAX_CLUSTER: u8 = 0x3f;
/// A parameter of a kernel with more than 4 KiB of them.
pub(super) const KPARAM_INFO_2: u8 = 0x45;
/// Barriers, as ABI version 8 writes them.
pub(super) const BARRIERS: u8 = 0x4c;

/// The value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// The attribute says all.
    None,
    /// One byte.
    Byte(u8),
    /// Two bytes.
    Half(u16),
    /// Any number of bytes.
    Bytes(&'a [u8]),
}

/// One fact.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    /// Where it is in the file.
    pub at: u64,
    /// What it is about.
    pub attribute: u8,
    /// What it says.
    pub value: Value<'a>,
}

impl<'a> Record<'a> {
    /// The bytes of the value.
    ///
    /// # Errors
    /// [`Error::Field`] where the value is of another form.
    pub(super) fn bytes(&self) -> Result<&'a [u8], Error> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.form("4 (bytes)")),
        }
    }

    /// The two bytes of the value as a number.
    ///
    /// # Errors
    /// [`Error::Field`] where the value is of another form.
    pub(super) fn half(&self) -> Result<u16, Error> {
        match self.value {
            Value::Half(half) => Ok(half),
            _ => Err(self.form("3 (a number of two bytes)")),
        }
    }

    fn form(&self, expected: &'static str) -> Error {
        let found = match self.value {
            Value::None => 1,
            Value::Byte(_) => 2,
            Value::Half(_) => 3,
            Value::Bytes(_) => 4,
        };
        Error::Field {
            at: self.at,
            what: "the format of a record",
            found,
            expected,
        }
    }

    /// A symbol and a number about it.
    ///
    /// # Errors
    /// [`Error::Field`] and [`Error::Short`] for another value.
    pub(super) fn symbol_value(&self) -> Result<(u32, u32), Error> {
        let bytes = self.bytes()?;
        let what = "a record about a symbol";
        Ok((
            self.with_context(read::u32(bytes, 0, what))?,
            self.with_context(read::u32(bytes, 4, what))?,
        ))
    }

    /// An error of reading the value, counted from the start of the file.
    pub(super) fn with_context<T>(&self, read: Result<T, Error>) -> Result<T, Error> {
        read.map_err(|e| match e {
            Error::Short { at, what, need, left } => Error::Short {
                at: self.at.saturating_add(4).saturating_add(at),
                what,
                need,
                left,
            },
            other => other,
        })
    }
}

/// The records of a section whose bytes begin at `at` in the file. The first broken one ends them with its error.
pub(super) fn records(bytes: &[u8], at: u64) -> Records<'_> {
    Records {
        bytes,
        start: at,
        at: 0,
    }
}

/// Walks records.
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    start: u64,
    at: u64,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let len = self.bytes.len() as u64;
        if self.at >= len {
            return None;
        }
        let record = self.read();
        if record.is_err() {
            self.at = len;
        }
        Some(record)
    }
}

impl<'a> Records<'a> {
    fn read(&mut self) -> Result<Record<'a>, Error> {
        let at = self.start.saturating_add(self.at);
        let short = |e| match e {
            Error::Short {
                at: within,
                what,
                need,
                left,
            } => Error::Short {
                at: self.start.saturating_add(within),
                what,
                need,
                left,
            },
            other => other,
        };
        let head = read::range(self.bytes, self.at, 4, "a record").map_err(short)?;
        let [format, attribute, low, high] = <[u8; 4]>::try_from(head).unwrap_or_default();
        let number = u16::from_le_bytes([low, high]);
        let (value, len) = match format {
            1 => (Value::None, 4),
            2 => (Value::Byte(low), 4),
            3 => (Value::Half(number), 4),
            4 => {
                let what = "the value of a record";
                let bytes = read::range(self.bytes, self.at + 4, number.into(), what).map_err(short)?;
                (Value::Bytes(bytes), 4 + u64::from(number))
            }
            other => {
                let what = "the format of a record";
                return Err(Error::Field {
                    at,
                    what,
                    found: other.into(),
                    expected: "1 to 4",
                });
            }
        };
        self.at = self.at.saturating_add(len);
        Ok(Record { at, attribute, value })
    }
}
