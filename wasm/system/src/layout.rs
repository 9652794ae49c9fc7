//! The memory of the system module: its regions, and the bytes that a copy starts with.

use std::borrow::Cow;

/// Bytes of the header at the start of the memory.
pub(crate) const HEADER_BYTES: u32 = 0x100;
/// Bytes of an entry of the log.
pub(crate) const ENTRY_BYTES: u32 = 32;
/// Alignment of the regions.
const REGION_ALIGNMENT: u32 = 16;
/// Size of a page of memory, bytes.
pub const PAGE_BYTES: u64 = 64 << 10;
/// The bytes `KWSM`.
pub(crate) const MAGIC: u32 = 0x4d53_574b;
pub(crate) const VERSION: u32 = 1;

/// Offsets in the header, as in `system.wat`.
pub(crate) mod header {
    pub const MAGIC: usize = 0x00;
    pub const VERSION: usize = 0x04;
    pub const ARGUMENTS: usize = 0x08;
    pub const ENVIRONMENT: usize = 0x14;
    pub const INPUT: usize = 0x20;
    pub const INPUT_LENGTH: usize = 0x24;
    pub const INPUT_CAPACITY: usize = 0x28;
    pub const OUTPUT: usize = 0x30;
    pub const ERROR_OUTPUT: usize = 0x40;
    pub const LOG: usize = 0x50;
    pub const LOG_CAPACITY: usize = 0x54;
    pub const CALLS: usize = 0x58;
    pub const CLOCK: usize = 0x60;
    pub const CLOCK_STEP: usize = 0x68;
    pub const SEED: usize = 0x70;
    pub const INPUT_NUMBER: usize = 0x78;
    pub const OUTPUT_LIMIT: usize = 0x90;
}

/// An output stream of a program. The numbers are those of its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Stream {
    /// Standard output.
    Output = 1,
    /// Standard error.
    Error = 2,
}

impl Stream {
    /// Returns the stream with a descriptor's number, or `None` if there is none.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Output),
            2 => Some(Self::Error),
            _ => None,
        }
    }

    /// Returns the offset of its region's description in the header.
    pub(crate) fn header(self) -> usize {
        match self {
            Self::Output => header::OUTPUT,
            Self::Error => header::ERROR_OUTPUT,
        }
    }
}

/// Inputs of one copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemInputs<'a> {
    /// Arguments; the first is the name of the program. No zero bytes.
    pub arguments: &'a [Vec<u8>],
    /// Environment: names and values. No zero bytes, and no `=` in a name.
    pub environment: &'a [(Vec<u8>, Vec<u8>)],
    /// Standard input, and the first request of `invoke`.
    pub standard_input: &'a [u8],
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of the input: copies with different numbers get different random numbers.
    pub input_number: u64,
    /// Virtual time at the start, in nanoseconds.
    pub clock_start: u64,
    /// Virtual time that each system call takes, in nanoseconds.
    pub clock_step: u64,
    /// Maximum number of bytes on both output streams together.
    pub output_limit: u64,
}

/// Inputs that do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An argument or a variable has a zero byte.
    #[error("{what} {index} has a zero byte")]
    ZeroByte {
        /// `argument` or `environment variable`.
        what: &'static str,
        /// Its position.
        index: usize,
    },
    /// A region is too small for an input.
    #[error("{what} has {bytes} bytes (maximum {capacity})")]
    TooLarge {
        /// Name of the region.
        what: &'static str,
        /// Its bytes.
        bytes: u64,
        /// Capacity of the region.
        capacity: u64,
    },
    /// The memory would be larger than 2 GiB.
    #[error("the memory of the system calls has {0} bytes (maximum 2147483648)")]
    MemoryTooLarge(u64),
}

/// The regions of the memory, the same for all copies of a run.
///
/// The regions that the host fills come first: header, arguments, environment, input. [`SystemLayout::encode`] returns
/// only these bytes. The others need no initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemLayout {
    pub(crate) arguments: Region,
    pub(crate) environment: Region,
    pub(crate) input: Region,
    pub(crate) output: Region,
    pub(crate) error_output: Region,
    pub(crate) log: Region,
    bytes: u32,
}

/// Bytes that the host writes to the memory of the system module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryWrite<'a> {
    /// Offset of the first byte.
    pub offset: u32,
    /// The bytes.
    pub bytes: Cow<'a, [u8]>,
}

/// A range of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub offset: u32,
    pub capacity: u32,
}

/// Sizes of the regions, in bytes unless stated otherwise.
struct RegionSizes {
    arguments: u64,
    environment: u64,
    input: u64,
    output: u64,
    error_output: u64,
    log: u64,
}

