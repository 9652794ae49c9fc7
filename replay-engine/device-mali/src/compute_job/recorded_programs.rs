//! Tests of programs that a real driver compiled. They run from recorded memory, and their results are compared.

use super::{ComputeEnd, ComputeParams, run};
use crate::Model;
use crate::address_space::Translation;
use crate::compute::trace::NoTrace;
use crate::memory::ArenaMemory;
use replay_engine::device::Arena;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use trace_core::{GpuVa, PhysAddr};

pub(super) fn recordings() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings");
    let folder = std::env::var_os("KINESCOPE_RECORDINGS").map_or(root, PathBuf::from);
    let folder = folder.join("panfrost");
    if !folder.is_dir() {
        print_line(&format!("skipped: no recordings at {}", folder.display()));
        return None;
    }
    Some(folder)
}

#[allow(clippy::print_stdout, reason = "prints what it skips")]
fn print_line(text: &str) {
    println!("{text}");
}

pub(super) fn number(v: &Value) -> u64 {
    u64::from_str_radix(v.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

pub(super) fn json(program: &Path, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(program.join(name)).unwrap()).unwrap()
}

/// Writes the images of a submit to memory, each at its GPU address.
pub(super) fn put_images(m: &mut ArenaMemory, program: &Path, submit: &Value) {
    for bo in json(program, submit["submit"].as_str().unwrap())["bos"]
        .as_array()
        .unwrap()
    {
        let Some(file) = bo["file"].as_str() else { continue };
        let bytes = std::fs::read(program.join(file)).unwrap();
        for (n, page) in (0..).zip(bytes.chunks(4096)) {
            m.write(PhysAddr::new(number(&bo["va"]) + n * 4096), page).unwrap();
        }
    }
}

pub(super) fn memory() -> ArenaMemory {
    ArenaMemory::new(Arena {
        base: PhysAddr::ZERO,
        pages: 1 << 20,
    })
}

fn bytes(m: &ArenaMemory, va: u64, len: usize) -> Vec<u8> {
    (va..)
        .take(len)
        .map(|at| {
            let mut b = [0];
            m.read(PhysAddr::new(at), &mut b).unwrap();
            b[0]
        })
        .collect()
}

/// Runs every submit of a program. Returns the memory afterwards, or the reason why a job did not run.
fn play(program: &Path, model: Model, threads: usize) -> Result<ArenaMemory, String> {
    let spec = json(program, "spec.json");
    let mut carried_over: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut last = memory();
    for submit in spec["submits"].as_array().unwrap() {
        let mut m = memory();
        put_images(&mut m, program, submit);
        // The images are from before the first submit, so the results of earlier submits are carried over.
        for (va, bytes) in &carried_over {
            for (n, b) in (0..).zip(bytes) {
                m.write(PhysAddr::new(va + n), &[*b]).unwrap();
            }
        }
        for job in submit["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|j| j["type"] == "compute")
        {
            let terms = ComputeParams {
                translation: Translation::Identity,
                model: model.data(),
                budget: model.data().budget,
                progress: None,
                clock: [0; 2],
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let result = pool.install(|| run::<NoTrace>(&mut m, GpuVa::new(number(&job["va"])), terms));
            match result.end {
                ComputeEnd::Computed => {}
                other => return Err(format!("{other:?}")),
            }
        }
        carried_over = spec["buffers"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|b| b["kind"] == "ssbo" && b["gpu_va"].is_string())
            .map(|b| {
                (
                    number(&b["gpu_va"]),
                    bytes(&m, number(&b["gpu_va"]), b["bytes"].as_u64().unwrap() as usize),
                )
            })
            .collect();
        last = m;
    }
    Ok(last)
}

/// Words of llvmpipe's results that are not compared, by program and buffer, with the reason.
const NOT_COMPARED: [(&str, &str, &[usize], &str); 2] = [
    (
        "convert",
        "b2",
        &[4, 10, 11, 13, 16, 18, 20, 26, 29, 39, 49, 50, 54, 59, 63],
        "negative floats to unsigned integers, which GLSL does not define",
    ),
    ("half_pack", "b1", &[17], "the payload of a half NaN"),
];

/// Buffers of floats that only approximate llvmpipe's results: program, buffer, relative error of values of at least
/// `1e-3` in magnitude, and reason. Every other word must be equal.
const TOLERANCES: [(&str, &str, f64, &str); 3] = [
    ("convert", "b2", 1e-6, "different fusing of products"),
    ("gelu", "b2", 2e-6, "approximation tables, different fusing of products"),
    ("gemm_vec4", "b2", 2e-5, "different fusing of products"),
];

/// Returns the relative error of two words as floats. It is infinite if only one of them is NaN.
fn relative_error(got: u32, want: u32) -> f64 {
    let (x, y) = (f64::from(f32::from_bits(got)), f64::from(f32::from_bits(want)));
    if got == want || x.is_nan() && y.is_nan() {
        return 0.0;
    }
    let error = (x - y).abs() / y.abs().max(1e-3);
    if error.is_nan() { f64::INFINITY } else { error }
}

#[test]
fn recorded_programs_match_the_cpu_reference() {
    let Some(folder) = recordings() else { return };
    let (mut exact, mut approximated) = (0, 0);
    let (mut programs, mut inexact) = (BTreeSet::new(), BTreeSet::new());
    for gpu in ["g71", "g52", "zoo/g71", "zoo/g52"] {
        let Ok(entries) = std::fs::read_dir(folder.join(gpu)) else {
            continue;
        };
        for program in entries.map(|e| e.unwrap().path()) {
            let model = if gpu.ends_with("g52") { Model::G52 } else { Model::G71 };
            let spec = json(&program, "spec.json");
            let name = program.file_name().unwrap().to_str().unwrap().to_owned();
            let memory = play(&program, model, 1).unwrap_or_else(|e| panic!("{gpu}/{name}: {e}"));
            let again = play(&program, model, 3).unwrap();
            for b in spec["buffers"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|b| b["gpu_va"].is_string())
            {
                let buffer = b["name"].as_str().unwrap();
                let contents = |m: &ArenaMemory, len| bytes(m, number(&b["gpu_va"]), len);
                let all = b["bytes"].as_u64().unwrap() as usize;
                assert!(
                    contents(&memory, all) == contents(&again, all),
                    "{gpu}/{name} {buffer}: more threads give a different result"
                );
                let file = match b["expected"].as_str() {
                    Some(file) => file.to_owned(),
                    None => format!("{buffer}.llvmpipe.bin"),
                };
                let Ok(want) = std::fs::read(program.join(&file)) else {
                    continue;
                };
                let is_listed = |p: &str, of: &str| p == name && of == buffer;
                let (got, tolerance) = (
                    contents(&memory, want.len()),
                    TOLERANCES.iter().find(|c| is_listed(c.0, c.1)),
                );
                let skipped_words = NOT_COMPARED
                    .iter()
                    .find(|l| is_listed(l.0, l.1))
                    .map_or(&[][..], |l| l.2);
                let words = |all: &[u8]| -> Vec<u32> {
                    let (words, rest) = all.as_chunks::<4>();
                    assert!(rest.is_empty(), "{gpu}/{name} {buffer}");
                    words.iter().map(|w| u32::from_le_bytes(*w)).collect()
                };
                let differ: Vec<_> = words(&got)
                    .into_iter()
                    .zip(words(&want))
                    .enumerate()
                    .filter(|(n, (a, b))| match tolerance {
                        None => a != b && !skipped_words.contains(n),
                        Some((.., max, _)) => relative_error(*a, *b) > *max && !skipped_words.contains(n),
                    })
                    .collect();
                assert!(differ.is_empty(), "{gpu}/{name} {buffer}: {differ:x?}");
                match tolerance {
                    None => {
                        exact += 1;
                        programs.insert(format!("{gpu}/{name}"));
                    }
                    Some(_) => {
                        approximated += 1;
                        inexact.insert(format!("{gpu}/{name}"));
                    }
                }
            }
        }
    }
    for name in &inexact {
        programs.remove(name);
    }
    let list = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(", ");
    print_line(&format!(
        "{exact} buffers are the same; all of: {}; not in every buffer: {}",
        list(&programs),
        list(&inexact)
    ));
    assert!(exact >= 50, "{exact} buffers are the same");
    assert_eq!(approximated, TOLERANCES.len());
}
