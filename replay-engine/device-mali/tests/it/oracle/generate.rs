//! Random operations, clauses and operands that the oracle knows. The same seed gives the same values.

use super::{knows, partner};
use bifrost::pack::{self, Slots};
use bifrost::{Clause, Constant, Header, Instruction, Op, Port2, Port3, Registers, Source, Unit, WriteHalf};

/// A random number generator (xorshift*).
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    pub fn chance(&mut self, one_in: u32) -> bool {
        self.below(one_in) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }
}

/// Special floats and their neighbours on both sides.
const WORDS: &[u32] = &[
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x4000_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0xffc0_1234,
    1,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x3f80_0001,
    0x3f7f_ffff,
    0x3f40_0000,
    0x3fc0_0000,
    0x3fbf_ffff,
    0xbfc0_0000,
    0x4020_0000,
    0xc020_0000,
    0x4b80_0000,
    0x4b80_0001,
    0x4b00_0001,
    0x477f_e000,
    0x477f_f000,
    0x4780_0000,
    0x4f00_0000,
    0x4f80_0000,
    0xcf00_0000,
    0xcf00_0001,
    0x4eff_ffff,
    0x3eff_ffff,
    0x3300_0000,
    0x3380_0000,
    0x3330_0000,
    0x3880_0000,
    0x387f_c000,
    0x0f80_0000,
    0x1f80_0000,
    0x5f00_0000,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_fffe,
    0x8000_ffff,
];

const HALVES: &[u32] = &[
    0, 0x8000, 0x3c00, 0xbc00, 0x3800, 0x4000, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 1, 0x8001, 0x03ff, 0x0400, 0x7bff,
    0xfbff, 0x3c01, 0x3bff, 0x3a00, 0x3e00, 0x4100, 0xc100, 0x7800, 0x77ff, 0x5bff, 0x7fff, 0x0080, 0xff80, 0x00ff,
];

/// Returns a word that is likely to be a special case of an operation.
pub fn word(rng: &mut Rng) -> u32 {
    match rng.below(12) {
        0..=2 => rng.pick(WORDS),
        3 | 4 => rng.pick(HALVES) | rng.pick(HALVES) << 16,
        5 => rng.below(40).wrapping_sub(4),
        // Floats and halves of ordinary magnitude.
        6 | 7 => (rng.next() as u32) & 0x807f_ffff | (115 + rng.below(26)) << 23,
        8 => {
            let half = |rng: &mut Rng| (rng.next() as u32) & 0x83ff | (8 + rng.below(16)) << 10;
            half(rng) | half(rng) << 16
        }
        // Ties: half an even number of units next to a power of two.
        9 => (120 + rng.below(40)) << 23 | 1 << rng.below(23) | u32::from(rng.chance(2)),
        _ => rng.next() as u32,
    }
}

/// Returns registers of lanes. Some of them are close to one another, so that sums cancel.
pub fn lanes(rng: &mut Rng, count: usize) -> Vec<[u32; 64]> {
    let mut all = vec![[0u32; 64]; count];
    for registers in &mut all {
        for n in 0..64 {
            registers[n] = match rng.below(8) {
                0 if n > 0 => registers[n - 1] ^ 0x8000_0000,
                1 if n > 0 => registers[n - 1].wrapping_add(rng.below(3)).wrapping_sub(1),
                _ => word(rng),
            };
        }
    }
    all
}

/// Returns the encodings of a unit that the oracle knows: operation, mask of its fixed bits and their values.
pub fn encodings(unit: Unit) -> Vec<(Op, u32, u32)> {
    let mut rng = Rng::new(7);
    let known = |&(op, mask, exact): &(Op, u32, u32)| {
        op != Op::Nop && (0..400).any(|_| draw(&mut rng, unit, (op, mask, exact)).is_some_and(|i| knows(&i)))
    };
    Instruction::encodings(unit).filter(known).collect()
}

/// Returns an instruction with random free bits. Returns `None` if the bits encode another operation or are invalid.
pub fn draw(rng: &mut Rng, unit: Unit, (op, mask, exact): (Op, u32, u32)) -> Option<Instruction> {
    let free = !mask & ((1 << unit.bits()) - 1);
    let i = Instruction::decode(unit, exact | rng.next() as u32 & free)?;
    (i.op() == op && i.is_sound()).then_some(i)
}

/// Returns an instruction that the oracle knows and whose sources `allowed` accepts.
pub fn instruction(
    rng: &mut Rng,
    unit: Unit,
    encoding: (Op, u32, u32),
    allowed: impl Fn(&Instruction, Source) -> bool,
) -> Option<Instruction> {
    (0..4000).find_map(|_| {
        let i = draw(rng, unit, encoding)?;
        let sources = (0..i.source_count()).all(|n| i.source(n).is_some_and(|s| allowed(&i, s)));
        (sources && knows(&i)).then_some(i)
    })
}

/// Returns the encoding of NOP.
pub fn nop(unit: Unit) -> u32 {
    let found = Instruction::encodings(unit).find(|(op, _, _)| *op == Op::Nop);
    found.expect("both units have a NOP").2
}

