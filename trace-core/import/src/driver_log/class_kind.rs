//! The kind of object of a class number of NVIDIA's hardware, or of nouveau.

use trace_core::recording::ObjectKind;

/// Classes with a kind of their own. From 0x80000000 on they are nouveau's.
const CLASSES: &[(u32, ObjectKind)] = &[
    (0x0000, ObjectKind::Client),
    (0x0005, ObjectKind::Event),
    (0x003e, ObjectKind::Buffer),
    (0x0040, ObjectKind::Buffer),
    (0x0041, ObjectKind::Client),
    (0x0042, ObjectKind::Buffer),
    (0x0071, ObjectKind::Buffer),
    (0x0078, ObjectKind::Event),
    (0x0079, ObjectKind::Event),
    (0x007e, ObjectKind::Event),
    (0x0080, ObjectKind::Device),
    (0x00c2, ObjectKind::Buffer),
    (0x00f8, ObjectKind::Buffer),
    (0x2080, ObjectKind::Subdevice),
    (0x9067, ObjectKind::Context),
    (0x90f1, ObjectKind::AddressSpace),
    (0xa06c, ObjectKind::ChannelGroup),
    (0x8000_000e, ObjectKind::Event),
    (0x8000_0014, ObjectKind::Channel),
    (0x8000_0020, ObjectKind::Channel),
    (0x8000_0021, ObjectKind::ChannelGroup),
];

/// Returns the kind of the objects of a class.
pub(super) fn kind_of_class(class: u32) -> ObjectKind {
    if let Some((_, kind)) = CLASSES.iter().find(|(number, _)| *number == class) {
        return *kind;
    }
    let is_nouveau = class >> 31 == 1;
    match (is_nouveau, class & 0xff) {
        (true, 0x0a | 0x0b) => ObjectKind::Buffer,
        (true, 0x0c | 0x0d) => ObjectKind::AddressSpace,
        // The last byte of a class says what it is for.
        (false, 0x6f) if class <= 0xffff => ObjectKind::Channel,
        (false, 0x97 | 0xc0 | 0xb5 | 0x2d | 0x39) if (0x5000..=0xffff).contains(&class) => ObjectKind::Engine,
        (false, 0x40) if (0xa000..=0xffff).contains(&class) => ObjectKind::Engine,
        (false, 0x61) if (0xc000..=0xffff).contains(&class) => ObjectKind::Registers,
        _ => ObjectKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_all_generations_have_a_kind() {
        for (class, kind) in [
            (0x0080, ObjectKind::Device),
            (0x906f, ObjectKind::Channel),
            (0xc86f, ObjectKind::Channel),
            (0xcbc0, ObjectKind::Engine),
            (0xa040, ObjectKind::Engine),
            (0x0040, ObjectKind::Buffer),
            (0xc661, ObjectKind::Registers),
            (0x8000_900b, ObjectKind::Buffer),
            (0x8000_c00d, ObjectKind::AddressSpace),
            (0x8000_9009, ObjectKind::Other),
            (0xcb33, ObjectKind::Other),
        ] {
            assert_eq!(kind_of_class(class), kind, "{class:#x}");
        }
    }
}
