//! Each instruction in a function of its own: assembled by NVIDIA's assembler, and compared with the oracle at edges.

use crate::assembler;
use crate::oracle::{bits, end_of, name_of_code, value};
use rayon::prelude::*;
use std::fmt::Write as _;
use wasm_ptx::{CellSize, InstanceId, MemoryId, ModuleRole, Options, Program, ProgramBuilder, Suspension};
use wasm_tests::{Settings, World};
use wasmi::{Engine, ExternType, Instance, Store, Val, ValType};

const INTEGER_BINARY: &[&str] = &[
    "add", "sub", "mul", "div_s", "div_u", "rem_s", "rem_u", "and", "or", "xor", "shl", "shr_s", "shr_u", "rotl",
    "rotr",
];
const INTEGER_UNARY: &[&str] = &["clz", "ctz", "popcnt", "extend8_s", "extend16_s"];
const INTEGER_COMPARISONS: &[&str] = &[
    "eq", "ne", "lt_s", "lt_u", "gt_s", "gt_u", "le_s", "le_u", "ge_s", "ge_u",
];
const FLOAT_BINARY: &[&str] = &["add", "sub", "mul", "div", "min", "max", "copysign"];
const FLOAT_UNARY: &[&str] = &["abs", "neg", "ceil", "floor", "trunc", "nearest", "sqrt"];
const FLOAT_COMPARISONS: &[&str] = &["eq", "ne", "lt", "gt", "le", "ge"];
const CONVERSIONS: &[(&str, &str, &str)] = &[
    ("i32", "wrap_i64", "i64"),
    ("i64", "extend_i32_s", "i32"),
    ("i64", "extend_i32_u", "i32"),
    ("i64", "extend32_s", "i64"),
    ("f32", "demote_f64", "f64"),
    ("f64", "promote_f32", "f32"),
    ("i32", "reinterpret_f32", "f32"),
    ("i64", "reinterpret_f64", "f64"),
    ("f32", "reinterpret_i32", "i32"),
    ("f64", "reinterpret_i64", "i64"),
];
const ACCESSES: &[(&str, &str)] = &[
    ("i32.load", "i32"),
    ("i64.load", "i64"),
    ("f32.load", "f32"),
    ("f64.load", "f64"),
    ("i32.load8_s", "i32"),
    ("i32.load8_u", "i32"),
    ("i32.load16_s", "i32"),
    ("i32.load16_u", "i32"),
    ("i64.load8_s", "i64"),
    ("i64.load8_u", "i64"),
    ("i64.load16_s", "i64"),
    ("i64.load16_u", "i64"),
    ("i64.load32_s", "i64"),
    ("i64.load32_u", "i64"),
    ("i32.store", "i32"),
    ("i64.store", "i64"),
    ("f32.store", "f32"),
    ("f64.store", "f64"),
    ("i32.store8", "i32"),
    ("i32.store16", "i32"),
    ("i64.store8", "i64"),
    ("i64.store16", "i64"),
    ("i64.store32", "i64"),
];
/// Instructions that are no numbers or accesses: control, calls, tables, bulk memory, globals.
const OTHERS: &str = r#"
  (type $binary (func (param i32 i32) (result i32)))
  (table 6 6 funcref) (elem (i32.const 1) $plus $times $other) (elem $passive func $times $plus)
  (data (i32.const 5) "\01\82\03\84\05\86\07\88\09\8a\0b\8c\0d\8e\0f\90\91\92\93") (data $bytes "0123456789abcdef")
  (global $g32 (mut i32) (i32.const 7)) (global $g64 (mut i64) (i64.const -9)) (global $f32 (mut f32) (f32.const 0.5))
  (func $plus (type $binary) (i32.add (local.get 0) (local.get 1)))
  (func $times (type $binary) (i32.mul (local.get 0) (local.get 1)))
  (func $other (param i64) (result i64) (local.get 0))
  (func $pair (param i32 i64) (result i64 i32 f64) (local.get 1) (local.get 0) (f64.convert_i32_s (local.get 0)))
  (func (export "call_indirect") (param i32 i32) (result i32)
    (call_indirect (type $binary) (local.get 0) (local.get 1) (local.get 1)))
  (func (export "multi") (param i32 i64) (result f64 i64)
    (local $f f64) (call $pair (local.get 0) (local.get 1)) (local.set $f) (drop) (local.set 1)
    (local.get $f) (local.get 1))
  (func (export "br_table") (param i32) (result i32)
    (block (block (block (block (block (block
      (br_table 0 1 2 3 4 5 0 (local.get 0)))
      (return (i32.const 10))) (return (i32.const 11))) (return (i32.const 12))) (return (i32.const 13)))
      (return (i32.const 14)))
    (i32.const 15))
  (func (export "br_table_values") (param i32) (result i32)
    (block $a (result i32) (block $b (result i32) (block $c (result i32)
      (br_table $a $b $c $a $b $c $a (i32.const 100) (local.get 0)))
      (i32.add (i32.const 1))) (i32.add (i32.const 2))))
  (func (export "loop") (param i32 i32) (result i32) (local i32)
    (local.set 0 (i32.or (i32.and (local.get 0) (i32.const 63)) (i32.const 1)))
    (loop (result i32)
      (local.set 2 (i32.add (local.get 2) (i32.xor (local.get 1) (local.get 0))))
      (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))
      (select (local.get 2) (local.get 0) (i32.gt_s (local.get 1) (i32.const 0)))))
  (func (export "loop_values") (param i32) (result i32 i32) (local i32)
    (i32.and (local.get 0) (i32.const 15)) (i32.const 1)
    (loop (param i32 i32) (result i32 i32)
      (local.set 0) (local.set 1)
      (local.get 0) (i32.add (local.get 0) (local.get 1))
      (br_if 0 (i32.lt_u (local.get 0) (i32.const 1000)))))
  (func (export "if") (param i32 i64) (result i64)
    (local.get 1)
    (if (param i64) (result i64) (local.get 0)
      (then (i64.const 1) (i64.add)) (else (i64.const 3) (i64.mul))))
  (func $recursive (export "recursive") (param i32) (result i32)
    (if (result i32) (i32.le_u (local.get 0) (i32.const 1)) (then (i32.const 1))
      (else (i32.mul (local.get 0) (call $recursive (i32.sub (local.get 0) (i32.const 1)))))))
  (func (export "unreachable") (param i32) (result i32)
    (if (local.get 0) (then unreachable)) (i32.const 5) nop)
  (func (export "globals") (param i32 i64 f32) (result i32 i64 f32)
    (global.get $g32) (global.get $g64) (global.get $f32)
    (global.set $g32 (local.get 0)) (global.set $g64 (local.get 1)) (global.set $f32 (f32.sqrt (local.get 2))))
  (func (export "memory.size") (result i32) (memory.size))
  (func (export "memory.grow") (param i32) (result i32) (memory.grow (i32.and (local.get 0) (i32.const 1))))
  (func (export "memory.fill") (param i32 i32) (memory.fill (local.get 0) (local.get 1) (i32.const 13)))
  (func (export "memory.copy") (param i32 i32)
    (memory.copy (local.get 0) (i32.const 6) (i32.and (local.get 1) (i32.const 31))))
  (func (export "memory.copy_back") (param i32 i32) (memory.copy (i32.const 1) (local.get 0) (local.get 1)))
  (func (export "memory.copy_any") (param i32 i32 i32)
    (i64.store (local.get 0) (i64.const 0x1122334455667788))
    (memory.copy (i32.and (local.get 0) (i32.const 255)) (i32.and (local.get 1) (i32.const 255))
      (i32.and (local.get 2) (i32.const 127)))
    (i32.store (i32.const 300) (i32.add (i32.mul (i32.load (i32.const 300)) (i32.const 31))
      (i32.load (i32.and (local.get 0) (i32.const 255))))))
  (func (export "memory.fill_any") (param i32 i32)
    (memory.fill (i32.and (local.get 0) (i32.const 255)) (i32.load (i32.const 300)) (i32.and (local.get 1) (i32.const 127))))
  (func (export "memory.init") (param i32 i32) (memory.init $bytes (local.get 0) (i32.const 3) (local.get 1)))
  (func (export "table.init") (param i32 i32) (table.init $passive (local.get 0) (i32.const 1) (local.get 1)))
  (func (export "table.copy") (param i32 i32) (table.copy (local.get 0) (local.get 1) (i32.const 2)))
  (func (export "z_data.drop") (data.drop $bytes))
  (func (export "z_elem.drop") (elem.drop $passive))
  (func (export "z_hash") (result i64) (local i32 i64)
    (loop
      (local.set 1 (i64.add (i64.mul (local.get 1) (i64.const 1099511628211)) (i64.load8_u (local.get 0))))
      (br_if 0 (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 70))))
    (local.get 1))
