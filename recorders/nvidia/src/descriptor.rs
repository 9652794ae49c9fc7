//! Fields of launch descriptors that refer to other memory: version 4, as Hopper has it.

use nvidia_channel::GpuVa;
use nvidia_channel::qmd::MAX_QMD_BYTES;

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: usize = MAX_QMD_BYTES;
/// Number of constant banks.
const BANKS: usize = 8;
/// Words with the version, the dependents and the banks.
const VERSION_WORD: usize = 18;
const DEPENDENT_ENABLE_WORD: usize = 11;
const DEPENDENT_POINTER_WORD: usize = 14;
const BANK_VALID_WORD: usize = 13;
const BANK_WORD: usize = 48;
/// Version whose fields are known.
const MAJOR_VERSION: u32 = 4;

/// A constant bank of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoundBank {
    pub index: usize,
    pub va: GpuVa,
    pub bytes: u64,
}

/// The bytes of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor(pub [u8; DESCRIPTOR_BYTES]);

impl Descriptor {
    fn word(&self, index: usize) -> u32 {
        let bytes = self.0.chunks_exact(4).nth(index).and_then(|b| b.first_chunk());
        bytes.map_or(0, |b| u32::from_le_bytes(*b))
    }

    /// Whether the fields have the known places.
    pub fn is_known(&self) -> bool {
        self.word(VERSION_WORD) >> 4 & 0xf == MAJOR_VERSION
    }

    /// Returns the valid constant banks.
    pub fn banks(&self) -> impl Iterator<Item = BoundBank> {
        let valid = self.word(BANK_VALID_WORD);
        (0..BANKS).filter_map(move |index| {
            let (low, high) = (self.word(BANK_WORD + 2 * index), self.word(BANK_WORD + 2 * index + 1));
            let bank = BoundBank {
                index,
                va: GpuVa(u64::from(low) << 6 | u64::from(high & 0x7_ffff) << 38),
                bytes: u64::from(high >> 19) << 4,
            };
            (valid >> (4 * index) & 1 != 0 && bank.bytes != 0).then_some(bank)
        })
    }

    /// Returns the addresses of the dependent descriptors.
    pub fn dependents(&self) -> impl Iterator<Item = GpuVa> {
        let enabled = self.word(DEPENDENT_ENABLE_WORD);
        (0..2).filter_map(move |n| {
            let pointer = self.word(DEPENDENT_POINTER_WORD + n);
            (enabled >> (16 + 5 * n) & 1 != 0 && pointer != 0).then(|| GpuVa(u64::from(pointer) << 8))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_launch_of_libcuda() {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        for (word, value) in [
            (11, 0x0019_0000_u32),
            (13, 0x1000_0001),
            (14, 0x0204_e108),
            (15, 5),
            (18, 0xbc04_0040),
            (48, 0xaf48_a400),
            (49, 0x0180_01fc),
            (62, 0x4000),
            (63, 1 << 19),
        ] {
            bytes[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
        }
        let descriptor = Descriptor(bytes);
        assert!(descriptor.is_known() && !Descriptor([0; DESCRIPTOR_BYTES]).is_known());
        let dependents: Vec<GpuVa> = descriptor.dependents().collect();
        assert_eq!(dependents, [GpuVa(0x2_04e1_0800)]);
        let banks: Vec<(usize, u64, u64)> = descriptor.banks().map(|b| (b.index, b.va.0, b.bytes)).collect();
        assert_eq!(banks, [(0, 0x7f2b_d229_0000, 0x300), (7, 0x10_0000, 16)]);
    }
}
