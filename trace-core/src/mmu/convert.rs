//! Conversion of entries and memory attributes between the two formats of Mali GPUs.

use super::mali::{encode_leaf, encode_table, entry_attr_index, entry_kind, entry_rights, has_access_flag};
use super::walk::EntryKind;
use crate::recording::MmuFormat;

/// Bits of a leaf that say which caches share it; the same in both formats.
const SHARED: u64 = 3 << 8;
/// Bits of the type of an entry, and the type of a block in both formats.
const TYPE: u64 = 3;
const BLOCK: u64 = 1;

/// Why an entry has no equal in the other format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// The entry allows writes and no reads.
    #[error("it allows writes and no reads")]
    WriteOnly,
    /// The access flag of the entry is clear, so that each access faults.
    #[error("its access flag is clear")]
    NoAccessFlag,
    /// The memory attribute that the entry names has no equal.
    #[error("its memory attribute {attribute:#04x} has no equal")]
    Attribute {
        /// The byte of the attribute register.
        attribute: u8,
    },
    /// The format has no entry of this type, or is not one of a Mali GPU.
    #[error("it is no entry of its format")]
    Reserved,
}

/// Returns the byte of the attribute register that has the meaning of `attribute` in the other format, or `None` if there
/// is none. Unused bytes are 0 in both.
///
/// The pairs are those of Arm's kernel driver, which fills the register for both formats
/// (`mali_kbase_gpu_regmap.h`). The LPAE format has no memory that is not cached.
#[must_use]
pub fn convert_attribute(from: MmuFormat, to: MmuFormat, attribute: u8) -> Option<u8> {
    match (from, to) {
        _ if from == to => Some(attribute),
        (MmuFormat::MaliLpae, MmuFormat::Aarch64_4k) => match attribute {
            0 | 0x88 | 0x8d => Some(attribute),
            // No outer cache: the AArch64 form of these three has the policy in both halves.
            0x48 | 0x4d | 0x4f => Some(attribute ^ 0xc0),
            _ => None,
        },
        (MmuFormat::Aarch64_4k, MmuFormat::MaliLpae) => match attribute {
            0 | 0x88 | 0x8d => Some(attribute),
            0x8f => Some(0x4f),
            _ => None,
        },
        _ => None,
    }
}

/// Returns an attribute register in the other format. Bytes without an equal become 0: see [`convert_entry`], which
/// refuses entries that name them.
#[must_use]
pub fn convert_attributes(from: MmuFormat, to: MmuFormat, attributes: u64) -> u64 {
    let bytes = attributes.to_le_bytes();
    u64::from_le_bytes(bytes.map(|byte| convert_attribute(from, to, byte).unwrap_or(0)))
}