impl SystemLayout {
    /// Creates the layout for copies with the same arguments and environment.
    ///
    /// `max_input_bytes` is the size of the largest input or request. `output_capacity` and `error_capacity` are the
    /// sizes of the two output buffers, in bytes: the host drains a full buffer. `log_entries` is the number of system
    /// calls that the log keeps.
    ///
    /// # Errors
    /// When the memory would be larger than 2 GiB.
    pub fn new(
        inputs: &SystemInputs<'_>,
        max_input_bytes: u64,
        output_capacity: u32,
        error_capacity: u32,
        log_entries: u32,
    ) -> Result<Self, LayoutError> {
        let arguments = inputs.arguments.iter().map(|a| a.len() as u64 + 1);
        let environment = inputs.environment.iter();
        Self::from_sizes(&RegionSizes {
            arguments: arguments.sum(),
            environment: environment
                .map(|(name, value)| name.len() as u64 + value.len() as u64 + 2)
                .sum(),
            input: max_input_bytes,
            output: output_capacity.max(1).into(),
            error_output: error_capacity.max(1).into(),
            log: u64::from(log_entries) * u64::from(ENTRY_BYTES),
        })
    }

    fn from_sizes(sizes: &RegionSizes) -> Result<Self, LayoutError> {
        let mut end = u64::from(HEADER_BYTES);
        let mut add = |bytes: u64| {
            let offset = end;
            end = end
                .checked_add(bytes)
                .and_then(|e| e.checked_next_multiple_of(u64::from(REGION_ALIGNMENT)))
                .filter(|e| *e <= 1 << 31)
                .ok_or_else(|| LayoutError::MemoryTooLarge(offset.saturating_add(bytes)))?;
            let too_large = |_| LayoutError::MemoryTooLarge(end);
            Ok(Region {
                offset: u32::try_from(offset).map_err(too_large)?,
                capacity: u32::try_from(bytes).map_err(too_large)?,
            })
        };
        let layout = Self {
            arguments: add(sizes.arguments)?,
            environment: add(sizes.environment)?,
            input: add(sizes.input)?,
            output: add(sizes.output)?,
            error_output: add(sizes.error_output)?,
            log: add(sizes.log)?,
            bytes: 0,
        };
        let bytes = u32::try_from(end).map_err(|_| LayoutError::MemoryTooLarge(end))?;
        Ok(Self { bytes, ..layout })
    }

    /// Returns the size of the used memory in bytes, a multiple of 16.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns the number of 64 KiB pages that hold the memory.
    #[must_use]
    pub fn pages(&self) -> u32 {
        u32::try_from(u64::from(self.bytes).div_ceil(PAGE_BYTES)).unwrap_or(u32::MAX)
    }

    /// Returns the maximum size of an input or request, in bytes.
    #[must_use]
    pub fn input_capacity(&self) -> u32 {
        self.input.capacity
    }

    /// Returns the first bytes of the memory of a copy. The bytes after them need no initial value.
    ///
    /// # Errors
    /// When an input has a forbidden byte or does not fit.
    pub fn encode(&self, inputs: &SystemInputs<'_>) -> Result<Vec<u8>, LayoutError> {
        let mut arguments = Vec::new();
        for (index, argument) in inputs.arguments.iter().enumerate() {
            push_string(&mut arguments, "argument", index, &[argument])?;
        }
        let mut environment = Vec::new();
        for (index, (name, value)) in inputs.environment.iter().enumerate() {
            push_string(&mut environment, "environment variable", index, &[name, b"=", value])?;
        }
        let mut bytes = self.header(inputs, arguments.len(), environment.len());
        append(&mut bytes, self.arguments, "the list of arguments", &arguments)?;
        append(&mut bytes, self.environment, "the environment", &environment)?;
        append(&mut bytes, self.input, "the input", inputs.standard_input)?;
        Ok(bytes)
    }

    /// Returns the length of [`SystemLayout::encode`] for an input.
    #[must_use]
    pub fn encoded_bytes(&self, standard_input: &[u8]) -> usize {
        (self.input.offset as usize).saturating_add(standard_input.len())
    }

