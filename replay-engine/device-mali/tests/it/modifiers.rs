//! Tests that the executor ignores no part of an encoding. It executes or refuses by name every operation of the table
//! and every value of every modifier.
//!
//! Any two values of a modifier must give different results in at least one context. Modifiers and values that change
//! no result are listed with the reason.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

use crate::oracle;

use bifrost::{Header, Instruction, Message, Modifier, Op, Source, Unit, Value, pack};
use oracle::generate::{self, Rng};
use std::collections::{BTreeMap, BTreeSet};

/// Operations that are refused whatever their modifiers are, with the reason. Mesa's compiler emits none of them in
/// compute shaders for these GPUs.
const REFUSED: &[(&str, &[&str])] = &[
    (
        "only in fragment and vertex shaders",
        &[
            "+ATEST",
            "+BLEND",
            "+DISCARD.f32",
            "+LD_TILE",
            "+LD_VAR",
            "+LD_VAR_FLAT",
            "+LD_VAR_FLAT_IMM",
            "+LD_VAR_IMM",
            "+LD_VAR_SPECIAL",
            "+ST_TILE",
            "+TEXS_CUBE.f16",
            "+TEXS_CUBE.f32",
            "+VAR_TEX.f16",
            "+VAR_TEX.f32",
            "+ZS_EMIT",
        ],
    ),
    (
        "starts jobs or ends the GPU's work; no source describes it",
        &["+DOORBELL", "+EUREKA", "+KABOOM"],
    ),
    (
        "the table has only its name; no source describes the result",
        &[
            "*FMUL_CSLICE",
            "*FMUL_SLICE.f32",
            "*VN_ASST1.f16",
            "*VN_ASST1.f32",
            "+FATAN_ASSIST.f16",
            "+FATAN_ASSIST.f32",
            "+FATAN_TABLE.f16",
            "+FATAN_TABLE.f32",
            "+FPCLASS.f16",
            "+FPCLASS.f32",
            "+FPOW_SC_APPLY",
            "+FPOW_SC_DET.f16",
            "+FPOW_SC_DET.f32",
            "+FRCBRT_APPROX_A.f32",
            "+FRCBRT_APPROX_B.f32",
            "+FRCBRT_APPROX_C.f32",
            "+FSINCOS_OFFSET.u6",
            "+VN_ASST2.f32",
            "+VN_ASST2.v2f16",
        ],
    ),
    (
        "no source describes how the parts of a multi-word comparison pass on their results",
        &["+ICMPF.i32", "+ICMPI.i32", "+ICMPI.s32", "+ICMPI.u32", "+ICMPM.i32"],
    ),
    (
        "no source describes which of two words it shifts into which result",
        &[
            "*ARSHIFT_DOUBLE.i32",
            "*FLSHIFT_DOUBLE.i32",
            "*FRSHIFT_DOUBLE.i32",
            "*LROT_DOUBLE.i32",
            "*LSHIFT_DOUBLE.i32",
            "*RROT_DOUBLE.i32",
            "*RSHIFT_DOUBLE.i32",
            "+SHIFT_DOUBLE.i32",
        ],
    ),
    (
        "no source describes where the 64-bit product goes",
        &["*IMULD", "+IMOV_FMA"],
    ),
    (
        "no source describes the exponents of zero, infinity and NaN",
        &["+ILOGB.f32", "+ILOGB.v2f16", "+LOGB.f32", "+LOGB.v2f16"],
    ),
    (
        "no source describes how two exponents are packed in its source",
        &["*FMA_RSCALE.v2f16"],
    ),
    (
        "branches on warp divergence or on parts of a word; no source describes them",
        &[
            "*JUMP_EX",
            "+BRANCHC.i16",
            "+BRANCHC.i32",
            "+BRANCH_DIVERG",
            "+BRANCH_LOWBITS.f32",
            "+BRANCH_NO_DIVERG",
        ],
    ),
    (
        "64-bit atomics that another operation completes, and their preparation",
        &["*ATOM_POST.i64", "*ATOM_PRE.i64"],
    ),
    ("takes an address apart again", &["*SEG_SUB", "+SEG_SUB"]),
    (
        "the address of a texel by descriptor; Mesa's compiler uses `LEA_ATTR_TEX` instead",
        &["+LEA_TEX", "+LEA_TEX_IMM"],
    ),
];

