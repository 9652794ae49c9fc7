//! Texels: the runtime's descriptions of their channels, and the driver's formats.

use crate::CallResult;
use crate::errors::INVALID_CHANNEL_DESCRIPTOR;

/// `cudaChannelFormatKindSigned`, `cudaChannelFormatKindUnsigned` and `cudaChannelFormatKindFloat`.
const SIGNED: u32 = 0;
const UNSIGNED: u32 = 1;
const FLOAT: u32 = 2;
/// First kind of channels that are read as numbers from -1 to 1, and the driver's format for it. The others follow in
/// the same order.
const FIRST_NORMALIZED: u32 = 5;
const FIRST_NORMALIZED_FORMAT: u32 = 0xc0;
/// Number of channels, and bits of a channel, of these kinds.
const NORMALIZED: [(u32, i32); 12] = [
    (1, 8),
    (2, 8),
    (4, 8),
    (1, 16),
    (2, 16),
    (4, 16),
    (1, 8),
    (2, 8),
    (4, 8),
    (1, 16),
    (2, 16),
    (4, 16),
];
/// Kinds and bits of the other channels, with the driver's formats.
const FORMATS: [(u32, i32, u32); 8] = [
    (UNSIGNED, 8, 0x01),
    (UNSIGNED, 16, 0x02),
    (UNSIGNED, 32, 0x03),
    (SIGNED, 8, 0x08),
    (SIGNED, 16, 0x09),
    (SIGNED, 32, 0x0a),
    (FLOAT, 16, 0x10),
    (FLOAT, 32, 0x20),
];

/// `cudaChannelFormatDesc`: the number of bits of each channel, and their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChannelDescription {
    /// Numbers of bits. Channels that a texel does not have are zero.
    pub bits: [i32; 4],
    /// `cudaChannelFormatKind`.
    pub kind: u32,
}

/// A texel, for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TexelFormat {
    /// `CUarray_format` of a channel.
    pub format: u32,
    /// Number of channels.
    pub channels: u32,
}

impl ChannelDescription {
    /// `cudaCreateChannelDesc`.
    #[must_use]
    pub const fn new(bits: [i32; 4], kind: u32) -> Self {
        Self { bits, kind }
    }

    /// Returns the driver's format.
    pub fn to_driver(self) -> CallResult<TexelFormat> {
        let [first, ..] = self.bits;
        let count = self.bits.iter().take_while(|bits| **bits == first && first > 0).count() as u32;
        let is_rest_empty = self.bits.iter().skip(count as usize).all(|bits| *bits == 0);
        let normalized = self
            .kind
            .checked_sub(FIRST_NORMALIZED)
            .and_then(|index| NORMALIZED.get(index as usize));
        let format = match normalized {
            Some((channels, bits)) if (*channels, *bits) == (count, first) => {
                Some(FIRST_NORMALIZED_FORMAT + self.kind - FIRST_NORMALIZED)
            }
            Some(_) => None,
            None => {
                let known = FORMATS
                    .iter()
                    .find(|(kind, bits, _)| (*kind, *bits) == (self.kind, first));
                known.map(|(_, _, format)| *format)
            }
        };
        match format {
            Some(format) if is_rest_empty && matches!(count, 1 | 2 | 4) => Ok(TexelFormat {
                format,
                channels: count,
            }),
            _ => Err(INVALID_CHANNEL_DESCRIPTOR),
        }
    }

    /// Returns the description of a format of the driver.
    pub fn from_driver(texel: TexelFormat) -> CallResult<Self> {
        let normalized = texel
            .format
            .checked_sub(FIRST_NORMALIZED_FORMAT)
            .and_then(|index| Some((index, NORMALIZED.get(index as usize)?)));
        let (kind, bits) = match normalized {
            Some((index, (_, bits))) => (FIRST_NORMALIZED + index, *bits),
            None => {
                let known = FORMATS.iter().find(|(.., format)| *format == texel.format);
                let (kind, bits, _) = known.ok_or(INVALID_CHANNEL_DESCRIPTOR)?;
                (*kind, *bits)
            }
        };
        let channels = texel.channels as usize;
        Ok(Self {
            bits: std::array::from_fn(|index| if index < channels { bits } else { 0 }),
            kind,
        })
    }
}

impl TexelFormat {
    /// Returns whether a texture can read the channels as integers.
    #[must_use]
    pub fn is_integer(self) -> bool {
        FORMATS
            .iter()
            .any(|(kind, _, format)| *format == self.format && *kind != FLOAT)
    }

    /// Returns the size of a texel, bytes.
    pub fn bytes(self) -> CallResult<usize> {
        let [bits, ..] = ChannelDescription::from_driver(self)?.bits;
        usize::try_from(bits)
            .ok()
            .and_then(|bits| (bits / 8).checked_mul(self.channels as usize))
            .ok_or(INVALID_CHANNEL_DESCRIPTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_the_driver() {
        for (bits, kind, format, channels, bytes) in [
            ([32, 0, 0, 0], FLOAT, 0x20, 1, 4),
            ([16, 16, 16, 16], FLOAT, 0x10, 4, 8),
            ([8, 8, 0, 0], UNSIGNED, 0x01, 2, 2),
            ([32, 32, 32, 32], SIGNED, 0x0a, 4, 16),
            ([8, 0, 0, 0], 5, 0xc0, 1, 1),
            ([16, 16, 16, 16], 16, 0xcb, 4, 8),
        ] {
            let description = ChannelDescription::new(bits, kind);
            let texel = description.to_driver().unwrap();
            assert_eq!(texel, TexelFormat { format, channels });
            assert_eq!(ChannelDescription::from_driver(texel), Ok(description));
            assert_eq!(texel.bytes(), Ok(bytes));
        }
        for (bits, kind) in [
            ([8, 8, 8, 0], UNSIGNED),
            ([8, 16, 0, 0], UNSIGNED),
            ([0, 8, 0, 0], UNSIGNED),
            ([8, 0, 0, 0], FLOAT),
            ([0; 4], 3),
            ([16, 0, 0, 0], 5),
        ] {
            let texel = ChannelDescription::new(bits, kind).to_driver();
            assert_eq!(texel, Err(INVALID_CHANNEL_DESCRIPTOR), "{bits:?} {kind}");
        }
        assert_eq!(size_of::<ChannelDescription>(), 20);
    }
}
