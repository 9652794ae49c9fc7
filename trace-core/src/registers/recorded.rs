//! The registers of a recording: the map of its device, and the space of the registers.

use super::{Direction, Register, RegisterMap, ValueDescriber};
use crate::RegOffset;
use crate::recording::{Access, Recording, SpaceKind};
use std::borrow::Cow;
use std::sync::LazyLock;

/// A recording's register map together with the space of the registers, and the registers of PCI configuration space.
#[derive(Clone, Copy, Debug)]
pub struct RecordedRegisters {
    map: &'static RegisterMap,
    space: u8,
    /// The configuration space, if one was recorded, and its map.
    config: Option<(u8, &'static RegisterMap)>,
}

/// Name of the embedded map of PCI configuration space. It names registers of every PCI function, and of no other space.
const CONFIG_MAP: &str = "pci-config";

impl RecordedRegisters {
    /// Returns the registers of a recording, or `None` if it has no configuration space, and neither a user map nor an
    /// embedded map knows its device. With configuration space alone, the map is empty.
    #[must_use]
    pub fn new(recording: &Recording) -> Option<Self> {
        static NONE: LazyLock<RegisterMap> = LazyLock::new(RegisterMap::default);
        let spaces = &recording.metadata.spaces;
        let config = spaces.iter().position(|s| s.kind == SpaceKind::Config);
        let config = config.and_then(|n| u8::try_from(n).ok().zip(RegisterMap::by_name(CONFIG_MAP)));
        let map = RegisterMap::for_recording(recording);
        if map.is_none() && config.is_none() {
            return None;
        }
        Some(Self {
            map: map.unwrap_or(&NONE),
            space: map.map_or(NO_SPACE, |m| register_space(recording, Some(m))),
            config,
        })
    }

    /// Whether a map knows the recording's device.
    #[must_use]
    pub fn has_map(self) -> bool {
        self.map.end() > RegOffset::ZERO || !self.map.name().is_empty()
    }

    /// Returns the map of the space of an access.
    fn map_of(self, access: &Access) -> Option<&'static RegisterMap> {
        if access.space == self.space {
            return Some(self.map);
        }
        let (space, map) = self.config?;
        (access.space == space).then_some(map)
    }

    /// Returns the map.
    #[must_use]
    pub fn map(self) -> &'static RegisterMap {
        self.map
    }

    /// Returns the number of the space of the registers.
    #[must_use]
    pub fn space(self) -> u8 {
        self.space
    }

    /// Returns the first register that an access touches, or `None` for accesses to other spaces and between registers.
    #[must_use]
    pub fn find_accessed(self, access: &Access) -> Option<&'static Register> {
        if access.space != self.space {
            return None;
        }
        self.map.find_accessed(access.offset, access.width)
    }

    /// Returns the name of what an access touches, in the form of [`RegisterMap::name_of`]. Accesses to configuration
    /// space have the names of PCI.
    #[must_use]
    pub fn name_of(self, access: &Access) -> Option<Cow<'static, str>> {
        self.map_of(access)?.name_of(access.offset, access.width)
    }

    /// Describes the value of an access, in the form of [`RegisterMap::describe`].
    #[must_use]
    pub fn describe(self, access: &Access) -> Option<String> {
        let map = self.map_of(access)?;
        map.describe_in(access.offset, access.width, access.value, Direction::new(access.write))
    }

    /// Prepares [`RecordedRegisters::describe`] for accesses that differ from this one in their value alone.
    #[must_use]
    pub fn describer(self, access: &Access) -> Option<ValueDescriber<'static>> {
        let map = self.map_of(access)?;
        map.describer(access.offset, access.width, Direction::new(access.write))
    }

    /// Whether accesses to a space can have names.
    #[must_use]
    pub fn names_space(self, space: u8) -> bool {
        space == self.space || self.config.is_some_and(|(config, _)| config == space)
    }
}

