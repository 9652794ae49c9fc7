//! The registers of a recording: its device's map, and the space that they are in.

use super::{Register, RegisterMap};
use crate::recording::{Access, Recording, SpaceKind};
use std::borrow::Cow;

/// A recording's register map together with the space whose accesses are those registers'.
#[derive(Clone, Copy, Debug)]
pub struct RecordedRegisters {
    map: &'static RegisterMap,
    space: u8,
}

impl RecordedRegisters {
    /// Those of a recording; `None` where neither a person's nor an embedded map knows its device.
    #[must_use]
    pub fn new(recording: &Recording) -> Option<Self> {
        let map = RegisterMap::for_recording(recording)?;
        Some(Self {
            map,
            space: register_space(recording, Some(map)),
        })
    }

    /// The map.
    #[must_use]
    pub fn map(self) -> &'static RegisterMap {
        self.map
    }

    /// Number of the space that the registers are in.
    #[must_use]
    pub fn space(self) -> u8 {
        self.space
    }

    /// The first register that an access touches; `None` for accesses to other spaces and between registers.
    #[must_use]
    pub fn find_accessed(self, access: &Access) -> Option<&'static Register> {
        if access.space != self.space {
            return None;
        }
        self.map.find_accessed(access.offset, access.width)
    }

    /// What an access touches, as [`RegisterMap::name_of`] tells it.
    #[must_use]
    pub fn name_of(self, access: &Access) -> Option<Cow<'static, str>> {
        if access.space != self.space {
            return None;
        }
        self.map.name_of(access.offset, access.width)
    }

    /// What the value of an access means, as [`RegisterMap::describe`] tells it.
    #[must_use]
    pub fn describe(self, access: &Access) -> Option<String> {
        if access.space != self.space {
            return None;
        }
        self.map.describe(access.offset, access.width, access.value)
    }
}

/// Whether a map can be the one of a recording's registers: the recording has the space that the map names, or one of
/// registers whose place on the bus it does not tell. Configuration space and another window of the bus than the map's
/// hold other registers.
pub(super) fn is_map_for(map: &RegisterMap, recording: &Recording) -> bool {
    let window = |name: &str| {
        let number = name.strip_prefix("bar");
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let (wanted, spaces) = (map.space(), &recording.facts.spaces);
    let other = |name: &str| window(name) && window(wanted) && name != wanted;
    let mut registers = spaces.iter().filter(|s| s.kind == SpaceKind::Registers);
    spaces.is_empty() || registers.any(|s| !other(&s.name))
}

/// Returned by [`register_space`] for a recording that has spaces, none of which holds registers. No space has this
/// number: importers make fewer.
pub const NO_SPACE: u8 = u8::MAX;

/// Returns the number of the space of a recording that a map's registers are in: the one of the map's name for it, else
/// the first that holds registers. Without a map it is the first that holds registers.
///
/// A recording whose spaces are all of other kinds (configuration space, memory) has no such space: [`NO_SPACE`], so
/// that a map never names what it does not describe. A recording that names no space at all has its registers in 0.
#[must_use]
pub fn register_space(recording: &Recording, map: Option<&RegisterMap>) -> u8 {
    let spaces = &recording.facts.spaces;
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

/// Whether an offset of a recording says too little without its space: the recording has more than one, or one that
/// holds no registers.
#[must_use]
pub fn has_several_spaces(recording: &Recording) -> bool {
    match recording.facts.spaces.as_slice() {
        [] => false,
        [one] => one.kind != SpaceKind::Registers,
        _ => true,
    }
}

/// Returns an offset as it is shown to people and as filters take it: `0x10` of the only registers, `bar3+0x10` where
/// [`shows_spaces`] says so.
#[must_use]
pub fn format_location(recording: &Recording, space: u8, offset: u32) -> String {
    let spaces = &recording.facts.spaces;
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
        r.facts.spaces = spaces
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
    fn a_map_names_no_space_that_holds_no_registers() {
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
    fn places_have_their_space_where_there_is_more_than_one() {
        let one = recording(&[("gpu", SpaceKind::Registers)]);
        let two = recording(&[("bar1", SpaceKind::Registers), ("bar3", SpaceKind::Registers)]);
        assert_eq!(format_location(&one, 0, 0x10), "0x10");
        assert_eq!(format_location(&two, 1, 0x29624), "bar3+0x29624");
        let config = recording(&[("config", SpaceKind::Config)]);
        assert_eq!(format_location(&config, 0, 4), "config+0x4");
        assert_eq!(format_location(&Recording::default(), 0, 0x10), "0x10");
    }
}
