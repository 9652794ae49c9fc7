//! Programs made from random bytes: translator and interpreter against another interpreter.

use crate::oracle::{bits, end_of, name_of_code, narrow, value, value_type};
use crate::random::Random;
use arbitrary::Unstructured;
use rayon::prelude::*;
use std::fmt::Write as _;
use wasm_ptx::{CellSize, ExportedItem, InstanceId, Options, Signature, Suspension, ValueType};
use wasm_smith::Config;
use wasm_tests::{Machine, Outcome, Settings, World, WorldError};
use wasmi::{Caller, Engine, Extern, ExternType, Linker, Store, Val};

/// Calls and loop iterations of a program before it ends itself.
const FUEL: u32 = 400;
/// Pages that a memory may have.
const MAX_PAGES: u64 = 6;
/// Random bytes of a program.
const PROGRAM_BYTES: usize = 6000;

/// Names of the host functions, in the order of their numbers.
const HOST_NAMES: [&str; 4] = ["none", "word", "mixed", "several"];
/// A module that imports each host function.
const HOST_FUNCTIONS: &str = r#"(module
    (import "host" "none" (func))
    (import "host" "word" (func (param i32) (result i32)))
    (import "host" "mixed" (func (param f64 i64 f32) (result f32)))
    (import "host" "several" (func (param i64 i32) (result i64 i32 f64))))"#;

/// Returns names and types of the host functions.
fn host_functions() -> [(&'static str, Signature); 4] {
    use ValueType::{F32, F64, I32, I64};
    let signature = |params: &[ValueType], results: &[ValueType]| Signature {
        params: params.to_vec(),
        results: results.to_vec(),
    };
    let [none, word, mixed, several] = HOST_NAMES;
    [
        (none, signature(&[], &[])),
        (word, signature(&[I32], &[I32])),
        (mixed, signature(&[F64, I64, F32], &[F32])),
        (several, signature(&[I64, I32], &[I64, I32, F64])),
    ]
}

fn config(imports: bool) -> Config {
    Config {
        available_imports: imports.then(|| wat::parse_str(HOST_FUNCTIONS).unwrap()),
        bulk_memory_enabled: true,
        multi_value_enabled: true,
        sign_extension_ops_enabled: true,
        saturating_float_to_int_enabled: true,
        reference_types_enabled: false,
        simd_enabled: false,
        relaxed_simd_enabled: false,
        exceptions_enabled: false,
        tail_call_enabled: false,
        memory64_enabled: false,
        threads_enabled: false,
        compact_imports_enabled: false,
        gc_enabled: false,
        custom_page_sizes_enabled: false,
        wide_arithmetic_enabled: false,
        extended_const_enabled: false,
        shared_everything_threads_enabled: false,
        max_imports: if imports { 4 } else { 0 },
        min_funcs: 1,
        max_funcs: 12,
        max_memories: 1,
        max_tables: 1,
        max_memory32_bytes: MAX_PAGES << 16,
        memory_max_size_required: true,
        max_table_elements: 64,
        table_max_size_required: true,
        export_everything: true,
        canonicalize_nans: false,
        max_instructions: 300,
        ..Config::default()
    }
}

/// Returns the program of a seed, or `None` if the bytes make none.
pub fn program(random: &mut Random, imports: bool) -> Option<Vec<u8>> {
    let bytes = random.bytes(PROGRAM_BYTES);
    let mut module = wasm_smith::Module::new(config(imports), &mut Unstructured::new(&bytes)).ok()?;
    module.ensure_termination(FUEL).ok()?;
    Some(module.to_bytes())
}

/// Returns the bits that a host function returns, from its number, the arguments and the position of the result.
fn host_result(number: u32, arguments: &[u64], t: ValueType, position: usize) -> u64 {
    let seed = arguments
        .iter()
        .fold(u64::from(number), |seed, value| Random(seed ^ value).next());
    Random(seed ^ position as u64).argument(t)
}

/// Returns an oracle that links the host functions.
fn linker(engine: &Engine, module: &wasmi::Module) -> Linker<()> {
    let mut linker = Linker::new(engine);
    for import in module.imports() {
        let ExternType::Func(t) = import.ty().clone() else {
            continue;
        };
        let number = HOST_NAMES.iter().position(|name| *name == import.name()).unwrap() as u32;
        let types = t.results().to_vec();
        let function = move |_: Caller<'_, ()>, inputs: &[Val], outputs: &mut [Val]| {
            let arguments: Vec<u64> = inputs.iter().map(bits).collect();
            for (position, (output, t)) in outputs.iter_mut().zip(&types).enumerate() {
                *output = value(*t, host_result(number, &arguments, value_type(*t), position));
            }
            Ok(())
        };
        // A module may import the same function twice.
        let _ = linker.func_new(import.module(), import.name(), t, function);
    }
    linker
}

