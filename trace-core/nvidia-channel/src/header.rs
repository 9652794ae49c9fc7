//! Headers of a push buffer: each says which methods the following words set.

use thiserror::Error;

/// Maximum count, or immediate value, of a header.
pub const MAX_COUNT: u16 = 0x1fff;
/// Maximum count of a header in the old form.
pub const MAX_OLD_COUNT: u16 = 0x7ff;
/// Number of subchannels.
pub const SUBCHANNELS: u8 = 8;

/// A header word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// The word 0, which does nothing.
    Nop,
    /// Methods, with a word for each.
    Methods {
        /// How the method advances from word to word.
        advance: Advance,
        /// Bit layout of the header.
        form: HeaderForm,
        /// Subchannel, 0 to 7.
        subchannel: u8,
        /// Byte address of the first method.
        method: u16,
        /// Number of words that follow.
        count: u16,
    },
    /// One method, whose value is in the header.
    Immediate {
        /// Subchannel, 0 to 7.
        subchannel: u8,
        /// Byte address of the method.
        method: u16,
        /// Value of the method, 13 bits.
        value: u16,
    },
    /// The following methods apply to the subdevices of this mask, 12 bits.
    SetSubdeviceMask(u16),
    /// Stores a mask of subdevices, 12 bits.
    StoreSubdeviceMask(u16),
    /// Applies the stored mask of subdevices.
    UseSubdeviceMask,
    /// The segment ends: the GPU does not read its remaining words.
    EndOfSegment,
}

/// How the method advances from word to word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// Each word sets the next method.
    Each,
    /// The second and all later words set the method after the first.
    Once,
    /// Every word sets the same method.
    Never,
}

/// Bit layout of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderForm {
    /// Method address in bits 11:0, count in bits 28:16.
    New,
    /// Method address in bits 12:2, count in bits 28:18.
    Old,
}

/// A word that is not a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{word:#010x} is not the header of a push buffer: its operation is reserved")]
pub struct ReservedHeader {
    /// The word.
    pub word: u32,
}

impl Header {
    /// Decodes a header word.
    ///
    /// # Errors
    /// If the operation is reserved.
    pub fn decode(word: u32) -> Result<Self, ReservedHeader> {
        let subchannel = (word >> 13 & 7) as u8;
        let method = (word & 0xfff) as u16 * 4;
        let count = (word >> 16) as u16 & MAX_COUNT;
        let methods = |advance| Self::Methods {
            advance,
            form: HeaderForm::New,
            subchannel,
            method,
            count,
        };
        let old = |advance| Self::Methods {
            advance,
            form: HeaderForm::Old,
            subchannel,
            method: (word & 0x1ffc) as u16,
            count: (word >> 18) as u16 & MAX_OLD_COUNT,
        };
        let mask = (word >> 4) as u16 & 0xfff;
        Ok(match (word >> 29, word >> 16 & 3) {
            _ if word == 0 => Self::Nop,
            (0, 0) => old(Advance::Each),
            (0, 1) => Self::SetSubdeviceMask(mask),
            (0, 2) => Self::StoreSubdeviceMask(mask),
            (0, _) => Self::UseSubdeviceMask,
            (1, _) => methods(Advance::Each),
            (2, 0) => old(Advance::Never),
            (3, _) => methods(Advance::Never),
            (4, _) => Self::Immediate {
                subchannel,
                method,
                value: count,
            },
            (5, _) => methods(Advance::Once),
            (7, _) => Self::EndOfSegment,
            _ => return Err(ReservedHeader { word }),
        })
    }

