//! Offsets of fields in the kernel's structures, from the type descriptions in `/sys/kernel/btf/vmlinux`. Format: the
//! kernel's `Documentation/bpf/btf.rst`.

use crate::kernel::Kernel;

/// File of the kernel's type descriptions.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u64 = 0xeb9f;
/// Size of a type without the data of its kind, and of a member, bytes.
const TYPE: usize = 12;
const MEMBER: usize = 12;
const STRUCT: u32 = 4;

fn number(bytes: &[u8], at: usize, n: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(n)?)?;
    Some(part.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b)))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    u32::try_from(number(bytes, at, 4)?).ok()
}

fn place(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(word(bytes, at)?).ok()
}

/// Returns the size of the data after a type's header, by kind and count, in bytes; `None` for an unknown kind.
fn trailing_bytes(kind: u32, count: usize) -> Option<usize> {
    let each = match kind {
        1 | 14 | 17 => return Some(4),
        3 => return Some(12),
        4 | 5 | 15 | 19 => 12,
        6 | 13 => 8,
        2 | 7..=12 | 16 | 18 => return Some(0),
        _ => return None,
    };
    count.checked_mul(each)
}

/// Returns the offset of a structure's member in bytes, or `None` if the types do not contain it.
#[must_use]
pub fn find_member_offset(types: &[u8], structure: &str, member: &str) -> Option<u64> {
    if number(types, 0, 2)? != MAGIC {
        return None;
    }
    let head = place(types, 4)?;
    let section = |offset: usize, bytes: usize| {
        let from = head.checked_add(place(types, offset)?)?;
        types.get(from..from.checked_add(place(types, bytes)?)?)
    };
    let (all, strings) = (section(8, 12)?, section(16, 20)?);
    let is = |at: usize, name: &str| {
        let found = strings.get(at..).unwrap_or_default();
        found
            .strip_prefix(name.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&0))
    };
    let mut at = 0usize;
    while let Some(info) = word(all, at.checked_add(4)?) {
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let members = at.checked_add(TYPE)?;
        if kind == STRUCT && is(place(all, at)?, structure) {
            for n in 0..count {
                let m = members.checked_add(n.checked_mul(MEMBER)?)?;
                if is(place(all, m)?, member) {
                    let bits = word(all, m.checked_add(8)?)?;
                    // In a structure with bit fields the upper byte is a width.
                    let bits = if info >> 31 == 1 { bits & 0xff_ffff } else { bits };
                    return Some(u64::from(bits / 8));
                }
            }
        }
        at = members.checked_add(trailing_bytes(kind, count)?)?;
    }
    None
}

/// Returns the offset of the pointer to its name in a device's structure.
pub(crate) fn find_device_name_offset(kernel: &dyn Kernel) -> Option<u64> {
    let types = kernel.read_bytes(TYPES).ok()?;
    find_member_offset(&types, "device", "kobj")?.checked_add(find_member_offset(&types, "kobject", "name")?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the types of a kernel. Its devices have their object at byte 8, and its objects have their name at
    /// byte 0.
    pub(crate) fn types() -> Vec<u8> {
        let strings = b"\0int\0device\0kobj\0kobject\0name\0parent\0";
        let name = |n: &str| {
            let terminated = [n.as_bytes(), &[0]].concat();
            strings.windows(terminated.len()).position(|w| w == terminated).unwrap() as u32
        };
        let words: Vec<u32> = [
            vec![name("int"), 1 << 24, 4, 32],
            vec![0, 2 << 24, 1],
            // The first structure of this name does not have the member.
            vec![name("device"), STRUCT << 24 | 1, 8, name("name"), 2, 0],
            vec![name("kobject"), STRUCT << 24 | 1, 8, name("name"), 2, 0],
            vec![
                name("device"),
                1 << 31 | STRUCT << 24 | 2,
                16,
                name("parent"),
                2,
                0,
                name("kobj"),
                4,
                64,
            ],
        ]
        .concat();
        let bytes = words.len() as u32 * 4;
        let mut all = vec![0x9f, 0xeb, 1, 0];
        for n in [24, 0, bytes, bytes, strings.len() as u32].iter().chain(&words) {
            all.extend(n.to_le_bytes());
        }
        all.extend(strings);
        all
    }

    #[test]
    fn btf_member_offset_is_found() {
        let types = types();
        assert_eq!(find_member_offset(&types, "device", "kobj"), Some(8));
        assert_eq!(find_member_offset(&types, "kobject", "name"), Some(0));
        assert_eq!(find_member_offset(&types, "kobject", "kobj"), None);
        assert_eq!(find_member_offset(&types, "kobj", "name"), None);
        for cut in 0..types.len() {
            assert!(cut < types.len() && find_member_offset(&types[..cut], "int", "name").is_none());
        }
        assert_eq!(find_member_offset(b"", "device", "kobj"), None);
    }
}
