//! Which registers an access of any width touches, and what the register map makes of it. The compiler and the verifier
//! of plans ask the same questions in the same way.

use replay_core::width_mask;
use std::collections::HashSet;
use trace_core::registers::{ReadRule, Register, RegisterMap};

/// The registers that an access touches.
pub(crate) struct Touch<'m> {
    /// Each with the bit of the access's value at which the register's bit 0 stands; below 0 when the access begins
    /// inside it.
    registers: Vec<(&'m Register, i32)>,
    /// The first offset of the access that lies in no register.
    unknown: Option<u32>,
    bits: i32,
}

/// How a read must be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// These bits, once.
    Bits(u64),
    /// All bits, repeated until they match.
    Until,
}

impl<'m> Touch<'m> {
    /// What an access of `width` bytes at `offset` touches. Offset and width are those of an access in the window.
    pub fn of(map: &'m RegisterMap, offset: u32, width: u8) -> Self {
        let end = u64::from(offset) + u64::from(width);
        let mut registers = Vec::new();
        let mut unknown = None;
        let mut word = offset & !3;
        while u64::from(word) < end {
            match map.at(word) {
                Some(r) => registers.push((r, (i64::from(word) - i64::from(offset)) as i32 * 8)),
                None => unknown = unknown.or(Some(word.max(offset))),
            }
            let Some(next) = word.checked_add(4) else { break };
            word = next;
        }
        Self {
            registers,
            unknown,
            bits: i32::from(width) * 8,
        }
    }

    /// The first offset that lies in no register.
    pub fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// The registers.
    pub fn registers(&self) -> impl Iterator<Item = &'m Register> + '_ {
        self.registers.iter().map(|(r, _)| *r)
    }

    /// Names of the registers: `CRTC_GEN_CNTL`, or several with a `+` between them.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.registers().map(|r| r.name.as_str()).collect();
        names.join("+")
    }

    /// Whether the access is of exactly one register.
    fn whole(&self) -> Option<&'m Register> {
        match self.registers.as_slice() {
            [(r, 0)] if self.bits == 32 => Some(r),
            _ => None,
        }
    }

    /// Why a write of `value` may not be replayed: the register and the map's reason. A list of values counts for the
    /// whole register only; a write of a part of such a register is refused.
    pub fn refuses(&self, value: u64) -> Option<(String, String)> {
        for r in self.registers() {
            let told = |why: &str| Some((r.name.clone(), why.to_owned()));
            if !r.replay.write {
                return told(&r.replay.reason);
            }
            if r.replay.values.is_some() {
                match self.whole() {
                    Some(_) if r.replay.allows(value) => {}
                    Some(_) => return told("the map does not list this value"),
                    None => return told("the map lists values of it, and this access is of a part of it"),
                }
            }
        }
        None
    }

    /// How the map demands that a read is compared. Bits that no register has are compared.
    pub fn demand(&self) -> Demand {
        if self.whole().is_some_and(|r| r.replay.read == ReadRule::Until) {
            return Demand::Until;
        }
        let mut mask = width_mask((self.bits / 8) as u8);
        for (r, at) in &self.registers {
            let free = match r.replay.read {
                ReadRule::Any | ReadRule::Feeds => u64::from(u32::MAX),
                ReadRule::Masked(compared) => !compared & u64::from(u32::MAX),
                ReadRule::Equal | ReadRule::Until => 0,
            };
            mask &= !shift(free, *at);
        }
        Demand::Bits(mask)
    }
}

/// Bits moved up, or down where the distance is below 0.
fn shift(bits: u64, by: i32) -> u64 {
    let moved = if by >= 0 {
        bits.checked_shl(by.unsigned_abs())
    } else {
        bits.checked_shr(by.unsigned_abs())
    };
    moved.unwrap_or(0)
}

/// Follows writes, to tell whether a read can show what was there before the recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Untouched {
    written: HashSet<u32>,
}

impl Untouched {
    /// The registers of a write no longer stand as before.
    pub fn write(&mut self, touch: &Touch<'_>) {
        self.written.extend(touch.registers().map(|r| r.offset));
    }

    /// Why a read depends, here, on what ran before the recording; `None` where the map marks none of its registers or
    /// something has written them since.
    pub fn reason<'m>(&self, touch: &Touch<'m>) -> Option<&'m str> {
        touch
            .registers()
            .filter(|r| !self.written.contains(&r.offset))
            .find_map(|r| r.replay.before.as_deref())
    }
}
