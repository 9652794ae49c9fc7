//! The header at the start of every job descriptor.

use crate::GpuVa;
use crate::registers::RegisterMap;
use num_enum::TryFromPrimitive;

/// Name of the register map.
pub(super) const MAP: &str = "mali-jm";
/// Name of the layout of a header in the register map.
pub(super) const HEADER_LAYOUT: &str = "job-header";
/// Size of a header, bytes.
pub const HEADER_BYTES: usize = 32;

/// The type of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, TryFromPrimitive)]
#[repr(u8)]
pub enum JobType {
    /// Does nothing.
    Null = 1,
    /// Writes a value, a counter or a time to memory.
    WriteValue = 2,
    /// Cleans or invalidates caches.
    CacheFlush = 3,
    /// Runs a compute shader.
    Compute = 4,
    /// Runs a vertex shader.
    Vertex = 5,
    /// Does vertex and tiler work in one job.
    Geometry = 6,
    /// Sorts primitives into tiles.
    Tiler = 7,
    /// Does indexed vertex work and tiler work in one job.
    Fused = 8,
    /// Runs fragment shaders over tiles.
    Fragment = 9,
    /// Vertex work by index and tiler work in one.
    IndexedVertex = 10,
}

impl JobType {
    /// Returns the type with this number.
    #[must_use]
    pub fn from_raw(raw: u8) -> Option<Self> {
        Self::try_from(raw).ok()
    }

    /// Returns the type's name in JSON and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::WriteValue => "write-value",
            Self::CacheFlush => "cache-flush",
            Self::Compute => "compute",
            Self::Vertex => "vertex",
            Self::Geometry => "geometry",
            Self::Tiler => "tiler",
            Self::Fused => "fused",
            Self::Fragment => "fragment",
            Self::IndexedVertex => "indexed-vertex",
        }
    }
}

/// The header of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobHeader {
    /// Written by the hardware: exception code in the low byte, 0 before the job ran, 1 when it is done.
    pub exception_status: u32,
    /// Written by the hardware when the job stops early.
    pub first_incomplete_task: u32,
    /// Written by the hardware: the address of the fault.
    pub fault_pointer: GpuVa,
    /// Whether addresses in the job are 64 bits wide.
    pub is_64bit: bool,
    /// Raw job type; see [`JobHeader::kind`].
    pub job_type: u8,
    /// Whether the job waits for all jobs before it.
    pub barrier: bool,
    /// Flags other than the barrier, at their bit positions in word 4: 9 invalidate caches, 11 no prefetch, 12
    /// texture mapper, 14 and 15 relaxed dependencies.
    pub switches: u32,
    /// Index of the job in its chain, used by dependencies.
    pub index: u16,
    /// Index of a job that must complete first, 0 for none.
    pub dep1: u16,
    /// Index of another job that must complete first, 0 for none.
    pub dep2: u16,
    /// Address of the next job of the chain, 0 at its end.
    pub next: GpuVa,
    /// Bits of word 4 without a defined meaning, at their positions.
    pub reserved: u32,
}

/// Why bytes are not a job header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The bytes are unmapped or without content.
    #[error("the header at {at} has no content")]
    Unreadable {
        /// Address of the header.
        at: GpuVa,
    },
    /// The job type does not exist on any GPU.
    #[error("job type {job_type} is unknown")]
    UnknownType {
        /// The raw type.
        job_type: u8,
    },
    /// Reserved bits are set.
    #[error("the reserved bits {bits:#x} are set in word 4")]
    ReservedBits {
        /// The bits, at their positions.
        bits: u32,
    },
    /// The address of the next job is not aligned to 64 bytes, or exceeds the GPU's 48-bit virtual address range.
    #[error("the next job at {next} is misaligned or out of range")]
    BadNext {
        /// The address.
        next: GpuVa,
    },
    /// The bytes are text.
    #[error("the header consists of text, \"{text}\"")]
    Text {
        /// The text, cut short.
        text: String,
    },
}

/// Whether a decoded header is plausible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// The header is plausible.
    Sound,
    /// The header decodes but is implausible, for this reason.
    Doubtful(String),
}

/// Word 4: flags other than the barrier.
const SWITCHES: u32 = 0xda00;
/// Word 4: bits 13 and 10 have no meaning.
const RESERVED: u32 = 0x2400;

fn word(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let mut w = [0; 4];
    for (to, from) in w.iter_mut().zip(bytes.iter().skip(at * 4)) {
        *to = *from;
    }
    u32::from_le_bytes(w)
}