/// Modifiers that change no result: start of the operation's name, modifier and reason.
const NEUTRAL: &[(&str, Modifier, &str)] = &[
    ("+TEX", Modifier::Skip, "compute shaders have no helper lanes"),
    (
        "*ATOM_POST",
        Modifier::AtomOpc,
        "atomics run lane by lane, so the share of each lane is neutral",
    ),
];

/// Pairs of values with the same meaning.
const EQUIVALENT: &[(&str, Modifier, Value, Value, &str)] = &[
    (
        "+LOAD",
        Modifier::Seg,
        Value::None,
        Value::Stream,
        "a hint to the cache that the word is used once",
    ),
    (
        "+STORE",
        Modifier::Seg,
        Value::None,
        Value::Stream,
        "a hint to the cache that the word is used once",
    ),
    (
        "+F16_TO_U32",
        Modifier::Round,
        Value::Rtn,
        Value::Rtz,
        "the unsigned value is never below zero",
    ),
    (
        "+F32_TO_U32",
        Modifier::Round,
        Value::Rtn,
        Value::Rtz,
        "the unsigned value is never below zero",
    ),
    (
        "+U32_TO_F32",
        Modifier::Round,
        Value::Rtn,
        Value::Rtz,
        "the unsigned value is never below zero",
    ),
    (
        "+V2F16_TO_V2U16",
        Modifier::Round,
        Value::Rtn,
        Value::Rtz,
        "the unsigned value is never below zero",
    ),
    (
        "+V2U16_TO_V2F16",
        Modifier::Round,
        Value::Rtn,
        Value::Rtz,
        "the unsigned value is never below zero",
    ),
];

/// Selectors of sources, in every order that an encoding can express.
const SELECTORS: [[u32; 4]; 3] = [[0, 1, 2, 0], [1, 0, 2, 1], [0, 0, 2, 1]];

fn name(unit: Unit, op: Op) -> String {
    format!("{}{}", unit.sign(), op.name())
}

/// Returns a clause with the instruction and the operation that it needs in the same tuple, or NOP.
fn clause(i: &Instruction) -> bifrost::Clause {
    let lookup = |unit: Unit, op: Op| Instruction::encodings(unit).find(|e| e.0 == op).unwrap().2;
    let (fma, add) = match (i.unit(), i.op()) {
        (Unit::Fma, op) if op.name().starts_with("ATOM_C") => (i.bits(), lookup(Unit::Add, Op::AtomCx)),
        (Unit::Fma, Op::DtselImm) => (i.bits(), lookup(Unit::Add, Op::LdAttrImm)),
        (Unit::Fma, Op::Cubeface1) => (i.bits(), lookup(Unit::Add, Op::Cubeface2)),
        (Unit::Fma, _) => (i.bits(), generate::nop(Unit::Add)),
        (Unit::Add, Op::AtomCx) => {
            let atomic = Instruction::encodings(Unit::Fma).find(|e| e.0 == Op::AtomCI32).unwrap();
            (all_of(Unit::Fma, atomic, SELECTORS[0])[0].bits(), i.bits())
        }
        // The operation next to it selects the table of the address. The test selects the first table.
        (Unit::Add, op) if op.name().starts_with("LEA_ATTR") => (lookup(Unit::Fma, Op::DtselImm), i.bits()),
        (Unit::Add, Op::Cubeface2) => (lookup(Unit::Fma, Op::Cubeface1), i.bits()),
        (Unit::Add, Op::ShaddxhI32) => (lookup(Unit::Fma, Op::ShaddxlI64), i.bits()),
        (Unit::Add, Op::SegAdd) => {
            let low = pack::operation(
                Unit::Fma,
                Op::SegAdd,
                &[Source::Port(0)],
                &[(Modifier::Seg, Value::Wls)],
            );
            (low.unwrap(), i.bits())
        }
        (Unit::Add, _) => (generate::nop(Unit::Fma), i.bits()),
    };
    // Operations that send a message or branch have no result to write.
    let gives = i.op().message() == Message::None && !i.op().name().starts_with("BRANCH") && i.op() != Op::Jump;
    let of_add = i.unit() == Unit::Add && gives || i.op() == Op::Cubeface1;
    // The third source of a branch targets the end.
    generate::alone(fma, add, of_add, 0)
}

