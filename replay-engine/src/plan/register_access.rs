//! The registers that an access of any width covers, and their classification by the register map. The plan compiler
//! and the verifier use the same code.

use replay_core::width_mask;
use std::borrow::Cow;
use std::collections::HashSet;
use trace_core::RegOffset;
use trace_core::registers::{Part, ReadRule, Register, RegisterMap, Role};

/// The registers that an access covers.
pub(crate) struct RegisterAccess<'m> {
    map: &'m RegisterMap,
    parts: Vec<Part<'m>>,
    offset: RegOffset,
    width: u8,
}

/// The comparison mode of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareMode {
    /// These bits, once.
    Bits(u64),
    /// All bits, repeated until they match.
    Until,
}

impl<'m> RegisterAccess<'m> {
    /// Returns the registers that an access of `width` bytes at `offset` covers. The access must be inside the window.
    pub fn new(map: &'m RegisterMap, offset: RegOffset, width: u8) -> Self {
        Self {
            map,
            parts: map.covered_registers(offset, width).collect(),
            offset,
            width,
        }
    }

    /// Returns the first offset that belongs to no register.
    pub fn unknown(&self) -> Option<RegOffset> {
        let mut known = 0;
        for p in &self.parts {
            if p.at > known {
                break;
            }
            known = p.at.saturating_add(p.bytes);
        }
        (known < self.width).then(|| self.offset.saturating_add(u32::from(known)))
    }

    /// Returns the registers, with the covered part of each.
    pub fn parts(&self) -> &[Part<'m>] {
        &self.parts
    }

    /// Returns the registers.
    pub fn registers(&self) -> impl Iterator<Item = &'m Register> + '_ {
        self.parts.iter().map(|p| p.register)
    }

    /// Returns the names of the registers, or the offset if there is none.
    pub fn name(&self) -> String {
        let name = self.map.name_of(self.offset, self.width);
        name.map_or_else(|| format!("{:#x}", self.offset), Cow::into_owned)
    }

    /// Returns why a write of `value` may not be replayed: the register and the reason. A value list applies only to
    /// the complete register, and a partial write of such a register is refused. A bus address is refused too, because
    /// it would let the device access memory outside the plan. With `masters` bus addresses are accepted here, because
    /// the plan's DMA is checked separately.
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

    /// Returns the comparison that the map requires for a read. Bits outside all registers are compared.
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
            // The register's own bits, shifted to their position in the access.
            let of_part = (free & p.mask()).checked_shr(u32::from(p.byte) * 8).unwrap_or(0);
            mask &= !of_part.checked_shl(u32::from(p.at) * 8).unwrap_or(0);
        }
        CompareMode::Bits(mask)
    }
}

/// Tracks writes, to find whether a read can show state from before the recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnwrittenRegisters {
    written: HashSet<RegOffset>,
}

impl UnwrittenRegisters {
    /// Notes that the registers of a write have new contents.
    pub fn write(&mut self, touch: &RegisterAccess<'_>) {
        self.written.extend(touch.registers().map(|r| r.offset));
    }

    /// Returns why a read depends on work before the recording. Returns `None` if the map marks none of its registers
    /// or all were written since.
    pub fn reason<'m>(&self, touch: &RegisterAccess<'m>) -> Option<&'m str> {
        touch
            .registers()
            .filter(|r| !self.written.contains(&r.offset))
            .find_map(|r| r.replay.before.as_deref())
    }
}
