//! Arguments of scripts as bits, and comparison of results with what scripts expect.

use wast::core::{NanPattern, WastArgCore, WastRetCore};
use wast::{WastArg, WastRet};

const CANONICAL_32: u64 = 0x7fc0_0000;
const CANONICAL_64: u64 = 0x7ff8_0000_0000_0000;

/// Returns the bits of arguments, or `None` if one has a type that programs do not have.
pub fn arguments(arguments: &[WastArg<'_>]) -> Option<Vec<u64>> {
    let bits = arguments.iter().map(|argument| match argument {
        WastArg::Core(WastArgCore::I32(value)) => Some(u64::from(*value as u32)),
        WastArg::Core(WastArgCore::I64(value)) => Some(*value as u64),
        WastArg::Core(WastArgCore::F32(value)) => Some(u64::from(value.bits)),
        WastArg::Core(WastArgCore::F64(value)) => Some(value.bits),
        _ => None,
    });
    bits.collect()
}

/// Returns whether a result is what a script expects. Every NaN of arithmetic is the positive canonical one.
fn matches(expected: &WastRet<'_>, bits: u64) -> bool {
    match expected {
        WastRet::Core(WastRetCore::I32(value)) => bits as u32 == *value as u32,
        WastRet::Core(WastRetCore::I64(value)) => bits == *value as u64,
        WastRet::Core(WastRetCore::F32(NanPattern::Value(value))) => bits as u32 == value.bits,
        WastRet::Core(WastRetCore::F64(NanPattern::Value(value))) => bits == value.bits,
        WastRet::Core(WastRetCore::F32(_)) => u64::from(bits as u32) == CANONICAL_32,
        WastRet::Core(WastRetCore::F64(_)) => bits == CANONICAL_64,
        _ => false,
    }
}

/// Special values among the floats of an assertion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialFloats {
    /// An argument or result is a NaN.
    pub nan: bool,
    /// An argument or result is a zero.
    pub zero: bool,
    /// An argument or result is a subnormal number.
    pub subnormal: bool,
    /// An argument or result is a float.
    pub float: bool,
}

impl SpecialFloats {
    /// Notes a float with these bits.
    fn note<const FRACTION: u32, const SIGN: u32>(&mut self, bits: u64) {
        let magnitude = bits & ((1 << SIGN) - 1);
        let smallest_normal = 1u64 << FRACTION;
        let infinity = (1u64 << SIGN) - smallest_normal;
        self.float = true;
        self.nan |= magnitude > infinity;
        self.zero |= magnitude == 0;
        self.subnormal |= magnitude != 0 && magnitude < smallest_normal;
    }

    /// Notes the floats of an assertion.
    pub fn of_assertion(arguments: &[WastArg<'_>], expected: &[WastRet<'_>]) -> Self {
        let mut special = Self::default();
        for argument in arguments {
            match argument {
                WastArg::Core(WastArgCore::F32(value)) => special.note::<23, 31>(value.bits.into()),
                WastArg::Core(WastArgCore::F64(value)) => special.note::<52, 63>(value.bits),
                _ => {}
            }
        }
        for result in expected {
            match result {
                WastRet::Core(WastRetCore::F32(NanPattern::Value(value))) => special.note::<23, 31>(value.bits.into()),
                WastRet::Core(WastRetCore::F64(NanPattern::Value(value))) => special.note::<52, 63>(value.bits),
                WastRet::Core(WastRetCore::F32(_) | WastRetCore::F64(_)) => (special.float, special.nan) = (true, true),
                _ => {}
            }
        }
        special
    }
}

/// Returns whether all results are what a script expects.
pub fn all_match(expected: &[WastRet<'_>], results: &[u64]) -> bool {
    expected.len() == results.len() && expected.iter().zip(results).all(|(e, r)| matches(e, *r))
}