    /// Writes the first bytes of the memory of a copy to `to`, and zeros behind them.
    ///
    /// `template` is the result of [`SystemLayout::encode`] for the same arguments, environment and options. Standard
    /// input and number of the input replace those of the template: this is faster than a new encoding.
    ///
    /// # Errors
    /// When the input does not fit its region, or `to`.
    pub fn encode_input(
        &self,
        template: &[u8],
        standard_input: &[u8],
        input_number: u64,
        to: &mut [u8],
    ) -> Result<(), LayoutError> {
        let start = self.input.offset as usize;
        let too_large = |capacity| LayoutError::TooLarge {
            what: "the input",
            bytes: standard_input.len() as u64,
            capacity,
        };
        if standard_input.len() as u64 > u64::from(self.input.capacity) {
            return Err(too_large(self.input.capacity.into()));
        }
        let room = to.len().saturating_sub(start) as u64;
        let (first, rest) = to.split_at_mut_checked(start).ok_or(too_large(0))?;
        let (input, rest) = rest.split_at_mut_checked(standard_input.len()).ok_or(too_large(room))?;
        let common = template.get(..start).unwrap_or(template);
        let (head, tail) = first.split_at_mut(common.len());
        head.copy_from_slice(common);
        tail.fill(0);
        for (offset, number, width) in [
            (header::INPUT_LENGTH, standard_input.len() as u64, 4),
            (header::INPUT_NUMBER, input_number, 8),
        ] {
            if let Some(field) = head.get_mut(offset..offset + width) {
                field.copy_from_slice(number.to_le_bytes().get(..width).unwrap_or_default());
            }
        }
        input.copy_from_slice(standard_input);
        rest.fill(0);
        Ok(())
    }

    fn header(&self, inputs: &SystemInputs<'_>, argument_bytes: usize, environment_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES as usize];
        let mut put = |offset: usize, value: u64, width: usize| {
            if let Some(to) = bytes.get_mut(offset..offset + width) {
                for (to, from) in to.iter_mut().zip(value.to_le_bytes()) {
                    *to = from;
                }
            }
        };
        put(header::MAGIC, MAGIC.into(), 4);
        put(header::VERSION, VERSION.into(), 4);
        put(header::ARGUMENTS, self.arguments.offset.into(), 4);
        put(header::ARGUMENTS + 4, inputs.arguments.len() as u64, 4);
        put(header::ARGUMENTS + 8, argument_bytes as u64, 4);
        put(header::ENVIRONMENT, self.environment.offset.into(), 4);
        put(header::ENVIRONMENT + 4, inputs.environment.len() as u64, 4);
        put(header::ENVIRONMENT + 8, environment_bytes as u64, 4);
        put(header::INPUT, self.input.offset.into(), 4);
        put(header::INPUT_LENGTH, inputs.standard_input.len() as u64, 4);
        put(header::INPUT_CAPACITY, self.input.capacity.into(), 4);
        put(header::OUTPUT, self.output.offset.into(), 4);
        put(header::OUTPUT + 4, self.output.capacity.into(), 4);
        put(header::ERROR_OUTPUT, self.error_output.offset.into(), 4);
        put(header::ERROR_OUTPUT + 4, self.error_output.capacity.into(), 4);
        put(header::LOG, self.log.offset.into(), 4);
        put(header::LOG_CAPACITY, (self.log.capacity / ENTRY_BYTES).into(), 4);
        put(header::CLOCK, inputs.clock_start, 8);
        put(header::CLOCK_STEP, inputs.clock_step, 8);
        put(header::SEED, inputs.seed, 8);
        put(header::INPUT_NUMBER, inputs.input_number, 8);
        put(header::OUTPUT_LIMIT, inputs.output_limit, 8);
        bytes
    }

    /// Returns the writes to the memory that store the next request.
    ///
    /// The host makes them before it resumes the copy after [`HostFunction::Next`](crate::HostFunction::Next), whose
    /// result is then 1.
    ///
    /// # Errors
    /// When the request does not fit.
    pub fn encode_request<'a>(&self, request: &'a [u8]) -> Result<[MemoryWrite<'a>; 2], LayoutError> {
        let length = u32::try_from(request.len())
            .ok()
            .filter(|l| *l <= self.input.capacity)
            .ok_or(LayoutError::TooLarge {
                what: "the request",
                bytes: request.len() as u64,
                capacity: self.input.capacity.into(),
            })?;
        Ok([
            MemoryWrite {
                offset: header::INPUT_LENGTH as u32,
                bytes: length.to_le_bytes().to_vec().into(),
            },
            MemoryWrite {
                offset: self.input.offset,
                bytes: request.into(),
            },
        ])
    }
}

/// Appends a string with its zero byte.
fn push_string(to: &mut Vec<u8>, what: &'static str, index: usize, parts: &[&[u8]]) -> Result<(), LayoutError> {
    for part in parts {
        if part.contains(&0) {
            return Err(LayoutError::ZeroByte { what, index });
        }
        to.extend_from_slice(part);
    }
    to.push(0);
    Ok(())
}

/// Appends the content of a region at its offset.
fn append(to: &mut Vec<u8>, region: Region, what: &'static str, content: &[u8]) -> Result<(), LayoutError> {
    if content.len() as u64 > u64::from(region.capacity) {
        return Err(LayoutError::TooLarge {
            what,
            bytes: content.len() as u64,
            capacity: region.capacity.into(),
        });
    }
    to.resize(region.offset as usize, 0);
    to.extend_from_slice(content);
    Ok(())
}