    /// Returns the header word, or `None` if a part of the header does not fit its bits.
    #[must_use]
    pub fn encode(self) -> Option<u32> {
        let fits = |subchannel: u8, method: u16, max: u16| {
            subchannel < SUBCHANNELS && method.is_multiple_of(4) && method <= max
        };
        let head = |operation: u32, count: u16, subchannel: u8, method: u16| {
            (fits(subchannel, method, 0x3ffc) && count <= MAX_COUNT).then(|| {
                operation << 29 | u32::from(count) << 16 | u32::from(subchannel) << 13 | (u32::from(method) / 4)
            })
        };
        match self {
            Self::Nop => Some(0),
            Self::Methods {
                advance,
                form: HeaderForm::New,
                subchannel,
                method,
                count,
            } => {
                let operation = match advance {
                    Advance::Each => 1,
                    Advance::Never => 3,
                    Advance::Once => 5,
                };
                head(operation, count, subchannel, method)
            }
            Self::Methods {
                advance,
                form: HeaderForm::Old,
                subchannel,
                method,
                count,
            } => {
                let operation = match advance {
                    Advance::Each => 0,
                    Advance::Never => 2,
                    Advance::Once => return None,
                };
                (fits(subchannel, method, 0x1ffc) && count <= MAX_OLD_COUNT)
                    .then(|| operation << 29 | u32::from(count) << 18 | u32::from(subchannel) << 13 | u32::from(method))
            }
            Self::Immediate {
                subchannel,
                method,
                value,
            } => head(4, value, subchannel, method),
            Self::SetSubdeviceMask(mask) => (mask <= 0xfff).then(|| 1 << 16 | u32::from(mask) << 4),
            Self::StoreSubdeviceMask(mask) => (mask <= 0xfff).then(|| 2 << 16 | u32::from(mask) << 4),
            Self::UseSubdeviceMask => Some(3 << 16),
            Self::EndOfSegment => Some(7 << 29),
        }
    }

    /// Returns the number of words that follow the header and belong to it.
    #[must_use]
    pub fn data_words(self) -> usize {
        match self {
            Self::Methods { count, .. } => usize::from(count),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a header of the new form.
    fn methods(advance: Advance, subchannel: u8, method: u16, count: u16) -> Header {
        Header::Methods {
            advance,
            form: HeaderForm::New,
            subchannel,
            method,
            count,
        }
    }

    #[test]
    fn headers_of_a_cuda_launch() {
        for (word, header) in [
            (0x2002_2062, methods(Advance::Each, 1, 0x188, 2)),
            (0x2001_206c, methods(Advance::Each, 1, 0x1b0, 1)),
            (0x6084_206d, methods(Advance::Never, 1, 0x1b4, 132)),
            (0x2004_26c0, methods(Advance::Each, 1, 0x1b00, 4)),
        ] {
            assert_eq!(Header::decode(word), Ok(header));
            assert_eq!(header.encode(), Some(word));
        }
    }

    #[test]
    fn other_forms() {
        let old = |advance| Header::Methods {
            advance,
            form: HeaderForm::Old,
            subchannel: 5,
            method: 0x1234,
            count: 7,
        };
        for (word, header) in [
            (0, Header::Nop),
            (7 << 18 | 5 << 13 | 0x1234, old(Advance::Each)),
            (2 << 29 | 7 << 18 | 5 << 13 | 0x1234, old(Advance::Never)),
            (5 << 29 | 3 << 16 | 4 << 13 | 0x40, methods(Advance::Once, 4, 0x100, 3)),
            (
                4 << 29 | 0x1abc << 16 | 0x1b,
                Header::Immediate {
                    subchannel: 0,
                    method: 0x6c,
                    value: 0x1abc,
                },
            ),
            (1 << 16 | 0xfff0, Header::SetSubdeviceMask(0xfff)),
            (2 << 16 | 0x10, Header::StoreSubdeviceMask(1)),
            (3 << 16, Header::UseSubdeviceMask),
            (7 << 29, Header::EndOfSegment),
        ] {
            assert_eq!(Header::decode(word), Ok(header), "{word:#x}");
            assert_eq!(header.encode(), Some(word), "{word:#x}");
        }
    }

    #[test]
    fn reserved_operations_are_errors() {
        for word in [6 << 29, 2 << 29 | 1 << 16, 2 << 29 | 3 << 16] {
            assert_eq!(Header::decode(word), Err(ReservedHeader { word }));
        }
    }

    #[test]
    fn encode_refuses_what_does_not_fit() {
        assert_eq!(methods(Advance::Each, 8, 0, 1).encode(), None);
        assert_eq!(methods(Advance::Each, 0, 2, 1).encode(), None);
        assert_eq!(methods(Advance::Each, 0, 0x4000, 1).encode(), None);
        assert_eq!(methods(Advance::Each, 0, 0, MAX_COUNT + 1).encode(), None);
        assert_eq!(Header::SetSubdeviceMask(0x1000).encode(), None);
    }
}
