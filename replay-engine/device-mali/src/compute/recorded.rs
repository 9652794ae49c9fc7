//! Programs that a real driver compiled: run from their recorded memory, against what they should give.

use super::job::{Ended, Terms, run};
use super::trace::Untraced;
use crate::Model;
use crate::address_space::Translation;
use crate::memory::ArenaMemory;
use replay_engine::device::Arena;
use serde_json::Value;
use std::path::{Path, PathBuf};
use trace_core::PhysAddr;

pub(super) fn recordings() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings");
    let folder = std::env::var_os("KINESCOPE_RECORDINGS").map_or(root, PathBuf::from);
    let folder = folder.join("panfrost");
    if !folder.is_dir() {
        tell(&format!("skipped: no recordings at {}", folder.display()));
        return None;
    }
    Some(folder)
}

#[allow(clippy::print_stdout, reason = "says what it skips")]
fn tell(text: &str) {
    println!("{text}");
}

pub(super) fn number(v: &Value) -> u64 {
    u64::from_str_radix(v.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

pub(super) fn json(program: &Path, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(program.join(name)).unwrap()).unwrap()
}

/// Puts what a submit's images hold into memory, each at its GPU address.
pub(super) fn put_images(m: &mut ArenaMemory, program: &Path, submit: &Value) {
    for bo in json(program, submit["submit"].as_str().unwrap())["bos"]
        .as_array()
        .unwrap()
    {
        let Some(file) = bo["file"].as_str() else { continue };
        let bytes = std::fs::read(program.join(file)).unwrap();
        for (n, page) in (0..).zip(bytes.chunks(4096)) {
            m.write(PhysAddr(number(&bo["va"]) + n * 4096), page).unwrap();
        }
    }
}

pub(super) fn memory() -> ArenaMemory {
    ArenaMemory::new(Arena {
        base: PhysAddr(0),
        pages: 1 << 20,
    })
}

fn bytes(m: &ArenaMemory, va: u64, len: usize) -> Vec<u8> {
    (va..)
        .take(len)
        .map(|at| {
            let mut b = [0];
            m.read(PhysAddr(at), &mut b).unwrap();
            b[0]
        })
        .collect()
}

/// Runs every submit of a program and gives the memory that it leaves, or what kept a job from running.
fn play(program: &Path, model: Model, threads: usize) -> Result<ArenaMemory, String> {
    let spec = json(program, "spec.json");
    let mut kept: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut last = memory();
    for submit in spec["submits"].as_array().unwrap() {
        let mut m = memory();
        put_images(&mut m, program, submit);
        // The images are those from before the first submit: what the earlier ones wrote is carried over.
        for (va, bytes) in &kept {
            for (n, b) in (0..).zip(bytes) {
                m.write(PhysAddr(va + n), &[*b]).unwrap();
            }
        }
        for job in submit["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|j| j["type"] == "compute")
        {
            let terms = Terms {
                translation: Translation::Identity,
                model: model.data(),
                budget: model.data().budget,
                progress: None,
                clock: [0; 2],
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let ran = pool.install(|| run::<Untraced>(&mut m, number(&job["va"]), terms));
            match ran.end {
                Ended::Computed => {}
                other => return Err(format!("{other:?}")),
            }
        }
        kept = spec["buffers"]
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

/// Words of what llvmpipe gives that are not compared, by program and buffer, and why.
const LEFT_OUT: [(&str, &str, usize, &str); 2] = [
    (
        "convert",
        "b2",
        15,
        "negative floats to unsigned integers, which GLSL does not define",
    ),
    ("half_pack", "b1", 1, "the payload of a half NaN"),
];

/// Whether two words are floats that agree up to the error of what is approximated.
fn near(got: &[u8], want: &[u8]) -> bool {
    let f = |b: &[u8]| f32::from_le_bytes(b.try_into().unwrap());
    let (a, b) = (f(got), f(want));
    got == want || a.is_nan() && b.is_nan() || (a - b).abs() <= 2e-5 * b.abs().max(1e-1)
}

#[test]
fn recorded_programs_give_what_the_processor_gives() {
    let Some(folder) = recordings() else { return };
    let (mut exact, mut close) = (0, 0);
    for gpu in ["g71", "g52", "zoo/g71", "zoo/g52"] {
        let Ok(entries) = std::fs::read_dir(folder.join(gpu)) else {
            continue;
        };
        for program in entries.map(|e| e.unwrap().path()) {
            let model = if gpu.ends_with("g52") { Model::G52 } else { Model::G71 };
            let spec = json(&program, "spec.json");
            let name = program.file_name().unwrap().to_str().unwrap().to_owned();
            let left = play(&program, model, 1).unwrap_or_else(|e| panic!("{gpu}/{name}: {e}"));
            let again = play(&program, model, 3).unwrap();
            for b in spec["buffers"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|b| b["gpu_va"].is_string())
            {
                let buffer = b["name"].as_str().unwrap();
                let of = |m: &ArenaMemory, len| bytes(m, number(&b["gpu_va"]), len);
                let all = b["bytes"].as_u64().unwrap() as usize;
                assert!(
                    of(&left, all) == of(&again, all),
                    "{gpu}/{name} {buffer}: more threads give something else"
                );
                let (file, is_exact) = match b["expected"].as_str() {
                    Some(file) => (file.to_owned(), true),
                    None => (format!("{buffer}.llvmpipe.bin"), false),
                };
                let Ok(want) = std::fs::read(program.join(&file)) else {
                    continue;
                };
                let got = of(&left, want.len());
                let differ = |same: fn(&[u8], &[u8]) -> bool| {
                    got.chunks(4).zip(want.chunks(4)).filter(|(a, b)| !same(a, b)).count()
                };
                let allowed = LEFT_OUT
                    .iter()
                    .find(|l| l.0 == name && l.1 == buffer)
                    .map_or(0, |l| l.2);
                if is_exact {
                    assert_eq!(differ(|a, b| a == b), 0, "{gpu}/{name} {buffer}");
                    exact += 1;
                } else {
                    assert_eq!(differ(near), allowed, "{gpu}/{name} {buffer}");
                    close += 1;
                }
            }
        }
    }
    assert!(exact >= 15 && close >= 40, "{exact} exact, {close} close");
}