/// Answers host functions until the copy stops for another reason. `results` is the number of results of the call.
fn serve(machine: &mut Machine, mut outcome: Outcome, results: usize) -> Result<Outcome, String> {
    while let Outcome::Waiting(host) = outcome {
        let function = machine
            .program
            .host_functions
            .get(host as usize)
            .ok_or("no host function")?
            .clone();
        let types = &function.signature.params;
        let mut arguments = Vec::new();
        for (slot, t) in (0..).zip(types) {
            let bits = machine.slot(slot).map_err(|e| format!("defect: {e}"))?;
            arguments.push(if t.is_wide() { bits } else { bits & 0xffff_ffff });
        }
        let values = function.signature.results.iter().enumerate();
        let values: Vec<u64> = values.map(|(n, t)| host_result(host, &arguments, *t, n)).collect();
        outcome = machine.answer(&values, results).map_err(|e| format!("defect: {e}"))?;
    }
    Ok(outcome)
}

/// Compares the exported globals, and returns their number, or what differs.
fn compare_globals(
    machine: &mut Machine,
    oracle: &wasmi::Instance,
    store: &Store<()>,
    exports: &[(String, ExternType)],
) -> Result<usize, String> {
    let mut compared = 0;
    for (name, _) in exports {
        let Some(Extern::Global(global)) = oracle.get_export(store, name) else {
            continue;
        };
        let expected = bits(&global.get(store));
        let Some(ExportedItem::Global(id)) = machine.program.export(InstanceId(0), name) else {
            return Err(format!("no global {name}"));
        };
        let (_, found) = machine.global(id).ok_or("the global is outside the area")?;
        if expected != found {
            return Err(format!("global {name}: expected {expected:#x}, found {found:#x}"));
        }
        compared += 1;
    }
    Ok(compared)
}

/// Compares one program, and returns the number of compared calls and values, or what differs.
fn compare(bytes: &[u8], random: &mut Random, options: &Options, settings: Settings) -> Result<usize, String> {
    let engine = Engine::default();
    let module = wasmi::Module::new(&engine, bytes).map_err(|e| format!("the oracle refuses the program: {e}"))?;
    let mut store = Store::new(&engine, ());
    let oracle = linker(&engine, &module).instantiate_and_start(&mut store, &module);
    let mut world = World::new(options.clone(), settings);
    for (name, signature) in host_functions() {
        world.define_host_function("host", name, signature);
    }
    let added = world.add(bytes);
    let outcome = match (&oracle, added) {
        (_, Err(WorldError::Translate(e))) => return Err(format!("the translator refuses the program: {e}")),
        (_, Err(e)) => return Err(format!("defect: {e}")),
        (_, Ok((_, outcome))) => end_of(serve(world.machine.as_mut().ok_or("no copy")?, outcome, 0)?),
    };
    let expected = oracle.as_ref().map(|_| Vec::new()).map_err(name_of_code);
    if expected != outcome {
        return Err(format!("instantiation: expected {expected:x?}, found {outcome:x?}"));
    }
    let Ok(oracle) = oracle else { return Ok(1) };
    let machine = world.machine.as_mut().ok_or("no copy")?;
    let mut compared = 1;
    let exports: Vec<_> = module
        .exports()
        .map(|e| (e.name().to_owned(), e.ty().clone()))
        .collect();
    for (name, t) in &exports {
        let ExternType::Func(t) = t else { continue };
        let arguments: Vec<u64> = t.params().iter().map(|t| random.argument(value_type(*t))).collect();
        let inputs: Vec<Val> = t
            .params()
            .iter()
            .zip(&arguments)
            .map(|(t, bits)| value(*t, *bits))
            .collect();
        let mut outputs: Vec<Val> = t.results().iter().map(|t| value(*t, 0)).collect();
        let function = oracle.get_func(&store, name).ok_or("no function")?;
        let result = function.call(&mut store, &inputs, &mut outputs);
        let expected = result
            .map(|()| outputs.iter().map(bits).collect::<Vec<_>>())
            .map_err(|e| name_of_code(&e));
        let outcome = machine
            .call_export(InstanceId(0), name, &arguments)
            .map_err(|e| format!("defect: {e}"))?
            .ok_or("the program has no such entry")?;
        let outcome = end_of(serve(machine, outcome, t.results().len())?);
        let outcome = outcome.map(|results| narrow(&results, t.results()));
        if expected != outcome {
            return Err(format!(
                "{name}({arguments:x?}): expected {expected:x?}, found {outcome:x?}"
            ));
        }
        compared += 1 + compare_globals(machine, &oracle, &store, &exports)
            .map_err(|e| format!("after {name}({arguments:x?}): {e}"))?;
    }
    for (name, _) in &exports {
        if let Some(Extern::Memory(memory)) = oracle.get_export(&store, name) {
            let Some(ExportedItem::Memory(id)) = machine.program.export(InstanceId(0), name) else {
                return Err(format!("no memory {name}"));
            };
            let found = machine.memory(id).ok_or("the memory is outside the area")?;
            let expected = memory.data(&store);
            if expected.len() != found.len() {
                return Err(format!(
                    "memory: expected {} bytes, found {}",
                    expected.len(),
                    found.len()
                ));
            }
            if let Some(at) = expected.iter().zip(&found).position(|(a, b)| a != b) {
                return Err(format!(
                    "memory at {at:#x}: expected {:#x}, found {:#x}",
                    expected[at], found[at]
                ));
            }
            compared += 1;
        }
    }
    Ok(compared)
}

