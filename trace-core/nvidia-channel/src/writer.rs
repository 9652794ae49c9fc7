//! Writer of push buffers: methods, and the actions of the GPU that they start.

mod compute;
mod context;
mod copy;
mod host;
mod upload;

pub use compute::{LaunchAction, ReportSemaphore, ShaderCaches};
pub use context::{ContextSetup, LocalMemory, LocalMemorySize, MemoryWindows};
pub use copy::{CopyRectangle, FillPattern, MAX_COPY_BYTES};
pub use host::{AcquireCondition, HostRelease, SemaphorePayload};
pub use upload::{MAX_UPLOAD_BYTES, UploadFlush};

use crate::class_table::ClassTable;
use crate::gpfifo::{GpfifoEntry, MAX_SEGMENT_WORDS, Segment};
use crate::header::{Advance, Header, HeaderForm, MAX_COUNT, SUBCHANNELS};
use crate::{Bindings, GpuVa, SET_OBJECT};
use std::fmt;
use thiserror::Error;

/// Subchannel of the compute engine, as CUDA and NVK use it.
pub const COMPUTE_SUBCHANNEL: u8 = 1;
/// Subchannel of the copy engine, as CUDA and NVK use it.
pub const COPY_SUBCHANNEL: u8 = 4;

/// Kind of engine that a method is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// A compute engine.
    Compute,
    /// A copy engine.
    Copy,
}

impl EngineKind {
    /// Returns whether a class is of this kind. The last byte of a class says what it is for.
    fn contains(self, class: u16) -> bool {
        let end = match self {
            Self::Compute => 0xc0,
            Self::Copy => 0xb5,
        };
        class & 0xff == end
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compute => "compute",
            Self::Copy => "copy",
        })
    }
}

/// Methods that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// A header does not fit its bits.
    #[error("method {method:#x} with {count} words on subchannel {subchannel} does not fit a header")]
    Header {
        /// Subchannel.
        subchannel: u8,
        /// Byte address of the first method.
        method: u16,
        /// Number of words.
        count: usize,
    },
    /// No subchannel has a class of this kind.
    #[error("no subchannel is bound to a {0} class: write SET_OBJECT first")]
    UnboundEngine(EngineKind),
    /// The class has no such method.
    #[error("class {class:#06x} has no method {method:#x}")]
    UnknownMethod {
        /// The class.
        class: u16,
        /// Byte address of the method.
        method: u16,
    },
    /// An address has more bits than its field, or is not aligned.
    #[error("{what} {address} does not fit: it must be a multiple of {alignment} below 2^{bits}")]
    Address {
        /// What the address is for.
        what: &'static str,
        /// The address.
        address: GpuVa,
        /// Alignment that the field needs, in bytes.
        alignment: u64,
        /// Number of address bits of the field.
        bits: u32,
    },
    /// A size or a count is out of range.
    #[error("{what} is {value}; it must be {min} to {max}")]
    Size {
        /// What it is.
        what: &'static str,
        /// The value.
        value: u64,
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
}

/// Writer of the words of one push buffer segment.
///
/// Typed functions find the subchannel by the class that is bound to it. They refuse methods that the class does not
/// have, and check addresses and sizes before they write words.
#[derive(Debug, Clone)]
pub struct PushBufferWriter {
    words: Vec<u32>,
    bindings: Bindings,
}

impl PushBufferWriter {
    /// Returns a writer for a channel with these classes. The words begin empty.
    #[must_use]
    pub fn new(bindings: Bindings) -> Self {
        Self {
            words: Vec::new(),
            bindings,
        }
    }

    /// Returns the words.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the words as little-endian bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    /// Returns the classes that are bound after the words.
    #[must_use]
    pub fn bindings(&self) -> &Bindings {
        &self.bindings
    }

