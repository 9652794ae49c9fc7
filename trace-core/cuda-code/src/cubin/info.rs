//! Records of metadata that the compiler leaves for the driver: a format, an attribute and a value.
//!
//! Sections `.nv.info`, `.nv.info.NAME` and `.nv.compat` are sequences of records. A record has four bytes. The third
//! and fourth are the value; for the format with bytes they are the number of value bytes that follow.

use crate::{Error, read};

/// Maximum number of threads of a block, x, y and z (`.maxntid`).
pub(super) const MAX_THREADS: u8 = 0x05;
/// Location of the parameters: symbol of the section, offset in bank 0, size.
pub(super) const PARAM_CBANK: u8 = 0x0a;
/// Symbols of functions outside the file that a function calls.
pub(super) const EXTERNS: u8 = 0x0f;
/// Required number of threads of a block, x, y and z (`.reqntid`).
pub(super) const REQUIRED_THREADS: u8 = 0x10;
/// Symbol of a function, and the size of its stack frame, bytes.
pub(super) const FRAME_SIZE: u8 = 0x11;
/// Symbol of a function, and the stack that it and its callees need, bytes.
pub(super) const MIN_STACK_SIZE: u8 = 0x12;
/// A parameter.
pub(super) const KPARAM_INFO: u8 = 0x17;
/// Size of the parameters, bytes.
pub(super) const CBANK_PARAM_SIZE: u8 = 0x19;
/// Register limit of the compiler; 255 for no limit.
pub(super) const MAX_REGISTERS: u8 = 0x1b;
/// The kernel needs the wrapper for launches from the device.
pub(super) const NEED_CNP_WRAPPER: u8 = 0x1f;
/// The kernel needs the patches for launches from the device.
pub(super) const NEED_CNP_PATCH: u8 = 0x20;
/// Symbol of a function, and the number of registers of a thread.
pub(super) const REGISTERS: u8 = 0x2f;
/// Blocks of a cluster, x, y and z (`.reqnctapercluster`).
pub(super) const CLUSTER: u8 = 0x3d;
/// Maximum number of blocks of a cluster.
pub(super) const MAX_CLUSTER: u8 = 0x3f;
/// A parameter of a kernel with more than 4 KiB of parameters.
pub(super) const KPARAM_INFO_2: u8 = 0x45;
/// Barriers, in the form of ABI version 8.
pub(super) const BARRIERS: u8 = 0x4c;

/// The value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// No value: the attribute is enough.
    None,
    /// One byte.
    Byte(u8),
    /// Two bytes.
    Half(u16),
    /// Any number of bytes.
    Bytes(&'a [u8]),
}

/// A metadata record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    /// Offset in the file.
    pub at: u64,
    /// The attribute.
    pub attribute: u8,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> Record<'a> {
    /// Returns the bytes of the value.
    ///
    /// # Errors
    ///
    /// [`Error::Field`] if the value has another form.
    pub(super) fn bytes(&self) -> Result<&'a [u8], Error> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.form("4 (bytes)")),
        }
    }

    /// Returns the two bytes of the value as a number.
    ///
    /// # Errors
    ///
    /// [`Error::Field`] if the value has another form.
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

    /// Returns a symbol and its number.
    ///
    /// # Errors
    ///
    /// [`Error::Field`] and [`Error::Short`] for another value.
    pub(super) fn symbol_value(&self) -> Result<(u32, u32), Error> {
        let bytes = self.bytes()?;
        let what = "a record about a symbol";
        Ok((
            self.with_context(read::u32(bytes, 0, what))?,
            self.with_context(read::u32(bytes, 4, what))?,
        ))
    }

    /// Converts the offset of an error in the value to a file offset.
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

/// Returns the records of a section whose bytes start at file offset `at`. The first broken record ends the iteration
/// with its error.
pub(super) fn records(bytes: &[u8], at: u64) -> Records<'_> {
    Records {
        bytes,
        start: at,
        at: 0,
    }
}

/// An iterator over records.
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
