//! Tests of clause results against a second implementation, which follows the descriptions of the operations.
//!
//! `KINESCOPE_SEED` changes the start of the random clauses. `KINESCOPE_CLAUSES` changes their number.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

use crate::oracle;

use bifrost::{Clause, Instruction, Modifier, Op, Source, Unit};
use oracle::generate::{self, Choice, Rng};
use oracle::value::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns a number from the environment, or `default` if it is not set.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Returns the words of a clause.
fn code(clause: &Clause) -> Vec<u8> {
    clause.pack().expect("a decoded clause packs again").concat()
}

/// Returns the text of a clause's operations.
fn text(clause: &Clause) -> String {
    bifrost::clause_text(clause, 0)
}

/// Runs a clause in the executor and returns the registers of its lanes.
fn execute(clause: &Clause, lanes: &[[u32; 64]], push: &[u64]) -> Result<Vec<[u32; 64]>, String> {
    let mut registers = lanes.to_vec();
    device_mali::bench_support::run_clause(&code(clause), &mut registers, push)?;
    Ok(registers)
}

/// Returns the first disagreement of a clause: lane, register, expected value and actual value.
fn disagreement(want: &[oracle::Lane], got: &[[u32; 64]]) -> Option<(usize, usize, Value, u32)> {
    want.iter().zip(got).enumerate().find_map(|(lane, (want, got))| {
        let register = (0..64).find(|n| !want[*n].allows(got[*n]))?;
        Some((lane, register, want[register], got[register]))
    })
}

/// Starts of the reasons for which the executor refuses operations that the oracle knows. The oracle infers two rules
/// from names alone: the result of an operand that is NaN, and the sign of a zero.
const REFUSED: [&str; 4] = [
    "+FMAX.f32 with sem",
    "+FMAX.v2f16 with sem",
    "+FMIN.f32 with sem",
    "+FMIN.v2f16 with sem",
];

/// Returns whether every part of a refusal is listed in [`REFUSED`].
fn is_expected_refusal(why: &str) -> bool {
    why.split(", ").all(|part| REFUSED.iter().any(|r| part.starts_with(r)))
}

fn push(rng: &mut Rng) -> Vec<u64> {
    (0..16).map(|_| rng.next() << 32 ^ rng.next()).collect()
}

/// Sets operands for operations that take two forms of the same number.
fn related(op: Op, registers: &mut [u32; 64], rng: &mut Rng) {
    if op == Op::FexpF32 && !rng.chance(4) {
        let x = (f32::from_bits(generate::word(rng) & 0xbfff_ffff | 0x3000_0000) % 160.0) * 16_777_216.0;
        let x = if rng.chance(16) {
            rng.pick(&[f32::INFINITY, f32::NEG_INFINITY, f32::NAN])
        } else {
            x
        };
        let fixed = x.round_ties_even() as i32 as u32;
        // The fixed-point form is the first operand in the encoding's usual order, whatever ports the operands use.
        (registers[1], registers[2], registers[3]) = (fixed, x.to_bits(), x.to_bits());
    }
}

