//! The registers that an access touches: a whole register, a part of one, or several neighbours.

use super::description::{LineDescriber, PartDescriber};
use super::{Direction, Half, Register, RegisterMap, ValueDescriber};
use crate::RegOffset;
use std::borrow::Cow;

/// A register that an access touches, with the bytes touched.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The register.
    pub register: &'a Register,
    /// First touched byte of the register.
    pub byte: u8,
    /// The same byte within the access.
    pub at: u8,
    /// Number of touched bytes.
    pub bytes: u8,
}

impl Part<'_> {
    /// Whether the access touches all of the register.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.bytes == self.register.width
    }

    /// Returns the mask of the touched bits in the register.
    #[must_use]
    pub fn mask(&self) -> u64 {
        low_bytes(self.bytes).checked_shl(u32::from(self.byte) * 8).unwrap_or(0)
    }

    /// Returns these bits of an access's value, at their position in the register.
    #[must_use]
    pub fn bits(&self, value: u64) -> u64 {
        let own = value.checked_shr(u32::from(self.at) * 8).unwrap_or(0) & low_bytes(self.bytes);
        own.checked_shl(u32::from(self.byte) * 8).unwrap_or(0)
    }

    /// Returns the name, with the bits of a part: `CRTC_GEN_CNTL`, `CRTC_GEN_CNTL[15:8]`.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        if self.is_whole() {
            return Cow::Borrowed(&self.register.name);
        }
        let low = u32::from(self.byte) * 8;
        let high = low + u32::from(self.bytes) * 8 - 1;
        Cow::Owned(format!("{}[{high}:{low}]", self.register.name))
    }
}

/// Returns a value of `n` bytes with all bits set.
fn low_bytes(n: u8) -> u64 {
    match n {
        0 => 0,
        1..=7 => (1 << (u32::from(n) * 8)) - 1,
        _ => u64::MAX,
    }
}

/// The registers that an access touches, by ascending offset.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoveredRegisters<'a> {
    map: Option<&'a RegisterMap>,
    start: u64,
    /// The first byte that was not searched yet.
    at: u64,
    end: u64,
}

impl<'a> Iterator for CoveredRegisters<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let map = self.map?;
        while self.at < self.end {
            let offset = RegOffset::new(u32::try_from(self.at).ok()?);
            let Some((entry, member)) = map.locate(offset) else {
                self.at += 1;
                continue;
            };
            let register = entry.member(member);
            let (first, last) = (u64::from(register.offset.get()), u64::from(register.end().get()));
            let (from, to) = (self.at, last.min(self.end));
            if from >= to {
                return None;
            }
            self.at = to;
            return Some(Part {
                register,
                byte: (from - first) as u8,
                at: (from - self.start) as u8,
                bytes: (to - from) as u8,
            });
        }
        None
    }
}

impl RegisterMap {
    /// Whether the device supports accesses of `width` bytes.
    #[must_use]
    pub fn can_access_width(&self, width: u8) -> bool {
        self.widths == 0 || width < 16 && self.widths >> width & 1 == 1
    }

