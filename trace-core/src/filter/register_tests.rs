//! Tests of the registers that an access covers, resolved once per location and width instead of once per event.

use super::number::NumberTest;
use crate::RegOffset;
use crate::recording::Access;
use crate::registers::{FieldKind, Half, Layout, RecordedRegisters, Register, RegisterMap};
use regex::Regex;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, Ordering};

/// Size of the MMIO region prefix that is cached, bytes, with 4 widths each; locations further out are not cached.
const MAX_BYTES: u32 = 1 << 22;

/// A cache of results by offset and width. Threads share it; several may compute the same result.
#[derive(Debug, Default)]
pub(super) struct MatchCache {
    /// 0: not known yet, otherwise the result plus 1.
    table: Vec<AtomicU8>,
}

impl MatchCache {
    pub fn new(device: Option<RecordedRegisters>) -> Self {
        let end = device.map_or(0, |d| {
            d.map()
                .registers()
                .map(Register::end)
                .max()
                .unwrap_or(RegOffset::ZERO)
                .get()
        });
        let mut table = Vec::new();
        table.resize_with(end.min(MAX_BYTES) as usize * 4, AtomicU8::default);
        Self { table }
    }

    /// Returns the result for a location, at most 254.
    pub fn get(&self, offset: u32, width: u8, find: impl FnOnce(u32, u8) -> u8) -> u8 {
        let known = match width {
            1 | 2 | 4 | 8 => self.table.get(offset as usize * 4 + width.trailing_zeros() as usize),
            _ => None,
        };
        let Some(known) = known else {
            return find(offset, width);
        };
        match known.load(Ordering::Relaxed) {
            0 => {
                let found = find(offset, width);
                known.store(found.saturating_add(1), Ordering::Relaxed);
                found
            }
            answer => answer - 1,
        }
    }
}

/// A condition on registers.
#[derive(Debug)]
pub(super) enum RegisterTest {
    /// Any register in the map.
    Any,
    /// Registers with one of these names, in lower case.
    Named(Vec<String>),
    /// Registers whose name matches.
    Matches(Regex),
    /// Registers in blocks with one of these names, in lower case.
    Block(Vec<String>),
    /// Registers in blocks whose name matches.
    BlockMatches(Regex),
    /// Registers whose name or block contains this text, in lower case.
    Holds(String),
}

/// Returns a register's name without the number of its slot or address space, in lower case: `js_command` for
/// `JS1_COMMAND`.
pub(super) fn without_index(r: &Register) -> Option<String> {
    let number = r.index?.to_string();
    let at = r.name.find(&number)?;
    let rest = r.name.get(at + number.len()..)?;
    Some(format!("{}{rest}", r.name.get(..at)?).to_lowercase())
}

impl RegisterTest {
    /// Returns whether a register matches, independent of how it is accessed.
    pub fn register(&self, r: &Register) -> bool {
        let wide = r.wide.as_ref().map(|w| w.name.as_str());
        match self {
            Self::Any => true,
            Self::Named(names) => {
                let named = |name: &str| names.iter().any(|n| name.eq_ignore_ascii_case(n));
                named(&r.name)
                    || wide.is_some_and(named)
                    || without_index(r).is_some_and(|n| named(&n))
                    || wide
                        .and_then(|w| r.index.map(|i| w.replacen(&i.to_string(), "", 1)))
                        .is_some_and(|n| named(&n))
            }
            Self::Matches(regex) => regex.is_match(&r.name) || wide.is_some_and(|w| regex.is_match(w)),
            Self::Block(names) => names.iter().any(|n| r.block.eq_ignore_ascii_case(n)),
            Self::BlockMatches(regex) => regex.is_match(&r.block),
            Self::Holds(text) => r.name.to_lowercase().contains(text) || r.block.to_lowercase().contains(text),
        }
    }

    /// Returns whether the name of a whole access matches: `CRTC_GEN_CNTL[15:8]`, `EDID_0 to EDID_3`.
    fn is_name_match(&self, name: &str) -> bool {
        match self {
            Self::Named(names) => names.iter().any(|n| name.eq_ignore_ascii_case(n)),
            Self::Matches(regex) => regex.is_match(name),
            _ => false,
        }
    }

