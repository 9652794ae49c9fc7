//! Relocations of a cubin: types, and the bits that each one writes.

/// A part of the value: lowest bit of the target, number of bits, lowest bit of the value.
type Part = (u32, u32, u32);

/// Supported types with their names, and the parts of the address that each writes.
///
/// The types with two or three parts are operands of instructions, which have 128 bits.
const SUPPORTED: [(u32, &str, &[Part]); 29] = [
    (0x00, "R_CUDA_NONE", &[]),
    (0x01, "R_CUDA_32", &[(0, 32, 0)]),
    (0x02, "R_CUDA_64", &[(0, 64, 0)]),
    (0x03, "R_CUDA_G32", &[(0, 32, 0)]),
    (0x04, "R_CUDA_G64", &[(0, 64, 0)]),
    (0x37, "R_CUDA_ABS32_32", &[(32, 32, 0)]),
    (0x38, "R_CUDA_ABS32_LO_32", &[(32, 32, 0)]),
    (0x39, "R_CUDA_ABS32_HI_32", &[(32, 32, 32)]),
    (0x3a, "R_CUDA_ABS47_34", &[(34, 47, 2)]),
    (0x46, "R_CUDA_32_LO", &[(0, 32, 0)]),
    (0x47, "R_CUDA_32_HI", &[(0, 32, 32)]),
    (0x4b, "R_CUDA_ABS55_16_34", &[(16, 8, 2), (34, 47, 10)]),
    (0x4c, "R_CUDA_8_0", &[(0, 8, 0)]),
    (0x4d, "R_CUDA_8_8", &[(0, 8, 8)]),
    (0x4e, "R_CUDA_8_16", &[(0, 8, 16)]),
    (0x4f, "R_CUDA_8_24", &[(0, 8, 24)]),
    (0x50, "R_CUDA_8_32", &[(0, 8, 32)]),
    (0x51, "R_CUDA_8_40", &[(0, 8, 40)]),
    (0x52, "R_CUDA_8_48", &[(0, 8, 48)]),
    (0x53, "R_CUDA_8_56", &[(0, 8, 56)]),
    (0x54, "R_CUDA_G8_0", &[(0, 8, 0)]),
    (0x55, "R_CUDA_G8_8", &[(0, 8, 8)]),
    (0x56, "R_CUDA_G8_16", &[(0, 8, 16)]),
    (0x57, "R_CUDA_G8_24", &[(0, 8, 24)]),
    (0x58, "R_CUDA_G8_32", &[(0, 8, 32)]),
    (0x59, "R_CUDA_G8_40", &[(0, 8, 40)]),
    (0x5a, "R_CUDA_G8_48", &[(0, 8, 48)]),
    (0x5b, "R_CUDA_G8_56", &[(0, 8, 56)]),
    (0x72, "R_CUDA_ABS56_16_34", &[(16, 8, 2), (34, 48, 10)]),
];

/// Names of types that CUDA's driver resolves and this loader does not.
const UNSUPPORTED: [(u32, &str); 16] = [
    (0x06, "R_CUDA_TEX_HEADER_INDEX"),
    (0x07, "R_CUDA_SAMP_HEADER_INDEX"),
    (0x08, "R_CUDA_SURF_HW_DESC"),
    (0x09, "R_CUDA_SURF_HW_SW_DESC"),
    (0x22, "R_CUDA_FUNC_DESC_32"),
    (0x23, "R_CUDA_FUNC_DESC_64"),
    (0x34, "R_CUDA_SURF_HEADER_INDEX"),
    (0x35, "R_CUDA_INSTRUCTION64"),
    (0x3d, "R_CUDA_FUNC_DESC32_32"),
    (0x3e, "R_CUDA_FUNC_DESC32_LO_32"),
    (0x3f, "R_CUDA_FUNC_DESC32_HI_32"),
    (0x43, "R_CUDA_INSTRUCTION128"),
    (0x65, "R_CUDA_SAMP_HEADER_INDEX_0"),
    (0x66, "R_CUDA_UNIFIED"),
    (0x70, "R_CUDA_UNIFIED32_LO_32"),
    (0x71, "R_CUDA_UNIFIED32_HI_32"),
];

/// Types that keep only a part of an address which must be all of it.
const WHOLE_32: [u32; 3] = [0x01, 0x03, 0x37];

/// A supported type of relocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelocationType {
    number: u32,
    parts: &'static [Part],
}

impl RelocationType {
    /// Returns the type of a number, or `None` if it is not supported.
    pub(super) fn find(number: u32) -> Option<Self> {
        let found = SUPPORTED.iter().find(|(n, _, _)| *n == number)?;
        Some(Self { number, parts: found.2 })
    }

    /// Returns the name of a type, supported or not.
    pub(super) fn name(number: u32) -> String {
        let supported = SUPPORTED.iter().map(|(n, name, _)| (*n, *name));
        let mut all = supported.chain(UNSUPPORTED);
        let name = all.find(|(n, _)| *n == number).map(|(_, name)| name.to_owned());
        name.unwrap_or_else(|| format!("type {number:#x}"))
    }