    /// Returns the words, and keeps the bindings for the next segment.
    pub fn take_words(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.words)
    }

    /// Returns the ring entry of the words at an address.
    ///
    /// # Errors
    /// [`EncodeError::Size`] without words, or with more than a segment holds; [`EncodeError::Address`] for an address
    /// of more than 40 bits or between two words.
    pub fn entry(&self, address: GpuVa) -> Result<u64, EncodeError> {
        let size = EncodeError::Size {
            what: "the number of words of a segment",
            value: self.words.len() as u64,
            min: 1,
            max: MAX_SEGMENT_WORDS.into(),
        };
        let words = u32::try_from(self.words.len()).map_err(|_| size.clone())?;
        if words == 0 || words > MAX_SEGMENT_WORDS {
            return Err(size);
        }
        let segment = Segment {
            address,
            words,
            conditional: false,
            privileged: false,
            // CUDA's driver sets this bit in every entry.
            subroutine: true,
            wait: false,
        };
        GpfifoEntry::Segment(segment).encode().ok_or(EncodeError::Address {
            what: "the segment at",
            address,
            alignment: 4,
            bits: 40,
        })
    }

    /// Writes methods that follow each other, with a word for each.
    ///
    /// # Errors
    /// [`EncodeError::Header`] if the subchannel, a method or the number of words is out of range.
    pub fn write_methods(&mut self, subchannel: u8, method: u16, values: &[u32]) -> Result<(), EncodeError> {
        let error = EncodeError::Header {
            subchannel,
            method,
            count: values.len(),
        };
        let last = values.len().checked_mul(4).and_then(|n| n.checked_add(method.into()));
        if values.is_empty() || last.is_none_or(|last| last > 0x4000) {
            return Err(error);
        }
        let header = self.header(Advance::Each, subchannel, method, values.len());
        self.words.push(header.ok_or(error)?);
        self.words.extend(values);
        if method == SET_OBJECT
            && let Some(class) = values.first()
        {
            self.bindings.bind(subchannel, *class as u16);
        }
        Ok(())
    }

    /// Writes one method again and again. More words than a header can announce get several headers.
    ///
    /// # Errors
    /// [`EncodeError::Header`] if the subchannel or the method is out of range.
    pub fn write_repeated(&mut self, subchannel: u8, method: u16, values: &[u32]) -> Result<(), EncodeError> {
        for run in values.chunks(usize::from(MAX_COUNT)) {
            let header = self.header(Advance::Never, subchannel, method, run.len());
            self.words.push(header.ok_or(EncodeError::Header {
                subchannel,
                method,
                count: run.len(),
            })?);
            self.words.extend(run);
        }
        Ok(())
    }

    /// Writes a method whose value of up to 13 bits is in the header.
    ///
    /// # Errors
    /// [`EncodeError::Header`] if the subchannel, the method or the value is out of range.
    pub fn write_immediate(&mut self, subchannel: u8, method: u16, value: u16) -> Result<(), EncodeError> {
        let header = Header::Immediate {
            subchannel,
            method,
            value,
        };
        let word = header.encode().ok_or(EncodeError::Header {
            subchannel,
            method,
            count: 0,
        })?;
        self.words.push(word);
        if method == SET_OBJECT {
            self.bindings.bind(subchannel, value);
        }
        Ok(())
    }

    /// Binds a class to a subchannel (`SET_OBJECT`).
    ///
    /// # Errors
    /// [`EncodeError::Header`] if the subchannel is not 0 to 7.
    pub fn bind_class(&mut self, subchannel: u8, class: u16) -> Result<(), EncodeError> {
        self.write_methods(subchannel, SET_OBJECT, &[class.into()])
    }

    fn header(&self, advance: Advance, subchannel: u8, method: u16, count: usize) -> Option<u32> {
        let header = Header::Methods {
            advance,
            form: HeaderForm::New,
            subchannel,
            method,
            count: u16::try_from(count).ok()?,
        };
        header.encode()
    }

    /// Returns the first subchannel of an engine, and its class.
    fn engine(&self, kind: EngineKind) -> Result<(u8, u16), EncodeError> {
        let bound = (0..SUBCHANNELS).filter_map(|s| Some((s, self.bindings.class_of(s)?)));
        let mut of_kind = bound.filter(|(_, class)| kind.contains(*class));
        of_kind.next().ok_or(EncodeError::UnboundEngine(kind))
    }

    /// Returns the class that is bound for compute work.
    ///
    /// # Errors
    /// [`EncodeError::UnboundEngine`] if no subchannel has a compute class.
    pub fn compute_class(&self) -> Result<u16, EncodeError> {
        Ok(self.engine(EngineKind::Compute)?.1)
    }

    /// Writes methods of an engine that follow each other.
    fn write_engine(&mut self, kind: EngineKind, method: u16, values: &[u32]) -> Result<(), EncodeError> {
        let (subchannel, class) = self.engine(kind)?;
        let addresses = (0..values.len()).map_while(|n| method.checked_add(u16::try_from(n.checked_mul(4)?).ok()?));
        check_methods(class, addresses)?;
        self.write_methods(subchannel, method, values)
    }

    /// Writes methods of the channel itself, on subchannel 0.
    fn write_host(&mut self, method: u16, values: &[u32]) -> Result<(), EncodeError> {
        let addresses = (0..values.len()).map_while(|n| method.checked_add(u16::try_from(n.checked_mul(4)?).ok()?));
        check_methods(self.bindings.host(), addresses)?;
        self.write_methods(0, method, values)
    }
}

/// Checks that a class has methods.
fn check_methods(class: u16, mut methods: impl Iterator<Item = u16>) -> Result<(), EncodeError> {
    let table = ClassTable::find(class);
    let unknown = methods.find(|m| table.is_none_or(|t| t.method(*m).is_none()));
    unknown.map_or(Ok(()), |method| Err(EncodeError::UnknownMethod { class, method }))
}

/// Returns an address as the values of two methods, upper word first.
///
/// # Errors
/// [`EncodeError::Address`] if the address is not a multiple of `alignment`, or has more than `bits` bits.
fn address_words(what: &'static str, address: GpuVa, alignment: u64, bits: u32) -> Result<[u32; 2], EncodeError> {
    if address.0.checked_rem(alignment) != Some(0) || address.0.checked_shr(bits).is_some_and(|rest| rest != 0) {
        return Err(EncodeError::Address {
            what,
            address,
            alignment,
            bits,
        });
    }
    Ok([(address.0 >> 32) as u32, address.0 as u32])
}

#[cfg(test)]
mod tests;