impl JobHeader {
    /// Reads a header. Accepts any bytes; see [`JobHeader::decode`] for a checked version.
    #[must_use]
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let control = word(bytes, 4);
        let deps = word(bytes, 5);
        let is_64bit = control & 1 != 0;
        let next_hi = if is_64bit { u64::from(word(bytes, 7)) } else { 0 };
        Self {
            exception_status: word(bytes, 0),
            first_incomplete_task: word(bytes, 1),
            fault_pointer: GpuVa::new(u64::from(word(bytes, 2)) | u64::from(word(bytes, 3)) << 32),
            is_64bit,
            job_type: (control >> 1 & 0x7f) as u8,
            barrier: control & 1 << 8 != 0,
            switches: control & SWITCHES,
            index: (control >> 16) as u16,
            dep1: deps as u16,
            dep2: (deps >> 16) as u16,
            next: GpuVa::new(u64::from(word(bytes, 6)) | next_hi << 32),
            reserved: control & RESERVED,
        }
    }

    /// Reads a header and rejects bytes that cannot be one.
    ///
    /// # Errors
    /// The reason why the bytes are not a header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderError> {
        let h = Self::read(bytes);
        if let Some(text) = find_text(bytes) {
            return Err(HeaderError::Text { text });
        }
        if JobType::from_raw(h.job_type).is_none() {
            return Err(HeaderError::UnknownType { job_type: h.job_type });
        }
        if h.reserved != 0 {
            return Err(HeaderError::ReservedBits { bits: h.reserved });
        }
        if h.next.get() & 63 != 0 || h.next.get() >> crate::mmu::VA_BITS != 0 {
            return Err(HeaderError::BadNext { next: h.next });
        }
        Ok(h)
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let control = u32::from(self.is_64bit)
            | u32::from(self.job_type & 0x7f) << 1
            | u32::from(self.barrier) << 8
            | self.switches & SWITCHES
            | self.reserved & RESERVED
            | u32::from(self.index) << 16;
        let words = [
            self.exception_status,
            self.first_incomplete_task,
            self.fault_pointer.get() as u32,
            (self.fault_pointer.get() >> 32) as u32,
            control,
            u32::from(self.dep1) | u32::from(self.dep2) << 16,
            self.next.get() as u32,
            if self.is_64bit {
                (self.next.get() >> 32) as u32
            } else {
                0
            },
        ];
        let mut out = [0; HEADER_BYTES];
        for (to, w) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = w.to_le_bytes();
        }
        out
    }

    /// Returns the job type; `None` for a type that does not exist on any GPU.
    #[must_use]
    pub fn kind(&self) -> Option<JobType> {
        JobType::from_raw(self.job_type)
    }

    /// Returns the exception code that the hardware wrote, 0 before the job ran.
    #[must_use]
    pub fn exception_code(&self) -> u8 {
        self.exception_status as u8
    }

    /// Checks whether a driver could have written the header. Requires that [`JobHeader::decode`] accepts it (text is
    /// rejected), a known status, no dependency on itself, and a fault pointer in the GPU's address range.
    #[must_use]
    pub fn check_soundness(&self) -> Soundness {
        let doubt = |text: String| Soundness::Doubtful(text);
        if let Err(e) = Self::decode(&self.encode()) {
            return doubt(e.to_string());
        }
        let code = self.exception_code();
        if code != 0 && exception_name(code) == "unknown" {
            return doubt(format!("exception code {code:#x} is unknown"));
        }
        if self.exception_status >> 11 != 0 && code <= 1 {
            return doubt(format!(
                "exception status {:#x} has undefined bits",
                self.exception_status
            ));
        }
        if self.fault_pointer.get() >> crate::mmu::VA_BITS != 0 {
            return doubt(format!("the fault pointer {:#x} is out of range", self.fault_pointer));
        }
        if self.index != 0 && (self.dep1 == self.index || self.dep2 == self.index) {
            return doubt(format!("job {} depends on itself", self.index));
        }
        Soundness::Sound
    }
}

/// Returns the name of an exception code, as in job and fault status registers and job headers.
#[must_use]
pub fn exception_name(code: u8) -> &'static str {
    RegisterMap::by_name(MAP)
        .and_then(|m| m.enum_name("exception", u64::from(code)))
        .unwrap_or("unknown")
}

/// Returns the bytes as text if nearly all of them are printable; no valid header is.
fn find_text(bytes: &[u8; HEADER_BYTES]) -> Option<String> {
    let printable = |b: &u8| b.is_ascii_graphic() || matches!(b, b' ' | b'\n' | b'\t' | b'\r');
    if bytes.iter().filter(|b| printable(b)).count() < HEADER_BYTES - 3 {
        return None;
    }
    Some(
        bytes
            .iter()
            .map(|b| {
                if b.is_ascii_graphic() || *b == b' ' {
                    char::from(*b)
                } else {
                    '.'
                }
            })
            .collect(),
    )
}
