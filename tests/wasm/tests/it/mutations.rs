//! Damaged modules: the translator refuses them or makes a text that the interpreter accepts, and never panics.

use crate::random::Random;
use rayon::prelude::*;
use wasm_ptx::{CellSize, ModuleRole, Options, ProgramBuilder, Suspension};

/// Changes of one module.
const MAX_CHANGES: u64 = 4;

/// Translates a module with its functions of the host. Returns whether it is accepted.
fn translate(bytes: &[u8], options: &Options, role: ModuleRole) -> bool {
    let mut builder = ProgramBuilder::new(options.clone());
    let Ok(missing) = builder.unresolved_functions("damaged", bytes, role) else {
        return false;
    };
    for (module, name, signature) in missing {
        builder
            .define_host_function(&module, &name, &signature.params, &signature.results)
            .unwrap();
    }
    let Ok(instance) = builder.add_module("damaged", bytes, role) else {
        return false;
    };
    let names = builder.exported_functions(instance);
    builder.set_entries(names.into_iter().map(|name| (instance, name)).collect());
    let Ok(program) = builder.translate() else { return false };
    ptx_interpreter::Program::parse(&program.text).unwrap();
    true
}

/// Changes bytes of a module at random places.
fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.next() % MAX_CHANGES {
        let at = random.next() as usize % bytes.len();
        match random.next() % 4 {
            0 => bytes[at] ^= 1 << (random.next() % 8),
            1 => bytes[at] = random.next() as u8,
            2 => {
                bytes.remove(at);
            }
            // Instructions and small numbers are what bodies consist of.
            _ => bytes[at] = [0x0b, 0x20, 0x41, 0x0c, 0x0d, 0x6a, 0x1a, 0x00, 0x01, 0x7f][random.next() as usize % 10],
        }
    }
}

fn run(seeds: std::ops::Range<u64>) {
    let host = Options {
        cell: CellSize::Sixteen,
        suspension: Suspension::Everywhere,
        counters: true,
        tables_in_area: true,
        several_tables: true,
        max_text_bytes: 4 << 20,
        ..Options::default()
    };
    let user = Options {
        max_text_bytes: 4 << 20,
        ..Options::default()
    };
    let total = seeds.end - seeds.start;
    let accepted: usize = seeds
        .into_par_iter()
        .map(|seed| {
            let mut random = Random(seed);
            let Some(mut bytes) = crate::differential::program(&mut random, seed % 2 == 1) else {
                return 0;
            };
            damage(&mut random, &mut bytes);
            let first = translate(&bytes, &user, ModuleRole::User);
            let second = translate(&bytes, &host, ModuleRole::System);
            usize::from(first) + usize::from(second)
        })
        .sum();
    println!("{accepted} of {} translations accepted", 2 * total);
    assert!(accepted as u64 > total / 20, "{accepted}");
}

#[test]
fn damaged_modules_are_refused_or_translated() {
    run(0..1000);
}

#[test]
#[ignore = "make test-full: a minute of damaged modules"]
fn many_damaged_modules_are_refused_or_translated() {
    run(1_000_000..1_020_000);
}