/// Returns a clause of one tuple. It reads three registers and a uniform and writes the results of FMA and ADD to two
/// registers.
pub fn alone(fma: u32, add: u32, of_add: bool, constant: u64) -> Clause {
    let block = Registers {
        uniform: 0x40 | (constant & 15) as u8,
        port0: Some(1),
        port1: Some(2),
        port2: Port2::Read,
        register2: 3,
        port3: if of_add {
            Port3::WriteAdd(WriteHalf::Full)
        } else {
            Port3::WriteFma(WriteHalf::Full)
        },
        register3: 5,
        ..Registers::idle()
    };
    let slots = Slots {
        registers: block,
        fma,
        add,
    };
    let constant = Constant {
        bits: constant & !15,
        ..Constant::default()
    };
    let words = pack::clause(Header { bits: 0 }, &[slots], &[constant]).expect("one tuple fits");
    Clause::from_code(&words.concat(), 0).expect("a packed clause decodes")
}

/// Encodings from which clauses are drawn.
pub struct Choice {
    fma: Vec<(Op, u32, u32)>,
    add: Vec<(Op, u32, u32)>,
}

impl Choice {
    /// Creates a choice of all encodings that the oracle knows and `keep` accepts.
    pub fn new(keep: impl Fn(Op) -> bool) -> Self {
        let of = |unit| encodings(unit).into_iter().filter(|e| keep(e.0)).collect();
        Self {
            fma: of(Unit::Fma),
            add: of(Unit::Add),
        }
    }

    fn one(&self, rng: &mut Rng, unit: Unit, keep: impl Fn(Op) -> bool) -> Option<(Op, u32, u32)> {
        let all = if unit == Unit::Fma { &self.fma } else { &self.add };
        let fit: Vec<_> = all.iter().filter(|e| keep(e.0)).copied().collect();
        let op = rng.pick(&fit).0;
        let same: Vec<_> = fit.into_iter().filter(|e| e.0 == op).collect();
        Some(rng.pick(&same))
    }

    /// Returns the two operations of a tuple.
    fn tuple(&self, rng: &mut Rng, first: bool) -> Option<(u32, u32)> {
        let passed = move |s: Source| !(first && matches!(s, Source::Passed { .. }));
        let add = self.one(rng, Unit::Add, |_| true)?;
        let needs = partner(add.0);
        let add = instruction(rng, Unit::Add, add, |i, s| {
            passed(s) && (i.op() != Op::Cubeface2 || s == Source::Stage)
        })?;
        let fma = self.one(rng, Unit::Fma, |op| needs.is_none_or(|of| of.contains(&op)))?;
        let fma = instruction(rng, Unit::Fma, fma, |_, s| passed(s))?;
        let idle = |rng: &mut Rng| needs.is_none() && rng.chance(12);
        Some((
            if idle(rng) { nop(Unit::Fma) } else { fma.bits() },
            if idle(rng) { nop(Unit::Add) } else { add.bits() },
        ))
    }

    /// Returns a clause of one to eight tuples.
    pub fn clause(&self, rng: &mut Rng) -> Clause {
        loop {
            if let Some(c) = self.try_clause(rng) {
                return c;
            }
        }
    }

    fn try_clause(&self, rng: &mut Rng) -> Option<Clause> {
        let count = 1 + rng.below(8) as usize;
        let constants: Vec<Constant> = (0..rng.below(1 + count.min(4) as u32))
            .map(|_| Constant {
                bits: (u64::from(word(rng)) | u64::from(word(rng)) << 32) & !15,
                ..Constant::default()
            })
            .collect();
        let mut slots = Vec::new();
        for n in 0..count {
            let (fma, add) = self.tuple(rng, n == 0)?;
            let registers = (0..200).find_map(|_| {
                let block = block(rng, constants.len());
                block.encode(n == 0).is_ok().then_some(block)
            })?;
            slots.push(Slots { registers, fma, add });
        }
        // Constants can mark one another as relative. Such a clause is drawn again.
        let words = pack::clause(Header { bits: 0 }, &slots, &constants).ok()?;
        Clause::from_code(&words.concat(), 0).ok()
    }
}

/// Returns a block that reads at all three ports, or at two ports and writes more.
fn block(rng: &mut Rng, constants: usize) -> Registers {
    let half = |rng: &mut Rng| match rng.below(6) {
        0 => WriteHalf::Low,
        1 => WriteHalf::High,
        _ => WriteHalf::Full,
    };
    let (a, b) = (rng.below(63), rng.below(64));
    let (port0, port1) = if a < b { (a, b) } else { (a, a + 1) };
    let port2 = match rng.below(8) {
        0..=4 => Port2::Read,
        5 => Port2::Idle,
        _ => Port2::WriteFma(half(rng)),
    };
    let port3 = match rng.below(8) {
        0 => Port3::Idle,
        1..=3 => Port3::WriteFma(half(rng)),
        _ => Port3::WriteAdd(half(rng)),
    };
    const SELECTORS: [u8; 6] = [0x40, 0x50, 0x60, 0x70, 0x20, 0x30];
    let uniform = match rng.below(6) {
        0 => 0,
        1 | 2 => 0x80 | rng.below(16) as u8,
        _ if constants == 0 => 0,
        _ => SELECTORS[rng.below(constants as u32) as usize] | rng.below(16) as u8,
    };
    Registers {
        uniform,
        port0: Some(port0 as u8),
        port1: Some(port1 as u8),
        port2,
        register2: rng.below(64) as u8,
        port3,
        register3: rng.below(64) as u8,
        ..Registers::idle()
    }
}
