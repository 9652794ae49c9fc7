//! A second implementation of clauses for comparison with the executor. It follows the descriptions alone and runs one
//! lane and one operation at a time. It is slow and reports operations that it does not know.
//!
//! Each file states which rules of its operations are known and from which source, which are inferred and which are
//! open.
//!
//! The order within a clause is from Mesa's `bi_pack.c` and `disassemble.c`. A model with this order ran eleven
//! programs bit for bit. The block of a tuple reads registers before it writes the results of the previous tuple. So
//! the next tuple sees a result only as `t0` or `t1`. The first block states the destination of the last tuple's
//! results, which are written at the end. Writes of a half keep the other half and take the same half of the result.
//! This is inferred, because Mesa's compiler emits no such writes.

pub mod arithmetic;
mod consistent;
pub mod convert;
pub mod generate;
pub mod integer;
mod known_values;
mod modes;
pub mod number;
pub mod source;
pub mod special;
pub mod value;
pub mod warp;

use bifrost::{Clause, Header, Instruction, Op, Port2, Port3, Source, Uniform, WriteHalf, uniform};
use value::Value;

/// Registers of a lane.
pub type Lane = [Value; 64];

/// Returns the result of an operation from its operands alone. Returns `None` if the oracle does not know the operation
/// or needs more than its operands.
pub fn result(i: &Instruction, s: &[u32]) -> Option<Value> {
    let s = [s, &[0; 4]].concat();
    arithmetic::result(i, &s)
        .or_else(|| integer::result(i, &s))
        .or_else(|| convert::result(i, &s))
        .or_else(|| special::result(i, &s))
}

/// Returns the FMA operations that this operation needs in its tuple, or `None` if it needs only the FMA result.
pub fn partner(op: Op) -> Option<&'static [Op]> {
    match op {
        Op::ShaddxhI32 => Some(&[Op::ShaddxlI64, Op::ShaddxlS32, Op::ShaddxlU32]),
        Op::Cubeface2 => Some(&[Op::Cubeface1]),
        _ => None,
    }
}

/// Returns whether the oracle knows these bits. It tries them with ordinary operands.
pub fn knows(i: &Instruction) -> bool {
    let alone = [Some(vec![1, 0])];
    i.op() == Op::Nop
        || partner(i.op()).is_some()
        || warp::is(i.op()) && warp::result(i, &alone, 0).is_some()
        || result(i, &[0x3f80_0000; 4]).is_some()
}

/// Returns the operands, or `None` if a bit of an operand is unknown.
fn operands(i: &Instruction, mut get: impl FnMut(Source) -> Value) -> Option<Vec<u32>> {
    (0..i.source_count()).map(|n| get(i.source(n)?).known()).collect()
}

/// Returns the result of an operation that needs its partner in the same tuple.
fn partner_result(add: &Instruction, s: &[u32], fma: &Instruction, of_fma: &[u32]) -> Option<Value> {
    match add.op() {
        Op::ShaddxhI32 => {
            let sum = integer::wide_sum(fma, [of_fma[0], of_fma[1]], [s[0], s[1]])?;
            Some(Value::exact((sum >> 32) as u32))
        }
        _ if fma.op() != Op::Cubeface1 => None,
        _ => {
            let direction = special::direction(fma, of_fma)?;
            Some(special::cube_face(&direction).map_or(Value::FREE, |face| Value::exact(face << 29)))
        }
    }
}

/// One lane's state within a clause.
struct State {
    registers: Lane,
    /// Results of FMA and ADD in the previous tuple.
    passed: [Value; 2],
}

impl State {
    fn write(&mut self, register: u8, half: WriteHalf, result: Value) {
        let to = &mut self.registers[usize::from(register)];
        *to = match half {
            WriteHalf::Full => result,
            WriteHalf::Low => to.with_half(result, false),
            WriteHalf::High => to.with_half(result, true),
        };
    }

    /// Writes the previous tuple's results as the block requests.
    fn write_back(&mut self, block: &bifrost::Registers) {
        let [fma, add] = self.passed;
        if let Port2::WriteFma(half) = block.port2 {
            self.write(block.register2, half, fma);
        }
        match block.port3 {
            Port3::Idle => {}
            Port3::WriteFma(half) => self.write(block.register3, half, fma),
            Port3::WriteAdd(half) => self.write(block.register3, half, add),
        }
    }
}