    /// Returns whether an access of `width` bytes at an offset covers a matching register; `None` if it covers no
    /// register.
    pub fn access(&self, map: &RegisterMap, offset: u32, width: u8) -> Option<bool> {
        let mut parts = map.covered_registers(RegOffset::new(offset), width).peekable();
        parts.peek()?;
        let any = parts.any(|p| self.register(p.register));
        Some(
            any || map
                .name_of(RegOffset::new(offset), width)
                .is_some_and(|n| self.is_name_match(&n)),
        )
    }
}

/// A test of the registers that an access covers.
#[derive(Debug)]
pub(super) struct Registers {
    device: RecordedRegisters,
    meant: RegisterTest,
    not: bool,
    memo: MatchCache,
    /// The first offset at which an access can pass.
    pub first: u32,
    pub last: u32,
}

impl Registers {
    pub fn new(device: RecordedRegisters, meant: RegisterTest, not: bool) -> Self {
        let map = device.map();
        // The name of a whole access may match anywhere: `CRTC_GEN_CNTL[15:8]`.
        let anywhere = match &meant {
            _ if not => true,
            RegisterTest::Matches(_) => true,
            RegisterTest::Named(names) => {
                let one = |n: &String| RegisterTest::Named(vec![n.clone()]);
                names.iter().map(one).any(|one| !map.any_register(|r| one.register(r)))
            }
            _ => false,
        };
        let (mut first, mut last) = (u32::MAX, 0);
        let _ = map.visit(|r| {
            if anywhere || meant.register(r) {
                first = first.min(r.offset.saturating_sub(7).get());
                last = last.max(r.end().saturating_sub(1).get());
            }
            ControlFlow::<()>::Continue(())
        });
        Self {
            device,
            meant,
            not,
            memo: MatchCache::new(Some(device)),
            first,
            last,
        }
    }

    pub fn space(&self) -> u8 {
        self.device.space()
    }

    /// Returns whether an access to the registers' space passes.
    pub fn holds(&self, offset: u32, width: u8) -> bool {
        let found = self.memo.get(offset, width, |offset, width| {
            let passes = self.meant.access(self.device.map(), offset, width);
            u8::from(passes.is_some_and(|p| p != self.not))
        });
        found == 1
    }
}

/// How the bits of a field become the compared number, which is the one that tables show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldEncoding {
    Plain,
    PlusOne,
    Power,
    Shifted(u32),
}

impl FieldEncoding {
    pub fn from_kind(kind: &FieldKind) -> Self {
        match kind {
            FieldKind::NumberPlusOne => Self::PlusOne,
            FieldKind::PowerOfTwo => Self::Power,
            FieldKind::Address { shift } => Self::Shifted(*shift),
            _ => Self::Plain,
        }
    }

    pub fn number(self, raw: u64) -> u64 {
        match self {
            Self::Plain => raw,
            Self::PlusOne => raw.saturating_add(1),
            Self::Power => u32::try_from(raw)
                .ok()
                .and_then(|n| 1u64.checked_shl(n))
                .unwrap_or(u64::MAX),
            Self::Shifted(by) => raw.checked_shl(by).unwrap_or(0),
        }
    }
}

/// The bit position of a register, or of a field of it, in the value of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BitPosition {
    offset: u32,
    width: u8,
    shift: u8,
    mask: u64,
}

/// A test of the value of a register or a field, applied to the accesses that contain all of it.
#[derive(Debug)]
pub(super) struct FieldTest {
    device: RecordedRegisters,
    /// Sorted by offset and width.
    seen: Vec<BitPosition>,
    shown: FieldEncoding,
    test: NumberTest,
}

/// The bits of a register, or of a pair that is one register of 64 bits.
pub(super) struct RegisterBits<'a> {
    /// Registers of 32 bits or less, each with its first bit in the whole.
    halves: Vec<(&'a Register, u32)>,
    /// The fields of the whole register.
    pub layout: &'a Layout,
    /// The number of bits.
    bits: u32,
}