#[test]
fn single_operations_match_their_description() {
    let mut rng = Rng::new(setting("KINESCOPE_SEED", 1));
    let mut refused: BTreeMap<String, u32> = BTreeMap::new();
    let mut wrong: BTreeMap<String, (u32, String)> = BTreeMap::new();
    let mut compared: BTreeMap<&str, u32> = BTreeMap::new();
    let rounds = setting("KINESCOPE_CLAUSES", 40);
    for unit in [Unit::Fma, Unit::Add] {
        for encoding in generate::encodings(unit) {
            let needs = oracle::partner(encoding.0);
            for _ in 0..rounds {
                let no_pass = |i: &Instruction, s: Source| {
                    use Source::{Passed, Stage};
                    !matches!(s, Passed { .. }) && (s != Stage || needs.is_some() || i.unit() == Unit::Fma)
                };
                let Some(i) = generate::instruction(&mut rng, unit, encoding, no_pass) else {
                    continue;
                };
                let other = needs.and_then(|ops| {
                    let op = rng.pick(ops);
                    let with = generate::encodings(Unit::Fma).into_iter().find(|e| e.0 == op)?;
                    generate::instruction(&mut rng, Unit::Fma, with, no_pass)
                });
                let fma = other.map_or(generate::nop(Unit::Fma), |b| b.bits());
                let clause = match unit {
                    Unit::Fma => generate::alone(i.bits(), generate::nop(Unit::Add), false, rng.next()),
                    Unit::Add => generate::alone(fma, i.bits(), true, rng.next()),
                };
                let mut lanes = generate::lanes(&mut rng, 8);
                lanes.iter_mut().for_each(|r| related(encoding.0, r, &mut rng));
                let name = format!("{}{}", unit.sign(), encoding.0.name());
                let want = oracle::run(&clause, &lanes, &[]).unwrap();
                match execute(&clause, &lanes, &[]) {
                    Err(why) => {
                        *refused.entry(format!("{name}: {why}")).or_default() += 1;
                    }
                    Ok(got) => {
                        *compared.entry(encoding.0.name()).or_default() += 1;
                        if let Some((lane, register, want, got)) = disagreement(&want, &got) {
                            let s: Vec<String> = lanes[lane][1..4].iter().map(|w| format!("{w:#010x}")).collect();
                            let first = format!(
                                "bits {:#x}, r1 r2 r3 {}, r{register}: want {want:x?}, got {got:#010x}\n{}",
                                i.bits(),
                                s.join(" "),
                                text(&clause)
                            );
                            wrong.entry(name).or_insert((0, first)).0 += 1;
                        }
                    }
                }
            }
        }
    }
    for (refusal, times) in &refused {
        println!("refused {times} times {refusal}");
        assert!(is_expected_refusal(refusal.split_once(": ").unwrap().1), "{refusal}");
    }
    for (name, (times, first)) in &wrong {
        println!("{name}: wrong {times} times, first {first}");
    }
    assert!(wrong.is_empty(), "{} operations disagree", wrong.len());
    println!(
        "{} operations compared, {} clauses",
        compared.len(),
        compared.values().sum::<u32>()
    );
    assert!(compared.len() > 130, "{compared:?}");
}

#[test]
fn random_clauses_match_their_description() {
    let seed = setting("KINESCOPE_SEED", 1);
    let mut rng = Rng::new(seed ^ 0xc1a5e);
    let choice = Choice::new(|_| true);
    let mut refused = BTreeSet::new();
    let (mut compared, mut tuples, mut open, mut all) = (0, 0, 0u64, 0u64);
    let clauses = setting("KINESCOPE_CLAUSES", 4000);
    for n in 0..clauses {
        let clause = choice.clause(&mut rng);
        let count = rng.pick(&[1, 4, 8, 8, 32]);
        let lanes = generate::lanes(&mut rng, count);
        let push = push(&mut rng);
        let want = oracle::run(&clause, &lanes, &push).unwrap();
        match execute(&clause, &lanes, &push) {
            Err(why) => {
                assert!(is_expected_refusal(&why), "{why}");
                refused.insert(why);
            }
            Ok(got) => {
                compared += 1;
                tuples += clause.tuples.len();
                for (values, before) in want.iter().zip(&lanes) {
                    let written = values.iter().zip(before).filter(|(v, b)| v.known() != Some(**b));
                    for (v, _) in written {
                        all += 1;
                        open += u64::from(v.known().is_none());
                    }
                }
                if let Some((lane, register, want, got)) = disagreement(&want, &got) {
                    panic!(
                        "clause {n} of seed {seed}, lane {lane} of {count}, r{register}: want {want:x?}, got {got:#010x}\n{}\npush {push:x?}\nregisters {:x?}",
                        text(&clause),
                        lanes[lane]
                    );
                }
            }
        }
    }
    println!(
        "{compared} clauses of {clauses}, {tuples} tuples; of {all} results {open} are open; {} refused",
        refused.len()
    );
    assert!(compared * 4 > clauses * 3, "{compared}");
}

