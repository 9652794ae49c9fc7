//! The header that begins every job.

use crate::recording::GpuVa;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum JobType {
    /// Nothing.
    Null = 1,
    /// Writes a value, a counter or a time to memory.
    WriteValue = 2,
    /// Cleans or invalidates caches.
    CacheFlush = 3,
    /// Runs a compute shader.
    Compute = 4,
    /// Runs a vertex shader.
    Vertex = 5,
    /// Runs a geometry shader.
    Geometry = 6,
    /// Sorts primitives into tiles.
    Tiler = 7,
    /// Vertex and tiler work in one.
    Fused = 8,
    /// Runs fragment shaders over tiles.
    Fragment = 9,
    /// Vertex work by index and tiler work in one.
    IndexedVertex = 10,
}

impl JobType {
    /// The type with this number.
    #[must_use]
    pub fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            1 => Self::Null,
            2 => Self::WriteValue,
            3 => Self::CacheFlush,
            4 => Self::Compute,
            5 => Self::Vertex,
            6 => Self::Geometry,
            7 => Self::Tiler,
            8 => Self::Fused,
            9 => Self::Fragment,
            10 => Self::IndexedVertex,
            _ => return None,
        })
    }

    /// The type's name in JSON and tables.
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
    /// Written by the hardware: where the job faulted.
    pub fault_pointer: u64,
    /// Whether addresses in the job are 64 bits wide.
    pub is_64bit: bool,
    /// Raw job type; see [`JobHeader::kind`].
    pub job_type: u8,
    /// Whether the job waits for all before it.
    pub barrier: bool,
    /// Switches beside the barrier, in place in word 4: 9 invalidate caches, 11 no prefetch, 12 texture mapper,
    /// 14 and 15 relaxed dependencies.
    pub switches: u32,
    /// Number of the job in its chain, for dependencies.
    pub index: u16,
    /// A job that must be done first, 0 for none.
    pub dep1: u16,
    /// Another job that must be done first, 0 for none.
    pub dep2: u16,
    /// The next job of the chain, 0 at its end.
    pub next: GpuVa,
    /// Bits that a header has no meaning for, as they stand in word 4.
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
    /// The job type is one that no GPU has.
    #[error("job type {job_type} is unknown")]
    UnknownType {
        /// The raw type.
        job_type: u8,
    },
    /// Bits are set that a header has no meaning for.
    #[error("reserved bits are set, {bits:#x} in word 4")]
    ReservedBits {
        /// The bits, in place.
        bits: u32,
    },
    /// The next job is not aligned to 64 bytes or not in the 48 bits that the GPU translates.
    #[error("the next job at {next} is misaligned or out of reach")]
    BadNext {
        /// The address.
        next: GpuVa,
    },
    /// The bytes read as text.
    #[error("text stands in place of a header, \"{text}\"")]
    Text {
        /// The text, cut short.
        text: String,
    },
}

/// Whether a decoded header looks like one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// Nothing speaks against it.
    Sound,
    /// It decodes, and this speaks against it.
    Doubtful(String),
}

/// Word 4: switches beside the barrier.
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
    /// Reads a header. Any bytes have a reading; see [`JobHeader::decode`] for one that refuses.
    #[must_use]
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let control = word(bytes, 4);
        let deps = word(bytes, 5);
        let is_64bit = control & 1 != 0;
        let next_hi = if is_64bit { u64::from(word(bytes, 7)) } else { 0 };
        Self {
            exception_status: word(bytes, 0),
            first_incomplete_task: word(bytes, 1),
            fault_pointer: u64::from(word(bytes, 2)) | u64::from(word(bytes, 3)) << 32,
            is_64bit,
            job_type: (control >> 1 & 0x7f) as u8,
            barrier: control & 1 << 8 != 0,
            switches: control & SWITCHES,
            index: (control >> 16) as u16,
            dep1: deps as u16,
            dep2: (deps >> 16) as u16,
            next: GpuVa(u64::from(word(bytes, 6)) | next_hi << 32),
            reserved: control & RESERVED,
        }
    }

    /// Reads a header and refuses bytes that cannot be one.
    ///
    /// # Errors
    /// What speaks against it.
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
        if h.next.0 & 63 != 0 || h.next.0 >> crate::mmu::VA_BITS != 0 {
            return Err(HeaderError::BadNext { next: h.next });
        }
        Ok(h)
    }

    /// The bytes of the header.
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
            self.fault_pointer as u32,
            (self.fault_pointer >> 32) as u32,
            control,
            u32::from(self.dep1) | u32::from(self.dep2) << 16,
            self.next.0 as u32,
            if self.is_64bit { (self.next.0 >> 32) as u32 } else { 0 },
        ];
        let mut out = [0; HEADER_BYTES];
        for (to, w) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = w.to_le_bytes();
        }
        out
    }

    /// What the job does; `None` for a type that no GPU has.
    #[must_use]
    pub fn kind(&self) -> Option<JobType> {
        JobType::from_raw(self.job_type)
    }

    /// The exception code that the hardware wrote, 0 before the job ran.
    #[must_use]
    pub fn exception_code(&self) -> u8 {
        self.exception_status as u8
    }

    /// Whether the header looks like one that a driver wrote: one that [`JobHeader::decode`] accepts, text for one is
    /// not, and beyond that a known status, no dependency on itself, a fault pointer that the GPU can reach.
    #[must_use]
    pub fn check_soundness(&self) -> Soundness {
        let doubt = |text: String| Soundness::Doubtful(text);
        if let Err(e) = Self::decode(&self.encode()) {
            return doubt(e.to_string());
        }
        let code = self.exception_code();
        if code != 0 && super::exception_name(code) == "unknown" {
            return doubt(format!("exception code {code:#x} is unknown"));
        }
        if self.exception_status >> 11 != 0 && code <= 1 {
            return doubt(format!(
                "exception status {:#x} has bits that none has",
                self.exception_status
            ));
        }
        if self.fault_pointer >> crate::mmu::VA_BITS != 0 {
            return doubt(format!("the fault pointer {:#x} is out of reach", self.fault_pointer));
        }
        if self.index != 0 && (self.dep1 == self.index || self.dep2 == self.index) {
            return doubt(format!("job {} depends on itself", self.index));
        }
        Soundness::Sound
    }
}

/// The bytes as text, if nearly all of them are printable: no header is.
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