/// Returns the registers that a name refers to when their value is tested: one, or one per slot if the name has no
/// number.
pub(super) fn find_fields<'a>(map: &'a RegisterMap, name: &str) -> Vec<RegisterBits<'a>> {
    let own = |r: &'a Register| RegisterBits {
        halves: vec![(r, 0)],
        layout: &r.layout,
        bits: u32::from(r.width) * 8,
    };
    let pair = |r: &'a Register| {
        let (wide, Half::Low { high_offset }) = (r.wide.as_ref()?, r.pair?) else {
            return None;
        };
        Some(RegisterBits {
            halves: vec![(r, 0), (map.at(high_offset)?, 32)],
            layout: wide.as_ref(),
            bits: 64,
        })
    };
    let is = |n: &str| n.eq_ignore_ascii_case(name);
    if let Some(r) = map.find_register(|r| is(&r.name)) {
        return vec![own(r)];
    }
    let wides = |named: &dyn Fn(&Register, &str) -> bool| -> Vec<RegisterBits<'a>> {
        let those = map.find_registers(|r| r.wide.as_ref().is_some_and(|w| named(r, &w.name)));
        those.into_iter().filter_map(pair).collect()
    };
    let found = wides(&|_, w| is(w));
    if !found.is_empty() {
        return found;
    }
    let those = map.find_registers(|r| without_index(r).is_some_and(|n| is(&n)));
    let found: Vec<_> = those.into_iter().map(own).collect();
    if !found.is_empty() {
        return found;
    }
    wides(&|r, w| r.index.is_some_and(|i| is(&w.replacen(&i.to_string(), "", 1))))
}

impl FieldTest {
    /// Creates a test of the bits `lo` to `hi` of registers; of all bits if `None`.
    pub fn new(
        device: RecordedRegisters,
        wholes: &[RegisterBits<'_>],
        bits: Option<(u32, u32)>,
        shown: FieldEncoding,
        test: NumberTest,
    ) -> Self {
        let mut seen = Vec::new();
        for w in wholes {
            let (lo, hi) = bits.unwrap_or((0, w.bits.saturating_sub(1)));
            w.seen(device.map(), lo, hi.min(63), &mut seen);
        }
        seen.sort_unstable();
        seen.dedup();
        Self {
            device,
            seen,
            shown,
            test,
        }
    }

    pub fn space(&self) -> u8 {
        self.device.space()
    }

    /// Returns the first and the last offset at which an access can pass; the first is larger if none can.
    pub fn bounds(&self) -> (u32, u32) {
        match (self.seen.first(), self.seen.last()) {
            (Some(a), Some(b)) => (a.offset, b.offset),
            _ => (u32::MAX, 0),
        }
    }

    /// Returns whether an access to the registers' space passes.
    pub fn holds(&self, access: &Access) -> bool {
        let key = (access.offset.get(), access.width);
        let n = self.seen.partition_point(|s| (s.offset, s.width) < key);
        let here = self.seen.get(n..).unwrap_or_default().iter();
        let mut here = here.take_while(|s| (s.offset, s.width) == key);
        here.any(|s| {
            let raw = access.value.checked_shr(u32::from(s.shift)).unwrap_or(0) & s.mask;
            self.test.is_match(self.shown.number(raw))
        })
    }
}

impl RegisterBits<'_> {
    /// Adds every form of access that contains all of the bits `lo` to `hi`.
    fn seen(&self, map: &RegisterMap, lo: u32, hi: u32, seen: &mut Vec<BitPosition>) {
        let field = low_bits(hi.saturating_sub(lo) + 1) << lo.min(63);
        for (register, _) in &self.halves {
            for offset in register.offset.get().saturating_sub(7)..register.end().get() {
                for width in [1u8, 2, 4, 8] {
                    // The shift from the bits of the whole register to those of the access, and the bits that the
                    // access has.
                    let mut entries: Vec<(i32, u64)> = Vec::new();
                    for p in map.covered_registers(RegOffset::new(offset), width) {
                        let own = self.halves.iter().find(|(r, _)| r.offset == p.register.offset);
                        let Some((_, base)) = own else { continue };
                        let first = base + u32::from(p.byte) * 8;
                        let up = i32::from(p.at) * 8 - first as i32;
                        let bits = low_bits(u32::from(p.bytes) * 8).checked_shl(first).unwrap_or(0);
                        match entries.iter_mut().find(|t| t.0 == up) {
                            Some(t) => t.1 |= bits,
                            None => entries.push((up, bits)),
                        }
                    }
                    for (up, bits) in entries {
                        let shift = u8::try_from(lo as i32 + up);
                        if let (true, Ok(shift @ 0..=63)) = (bits & field == field, shift) {
                            seen.push(BitPosition {
                                offset,
                                width,
                                shift,
                                mask: low_bits(hi - lo + 1),
                            });
                        }
                    }
                }
            }
        }
    }
}

/// Returns a number with the `n` low bits set.
fn low_bits(n: u32) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}
