//! What the commands of a submission say, whatever GPU family decodes them.

use super::{DriverTrace, Submission};
use crate::GpuVa;

/// The decoder of the submissions of a recording. It keeps the state of each channel.
pub trait SubmissionDecoder {
    /// Decodes a submission. The submissions of a channel are decoded in event order and without gaps: the state of a
    /// channel depends on all its earlier ones. Those of other channels may be left out.
    fn decode(&mut self, submission: &Submission) -> DecodedSubmission;

    /// Does the same as [`Self::decode`] without the methods, which takes less time and memory. Calls of both count as
    /// one sequence.
    fn decode_work(&mut self, submission: &Submission) -> DecodedSubmission {
        DecodedSubmission {
            methods: Vec::new(),
            ..self.decode(submission)
        }
    }
}

/// The commands of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodedSubmission {
    /// The methods, in order.
    pub methods: Vec<DecodedMethod>,
    /// What they make the GPU do, in order.
    pub work: Vec<GpuWork>,
    /// Addresses that two methods hold, in order. The addresses of work are among them.
    pub address_words: Vec<AddressWord>,
    /// Why the decoder stopped before the end, or why it read nothing; `None` if it read everything.
    pub error: Option<String>,
}

/// A method: a value for an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedMethod {
    /// Offset of its value in words.
    pub word: u32,
    /// Subchannel.
    pub subchannel: u8,
    /// Class of the engine, or `None` if the subchannel has none.
    pub class: Option<u16>,
    /// Byte address of the method.
    pub method: u16,
    /// Name, or `None` if no table has it.
    pub name: Option<String>,
    /// Value.
    pub value: u32,
    /// Fields of the value: name, and formatted value.
    pub fields: Vec<(String, String)>,
}

/// An address in two methods: the upper part, then the lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressWord {
    /// Offset of the upper part in words.
    pub word: u32,
    /// Class of the engine.
    pub class: u16,
    /// Byte address of the method with the upper part.
    pub method: u16,
    /// Name of this method.
    pub name: &'static str,
    /// The address.
    pub va: GpuVa,
}

/// Work of the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuWork {
    /// A compute launch.
    Launch(Box<SubmittedLaunch>),
    /// A copy, or a fill without a source.
    Copy {
        /// Offset of its method in words.
        word: u32,
        /// Source, or `None` for a fill.
        from: Option<GpuVa>,
        /// Destination.
        to: GpuVa,
        /// Number of bytes.
        bytes: u64,
        /// Whether the source is a physical address.
        from_is_physical: bool,
        /// Whether the destination is a physical address.
        to_is_physical: bool,
    },
    /// Words of the push buffer are written to memory.
    Upload {
        /// Offset of its method in words.
        word: u32,
        /// Destination.
        to: GpuVa,
        /// Number of bytes.
        bytes: u64,
    },
    /// A semaphore is released or waited for.
    Semaphore {
        /// Offset of its method in words.
        word: u32,
        /// Whether the GPU waits for it.
        waits: bool,
        /// Address.
        va: GpuVa,
        /// Value to write or to wait for.
        payload: u64,
        /// What happens, in words.
        operation: String,
    },
    /// A descriptor that starts no blocks: it only orders others.
    Order {
        /// Offset of its method in words.
        word: u32,
        /// Address of the descriptor.
        descriptor: GpuVa,
        /// What it is, in words.
        kind: String,
    },
    /// A launch whose descriptor cannot be read.
    Unreadable {
        /// Offset of its method in words.
        word: u32,
        /// Why.
        reason: String,
    },
}

impl GpuWork {
    /// Returns the offset in words of the method that starts or completes it.
    #[must_use]
    pub fn word(&self) -> u32 {
        match self {
            Self::Launch(launch) => launch.word,
            Self::Copy { word, .. }
            | Self::Upload { word, .. }
            | Self::Semaphore { word, .. }
            | Self::Order { word, .. }
            | Self::Unreadable { word, .. } => *word,
        }
    }
}

/// A compute launch of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubmittedLaunch {
    /// Offset of its method in words.
    pub word: u32,
    /// Blocks by dimension.
    pub grid: [u32; 3],
    /// Threads of a block by dimension.
    pub block: [u32; 3],
    /// Blocks of a cluster by dimension.
    pub cluster: Option<[u32; 3]>,
    /// Shared memory of a block in bytes, with what the system reserves.
    pub shared: u64,
    /// Local memory of a thread in bytes.
    pub local: u64,
    /// Registers of a thread.
    pub registers: u32,
    /// Barriers of a block.
    pub barriers: u32,
    /// Address of the first instruction.
    pub program: GpuVa,
    /// Address of the launch descriptor.
    pub descriptor: GpuVa,
    /// Parameters; empty if the recording does not hold them.
    pub parameters: Vec<SubmittedParameter>,
    /// Constant banks.
    pub banks: Vec<SubmittedBank>,
    /// Semaphores that the GPU writes at the end of the launch.
    pub releases: Vec<SubmittedRelease>,
}

impl SubmittedLaunch {
    /// Returns the bytes of the parameters; empty if the recording does not hold them.
    #[must_use]
    pub fn parameter_bytes(&self) -> Vec<u8> {
        let words = self.parameters.iter();
        words
            .flat_map(|p| p.value.to_le_bytes().into_iter().take(p.bytes as usize))
            .collect()
    }
}

/// A constant bank of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmittedBank {
    /// Number of the bank.
    pub index: u32,
    /// Address of its first byte.
    pub va: GpuVa,
    /// Size, bytes.
    pub bytes: u64,
}

/// A semaphore that the GPU writes at the end of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmittedRelease {
    /// Address.
    pub va: GpuVa,
    /// Value to write, or operand of the reduction.
    pub payload: u64,
    /// Name of the reduction with the value in memory, such as `RED_ADD`; `None` if the value is written.
    pub reduction: Option<&'static str>,
}

/// A word of a launch's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmittedParameter {
    /// Offset in the parameters, bytes.
    pub offset: u32,
    /// Size: 8 for a word that is an address in a buffer, 4 for any other word, fewer at the end.
    pub bytes: u32,
    /// The value.
    pub value: u64,
    /// The buffer that the value points into: its index in [`DriverTrace::objects`], and the offset in it.
    pub buffer: Option<(usize, u64)>,
}

impl SubmittedParameter {
    /// Splits parameters into words. Commands do not say where a parameter ends: an aligned word of eight bytes is one
    /// if it is an address in a buffer just before the event, and other words have four bytes.
    #[must_use]
    pub fn split(bytes: &[u8], trace: &DriverTrace, event: u64) -> Vec<Self> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        let mut out = Vec::new();
        let mut offset = 0;
        while let Some(rest) = bytes.get(offset..).filter(|r| !r.is_empty()) {
            let wide = rest.first_chunk::<8>().filter(|_| offset % 8 == 0);
            let address = wide.map(|w| u64::from_le_bytes(*w));
            let found = address.and_then(|a| Some((a, trace.find_buffer(GpuVa::new(a), event)?)));
            let (size, value, buffer) = match found {
                Some((address, buffer)) => (8, address, Some(buffer)),
                None => {
                    let size = rest.len().min(4);
                    (size, number(rest.get(..size).unwrap_or_default()), None)
                }
            };
            out.push(Self {
                offset: offset as u32,
                bytes: size as u32,
                value,
                buffer,
            });
            offset += size;
        }
        out
    }
}
