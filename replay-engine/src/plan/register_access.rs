//! Which registers an access of any width touches, and what the register map makes of it. The compiler and the verifier
//! of plans ask the same questions in the same way.

use replay_core::width_mask;
use std::borrow::Cow;
use std::collections::HashSet;
use trace_core::registers::{Part, ReadRule, Register, RegisterMap, Role};

/// The registers that an access touches.
pub(crate) struct RegisterAccess<'m> {
    map: &'m RegisterMap,
    parts: Vec<Part<'m>>,
    offset: u32,
    width: u8,
}

/// How a read must be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareMode {
    /// These bits, once.
    Bits(u64),
    /// All bits, repeated until they match.
    Until,
}

impl<'m> RegisterAccess<'m> {
    /// What an access of `width` bytes at `offset` touches. Offset and width are those of an access in the window.
    pub fn new(map: &'m RegisterMap, offset: u32, width: u8) -> Self {
        Self {
            map,
            parts: map.covered_registers(offset, width).collect(),
            offset,
            width,
        }
    }

    /// The first offset that lies in no register.
    pub fn unknown(&self) -> Option<u32> {
        let mut known = 0;
        for p in &self.parts {
            if p.at > known {
                break;
            }
            known = p.at.saturating_add(p.bytes);
        }
        (known < self.width).then(|| self.offset.saturating_add(u32::from(known)))
    }

    /// The registers, with what of them is touched.
    pub fn parts(&self) -> &[Part<'m>] {
        &self.parts
    }

    /// The registers.
    pub fn registers(&self) -> impl Iterator<Item = &'m Register> + '_ {
        self.parts.iter().map(|p| p.register)
    }

    /// Names of the registers, or the offset where there is none.
    pub fn name(&self) -> String {
        let name = self.map.name_of(self.offset, self.width);
        name.map_or_else(|| format!("{:#x}", self.offset), Cow::into_owned)
    }

    /// Why a write of `value` may not be replayed: the register and the reason. A list of values counts for the whole
    /// register only; a write of a part of such a register is refused, and so is a bus address unless the plan `masters`
    /// the bus, where each is looked at by itself: it would let the device reach memory that is not the plan's.
    pub fn refusal(&self, value: u64, masters: bool) -> Option<(String, String)> {
        for p in &self.parts {
            let r = p.register;
            let describe = |why: &str| Some((r.name.clone(), why.to_owned()));
            if !r.replay.write {
                return describe(&r.replay.reason);
            }
            if !masters && matches!(r.replay.role, Some(Role::BusAddress)) && p.bits(value) != 0 {
                return describe("it is an address on the bus, and this plan gives the device no memory to reach");
            }
            if r.replay.values.is_some() {
                if !p.is_whole() {
                    return describe("the map lists values of it, and this access is of a part of it");
                }
                if !r.replay.allows(p.bits(value)) {
                    return describe("the map does not list this value");
                }
            }
        }
        None
    }

    /// How the map demands that a read is compared. Bits that no register has are compared.
    pub fn demand(&self) -> CompareMode {
        let mut mask = width_mask(self.width);
        if let [only] = self.parts.as_slice()
            && only.is_whole()
            && only.bytes == self.width
            && only.register.replay.read == ReadRule::Until
        {
            return CompareMode::Until;
        }
        for p in &self.parts {
            let free = match p.register.replay.read {
                ReadRule::Any | ReadRule::Feeds => u64::MAX,
                ReadRule::Masked(compared) => !compared,
                ReadRule::Equal | ReadRule::Until => 0,
            };
            // The register's own bits, moved to where the access has them.
            let of_part = (free & p.mask()).checked_shr(u32::from(p.byte) * 8).unwrap_or(0);
            mask &= !of_part.checked_shl(u32::from(p.at) * 8).unwrap_or(0);
        }
        CompareMode::Bits(mask)
    }
}

/// Follows writes, to tell whether a read can show what was there before the recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnwrittenRegisters {
    written: HashSet<u32>,
}

impl UnwrittenRegisters {
    /// The registers of a write no longer stand as before.
    pub fn write(&mut self, touch: &RegisterAccess<'_>) {
        self.written.extend(touch.registers().map(|r| r.offset));
    }

    /// Why a read depends, here, on what ran before the recording; `None` where the map marks none of its registers or
    /// something has written them since.
    pub fn reason<'m>(&self, touch: &RegisterAccess<'m>) -> Option<&'m str> {
        touch
            .registers()
            .filter(|r| !self.written.contains(&r.offset))
            .find_map(|r| r.replay.before.as_deref())
    }
}
