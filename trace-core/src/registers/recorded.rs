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
    pub fn touched(self, access: &Access) -> Option<&'static Register> {
        if access.space != self.space {
            return None;
        }
        self.map.touched(access.offset, access.width)
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

/// Number of the space of a recording that a map's registers are in: the one of the map's name for it, else the first
/// that holds registers, else 0. Without a map it is the first that holds registers.
#[must_use]
pub fn register_space(recording: &Recording, map: Option<&RegisterMap>) -> u8 {
    let spaces = &recording.facts.spaces;
    let registers = |s: &crate::recording::Space| s.kind == SpaceKind::Registers;
    let named = map
        .map(RegisterMap::space)
        .filter(|name| !name.is_empty())
        .and_then(|name| spaces.iter().position(|s| registers(s) && s.name == name));
    let found = named.or_else(|| spaces.iter().position(registers));
    found.and_then(|n| u8::try_from(n).ok()).unwrap_or(0)
}