/// Returns every instruction of an encoding with one pattern of sources. Immediates are 0 or 1.
fn all_of(unit: Unit, encoding: (Op, u32, u32), selectors: [u32; 4]) -> Vec<Instruction> {
    let (op, mask, exact) = encoding;
    let fields = sources(unit, encoding);
    let of_sources = fields.iter().fold(0, |m, (_, bits)| m | bits);
    let last = fields.iter().map(|(n, _)| *n).max();
    let chosen = fields.iter().fold(0, |bits, (n, selector_bits)| {
        // The target of a branch is the uniform, which is a constant.
        let target = Some(*n) == last && (op.name().starts_with("BRANCH") || op == Op::Jump);
        let selector = if target { 4 } else { selectors[*n] };
        // Selectors are three bits wide and start at multiples of three.
        bits | selector << (selector_bits.trailing_zeros() / 3 * 3) & selector_bits
    });
    let free: Vec<u32> = (0..unit.bits())
        .map(|n| 1 << n)
        .filter(|b| (mask | of_sources) & b == 0)
        .collect();
    assert!(
        free.len() <= 13,
        "{} has {} bits next to its sources",
        op.name(),
        free.len()
    );
    let one = |n: u32| {
        let set = free
            .iter()
            .enumerate()
            .filter(|(k, _)| n >> k & 1 == 1)
            .fold(0, |bits, (_, b)| bits | b);
        let i = Instruction::decode(unit, exact | set | chosen)?;
        (i.op() == op && i.is_sound() && i.immediates().all(|(_, v)| v <= 1)).then_some(i)
    };
    (0..1u32 << free.len()).filter_map(one).collect()
}

/// Returns the selectable sources of an encoding, each with its selector bits.
fn sources(unit: Unit, (op, mask, exact): (Op, u32, u32)) -> Vec<(usize, u32)> {
    let mut rng = Rng::new(9);
    let free = !mask & ((1 << unit.bits()) - 1);
    let mut selector_bits = [0u32; 4];
    for _ in 0..300 {
        let lookup = |bits: u32| Instruction::decode(unit, bits).filter(|i| i.op() == op);
        let Some(i) = lookup(exact | rng.next() as u32 & free) else {
            continue;
        };
        for bit in (0..unit.bits()).map(|n| 1 << n).filter(|b| free & b != 0) {
            let Some(other) = lookup(i.bits() ^ bit) else { continue };
            for (n, selector_bits) in selector_bits.iter_mut().enumerate().take(i.source_count()) {
                if other.source_count() == i.source_count() && other.source(n) != i.source(n) {
                    *selector_bits |= bit;
                }
            }
        }
    }
    selector_bits
        .into_iter()
        .enumerate()
        .filter(|(_, selector_bits)| *selector_bits != 0)
        .collect()
}

/// Outcome of an instruction on several lanes.
#[derive(Debug, PartialEq)]
enum Outcome {
    Refused(String),
    /// The instruction sends a message. The text is its translation.
    Sends(String),
    Gives(Vec<u32>),
}

fn outcome(i: &Instruction, lanes: &[[u32; 64]]) -> Outcome {
    let code = clause(i).pack().unwrap().concat();
    let mut registers = lanes.to_vec();
    match device_mali::bench_support::run_clause(&code, &mut registers, &[]) {
        Ok(()) => Outcome::Gives(registers.iter().map(|r| r[5]).collect()),
        Err(why) if why == "it sends a message" => {
            Outcome::Sends(device_mali::bench_support::format_clause(&code, &[]).unwrap())
        }
        Err(why) => Outcome::Refused(why),
    }
}

/// Returns an instruction's modifiers and immediates by name.
fn settings(i: &Instruction) -> Vec<(&'static str, String)> {
    let modifiers = i.modifiers().map(|(m, v, _)| (m.name(), v.name().to_owned()));
    let numbers = i.immediates().map(|(n, v)| (n, v.to_string()));
    modifiers.chain(numbers).collect()
}