/// Returns the result of one FMA operation on three operands in one lane.
fn fma(op: Op, modifiers: &[(Modifier, bifrost::Value)], operands: [u32; 3]) -> u32 {
    let mut rng = Rng::new(1);
    let ports = [Source::Port(0), Source::Port(1), Source::Port(2)];
    let is_match = |i: &Instruction| {
        let sources = (0..i.source_count().min(3)).all(|n| i.source(n) == Some(ports[n]));
        let requested = |m| modifiers.iter().find(|(n, _)| *n == m);
        sources
            && i.modifiers()
                .all(|(m, v, shown)| requested(m).map_or(!shown, |(_, want)| v == *want))
    };
    // Selectors are three bits each, in the lowest bits.
    let mut draw = |(o, mask, exact): (Op, u32, u32), sources: u32| {
        let selectors = (1 << (3 * sources)) - 1;
        let bits = rng.next() as u32 & 0x7f_ffff & !selectors | 0o210 & selectors;
        Instruction::decode(Unit::Fma, exact | bits & !mask).filter(|i| i.op() == o && is_match(i))
    };
    let candidate = Instruction::encodings(Unit::Fma)
        .filter(|e| e.0 == op)
        .find_map(|e| (0..200_000).find_map(|n| draw(e, 2 + n % 2)));
    let clause = generate::alone(candidate.unwrap().bits(), generate::nop(Unit::Add), false, 0);
    let mut lane = [0; 64];
    lane[1..4].copy_from_slice(&operands);
    execute(&clause, &[lane], &[]).unwrap()[0][5]
}

#[test]
fn cancelling_sums_are_minus_zero_when_rounding_down() {
    let down = [(Modifier::Round, bifrost::Value::Rtn)];
    let (x, minus) = (1.5f32.to_bits(), (-1.5f32).to_bits());
    assert_eq!(fma(Op::FaddF32, &down, [x, minus, 0]), 0x8000_0000);
    assert_eq!(fma(Op::FmaF32, &down, [x, 1f32.to_bits(), minus]), 0x8000_0000);
    assert_eq!(fma(Op::FaddV2f16, &down, [0x3c00_0000, 0xbc00_0000, 0]), 0x8000_0000);
    assert_eq!(fma(Op::FaddF32, &[], [x, minus, 0]), 0);
}

#[test]
fn total_comparison_orders_all_floats() {
    let total = [
        (Modifier::Cmpf, bifrost::Value::Total),
        (Modifier::ResultType, bifrost::Value::I1),
    ];
    let less = |a: f32, b: f32| fma(Op::FcmpF32, &total, [a.to_bits(), b.to_bits(), 0]);
    assert_eq!(
        (less(-0.0, 0.0), less(0.0, -0.0), less(2.0, 1.0), less(1.0, 1.0)),
        (1, 0, 0, 0)
    );
}

#[test]
fn overflowing_scaled_sum_follows_the_rounding_mode() {
    let zero = [
        (Modifier::Round, bifrost::Value::Rtz),
        (Modifier::Special, bifrost::Value::N),
    ];
    // The operands use three ports. The exponent also uses the first port.
    let greatest = f32::MAX.to_bits();
    assert_eq!(fma(Op::FmaRscaleF32, &zero, [0x7000_0000, greatest, 0]), greatest);
}

#[test]
fn reciprocal_fma_treats_zero_times_nan_as_zero() {
    let n = [(Modifier::Special, bifrost::Value::N)];
    let got = fma(Op::FmaRscaleF32, &n, [0, f32::NAN.to_bits(), 3f32.to_bits()]);
    assert_eq!(got, 3f32.to_bits());
}