/// Returns the registers of the lanes after a clause of operations without memory. All lanes are active. The error
/// names an operation that the oracle does not know.
pub fn run(clause: &Clause, lanes: &[[u32; 64]], push: &[u64]) -> Result<Vec<Lane>, String> {
    let start = |registers: &[u32; 64]| State {
        registers: registers.map(Value::exact),
        passed: [Value::FREE; 2],
    };
    let mut states: Vec<State> = lanes.iter().map(start).collect();
    for (n, tuple) in clause.tuples.iter().enumerate() {
        let (Some(fma), Some(add)) = (tuple.fma, tuple.add) else {
            return Err(format!("tuple {n} has an unknown operation"));
        };
        let r = &tuple.registers;
        // A block reads its registers before it writes them.
        let read: Vec<[Value; 3]> = states
            .iter()
            .map(|s| {
                let port = |p: Option<u8>| p.map_or(Value::FREE, |p| s.registers[usize::from(p)]);
                let third = (r.port2 == Port2::Read).then_some(r.register2);
                [port(r.port0), port(r.port1), port(third)]
            })
            .collect();
        let passed: Vec<[Value; 2]> = states.iter().map(|s| s.passed).collect();
        if n > 0 {
            states.iter_mut().for_each(|s| s.write_back(r));
        }
        let word = |high: bool| match uniform(r.uniform) {
            Uniform::Zero => Value::exact(0),
            Uniform::Constant { index, low } => {
                let c = clause.constants[usize::from(index)];
                Value::exact(c.word(low, high, clause.address))
            }
            Uniform::Push(k) => push
                .get(usize::from(k))
                .map_or(Value::FREE, |w| Value::exact(if high { w >> 32 } else { *w } as u32)),
            _ => Value::FREE,
        };
        let source = |lane: usize, from: Source, stage: Value| match from {
            Source::Port(p) => read[lane][usize::from(p)],
            Source::Stage => stage,
            Source::Uniform { high } => word(high),
            Source::Passed { add } => passed[lane][usize::from(add)],
        };
        let zero = Value::exact(0);
        let of_fma: Vec<_> = (0..lanes.len())
            .map(|k| operands(&fma, |from| source(k, from, zero)))
            .collect();
        for (k, state) in states.iter_mut().enumerate() {
            state.passed[0] = alone(clause.header, &fma, &of_fma[k])?;
        }
        let of_add: Vec<_> = (0..lanes.len())
            .map(|k| operands(&add, |from| source(k, from, states[k].passed[0])))
            .collect();
        for k in 0..lanes.len() {
            let result = if warp::is(add.op()) {
                warp::result(&add, &of_add, k).ok_or_else(|| unknown(&add))?
            } else if partner(add.op()).is_some() {
                match (&of_add[k], &of_fma[k]) {
                    (Some(s), Some(f)) => partner_result(&add, s, &fma, f).ok_or_else(|| unknown(&add))?,
                    _ => Value::FREE,
                }
            } else {
                alone(clause.header, &add, &of_add[k])?
            };
            states[k].passed[1] = result;
        }
    }
    if let Some(first) = clause.tuples.first() {
        states.iter_mut().for_each(|s| s.write_back(&first.registers));
    }
    Ok(states.into_iter().map(|s| s.registers).collect())
}

fn unknown(i: &Instruction) -> String {
    format!("{}{} is not known", i.unit().sign(), i.op().name())
}

/// Returns the result of an operation that needs no partner. The result is free if an operand is unknown.
fn alone(h: Header, i: &Instruction, operands: &Option<Vec<u32>>) -> Result<Value, String> {
    match operands {
        _ if i.op() == Op::Nop => Ok(Value::FREE),
        None => Ok(Value::FREE),
        Some(s) => {
            let flushed = (h.flush_to_zero() == 2).then(|| modes::flushed(i, s)).flatten();
            let value = flushed.or_else(|| result(i, s)).ok_or_else(|| unknown(i))?;
            Ok(modes::suppressed(h, i, value))
        }
    }
}