    /// Returns the registers that an access of `width` bytes touches. Empty if the device does not support that width.
    /// If it supports only one width, only registers that start at the offset count.
    #[must_use]
    pub fn covered_registers(&self, offset: RegOffset, width: u8) -> CoveredRegisters<'_> {
        let (start, end) = (
            u64::from(offset.get()),
            u64::from(offset.get()) + u64::from(width.min(8)),
        );
        let is_register = self.can_access_width(width) && (!self.is_aligned_only() || self.at(offset).is_some());
        CoveredRegisters {
            map: is_register.then_some(self),
            start,
            at: start,
            end,
        }
    }

    /// Whether registers are only accessed from their first byte on, because the device supports only one width.
    #[must_use]
    pub(crate) fn is_aligned_only(&self) -> bool {
        self.widths.count_ones() == 1
    }

    /// Returns the register that contains a byte of the window.
    #[must_use]
    pub fn find_containing(&self, offset: RegOffset) -> Option<&Register> {
        let (entry, member) = self.locate(offset)?;
        Some(entry.member(member))
    }

    /// Returns the first register that an access touches.
    #[must_use]
    pub fn find_accessed(&self, offset: RegOffset, width: u8) -> Option<&Register> {
        self.covered_registers(offset, width).next().map(|p| p.register)
    }

    /// Whether every byte of an access lies in a register.
    #[must_use]
    pub fn has_registers_for(&self, offset: RegOffset, width: u8) -> bool {
        let bytes: u32 = self.covered_registers(offset, width).map(|p| u32::from(p.bytes)).sum();
        bytes > 0 && bytes == u32::from(width)
    }

    /// Returns the name of what an access touches: `CRTC_GEN_CNTL`, `CRTC_GEN_CNTL[15:8]` for a part, `QUEUE_DESC` for
    /// both halves of a pair, `EDID_0 to EDID_3` for several.
    #[must_use]
    pub fn name_of(&self, offset: RegOffset, width: u8) -> Option<Cow<'_, str>> {
        if let Some(r) = self
            .at(offset)
            .filter(|r| r.width == width && self.can_access_width(width))
        {
            return Some(Cow::Borrowed(&r.name));
        }
        let mut parts = self.covered_registers(offset, width);
        let first = parts.next()?;
        Some(match parts.last() {
            None if first.is_whole() => Cow::Borrowed(&first.register.name),
            None => Cow::Owned(first.name().into_owned()),
            Some(last) => match whole_pair(&first, &last) {
                Some(name) => Cow::Borrowed(name),
                None => Cow::Owned(format!("{} to {}", first.name(), last.name())),
            },
        })
    }

    /// Describes the value of a read in one short line, or returns `None` if it touches no register. For a part of a
    /// register it lists only fields inside the part; for several registers it lists each by name.
    #[must_use]
    pub fn describe(&self, offset: RegOffset, width: u8, value: u64) -> Option<String> {
        self.describe_in(offset, width, value, Direction::Read)
    }

    /// Same as [`RegisterMap::describe`], for a read or a write: fields may name their values differently in writes.
    #[must_use]
    pub fn describe_in(&self, offset: RegOffset, width: u8, value: u64, direction: Direction) -> Option<String> {
        Some(self.describer(offset, width, direction)?.describe(value))
    }

    /// Prepares [`RegisterMap::describe_in`] for many values, or returns `None` if the access touches no register.
    #[must_use]
    pub fn describer(&self, offset: RegOffset, width: u8, direction: Direction) -> Option<ValueDescriber<'_>> {
        let mut parts = self.covered_registers(offset, width);
        let first = parts.next()?;
        let Some(second) = parts.next() else {
            return Some(ValueDescriber::new(vec![part_describer(&first, None, direction)]));
        };
        if let (Some(_), Some(wide), None) = (whole_pair(&first, &second), &first.register.wide, parts.clone().next()) {
            return Some(ValueDescriber::new(vec![PartDescriber {
                name: None,
                from_bit: 0,
                mask: u64::MAX,
                to_bit: 0,
                line: LineDescriber::new(wide, u64::MAX, direction),
            }]));
        }
        let all = [first, second].into_iter().chain(parts);
        let named = |p: Part<'_>| p.name().into_owned();
        Some(ValueDescriber::new(
            all.map(|p| part_describer(&p, Some(named(p)), direction)).collect(),
        ))
    }
}

/// Prepares the description of the bits of a register that an access touches.
fn part_describer<'a>(part: &Part<'a>, name: Option<String>, direction: Direction) -> PartDescriber<'a> {
    PartDescriber {
        name,
        from_bit: u32::from(part.at) * 8,
        mask: low_bytes(part.bytes),
        to_bit: u32::from(part.byte) * 8,
        line: LineDescriber::new(&part.register.layout, part.mask(), direction),
    }
}

/// Returns the name of the 64-bit register if these parts are its two whole halves.
fn whole_pair<'a>(low: &Part<'a>, high: &Part<'a>) -> Option<&'a str> {
    let pair = matches!(low.register.pair, Some(Half::Low { high_offset }) if high_offset == high.register.offset);
    if !pair || !low.is_whole() || !high.is_whole() {
        return None;
    }
    low.register.wide.as_ref().map(|w| w.name.as_str())
}
