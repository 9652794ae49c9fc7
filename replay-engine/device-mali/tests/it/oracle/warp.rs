//! Operations across the lanes of a warp.
//!
//! Known: `CLPER` returns the value of the lane that its second source selects, within groups of the size of its
//! modifier. For an inactive lane it returns a selected value (`bifrost_compile.c`, `valhall/ISA.xml`). `xor` combines
//! the lane's own number with that of the source. `CLPER_OLD` has groups of four and returns zero. `WMASK` has a bit
//! for every lane of the group whose source is not zero.
//!
//! Inferred: bit n of `WMASK` is lane n of the group.
//!
//! Open: a lane number beyond the group, `accumulate` and `shift`, groups of 16 and `fill` of `WMASK`. No GPU of this
//! architecture has warps of 16.

use super::value::Value;
use bifrost::{Instruction, Modifier, Op, Value as M};

/// Returns whether this file implements the operation.
pub fn is(op: Op) -> bool {
    matches!(op, Op::ClperI32 | Op::ClperOldI32 | Op::Wmask)
}

fn group(i: &Instruction) -> Option<usize> {
    Some(match i.get(Modifier::Subgroup) {
        M::Subgroup2 => 2,
        M::Subgroup4 => 4,
        M::Subgroup8 => 8,
        _ if i.op() == Op::ClperOldI32 => 4,
        _ => return None,
    })
}

/// Returns the value that an inactive lane provides.
pub fn inactive(name: M) -> Option<u32> {
    Some(match name {
        M::Zero | M::None => 0,
        M::Umax => u32::MAX,
        M::I1 => 1,
        M::V2i1 => 0x0001_0001,
        M::Smin => 0x8000_0000,
        M::Smax => 0x7fff_ffff,
        M::V2smin => 0x8000_8000,
        M::V2smax => 0x7fff_7fff,
        M::V4smin => 0x8080_8080,
        M::V4smax => 0x7f7f_7f7f,
        M::F1 => 0x3f80_0000,
        M::V2f1 => 0x3c00_3c00,
        M::Infn => 0xff80_0000,
        M::Inf => 0x7f80_0000,
        M::V2infn => 0xfc00_fc00,
        M::V2inf => 0x7c00_7c00,
        _ => return None,
    })
}

/// Returns the result in one lane from the operands of all lanes, or `None` if it is undefined.
pub fn result(i: &Instruction, operands: &[Option<Vec<u32>>], lane: usize) -> Option<Value> {
    let size = group(i)?;
    let first = lane / size * size;
    if i.op() == Op::Wmask {
        if i.immediate("fill") != 0 {
            return None;
        }
        let mut mask = 0;
        for n in 0..size {
            match operands.get(first + n) {
                Some(Some(s)) => mask |= u32::from(s[0] != 0) << n,
                Some(None) => return Some(Value::FREE),
                None => {}
            }
        }
        return Some(Value::exact(mask));
    }
    let Some(s) = &operands[lane] else {
        return Some(Value::FREE);
    };
    let requested = match i.get(Modifier::LaneOp) {
        M::None => s[1] as usize,
        M::Xor => s[1] as usize ^ (lane - first),
        _ => return None,
    };
    if requested >= size {
        return Some(Value::FREE);
    }
    match operands.get(first + requested) {
        Some(Some(from)) => Some(Value::exact(from[0])),
        Some(None) => Some(Value::FREE),
        None => Some(Value::exact(inactive(i.get(Modifier::InactiveResult))?)),
    }
}
