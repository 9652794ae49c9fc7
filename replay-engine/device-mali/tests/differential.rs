//! What clauses compute, against a second implementation written from the descriptions of the operations.
//!
//! `KINESCOPE_SEED` starts the random clauses elsewhere, `KINESCOPE_CLAUSES` makes more of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

#[path = "oracle/mod.rs"]
mod oracle;

use bifrost::{Clause, Instruction, Modifier, Op, Source, Unit};
use oracle::generate::{self, Choice, Rng};
use oracle::value::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A number from the environment.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(usual)
}

/// The words of a clause.
fn code(clause: &Clause) -> Vec<u8> {
    clause.pack().expect("it came out of a packed one").concat()
}

/// The texts of a clause's operations.
fn text(clause: &Clause) -> String {
    bifrost::clause_text(clause, 0)
}

/// What a clause does in the executor.
fn execute(clause: &Clause, lanes: &[[u32; 64]], push: &[u64]) -> Result<Vec<[u32; 64]>, String> {
    let mut registers = lanes.to_vec();
    device_mali::lab::run_clause(&code(clause), &mut registers, push)?;
    Ok(registers)
}

/// Where a clause disagrees: lane, register, what was allowed, what came.
fn disagreement(want: &[oracle::Lane], got: &[[u32; 64]]) -> Option<(usize, usize, Value, u32)> {
    want.iter().zip(got).enumerate().find_map(|(lane, (want, got))| {
        let register = (0..64).find(|n| !want[*n].allows(got[*n]))?;
        Some((lane, register, want[register], got[register]))
    })
}

/// What the executor refuses, by the start of its reason: operations that no compute shader of GLES 3.1 is known to
/// need, and modifiers that no source describes well enough. It never computes something else for them.
const REFUSED: [&str; 8] = [
    "+FMAX.f32 with sem",
    "+FMAX.v2f16 with sem",
    "+FMIN.f32 with sem",
    "+FMIN.v2f16 with sem",
    "*SHADDXL",
    "*CUBEFACE1",
    "+CUBE_SSEL",
    "+CUBE_TSEL",
];

/// Whether a refusal is one of those, and of nothing else.
fn expected(why: &str) -> bool {
    let partner = |part: &str| part == "+SHADDXH.i32" || part == "+CUBEFACE2";
    let known = |part: &str| REFUSED.iter().any(|r| part.starts_with(r));
    why.split(", ").all(|part| known(part) || partner(part))
}

fn push(rng: &mut Rng) -> Vec<u64> {
    (0..16).map(|_| rng.next() << 32 ^ rng.next()).collect()
}

/// Operands of operations that take two forms of the same number.
fn related(op: Op, registers: &mut [u32; 64], rng: &mut Rng) {
    if op == Op::FexpF32 && !rng.chance(4) {
        let x = (f32::from_bits(generate::word(rng) & 0xbfff_ffff | 0x3000_0000) % 160.0) * 16_777_216.0;
        let x = if rng.chance(16) {
            rng.pick(&[f32::INFINITY, f32::NEG_INFINITY, f32::NAN])
        } else {
            x
        };
        let fixed = x.round_ties_even() as i32 as u32;
        // Whichever ports the operands come from, the fixed-point one is first in the encoding's usual order.
        (registers[1], registers[2], registers[3]) = (fixed, x.to_bits(), x.to_bits());
    }
}

#[test]
fn every_operation_alone_computes_what_its_description_says() {
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
                let beside = needs.and_then(|ops| {
                    let op = rng.pick(ops);
                    let with = generate::encodings(Unit::Fma).into_iter().find(|e| e.0 == op)?;
                    generate::instruction(&mut rng, Unit::Fma, with, no_pass)
                });
                let fma = beside.map_or(generate::nop(Unit::Fma), |b| b.bits());
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
    for (what, times) in &refused {
        println!("refused {times} times {what}");
        assert!(expected(what.split_once(": ").unwrap().1), "{what}");
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
fn random_clauses_compute_what_their_descriptions_say() {
    let seed = setting("KINESCOPE_SEED", 1);
    let mut rng = Rng::new(seed ^ 0xc1a5e);
    let choice = Choice::new(|op| {
        let name = op.name();
        !REFUSED
            .iter()
            .any(|r| r[1..] == *name || *r == "*SHADDXL" && name.starts_with("SHADDX"))
            && op != Op::Cubeface2
    });
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
                assert!(expected(&why), "{why}");
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

/// What one FMA operation gives for three operands in one lane.
fn fma(op: Op, modifiers: &[(Modifier, bifrost::Value)], operands: [u32; 3]) -> u32 {
    let mut rng = Rng::new(1);
    let ports = [Source::Port(0), Source::Port(1), Source::Port(2)];
    let wanted = |i: &Instruction| {
        let sources = (0..i.source_count().min(3)).all(|n| i.source(n) == Some(ports[n]));
        let asked = |m| modifiers.iter().find(|(n, _)| *n == m);
        sources
            && i.modifiers()
                .all(|(m, v, shown)| asked(m).map_or(!shown, |(_, want)| v == *want))
    };
    // Selectors stand in the lowest bits, three each.
    let mut drawn = |(o, mask, exact): (Op, u32, u32), sources: u32| {
        let selectors = (1 << (3 * sources)) - 1;
        let bits = rng.next() as u32 & 0x7f_ffff & !selectors | 0o210 & selectors;
        Instruction::decode(Unit::Fma, exact | bits & !mask).filter(|i| i.op() == o && wanted(i))
    };
    let found = Instruction::encodings(Unit::Fma)
        .filter(|e| e.0 == op)
        .find_map(|e| (0..200_000).find_map(|n| drawn(e, 2 + n % 2)));
    let clause = generate::alone(found.unwrap().bits(), generate::nop(Unit::Add), false, 0);
    let mut lane = [0; 64];
    lane[1..4].copy_from_slice(&operands);
    execute(&clause, &[lane], &[]).unwrap()[0][5]
}

#[test]
fn opposites_that_cancel_are_minus_zero_when_rounding_is_downwards() {
    let down = [(Modifier::Round, bifrost::Value::Rtn)];
    let (x, minus) = (1.5f32.to_bits(), (-1.5f32).to_bits());
    assert_eq!(fma(Op::FaddF32, &down, [x, minus, 0]), 0x8000_0000);
    assert_eq!(fma(Op::FmaF32, &down, [x, 1f32.to_bits(), minus]), 0x8000_0000);
    assert_eq!(fma(Op::FaddV2f16, &down, [0x3c00_0000, 0xbc00_0000, 0]), 0x8000_0000);
    assert_eq!(fma(Op::FaddF32, &[], [x, minus, 0]), 0);
}

#[test]
fn total_is_before_in_the_order_of_all_floats() {
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
fn a_scaled_sum_that_is_too_great_is_rounded_as_the_mode_says() {
    let zero = [
        (Modifier::Round, bifrost::Value::Rtz),
        (Modifier::Special, bifrost::Value::N),
    ];
    // Three operands at three ports; the exponent is at the first too.
    let greatest = f32::MAX.to_bits();
    assert_eq!(fma(Op::FmaRscaleF32, &zero, [0x7000_0000, greatest, 0]), greatest);
}

#[test]
fn a_product_with_zero_is_zero_for_reciprocals_whatever_the_other_factor_is() {
    let n = [(Modifier::Special, bifrost::Value::N)];
    let got = fma(Op::FmaRscaleF32, &n, [0, f32::NAN.to_bits(), 3f32.to_bits()]);
    assert_eq!(got, 3f32.to_bits());
}