"#;

/// Returns the text of a module with a function for each instruction.
fn module() -> String {
    let mut text = String::from("(module (memory (export \"memory\") 1 3)\n");
    let mut function = |name: &str, types: &[&str], result: &str| {
        let parameters: String = (0..types.len()).fold(String::new(), |text, n| text + &format!("(local.get {n}) "));
        let _ = writeln!(
            text,
            "(func (export \"{name}\") (param {}) (result {result}) ({name} {parameters}))",
            types.join(" ")
        );
    };
    for t in ["i32", "i64"] {
        INTEGER_BINARY
            .iter()
            .for_each(|op| function(&format!("{t}.{op}"), &[t, t], t));
        INTEGER_UNARY
            .iter()
            .for_each(|op| function(&format!("{t}.{op}"), &[t], t));
        INTEGER_COMPARISONS
            .iter()
            .for_each(|op| function(&format!("{t}.{op}"), &[t, t], "i32"));
        function(&format!("{t}.eqz"), &[t], "i32");
    }
    for t in ["f32", "f64"] {
        FLOAT_BINARY
            .iter()
            .for_each(|op| function(&format!("{t}.{op}"), &[t, t], t));
        FLOAT_UNARY
            .iter()
            .for_each(|op| function(&format!("{t}.{op}"), &[t], t));
        FLOAT_COMPARISONS
            .iter()
            .for_each(|op| function(&format!("{t}.{op}"), &[t, t], "i32"));
        for i in ["i32", "i64"] {
            for sign in ["s", "u"] {
                function(&format!("{i}.trunc_{t}_{sign}"), &[t], i);
                function(&format!("{i}.trunc_sat_{t}_{sign}"), &[t], i);
                function(&format!("{t}.convert_{i}_{sign}"), &[i], t);
            }
        }
    }
    CONVERSIONS
        .iter()
        .for_each(|(to, op, from)| function(&format!("{to}.{op}"), &[from], to));
    for (op, t) in ACCESSES {
        for offset in [0, 1, 6, 8, 16, 65533] {
            let _ = if op.contains("load") {
                writeln!(
                    text,
                    "(func (export \"{op} {offset}\") (param i32) (result {t}) ({op} offset={offset} (local.get 0)))"
                )
            } else {
                writeln!(
                    text,
                    "(func (export \"{op} {offset}\") (param i32 {t}) ({op} offset={offset} (local.get 0) (local.get 1)))"
                )
            };
        }
        for address in [0, 3, 8, 65532, 65536] {
            let _ = if op.contains("load") {
                writeln!(
                    text,
                    "(func (export \"{op} at {address}\") (result {t}) ({op} (i32.const {address})))"
                )
            } else {
                writeln!(
                    text,
                    "(func (export \"{op} at {address}\") (param {t}) ({op} (i32.const {address}) (local.get 0)))"
                )
            };
        }
    }
    text + OTHERS + ")"
}