fn are_equivalent(op: &str, modifier: &str, a: &str, b: &str) -> bool {
    let one = |o: &&str, m: &Modifier| op.starts_with(*o) && m.name() == modifier;
    NEUTRAL.iter().any(|(o, m, _)| one(o, m))
        || EQUIVALENT
            .iter()
            .any(|(o, m, x, y, _)| one(o, m) && [[x.name(), y.name()], [y.name(), x.name()]].contains(&[a, b]))
}

#[test]
fn every_operation_is_executed_or_listed_as_unsupported() {
    let lanes = generate::lanes(&mut Rng::new(2), 4);
    let mut by_key: BTreeMap<String, bool> = BTreeMap::new();
    for unit in [Unit::Fma, Unit::Add] {
        for encoding in Instruction::encodings(unit) {
            let name = name(unit, encoding.0);
            for i in SELECTORS.iter().flat_map(|s| all_of(unit, encoding, *s)).take(300) {
                let executed = match outcome(&i, &lanes) {
                    Outcome::Refused(why) => {
                        assert!(
                            why.contains(i.op().name()),
                            "the refusal of {name} names another operation: {why}"
                        );
                        false
                    }
                    _ => true,
                };
                *by_key.entry(name.clone()).or_default() |= executed;
            }
        }
    }
    let refused: BTreeSet<&str> = by_key
        .iter()
        .filter(|(_, yes)| !**yes)
        .map(|(n, _)| n.as_str())
        .collect();
    let listed: BTreeSet<&str> = REFUSED.iter().flat_map(|(_, all)| all.iter().copied()).collect();
    let missing: Vec<_> = refused.difference(&listed).collect();
    let stale: Vec<_> = listed.difference(&refused).collect();
    println!(
        "{} operations executed, {} refused",
        by_key.len() - refused.len(),
        refused.len()
    );
    assert!(
        missing.is_empty() && stale.is_empty(),
        "missing in the list {missing:?}, not needed in the list {stale:?}"
    );
    assert!(by_key.len() > 280, "{}", by_key.len());
}