#[test]
fn clause_modes_change_float_results() {
    let mut rng = Rng::new(setting("KINESCOPE_SEED", 1) ^ 0x0de5);
    let rounds = setting("KINESCOPE_CLAUSES", 30);
    let (mut compared, mut refused) = (BTreeSet::new(), BTreeSet::new());
    // The modes are flush-to-zero, suppression of infinities, suppression of NaN, and both suppressions.
    for bits in [2 << 5, 1 << 7, 1 << 8, 3 << 7] {
        let mode = if bits == 2 << 5 {
            "with flush-to-zero"
        } else {
            "with suppression of infinity or NaN"
        };
        for unit in [Unit::Fma, Unit::Add] {
            for encoding in generate::encodings(unit) {
                if oracle::partner(encoding.0).is_some() {
                    continue;
                }
                for _ in 0..rounds {
                    let ports = |_: &Instruction, s: Source| matches!(s, Source::Port(_) | Source::Uniform { .. });
                    let Some(i) = generate::instruction(&mut rng, unit, encoding, ports) else {
                        continue;
                    };
                    let (fma, add) = match unit {
                        Unit::Fma => (i.bits(), generate::nop(Unit::Add)),
                        Unit::Add => (generate::nop(Unit::Fma), i.bits()),
                    };
                    let mut clause = generate::alone(fma, add, unit == Unit::Add, rng.next());
                    clause.header = bifrost::Header { bits };
                    let lanes = generate::lanes(&mut rng, 8);
                    let name = format!("{}{}", unit.sign(), encoding.0.name());
                    let want = oracle::run(&clause, &lanes, &[]).unwrap();
                    match execute(&clause, &lanes, &[]) {
                        Err(why) => {
                            assert!(
                                why.split(", ")
                                    .all(|p| p == format!("{name} {mode}") || is_expected_refusal(p)),
                                "{why}"
                            );
                            refused.insert((name, bits));
                        }
                        Ok(got) => {
                            let difference = disagreement(&want, &got);
                            assert_eq!(
                                difference,
                                None,
                                "{name} in mode {bits:#x}\n{}\n{:x?}",
                                text(&clause),
                                lanes
                            );
                            compared.insert((name, bits));
                        }
                    }
                }
            }
        }
    }
    let has = |set: &BTreeSet<(String, u64)>, name: &str, bits| set.contains(&(name.to_owned(), bits));
    for name in [
        "*F16_TO_F32",
        "+F16_TO_F32",
        "*V2F32_TO_V2F16",
        "+V2F32_TO_V2F16",
        "+IADD.s32",
    ] {
        assert!(has(&compared, name, 2 << 5), "{name}");
    }
    for name in ["*FMA.f32", "*FADD.v2f16", "+FMIN.f32", "+LDEXP.f32", "*FCMP.f32"] {
        assert!(has(&compared, name, 3 << 7), "{name}");
        assert!(has(&refused, name, 2 << 5), "{name}");
    }
    assert!(has(&refused, "+FRCP.f32", 1 << 7) && has(&refused, "+FEXP.f32", 1 << 8));
}