fn options(cell: CellSize) -> Options {
    Options {
        cell,
        growth_pages: 2,
        ..Options::default()
    }
}

fn translate(options: Options) -> Program {
    let bytes = wat::parse_str(module()).unwrap();
    let mut builder = ProgramBuilder::new(options);
    builder.add_module("operations", &bytes, ModuleRole::User).unwrap();
    builder.translate().unwrap()
}

const CELLS: [CellSize; 3] = [CellSize::Four, CellSize::Eight, CellSize::Sixteen];

#[test]
#[ignore = "make test-full: half a minute of NVIDIA's assembler"]
fn the_assembler_accepts_each_instruction() {
    let Some(assembler) = assembler::find() else { return };
    let everywhere = Options {
        suspension: Suspension::Everywhere,
        counters: true,
        ..options(CellSize::Four)
    };
    let mut cases: Vec<(Options, &str)> = vec![(everywhere, "sm_90")];
    for cell in CELLS {
        cases.extend(["sm_80", "sm_90"].map(|arch| (options(cell), arch)));
    }
    cases.into_par_iter().for_each(|(options, arch)| {
        assembler.assemble(&translate(options).text, arch).unwrap();
    });
}

/// Returns bits of arguments of a type: edges, NaNs of both kinds and signs, and numbers around the limits of integers.
fn edges(t: ValType) -> Vec<u64> {
    let words = [
        0,
        1,
        2,
        5,
        31,
        32,
        33,
        63,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        0xffff_fffe,
        0xffff_ffff,
    ];
    match t {
        ValType::I32 => words.to_vec(),
        ValType::I64 => {
            let wide = [
                64,
                0x80,
                0x8000,
                1 << 32,
                (1 << 33) - 1,
                i64::MAX as u64,
                1 << 63,
                u64::MAX - 31,
                u64::MAX,
            ];
            words.into_iter().chain(wide).collect()
        }
        ValType::F32 => {
            let floats = [
                0.0,
                1.0,
                0.5,
                1.5,
                2.5,
                0.999_999_94,
                1.0e-45,
                1.175_494_4e-38,
                3.402_823_5e38,
                16_777_216.0,
                2_147_483_648.0,
                2_147_483_520.0,
                4_294_967_296.0,
                4_294_967_040.0,
                9_223_372_036_854_775_808.0,
                9.223_371_5e18,
                1.844_674_4e19,
                1.844_674_3e19,
                f32::INFINITY,
            ];
            let bits = floats
                .into_iter()
                .flat_map(|value: f32| [value.to_bits(), (-value).to_bits()]);
            let nans = [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0x7fff_ffff, 0xffbf_ffff];
            bits.chain(nans).map(u64::from).collect()
        }
        _ => {
            let floats = [
                0.0,
                1.0,
                0.5,
                1.5,
                2.5,
                0.999_999_999_999_999_9,
                5.0e-324,
                2.225_073_858_507_201_4e-308,
                f64::MAX,
                3.402_823_567_797_336_4e38,
                1.0e-46,
                9_007_199_254_740_993.0,
                2_147_483_647.5,
                2_147_483_648.0,
                2_147_483_649.0,
                4_294_967_295.5,
                4_294_967_296.0,
                9_223_372_036_854_775_808.0,
                9_223_372_036_854_774_784.0,
                18_446_744_073_709_551_616.0,
                18_446_744_073_709_549_568.0,
                f64::INFINITY,
            ];
            let bits = floats
                .into_iter()
                .flat_map(|value: f64| [value.to_bits(), (-value).to_bits()]);
            let nans = [
                0x7ff8 << 48,
                0xfff8 << 48,
                0x7ff0_0000_0000_0001,
                0x7fff_ffff_ffff_ffff,
                0xfff7_ffff_ffff_ffff,
            ];
            bits.chain(nans).collect()
        }
    }
}

