//! Entries of a channel's ring: each names a push buffer, or controls the fetch of the following ones.

use crate::GpuVa;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 8;
/// Maximum number of words in a segment.
pub const MAX_SEGMENT_WORDS: u32 = (1 << 21) - 1;

/// An entry of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpfifoEntry {
    /// A part of a push buffer to fetch.
    Segment(Segment),
    /// A control entry: one without words.
    Control(Control),
}

/// A part of a push buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Address of the first word, 40 bits. An extended base adds bits 56:40.
    pub address: GpuVa,
    /// Number of words, up to [`MAX_SEGMENT_WORDS`].
    pub words: u32,
    /// The GPU fetches the words only if its condition is true.
    pub conditional: bool,
    /// The methods have the rights of the kernel. Only classes before Volta define this bit.
    pub privileged: bool,
    /// The segment is a subroutine, not the main level.
    pub subroutine: bool,
    /// The fetch waits until the earlier segments are processed.
    pub wait: bool,
}

/// A control entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// What the entry does.
    pub operation: ControlOperation,
    /// The operand, word 0 of the entry.
    pub operand: u32,
}

/// Operation of a control entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlOperation {
    /// No operation.
    Nop,
    /// An illegal entry: the GPU reports an error.
    Illegal,
    /// Check sum of entries.
    GpCrc,
    /// Check sum of push buffers.
    PbCrc,
    /// Bits 56:40 of the addresses of the following segments, since Hopper.
    SetSegmentExtendedBase,
    /// An operation that no header names.
    Unknown(u8),
}

impl GpfifoEntry {
    /// Decodes an entry. Every value is an entry.
    #[must_use]
    pub fn decode(entry: u64) -> Self {
        let (low, high) = (entry as u32, (entry >> 32) as u32);
        let words = high >> 10 & MAX_SEGMENT_WORDS;
        if words == 0 {
            return Self::Control(Control {
                operation: ControlOperation::from_bits(high as u8),
                operand: low,
            });
        }
        Self::Segment(Segment {
            address: GpuVa::from_words(high & 0xff, low & !3),
            words,
            conditional: low & 1 != 0,
            privileged: high >> 8 & 1 != 0,
            subroutine: high >> 9 & 1 != 0,
            wait: high >> 31 != 0,
        })
    }

    /// Returns the value of the entry, or `None` if a part of it does not fit its bits.
    #[must_use]
    pub fn encode(self) -> Option<u64> {
        match self {
            Self::Segment(s) => {
                if s.words == 0 || s.words > MAX_SEGMENT_WORDS || s.address.0 & 3 != 0 || s.address.0 >> 40 != 0 {
                    return None;
                }
                Some(
                    s.address.0
                        | u64::from(s.conditional)
                        | u64::from(s.privileged) << 40
                        | u64::from(s.subroutine) << 41
                        | u64::from(s.words) << 42
                        | u64::from(s.wait) << 63,
                )
            }
            Self::Control(c) => Some(u64::from(c.operation.bits()) << 32 | u64::from(c.operand)),
        }
    }
}

impl Control {
    /// Returns the base that this entry sets for the addresses of the following segments.
    #[must_use]
    pub fn extended_base(&self) -> Option<GpuVa> {
        (self.operation == ControlOperation::SetSegmentExtendedBase)
            .then(|| GpuVa(u64::from(self.operand >> 8 & 0x1_ffff) << 40))
    }
}

impl ControlOperation {
    fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Nop,
            1 => Self::Illegal,
            2 => Self::GpCrc,
            3 => Self::PbCrc,
            4 => Self::SetSegmentExtendedBase,
            other => Self::Unknown(other),
        }
    }

    fn bits(self) -> u8 {
        match self {
            Self::Nop => 0,
            Self::Illegal => 1,
            Self::GpCrc => 2,
            Self::PbCrc => 3,
            Self::SetSegmentExtendedBase => 4,
            Self::Unknown(other) => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_of_a_cuda_launch_names_its_words() {
        let entry = GpfifoEntry::decode(0x0006_1a02_0083_a404);
        let segment = Segment {
            address: GpuVa(0x2_0083_a404),
            words: 390,
            conditional: false,
            privileged: false,
            subroutine: true,
            wait: false,
        };
        assert_eq!(entry, GpfifoEntry::Segment(segment));
        assert_eq!(entry.encode(), Some(0x0006_1a02_0083_a404));
    }

    #[test]
    fn flags_are_single_bits() {
        for (entry, flag) in [
            (1 << 42 | 1, 0),
            (1 << 42 | 1 << 40, 1),
            (1 << 42 | 1 << 41, 2),
            (1 << 42 | 1 << 63, 3),
        ] {
            let GpfifoEntry::Segment(s) = GpfifoEntry::decode(entry) else {
                unreachable!("the entry has words");
            };
            let flags = [s.conditional, s.privileged, s.subroutine, s.wait];
            assert!(flags.iter().enumerate().all(|(n, f)| *f == (n == flag)), "{s:?}");
        }
    }

    #[test]
    fn control_entry_has_no_words() {
        let GpfifoEntry::Control(control) = GpfifoEntry::decode(4 << 32 | 0x1ab << 8) else {
            unreachable!("the entry has no words");
        };
        assert_eq!(control.extended_base(), Some(GpuVa(0x1ab << 40)));
        let unknown = GpfifoEntry::decode(0x77 << 32);
        assert_eq!(
            unknown,
            GpfifoEntry::Control(Control {
                operation: ControlOperation::Unknown(0x77),
                operand: 0
            })
        );
    }

    #[test]
    fn encode_refuses_what_does_not_fit() {
        let segment = Segment {
            address: GpuVa(1 << 40),
            words: 1,
            conditional: false,
            privileged: false,
            subroutine: false,
            wait: false,
        };
        assert_eq!(GpfifoEntry::Segment(segment).encode(), None);
        let address = GpuVa(0x1000);
        for words in [0, MAX_SEGMENT_WORDS + 1] {
            let segment = Segment {
                address,
                words,
                ..segment
            };
            assert_eq!(GpfifoEntry::Segment(segment).encode(), None);
        }
    }
}