#[test]
fn suppression_and_flushing_match_hand_computed_values() {
    let run = |bits: u64, unit: Unit, op: Op, operands: [u32; 3]| {
        let mut rng = Rng::new(3);
        let plain = |i: &Instruction| {
            (0..i.source_count().min(3)).all(|n| i.source(n) == Some(Source::Port(n as u8)))
                && i.modifiers().all(|(_, _, shown)| !shown)
        };
        // Selectors are three bits each, in the lowest bits.
        let mut draw = |(o, mask, exact): (Op, u32, u32), sources: u32| {
            let selectors = (1 << (3 * sources)) - 1;
            let bits = rng.next() as u32 & ((1 << unit.bits()) - 1) & !selectors | 0o210 & selectors;
            Instruction::decode(unit, exact | bits & !mask).filter(|i| i.op() == o && plain(i))
        };
        let candidate = Instruction::encodings(unit)
            .filter(|e| e.0 == op)
            .find_map(|e| (0..200_000).find_map(|n| draw(e, 1 + n % 3)));
        let i = candidate.unwrap().bits();
        let mut clause = match unit {
            Unit::Fma => generate::alone(i, generate::nop(Unit::Add), false, 0),
            Unit::Add => generate::alone(generate::nop(Unit::Fma), i, true, 0),
        };
        clause.header = bifrost::Header { bits };
        let mut lane = [0; 64];
        lane[1..4].copy_from_slice(&operands);
        execute(&clause, &[lane], &[]).map(|r| r[0][5])
    };
    let (inf, nan, great) = (0x7f80_0000, 0x7fc0_0000, f32::MAX.to_bits());
    let add = |bits, a, b| run(bits, Unit::Fma, Op::FaddF32, [a, b, 0]);
    assert_eq!(add(0, great, great), Ok(inf));
    assert_eq!(add(1 << 7, great, great), Ok(great));
    assert_eq!(add(1 << 7, great | 1 << 31, great | 1 << 31), Ok(great | 1 << 31));
    assert_eq!(add(1 << 7, inf, inf | 1 << 31), Ok(nan));
    assert_eq!(add(1 << 8, inf, inf | 1 << 31), Ok(0));
    assert_eq!(add(3 << 7, inf, 0), Ok(great));
    let halves = |bits, a| run(bits, Unit::Fma, Op::FaddV2f16, [a, 0x8000_8000, 0]);
    assert_eq!(halves(3 << 7, 0x7e00_fc00), Ok(0x0000_fbff));
    let narrow = |bits, a: f32| run(bits, Unit::Fma, Op::V2f32ToV2f16, [a.to_bits(), (-a).to_bits(), 0]);
    // A value just below the smallest normal half rounds up to it or is flushed.
    let below = f32::from_bits(2f32.powi(-14).to_bits() - 1);
    assert_eq!(narrow(0, below), Ok(0x8400_0400));
    assert_eq!(narrow(2 << 5, below), Ok(0x8000_0000));
    assert_eq!(narrow(2 << 5, 2f32.powi(-14)), Ok(0x8400_0400));
    assert_eq!(run(2 << 5, Unit::Add, Op::F16ToF32, [0x83ff, 0, 0]), Ok(0x8000_0000));
    assert_eq!(
        run(0, Unit::Add, Op::F16ToF32, [0x0001, 0, 0]),
        Ok(2f32.powi(-24).to_bits())
    );
}

#[test]
fn sums_of_64_bits_carry_into_the_high_word() {
    let bits = |unit: Unit, op: Op, shift: u32, sources: u32| {
        let (_, _, exact) = Instruction::encodings(unit).find(|e| e.0 == op).unwrap();
        // The modifier of the 32-bit forms selects the whole word.
        let whole = if matches!(op, Op::ShaddxlS32 | Op::ShaddxlU32) {
            2 << 9
        } else {
            0
        };
        exact | shift << 6 | sources | whole
    };
    let sum = |op: Op, shift: u32, a: u64, b: u64| {
        let fma = bits(Unit::Fma, op, shift, 0o10);
        // The high words are the third register and the low word of the constant.
        let add = bits(Unit::Add, Op::ShaddxhI32, 0, 0o42);
        let high = b >> 32 & !15;
        let mut clause = generate::alone(fma, add, true, high);
        clause.tuples[0].registers.port2 = bifrost::Port2::Read;
        let mut lane = [0; 64];
        (lane[1], lane[2], lane[3]) = (a as u32, b as u32, (a >> 32) as u32);
        let upper = execute(&clause, &[lane], &[]).unwrap()[0][5];
        let lower = generate::alone(fma, generate::nop(Unit::Add), false, 0);
        let low = execute(&lower, &[lane], &[]).unwrap()[0][5];
        u64::from(upper) << 32 | u64::from(low)
    };
    assert_eq!(sum(Op::ShaddxlI64, 0, 0xffff_ffff, 1), 0x1_0000_0000);
    assert_eq!(sum(Op::ShaddxlI64, 0, u64::MAX, 1), 0);
    assert_eq!(sum(Op::ShaddxlI64, 3, 5, 0x10_2000_0001), 5 + (0x10_2000_0001 << 3));
    assert_eq!(
        sum(Op::ShaddxlU32, 7, 1 << 40, 0xffff_ffff),
        (1 << 40) + (0xffff_ffff << 7)
    );
    assert_eq!(sum(Op::ShaddxlS32, 2, 0x100, 0xffff_ffff), 0xfc);
    assert_eq!(sum(Op::ShaddxlS32, 0, 0, 0x8000_0000), 0xffff_ffff_8000_0000);
    // The second high word does not matter for a 32-bit operand.
    assert_eq!(sum(Op::ShaddxlU32, 0, 7, 0x50_0000_0001), 8);
}