/// Returns an entry of a table in the other format, with the same target, rights, shareability and attribute index.
/// `attributes` is the attribute register of the address space, or 0 if it is not known. An entry that maps nothing
/// stays. Bits that the formats do not define are dropped.
///
/// # Errors
/// If the other format cannot express the entry.
pub fn convert_entry(
    from: MmuFormat,
    to: MmuFormat,
    level: u8,
    raw: u64,
    attributes: u64,
) -> Result<u64, ConversionError> {
    if from == to {
        return Ok(raw);
    }
    if !MmuFormat::WRITTEN.contains(&from) || !MmuFormat::WRITTEN.contains(&to) {
        return Err(ConversionError::Reserved);
    }
    let (target, block) = match entry_kind(from, level, raw) {
        EntryKind::Invalid => return Ok(raw),
        EntryKind::Reserved => return Err(ConversionError::Reserved),
        EntryKind::Table(at) => return Ok(encode_table(to, at)),
        EntryKind::Page(pa) => (pa, false),
        EntryKind::Block(pa) => (pa, true),
    };
    if !has_access_flag(from, raw) {
        return Err(ConversionError::NoAccessFlag);
    }
    let rights = entry_rights(from, raw);
    if rights.write && !rights.read {
        return Err(ConversionError::WriteOnly);
    }
    let index = entry_attr_index(raw);
    let attribute = (attributes >> (8 * u32::from(index))) as u8;
    if convert_attribute(from, to, attribute).is_none() {
        return Err(ConversionError::Attribute { attribute });
    }
    let leaf = encode_leaf(to, target, rights, index) & !SHARED | raw & SHARED;
    Ok(if block { leaf & !TYPE | BLOCK } else { leaf })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PhysAddr;
    use crate::mmu::Rights;
    use proptest::prelude::*;

    const A: MmuFormat = MmuFormat::Aarch64_4k;
    const L: MmuFormat = MmuFormat::MaliLpae;

    #[test]
    fn attributes_of_arm_s_driver_convert_in_both_directions() {
        assert_eq!(convert_attributes(L, A, 0x8d_884d_4f48), 0x8d_888d_8f88);
        assert_eq!(convert_attributes(L, A, 0x0088_8d88), 0x0088_8d88);
        // Index 5 of the AArch64 form is not cached.
        assert_eq!(convert_attributes(A, L, 0x4c8d_888d_8f88), 0x8d_888d_4f88);
        assert_eq!(convert_attribute(A, L, 0x4c), None);
        assert_eq!(convert_attribute(L, A, 0x12), None);
        assert_eq!(convert_attribute(A, A, 0x12), Some(0x12));
    }

    #[test]
    fn entries_without_an_equal_are_refused() {
        let page = |format, read, write| {
            let rights = Rights {
                read,
                write,
                execute: false,
            };
            encode_leaf(format, PhysAddr::new(0x7000), rights, 5)
        };
        let convert = |from, to, raw, attributes| convert_entry(from, to, 3, raw, attributes);
        assert_eq!(convert(L, A, page(L, false, true), 0), Err(ConversionError::WriteOnly));
        assert_eq!(
            convert(A, L, page(A, true, true) & !(1 << 10), 0),
            Err(ConversionError::NoAccessFlag)
        );
        assert_eq!(
            convert(A, L, page(A, true, true), 0x4c8d_888d_8f88),
            Err(ConversionError::Attribute { attribute: 0x4c })
        );
        // A page of the LPAE format is reserved in the AArch64 format.
        assert_eq!(convert(A, L, page(L, true, true), 0), Err(ConversionError::Reserved));
        assert_eq!(convert(A, L, 2, 0), Ok(2));
    }

    fn leaf_of(format: MmuFormat, level: u8, raw: u64) -> (EntryKind, Rights, u8, u64) {
        (
            entry_kind(format, level, raw),
            entry_rights(format, raw),
            entry_attr_index(raw),
            raw & SHARED,
        )
    }

    proptest! {
        /// A converted entry has the same meaning, and the way back gives the same bits.
        #[test]
        fn conversion_keeps_the_meaning_of_an_entry(
            level in 0u8..4,
            frame in 0u64..1 << 36,
            bits in any::<(bool, bool, bool)>(),
            index in 0u8..8,
            shared in 0u64..4,
            table in any::<bool>(),
            reverse in any::<bool>(),
        ) {
            let (from, to) = if reverse { (A, L) } else { (L, A) };
            let (read, write, execute) = bits;
            let rights = Rights { read: read || write, write, execute };
            let address = PhysAddr::new(frame << 12);
            let raw = match level {
                0..=2 if table => encode_table(from, address),
                0 => 2,
                1 | 2 => {
                    let span = crate::mmu::span_bytes(level);
                    encode_leaf(from, address.align_down(span), rights, index) & !(TYPE | SHARED) | BLOCK | shared << 8
                }
                _ => encode_leaf(from, address, rights, index) & !SHARED | shared << 8,
            };
            let made = convert_entry(from, to, level, raw, 0x0088_8d88).unwrap();
            prop_assert_eq!(leaf_of(to, level, made), leaf_of(from, level, raw));
            prop_assert_eq!(convert_entry(to, from, level, made, 0x0088_8d88), Ok(raw));
        }
    }
}