/// Environment variable with the number of one program, to run it alone.
const SEED: &str = "KINESCOPE_WASM_SEED";

/// Compares the programs of seeds, and prints each that differs as text.
fn compare_seeds(seeds: std::ops::Range<u64>) {
    let alone = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let seeds = alone.map_or(seeds, |seed: u64| seed..seed + 1);
    let results: Vec<_> = seeds
        .clone()
        .into_par_iter()
        .map(|seed| {
            let mut random = Random(seed);
            let cell = [CellSize::Four, CellSize::Eight, CellSize::Sixteen][seed as usize % 3];
            // Half of the programs suspend in each function, after few steps; half of those call the host.
            let suspends = seed % 2 == 1;
            let options = Options {
                cell,
                growth_pages: MAX_PAGES as u32,
                continuation_bytes: 256 << 10,
                suspension: if suspends {
                    Suspension::Everywhere
                } else {
                    Suspension::ResumableFunctions
                },
                counters: seed % 8 == 0,
                ..Options::default()
            };
            let settings = Settings {
                slice: if suspends { 1 + seed as u32 / 2 % 20 } else { 1 << 30 },
                ..Settings::default()
            };
            let Some(bytes) = program(&mut random, seed % 4 >= 2) else {
                return Ok(0);
            };
            compare(&bytes, &mut random, &options, settings).map_err(|difference| {
                let text = wasmprinter::print_bytes(&bytes).unwrap_or_else(|e| e.to_string());
                format!("seed {seed}, cells of {} bytes: {difference}\n{text}", cell.bytes())
            })
        })
        .collect();
    let mut report = String::new();
    for difference in results.iter().filter_map(|r| r.as_ref().err()).take(3) {
        let _ = writeln!(report, "{difference}");
    }
    let compared: usize = results.iter().filter_map(|r| r.as_ref().ok()).sum();
    let programs = results.iter().filter(|r| r.as_ref().is_ok_and(|n| *n > 0)).count();
    let differences = results.iter().filter(|r| r.is_err()).count();
    println!("{programs} programs, {compared} calls and values compared, {differences} programs differ");
    assert_eq!(differences, 0, "{report}");
    assert!(
        programs as u64 * 10 > (seeds.end - seeds.start) * 9,
        "{programs} programs"
    );
}

#[test]
fn generated_programs_run_as_in_another_interpreter() {
    compare_seeds(0..300);
}

#[test]
#[ignore = "make test-full: 10,000 programs"]
fn many_generated_programs_run_as_in_another_interpreter() {
    compare_seeds(1_000_000..1_010_000);
}