    /// Returns the value that the bits at `at` hold: the addend of a relocation without one of its own.
    pub(super) fn read(self, bytes: &[u8], at: usize) -> Option<u64> {
        let mut value = 0;
        for (low, bits, right) in self.parts {
            let target = self.target(bytes.get(at..)?, *low, *bits)?;
            value |= (target >> (low % 8) & mask(*bits)) << right;
        }
        u64::try_from(value).ok()
    }

    /// Writes an address to the bits at `at`. Returns `None` if the bytes end before, or the address does not fit.
    pub(super) fn write(self, bytes: &mut [u8], at: usize, address: u64) -> Option<()> {
        let lost = self.parts.last().map_or(0, |(_, bits, right)| bits + right);
        let is_whole = WHOLE_32.contains(&self.number) || self.parts.len() > 1 || self.number == 0x3a;
        if is_whole && u128::from(address) >> lost != 0 {
            return None;
        }
        for (low, bits, right) in self.parts {
            let rest = bytes.get_mut(at..)?;
            let mut target = self.target(rest, *low, *bits)?;
            let (mask, shift) = (mask(*bits), low % 8);
            target &= !(mask << shift);
            target |= (u128::from(address) >> right & mask) << shift;
            let first = (low / 8) as usize;
            let count = (shift + bits).div_ceil(8) as usize;
            let slice = rest.get_mut(first..first + count)?;
            for (to, from) in slice.iter_mut().zip(target.to_le_bytes()) {
                *to = from;
            }
        }
        Some(())
    }

    /// Returns the bytes that hold the bits, as a number.
    fn target(self, bytes: &[u8], low: u32, bits: u32) -> Option<u128> {
        let first = (low / 8) as usize;
        let count = (low % 8 + bits).div_ceil(8) as usize;
        let slice = bytes.get(first..first + count)?;
        Some(slice.iter().rev().fold(0, |value, byte| value << 8 | u128::from(*byte)))
    }
}

fn mask(bits: u32) -> u128 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_halves_of_an_instruction() {
        let mut code = [0xff; 16];
        let address = 0x1234_5678_9abc;
        RelocationType::find(0x38)
            .unwrap()
            .write(&mut code, 0, address)
            .unwrap();
        assert_eq!(code[4..8], 0x5678_9abcu32.to_le_bytes());
        RelocationType::find(0x39)
            .unwrap()
            .write(&mut code, 0, address)
            .unwrap();
        assert_eq!(code[4..8], 0x1234u32.to_le_bytes());
        assert!(code[..4].iter().chain(&code[8..]).all(|b| *b == 0xff));
    }

    #[test]
    fn target_of_a_call() {
        // `nvdisasm` prints CALL.ABS.NOINC 0x12345678ab0 for these bytes.
        let call = u128::from_le_bytes(*b"\x43\x79\x00\x00\x00\x00\xc0\x03\x00\xa0\x1e\x00\x00\x00\x00\x00");
        let call = call & !(0xff << 16) & !(((1 << 47) - 1) << 34);
        let address = 0x123_4567_8ab0u64;
        let expected = call | 0xac << 16 | u128::from(address >> 10) << 34;
        let kind = RelocationType::find(0x4b).unwrap();
        let mut bytes = call.to_le_bytes();
        kind.write(&mut bytes, 0, address).unwrap();
        assert_eq!(u128::from_le_bytes(bytes), expected);
        assert_eq!(kind.read(&bytes, 0), Some(address));
    }

    #[test]
    fn every_type_reads_what_it_writes() {
        for (number, name, parts) in SUPPORTED {
            let kind = RelocationType::find(number).unwrap();
            let bits: u32 = parts.iter().map(|(_, bits, _)| bits).sum();
            let lowest = parts.iter().map(|(_, _, right)| *right).min().unwrap_or(0);
            let field = if bits == 0 { 0 } else { mask(bits) << lowest };
            let address = 0x00fe_dcba_9876_5430u64 & field as u64;
            let mut bytes = [0x5a; 20];
            assert_eq!(kind.write(&mut bytes, 3, address), Some(()), "{name}");
            assert_eq!(kind.read(&bytes, 3), Some(address), "{name}");
            assert_eq!(RelocationType::name(number), name);
        }
    }

    #[test]
    fn addresses_that_do_not_fit_are_refused() {
        for number in WHOLE_32 {
            let kind = RelocationType::find(number).unwrap();
            assert_eq!(kind.write(&mut [0; 16], 0, 1 << 32), None);
        }
        let wide = RelocationType::find(2).unwrap();
        assert_eq!(wide.write(&mut [0; 7], 0, 1), None);
        assert_eq!(wide.write(&mut [0; 16], 9, 1), None);
        assert!(RelocationType::find(0x3e).is_none());
        assert_eq!(RelocationType::name(0x3e), "R_CUDA_FUNC_DESC32_LO_32");
        assert_eq!(RelocationType::name(0x7f), "type 0x7f");
    }
}