/// Returns all lists of arguments of a function.
fn arguments(types: &[ValType]) -> Vec<Vec<u64>> {
    types.iter().fold(vec![Vec::new()], |lists, t| {
        let values = edges(*t);
        lists
            .iter()
            .flat_map(|list| {
                values.iter().map(|value| {
                    let mut list = list.clone();
                    list.push(*value);
                    list
                })
            })
            .collect()
    })
}

fn compare(options: Options, settings: Settings) -> usize {
    let bytes = wat::parse_str(module()).unwrap();
    let engine = Engine::default();
    let module = wasmi::Module::new(&engine, &bytes).unwrap();
    let mut store = Store::new(&engine, ());
    let oracle = Instance::new(&mut store, &module, &[]).unwrap();
    let mut world = World::new(options, settings);
    world.add(&bytes).unwrap();
    let machine = world.machine.as_mut().unwrap();
    let mut compared = 0;
    let mut exports: Vec<_> = module
        .exports()
        .map(|e| (e.name().to_owned(), e.ty().clone()))
        .collect();
    exports.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, t) in exports {
        let ExternType::Func(t) = t else { continue };
        let function = oracle.get_func(&store, &name).unwrap();
        for list in arguments(t.params()) {
            // A factorial of a large number needs more calls than both sides allow.
            if name == "recursive" && list[0] > 100 {
                continue;
            }
            let inputs: Vec<Val> = t.params().iter().zip(&list).map(|(t, bits)| value(*t, *bits)).collect();
            let mut outputs: Vec<Val> = t.results().iter().map(|t| value(*t, 0)).collect();
            let result = function.call(&mut store, &inputs, &mut outputs);
            let expected = result
                .map(|()| outputs.iter().map(bits).collect::<Vec<_>>())
                .map_err(|e| name_of_code(&e));
            let outcome = machine.call_export(InstanceId(0), &name, &list).unwrap().unwrap();
            let outcome = end_of(outcome).map(|results| crate::oracle::narrow(&results, t.results()));
            assert_eq!(outcome, expected, "{name} {list:x?}");
            compared += 1;
        }
    }
    let memory = oracle.get_memory(&store, "memory").unwrap();
    assert!(
        memory.data(&store) == machine.memory(MemoryId(0)).unwrap(),
        "memories differ"
    );
    compared
}

#[test]
fn each_instruction_agrees_with_the_oracle_at_edges() {
    let compared: usize = CELLS
        .into_iter()
        .map(|cell| compare(options(cell), Settings::default()))
        .sum();
    println!("{compared} calls compared");
    assert!(compared > 30_000, "{compared}");
}

#[test]
fn each_instruction_agrees_with_the_oracle_in_slices_of_three_steps() {
    let options = Options {
        suspension: Suspension::Everywhere,
        ..options(CellSize::Four)
    };
    let settings = Settings {
        slice: 3,
        ..Settings::default()
    };
    assert!(compare(options, settings) > 10_000);
}
