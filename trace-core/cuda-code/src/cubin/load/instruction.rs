//! Instructions of compute capability 9.0: reads of constant banks, and accesses of textures and surfaces.
//!
//! An instruction has 16 bytes. Bits 0 to 8 are the operation, bits 9 to 11 the form of the operands. The encoding was
//! compared with `nvdisasm` for the test files.

use std::collections::BTreeSet;

use nvidia_channel::constant_bank;

/// Bytes of an instruction.
const BYTES: usize = 16;
/// Operation and form of the loads from a constant bank: `LDC` and `ULDC`.
const CONSTANT_LOADS: [u16; 2] = [0xb82, 0xab9];
/// Forms with a constant as second or third operand.
const CONSTANT_FORMS: [u16; 2] = [3, 5];
/// Operations on textures by a bound or uniform handle: `TEX`, `TLD4`, `TLD`, `TMML`, `TXD`, `TXQ`.
const TEXTURES: [u16; 6] = [0x160, 0x163, 0x166, 0x169, 0x16c, 0x16f];
/// Forms of these operations.
const TEXTURE_FORMS: [u16; 2] = [5, 7];
/// Operations on textures by a handle in a register.
const BINDLESS_TEXTURES: [u16; 6] = [0x161, 0x164, 0x167, 0x16a, 0x16d, 0x170];
/// Operations on surfaces: `SUATOM`, `SULD`, `SUST`.
const SURFACES: [u16; 8] = [0x194, 0x196, 0x198, 0x199, 0x19a, 0x19b, 0x19c, 0x19d];

/// What the instructions of a section use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InstructionUse {
    /// Offsets in constant bank 0 that are read and that no builder of the bank writes.
    pub driver_fields: BTreeSet<u16>,
    /// A bit for each constant bank that is read.
    pub banks: u32,
    /// Textures are read.
    pub textures: bool,
    /// Surfaces are read or written.
    pub surfaces: bool,
}

/// Returns what instructions use.
pub(super) fn scan(code: &[u8]) -> InstructionUse {
    let mut found = InstructionUse::default();
    let instructions = code.chunks_exact(BYTES).filter_map(|c| c.first_chunk::<BYTES>());
    for instruction in instructions.map(|c| u128::from_le_bytes(*c)) {
        let operation = instruction as u16 & 0xfff;
        let (base, form) = (operation & 0x1ff, operation >> 9);
        let is_load = CONSTANT_LOADS.contains(&operation);
        if is_load || operation & 0x100 == 0 && CONSTANT_FORMS.contains(&form) {
            let bank = (instruction >> 54) as u32 & 0x1f;
            let offset = (instruction >> 38) as u16;
            // The size of a load: 0 to 3 for 8 and 16 bits, 4 for 32 bits, 5 for 64 bits.
            let bytes = match (is_load, (instruction >> 73) as u32 & 7) {
                (true, 5) => 8,
                (true, 0..=3) => 1,
                _ => 4,
            };
            found.banks |= 1 << bank;
            if bank == 0 && !constant_bank::is_known_offset(offset, bytes) {
                found.driver_fields.insert(offset);
            }
        }
        let by_handle = TEXTURES.contains(&base) && TEXTURE_FORMS.contains(&form);
        found.textures |= by_handle || BINDLESS_TEXTURES.contains(&base) && form == 1;
        found.surfaces |= SURFACES.contains(&base);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the use of one instruction of these two words.
    fn scan_words(low: u64, high: u64) -> InstructionUse {
        scan(&(u128::from(high) << 64 | u128::from(low)).to_le_bytes())
    }

    /// Returns the low word of `LDC` from a bank.
    fn load(bank: u64, offset: u64) -> u64 {
        0xb82 | offset << 38 | bank << 54
    }

    #[test]
    fn reads_of_constant_banks() {
        let wide = 5 << 9;
        assert_eq!(scan_words(load(0, 0x28), 4 << 9).banks, 1);
        assert!(scan_words(load(0, 0x28), 4 << 9).driver_fields.is_empty());
        assert_eq!(scan_words(load(4, 0x10), wide).banks, 1 << 4);
        assert!(scan_words(load(0, 0x208), wide).driver_fields.is_empty());
        assert_eq!(scan_words(load(0, 0x48), 4 << 9).driver_fields, BTreeSet::from([0x48]));
        // The second word of the load is unknown.
        assert_eq!(scan_words(load(0, 0x3c), wide).driver_fields, BTreeSet::from([0x3c]));
        // MOV R1, c[0x0][0x40]
        assert_eq!(scan_words(0xa02 | 0x40 << 38, 0).driver_fields, BTreeSet::from([0x40]));
        // BAR.SYNC has the same bits in its form and no constant.
        assert_eq!(scan_words(0xb1d | 1 << 54, 0), InstructionUse::default());
    }

    #[test]
    fn textures_and_surfaces() {
        for operation in [0xf60, 0xf66, 0xb60, 0x361] {
            let found = scan_words(operation, 0);
            assert!(found.textures && !found.surfaces, "{operation:x}");
        }
        for operation in [0xf99, 0xf9d, 0x394] {
            assert!(scan_words(operation, 0).surfaces, "{operation:x}");
        }
        // LDG, STG and LDS are none.
        for operation in [0x981, 0x986, 0x984] {
            assert_eq!(scan_words(operation, 0), InstructionUse::default());
        }
    }
}
