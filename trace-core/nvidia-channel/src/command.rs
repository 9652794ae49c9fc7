//! What methods make the GPU do: uploads, launches, copies, semaphores.

use crate::GpuVa;
use crate::launch::{Launch, LaunchError};
use std::fmt;

/// An action of the GPU.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Words of the push buffer are written to memory.
    Upload(Upload),
    /// A compute grid starts.
    Launch(Box<Launch>),
    /// A compute grid starts, and its descriptor cannot be read.
    UnreadableLaunch(LaunchError),
    /// Memory is copied or filled.
    Copy(Copy),
    /// A semaphore is released or waited for.
    Semaphore(Semaphore),
}

/// Layout of a memory surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurfaceLayout {
    /// Lines one after the other.
    Pitch,
    /// Blocks, as textures have them.
    BlockLinear,
}

/// Words of the push buffer that are written to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Offset in words of the method that starts it.
    pub word: usize,
    /// Destination.
    pub address: GpuVa,
    /// The bytes, all lines one after the other.
    pub bytes: Vec<u8>,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Number of lines.
    pub lines: u32,
    /// Distance of two lines in bytes.
    pub pitch: u32,
    /// Layout of the destination.
    pub layout: SurfaceLayout,
    /// Number of bytes that the push buffer does not have.
    pub missing_bytes: u64,
    /// Semaphore that is released at the end.
    pub semaphore: Option<Semaphore>,
}

/// A copy or a fill by a copy engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// Offset of the method in words.
    pub word: usize,
    /// Class of the copy engine.
    pub class: u16,
    /// Source.
    pub source: Surface,
    /// Destination.
    pub destination: Surface,
    /// Length of a line, in bytes, or in pixels if `remap` is present.
    pub line_length: u32,
    /// Number of lines.
    pub lines: u32,
    /// How components of pixels are exchanged.
    pub remap: Option<Remap>,
    /// The copy may run beside earlier ones.
    pub pipelined: bool,
    /// Caches are flushed at the end.
    pub flush: bool,
    /// Semaphore that is released at the end.
    pub semaphore: Option<Semaphore>,
}

/// Source or destination of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Surface {
    /// First byte.
    pub address: GpuVa,
    /// The address is a physical one.
    pub physical: bool,
    /// Distance of two lines in bytes.
    pub pitch: u32,
    /// Layout.
    pub layout: SurfaceLayout,
}

/// Component that a copy writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// A component of the source, 0 to 3.
    Source(u8),
    /// The first constant.
    ConstantA,
    /// The second constant.
    ConstantB,
    /// The component is not written.
    Unwritten,
}

/// How a copy exchanges the components of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remap {
    /// First constant.
    pub constant_a: u32,
    /// Second constant.
    pub constant_b: u32,
    /// What each component of the destination gets.
    pub components: [Component; 4],
    /// Bytes of a component, 1 to 4.
    pub component_bytes: u32,
    /// Number of components that a source pixel has, 1 to 4.
    pub source_components: u32,
    /// Number of components that a destination pixel has, 1 to 4.
    pub destination_components: u32,
}

impl Remap {
    /// Returns the bytes that every destination pixel gets, or `None` if one comes from the source or stays.
    #[must_use]
    pub fn fill_pattern(&self) -> Option<Vec<u8>> {
        let mut pattern = Vec::new();
        for component in self.components.iter().take(self.destination_components as usize) {
            let constant = match component {
                Component::ConstantA => self.constant_a,
                Component::ConstantB => self.constant_b,
                Component::Source(_) | Component::Unwritten => return None,
            };
            pattern.extend(constant.to_le_bytes().iter().take(self.component_bytes as usize));
        }
        Some(pattern)
    }
}

impl Copy {
    /// Returns the number of bytes that are written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let pixel = self.remap.map_or(1, |r| r.component_bytes * r.destination_components);
        // The factors have 32, 32 and 5 bits.
        (u64::from(self.line_length) * u64::from(self.lines)).saturating_mul(u64::from(pixel))
    }

    /// Returns the bytes that every destination pixel gets, or `None` if the copy reads its source.
    #[must_use]
    pub fn fill_pattern(&self) -> Option<Vec<u8>> {
        self.remap?.fill_pattern()
    }
}

/// Engine that works with a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SemaphoreSource {
    /// The channel itself.
    Host,
    /// The report unit of a compute or graphics engine.
    Report,
    /// A copy engine.
    Copy,
    /// The upload unit of an engine.
    Upload,
}

/// What happens with a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SemaphoreOperation {
    /// Waits until the value equals the payload.
    Acquire,
    /// Waits until the value is at least the payload.
    AcquireGreaterEqual,
    /// Waits until the value is at least the payload, modulo the range of numbers.
    AcquireCircularGreaterEqual,
    /// Waits until the value and the payload have a common bit.
    AcquireAnd,
    /// Waits until neither the value nor the payload has a bit.
    AcquireNor,
    /// Writes the payload.
    Release,
    /// Combines the payload with the value. The number is that of the class's `REDUCTION` field.
    Reduce(u8),
    /// Writes a report without the payload.
    Report,
    /// Raises an interrupt.
    Trap,
    /// An operation that no header names.
    Unknown(u32),
}

/// A semaphore is released or waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Semaphore {
    /// Offset of the method in words.
    pub word: usize,
    /// Engine.
    pub source: SemaphoreSource,
    /// What happens.
    pub operation: SemaphoreOperation,
    /// Address of the semaphore.
    pub address: GpuVa,
    /// Value to write or to wait for.
    pub payload: u64,
    /// The value has 64 bits, not 32.
    pub wide: bool,
    /// A time stamp is written after the value: 16 bytes in all.
    pub timestamp: bool,
}

impl Semaphore {
    /// Returns whether the GPU waits for the semaphore.
    #[must_use]
    pub fn is_acquire(&self) -> bool {
        matches!(
            self.operation,
            SemaphoreOperation::Acquire
                | SemaphoreOperation::AcquireGreaterEqual
                | SemaphoreOperation::AcquireCircularGreaterEqual
                | SemaphoreOperation::AcquireAnd
                | SemaphoreOperation::AcquireNor
        )
    }
}

impl fmt::Display for SemaphoreOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Acquire => "acquire =",
            Self::AcquireGreaterEqual => "acquire >=",
            Self::AcquireCircularGreaterEqual => "acquire >= (circular)",
            Self::AcquireAnd => "acquire and",
            Self::AcquireNor => "acquire nor",
            Self::Release => "release",
            Self::Reduce(operation) => return write!(f, "reduction {operation}"),
            Self::Report => "report",
            Self::Trap => "trap",
            Self::Unknown(operation) => return write!(f, "unknown operation {operation}"),
        };
        f.write_str(text)
    }
}