/// Whether a map can apply to a recording's registers: the recording has the space that the map names, or a register
/// space with an unknown bus location. Configuration space and other bus windows than the map's hold other registers.
pub(super) fn is_map_for(map: &RegisterMap, recording: &Recording) -> bool {
    let window = |name: &str| {
        let number = name.strip_prefix("bar");
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let (wanted, spaces) = (map.space(), &recording.metadata.spaces);
    let other = |name: &str| window(name) && window(wanted) && name != wanted;
    let mut registers = spaces.iter().filter(|s| s.kind == SpaceKind::Registers);
    spaces.is_empty() || registers.any(|s| !other(&s.name))
}

/// The result of [`register_space`] for a recording that has spaces, none of which holds registers. No space has this
/// number: importers create fewer.
pub const NO_SPACE: u8 = u8::MAX;

/// Returns the number of the space with a map's registers: the space of the map's name, else the first that holds
/// registers. Without a map it is the first that holds registers.
///
/// A recording whose spaces are all of other kinds (configuration space, memory) has no such space: the result is
/// [`NO_SPACE`], so that a map never names other data. A recording without spaces has its registers in 0.
#[must_use]
pub fn register_space(recording: &Recording, map: Option<&RegisterMap>) -> u8 {
    let spaces = &recording.metadata.spaces;
    let registers = |s: &crate::recording::Space| s.kind == SpaceKind::Registers;
    let named = map
        .map(RegisterMap::space)
        .filter(|name| !name.is_empty())
        .and_then(|name| spaces.iter().position(|s| registers(s) && s.name == name));
    let found = named.or_else(|| spaces.iter().position(registers));
    match found {
        Some(n) => u8::try_from(n).unwrap_or(NO_SPACE),
        None if spaces.is_empty() => 0,
        None => NO_SPACE,
    }
}

/// Whether an offset is ambiguous without its space: the recording has more than one space, or one that holds no
/// registers.
#[must_use]
pub fn has_several_spaces(recording: &Recording) -> bool {
    match recording.metadata.spaces.as_slice() {
        [] => false,
        [one] => one.kind != SpaceKind::Registers,
        _ => true,
    }
}

/// Formats an offset for display and filters: `0x10` if there is only one register space, `bar3+0x10` if
/// [`has_several_spaces`] returns true.
#[must_use]
pub fn format_location(recording: &Recording, space: u8, offset: RegOffset) -> String {
    let spaces = &recording.metadata.spaces;
    match spaces.get(usize::from(space)) {
        Some(s) if has_several_spaces(recording) => format!("{}+{offset:#x}", s.name),
        None if has_several_spaces(recording) => format!("space {space}+{offset:#x}"),
        _ => format!("{offset:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Space;

    fn recording(spaces: &[(&str, SpaceKind)]) -> Recording {
        let mut r = Recording::default();
        r.metadata.spaces = spaces
            .iter()
            .map(|(name, kind)| Space {
                name: (*name).into(),
                kind: *kind,
                bytes: 0x1000,
            })
            .collect();
        r
    }

    #[test]
    fn map_applies_only_to_register_spaces() {
        use SpaceKind::{Config, Framebuffer, Memory, Registers};
        for (spaces, number) in [
            (&[][..], 0),
            (&[("config", Config)], NO_SPACE),
            (&[("bar0", Framebuffer), ("config", Config)], NO_SPACE),
            (&[("memory@0xc0000", Memory), ("bar2", Registers)], 1),
        ] {
            let r = recording(spaces);
            assert_eq!(register_space(&r, None), number, "{spaces:?}");
            for map in RegisterMap::embedded() {
                assert_eq!(register_space(&r, Some(map)), number, "{spaces:?}, {}", map.name());
            }
        }
    }

    #[test]
    fn configuration_space_has_names_of_pci() {
        use SpaceKind::{Config, Registers};
        let access = |space: u8, offset: u32, width: u8, value: u64| Access {
            offset: RegOffset::new(offset),
            space,
            width,
            value,
            write: true,
        };
        // Without any window of the device, and beside one that no map knows.
        for (spaces, config) in [
            (&[("config", Config)][..], 0),
            (&[("bar0", Registers), ("config", Config)], 1),
        ] {
            let device = RecordedRegisters::new(&recording(spaces)).unwrap();
            assert!(!device.has_map());
            let named = |offset, width| device.name_of(&access(config, offset, width, 0)).unwrap().into_owned();
            assert_eq!(named(0, 4), "PCI_VENDOR_ID to PCI_DEVICE_ID");
            assert_eq!(
                (named(4, 2), named(0x14, 4)),
                ("PCI_COMMAND".to_owned(), "PCI_BASE_ADDRESS_1".to_owned())
            );
            let command = device.describe(&access(config, 4, 2, 7)).unwrap();
            assert_eq!(command, "I/O space · memory space · bus master");
            assert!(device.name_of(&access(config, 0x40, 4, 0)).is_none());
            assert!(device.name_of(&access(1 - config, 0, 4, 0)).is_none());
        }
        assert!(RecordedRegisters::new(&recording(&[("bar0", Registers)])).is_none());
    }

    #[test]
    fn locations_name_their_space_if_there_are_several() {
        let one = recording(&[("gpu", SpaceKind::Registers)]);
        let two = recording(&[("bar1", SpaceKind::Registers), ("bar3", SpaceKind::Registers)]);
        assert_eq!(format_location(&one, 0, RegOffset::new(0x10)), "0x10");
        assert_eq!(format_location(&two, 1, RegOffset::new(0x29624)), "bar3+0x29624");
        let config = recording(&[("config", SpaceKind::Config)]);
        assert_eq!(format_location(&config, 0, RegOffset::new(4)), "config+0x4");
        assert_eq!(format_location(&Recording::default(), 0, RegOffset::new(0x10)), "0x10");
    }
}
