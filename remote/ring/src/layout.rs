//! Sizes and offsets of the parts of a region, and the header that states them.
//!
//! A region is: a page with the header, a page of control words for each ring, the request ring, the answer ring, the
//! staging area.

use crate::error::RingError;
use crate::ring_name::RingName;

/// Minimum size of a ring, bytes.
pub const MIN_RING_BYTES: u32 = 4 << 10;
/// Maximum size of a ring, bytes.
pub const MAX_RING_BYTES: u32 = 16 << 20;
/// Maximum size of the staging area, bytes.
pub const MAX_STAGING_BYTES: u64 = 4 << 30;
/// The size of the staging area is a multiple of this number of bytes.
pub const STAGING_PAGE_BYTES: u64 = 4096;

/// Size of the header page and of each page of control words, bytes.
const PAGE_BYTES: u64 = 4096;
/// Offset of the first ring's bytes: all control words are before it.
pub(crate) const RINGS_START: u64 = 3 * PAGE_BYTES;
/// Distance between control words, bytes. Processors fetch cache lines of 64 bytes in pairs.
const WORD_DISTANCE: u64 = 128;

/// The first 8 bytes of a region.
const MAGIC: u64 = u64::from_le_bytes(*b"KineRing");
/// Version of the layout and of the ring protocol.
const VERSION: u32 = 1;
/// Size of the header, bytes: magic, version, request bytes, answer bytes, zero, staging bytes.
pub(crate) const HEADER_BYTES: usize = 32;

/// A 32-bit word through which the two ends of a ring synchronize.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ControlWord {
    /// Position after the last published message. The writer stores it.
    Written,
    /// Not 0 while the reader sleeps on this word.
    ReaderParked,
    /// Position after the last message that was read. The reader stores it.
    Read,
    /// Not 0 while the writer sleeps on this word.
    WriterParked,
}

impl ControlWord {
    /// Returns the offset of the word in the region, bytes: below [`RINGS_START`], and a multiple of 4.
    pub(crate) fn offset(self, ring: RingName) -> u64 {
        let page = match ring {
            RingName::Request => PAGE_BYTES,
            RingName::Answer => 2 * PAGE_BYTES,
        };
        let number = match self {
            Self::Written => 0,
            Self::ReaderParked => 1,
            Self::Read => 2,
            Self::WriterParked => 3,
        };
        page + number * WORD_DISTANCE
    }
}

/// A part of the region that holds bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    /// Name in error messages.
    pub(crate) name: &'static str,
    /// Offset in the region, bytes.
    pub(crate) start: u64,
    /// Length, bytes.
    pub(crate) bytes: u64,
}

/// Sizes of the parts of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionLayout {
    /// Size of the request ring, bytes: a power of two from [`MIN_RING_BYTES`] to [`MAX_RING_BYTES`].
    pub request_bytes: u32,
    /// Size of the answer ring, bytes: a power of two from [`MIN_RING_BYTES`] to [`MAX_RING_BYTES`].
    pub answer_bytes: u32,
    /// Size of the staging area, bytes: a multiple of [`STAGING_PAGE_BYTES`] up to [`MAX_STAGING_BYTES`]; it may be 0.
    pub staging_bytes: u64,
}

impl RegionLayout {
    /// Sizes for host functions: such a region has no copies.
    pub const HOST_FUNCTIONS: Self = Self {
        request_bytes: MIN_RING_BYTES,
        answer_bytes: MIN_RING_BYTES,
        staging_bytes: STAGING_PAGE_BYTES,
    };
}

impl Default for RegionLayout {
    fn default() -> Self {
        Self {
            request_bytes: 1 << 20,
            answer_bytes: 1 << 20,
            staging_bytes: 64 << 20,
        }
    }
}

impl RegionLayout {
    /// Checks the sizes.
    ///
    /// # Errors
    /// [`RingError::Layout`] for the first size that is out of bounds.
    pub fn check(&self) -> Result<(), RingError> {
        let rings = [
            ("request_bytes", self.request_bytes),
            ("answer_bytes", self.answer_bytes),
        ];
        for (field, bytes) in rings {
            if !bytes.is_power_of_two() || !(MIN_RING_BYTES..=MAX_RING_BYTES).contains(&bytes) {
                return Err(RingError::Layout {
                    field,
                    value: bytes.into(),
                    expected: "a power of two from 4 KiB to 16 MiB",
                });
            }
        }
        if !self.staging_bytes.is_multiple_of(STAGING_PAGE_BYTES) || self.staging_bytes > MAX_STAGING_BYTES {
            return Err(RingError::Layout {
                field: "staging_bytes",
                value: self.staging_bytes,
                expected: "a multiple of 4096 up to 4 GiB",
            });
        }
        Ok(())
    }

    /// Returns the size of a ring, bytes.
    #[must_use]
    pub fn ring_bytes(&self, ring: RingName) -> u32 {
        match ring {
            RingName::Request => self.request_bytes,
            RingName::Answer => self.answer_bytes,
        }
    }

    /// Returns the area of a ring. The layout was checked, so that no sum overflows.
    pub(crate) fn ring(&self, ring: RingName) -> Area {
        let start = match ring {
            RingName::Request => RINGS_START,
            RingName::Answer => RINGS_START + u64::from(self.request_bytes),
        };
        Area {
            name: ring.area_name(),
            start,
            bytes: self.ring_bytes(ring).into(),
        }
    }

    /// Returns the staging area. The layout was checked, so that no sum overflows.
    pub(crate) fn staging(&self) -> Area {
        Area {
            name: "staging area",
            start: RINGS_START + u64::from(self.request_bytes) + u64::from(self.answer_bytes),
            bytes: self.staging_bytes,
        }
    }

    /// Returns the size of the region, bytes. The layout was checked, so that the sum does not overflow.
    pub(crate) fn total_bytes(&self) -> u64 {
        let staging = self.staging();
        staging.start + staging.bytes
    }

    /// Encodes the header of a region.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC.to_le_bytes());
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].copy_from_slice(&self.request_bytes.to_le_bytes());
        header[16..20].copy_from_slice(&self.answer_bytes.to_le_bytes());
        header[24..].copy_from_slice(&self.staging_bytes.to_le_bytes());
        header
    }

    /// Decodes and checks a header.
    ///
    /// # Errors
    /// If the magic number or the version differs, or a size is out of bounds.
    pub(crate) fn decode(header: &[u8; HEADER_BYTES]) -> Result<Self, RingError> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let fields = [
            ("the magic number", long(0), MAGIC),
            ("the version", word(8).into(), VERSION.into()),
            ("the reserved word", word(20).into(), 0),
        ];
        for (field, found, expected) in fields {
            if found != expected {
                return Err(RingError::InvalidFile { field, found, expected });
            }
        }
        let layout = Self {
            request_bytes: word(12),
            answer_bytes: word(16),
            staging_bytes: long(24),
        };
        layout.check()?;
        Ok(layout)
    }
}