/// Source pattern, and all settings except one modifier.
type Others = (usize, Vec<(&'static str, String)>);
/// Values of that modifier, each with its instruction.
type Values = Vec<(String, Instruction)>;

#[test]
fn every_modifier_value_is_covered() {
    let mut rng = Rng::new(4);
    let some = generate::lanes(&mut rng, 32);
    let mut ignored = Vec::new();
    let (mut pairs, mut refused) = (0, BTreeSet::new());
    for unit in [Unit::Fma, Unit::Add] {
        let ops: BTreeSet<Op> = Instruction::encodings(unit).map(|e| e.0).collect();
        for op in ops {
            let name = name(unit, op);
            // Groups the forms by all settings except one modifier. Each group has the values of that modifier.
            let mut forms: BTreeMap<&str, BTreeMap<Others, Values>> = BTreeMap::new();
            for encoding in Instruction::encodings(unit).filter(|e| e.0 == op) {
                for (n, selectors) in SELECTORS.iter().enumerate() {
                    for i in all_of(unit, encoding, *selectors) {
                        let all = settings(&i);
                        for (modifier, value) in &all {
                            let mut others = all.clone();
                            others.retain(|(m, _)| m != modifier);
                            others.sort();
                            let same = forms.entry(modifier).or_default().entry((n, others)).or_default();
                            same.push((value.clone(), i));
                        }
                    }
                }
            }
            for (modifier, contexts) in &forms {
                let mut open: BTreeMap<[&str; 2], Vec<[Instruction; 2]>> = BTreeMap::new();
                for values in contexts.values() {
                    for (a, first) in values {
                        for (b, second) in values.iter().filter(|(b, _)| a < b) {
                            open.entry([a, b]).or_default().push([*first, *second]);
                        }
                    }
                }
                for ([a, b], mut samples) in open {
                    pairs += 1;
                    if are_equivalent(&name, modifier, a, b) {
                        continue;
                    }
                    // At most 32 contexts are tested, because each of them runs with many operands.
                    if samples.len() > 32 {
                        samples = (0..32).map(|_| rng.pick(&samples)).collect();
                    }
                    let mut lanes = some.clone();
                    let named = |why: &str| {
                        assert!(
                            why.contains(op.name()),
                            "the refusal of {name} names another operation: {why}"
                        );
                    };
                    // A pair of refusals proves nothing, because the reason may be another modifier.
                    let mut computed = false;
                    let differs = (0..400).any(|round| {
                        let round_differs =
                            samples
                                .iter()
                                .any(|[x, y]| match (outcome(x, &lanes), outcome(y, &lanes)) {
                                    (Outcome::Refused(x), Outcome::Refused(y)) => {
                                        named(&x);
                                        named(&y);
                                        false
                                    }
                                    (Outcome::Refused(why), _) | (_, Outcome::Refused(why)) => {
                                        named(&why);
                                        refused.insert(format!("{name} {modifier}: {a} or {b}"));
                                        true
                                    }
                                    (x, y) => {
                                        computed = true;
                                        x != y
                                    }
                                });
                        lanes = generate::lanes(&mut rng, 32);
                        round_differs || round == 0 && !computed
                    });
                    if !computed {
                        refused.insert(format!("{name} {modifier}: {a} or {b}"));
                    }
                    if !differs {
                        ignored.push(format!("{name} {modifier}: {a} and {b}"));
                    }
                }
            }
        }
    }
    refused.iter().for_each(|setting| println!("refused {setting}"));
    println!("{pairs} pairs of values, {} with one that is refused", refused.len());
    assert!(ignored.is_empty(), "{ignored:#?}");
    assert!(pairs > 1500, "{pairs}");
}

#[test]
fn clause_header_modes_are_executed_or_refused_by_name() {
    let alone = |bits: u64| {
        let mut c = generate::alone(generate::nop(Unit::Fma), generate::nop(Unit::Add), false, 0);
        c.header = Header { bits };
        let code = c.pack().unwrap().concat();
        device_mali::bench_support::format_clause(&code, &[]).map(drop)
    };
    let refused = |why: &str| Err(why.to_owned());
    assert_eq!(alone(0), Ok(()));
    assert_eq!(alone(1 << 5), refused("flush-to-zero as DirectX 11 has it"));
    assert_eq!(alone(2 << 5), Ok(()));
    assert_eq!(alone(3 << 5), refused("flush-to-zero, abrupt"));
    assert_eq!((alone(1 << 7), alone(1 << 8), alone(1 << 9)), (Ok(()), Ok(()), Ok(())));
    assert_eq!(alone(2 << 9), refused("exceptions for precise division"));
    assert_eq!(alone(3 << 9), refused("exceptions for precise square roots"));
    for flow in 0..6u64 {
        assert_eq!(alone(flow << 11), Ok(()));
    }
    assert_eq!(
        (alone(6 << 11), alone(7 << 11)),
        (refused("write elision"), refused("write elision"))
    );
    for bit in [0, 4, 14] {
        assert_eq!(alone(1 << bit), refused("a reserved bit of the header"));
    }
}

#[test]
fn add64_needs_both_halves_in_one_tuple() {
    let lookup = |unit: Unit, op: Op| Instruction::encodings(unit).find(|e| e.0 == op).unwrap().2;
    let run = |fma: u32, add: u32| {
        let code = generate::alone(fma, add, true, 0).pack().unwrap().concat();
        device_mali::bench_support::format_clause(&code, &[]).map(drop)
    };
    let low = lookup(Unit::Fma, Op::ShaddxlI64);
    assert_eq!(run(low, lookup(Unit::Add, Op::ShaddxhI32)), Ok(()));
    assert_eq!(
        run(generate::nop(Unit::Fma), lookup(Unit::Add, Op::ShaddxhI32)),
        Err("+SHADDXH.i32 next to *NOP".to_owned())
    );
    let sent = Instruction::encodings(Unit::Add)
        .filter(|e| matches!(e.0.message(), Message::Load | Message::Store | Message::Atomic));
    for (op, _, exact) in sent {
        let why = run(low, exact).unwrap_err();
        assert!(why.contains(&format!("+{} next to *SHADDXL.i64", op.name())), "{why}");
    }
}
