//! The recorded programs of Mesa's driver, run on the software GPU: what they leave in their buffers against what a CPU
//! computed, or another implementation of the same shading language.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use device_mali::{Model, SoftwareMali};
use driver_mali::panfrost::record_folder;
use replay_engine::device::Board;
use std::path::{Path, PathBuf};
use trace_core::recording::{Buffer, MemoryView};
use trace_core::{GpuVa, Recording, mmu};

fn recordings() -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings");
    let path = std::env::var_os("KINESCOPE_RECORDINGS")
        .map_or_else(default, PathBuf::from)
        .join("panfrost");
    if !path.is_dir() {
        println!("skipped: no recordings at {}", path.display());
        return None;
    }
    Some(path)
}

fn bytes_of(r: &Recording, view: &MemoryView<'_>, b: &Buffer) -> Vec<u8> {
    let space = &r.facts.address_spaces[b.address_space as usize];
    let byte = |at: u64| {
        let va = GpuVa(b.va.0 + at);
        let pa = mmu::translate(space.format, space.root, va, view)
            .unwrap()
            .target(va)
            .unwrap();
        view.frame(pa.frame()).unwrap()[pa.in_page()]
    };
    (0..b.bytes).map(byte).collect()
}

/// What of a buffer does not agree.
#[derive(Debug, Default)]
struct Apart {
    words: usize,
    first: Option<(usize, u32, u32)>,
    /// Greatest relative error of floats, of those that are not below `1e-3` in magnitude.
    relative: f64,
}

fn apart(ours: &[u8], theirs: &[u8]) -> Apart {
    let word = |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap());
    let mut a = Apart::default();
    for (n, (o, t)) in ours.chunks_exact(4).zip(theirs.chunks_exact(4)).enumerate() {
        let (o, t) = (word(o), word(t));
        if o != t {
            a.words += 1;
            a.first.get_or_insert((n, o, t));
            let (x, y) = (f64::from(f32::from_bits(o)), f64::from(f32::from_bits(t)));
            let error = if x == y || x.is_nan() && y.is_nan() {
                0.0
            } else {
                (x - y).abs() / y.abs().max(1e-3)
            };
            a.relative = a.relative.max(if error.is_nan() { f64::INFINITY } else { error });
        }
    }
    a
}

fn run(folder: &Path, model: Model) -> (Recording, Vec<replay_engine::device::JobReport>) {
    let mut board = SoftwareMali::new(model);
    let r = record_folder(folder, &mut board).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    (r, board.take_job_reports())
}

/// How a buffer is compared.
#[derive(Clone, Copy, Debug)]
enum Agree {
    /// Bit by bit.
    Exactly,
    /// To this relative error, of what is not below `1e-3` in magnitude.
    Within(f64),
}

/// Words that are left out, and why.
const LEFT_OUT: &[(&str, &str, &[usize], &str)] = &[
    (
        "zoo/g71/convert",
        "b2",
        &[4, 10, 11, 13, 16, 18, 20, 26, 29, 39, 49, 50, 54, 59, 63],
        "a float of -1 or less as an unsigned integer, which the shading language does not define",
    ),
    (
        "zoo/g71/half_pack",
        "b1",
        &[17],
        "a half that is no number: which one it is, nobody defines",
    ),
];

/// Buffers that are not computed exactly as another implementation does, to a relative error: approximation tables,
/// a sum in another order.
const CLOSE: &[(&str, &str, f64)] = &[
    ("zoo/g71/convert", "b2", 1e-6),
    ("zoo/g71/gelu", "b2", 2e-6),
    ("zoo/g71/gemm_vec4", "b2", 2e-5),
];

fn agreement(program: &str, buffer: &str) -> Agree {
    let close = CLOSE.iter().find(|(p, b, _)| *p == program && *b == buffer);
    close.map_or(Agree::Exactly, |(_, _, to)| Agree::Within(*to))
}

fn folders(root: &Path) -> Vec<(String, PathBuf, Model)> {
    let mut all = Vec::new();
    for (part, model) in [("g71", Model::G71), ("g52", Model::G52), ("zoo/g71", Model::G71)] {
        for entry in std::fs::read_dir(root.join(part)).unwrap() {
            let folder = entry.unwrap().path();
            if folder.join("spec.json").exists() {
                all.push((
                    format!("{part}/{}", folder.file_name().unwrap().to_string_lossy()),
                    folder,
                    model,
                ));
            }
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn every_program_leaves_what_a_cpu_computed() {
    let Some(root) = recordings() else { return };
    let (mut compared, mut programs) = (0, 0);
    for (name, folder, model) in folders(&root) {
        let (r, reports) = run(&folder, model);
        for j in reports.iter().filter(|j| j.job_type == 4) {
            assert_eq!(
                (j.status, j.computed, j.reason.as_deref()),
                (1, Some(true), None),
                "{name}"
            );
        }
        programs += 1;
        for b in &r.facts.buffers {
            for kind in ["expected", "llvmpipe"] {
                let Ok(mut theirs) = std::fs::read(folder.join(format!("{}.{kind}.bin", b.name))) else {
                    continue;
                };
                let ours = bytes_of(&r, &r.memory.last(), b);
                assert_eq!(ours.len(), theirs.len(), "{name} {}", b.name);
                for (_, _, words, _) in LEFT_OUT.iter().filter(|(p, of, ..)| *p == name && *of == b.name) {
                    for n in *words {
                        theirs[4 * n..4 * n + 4].copy_from_slice(&ours[4 * n..4 * n + 4]);
                    }
                }
                let a = apart(&ours, &theirs);
                match agreement(&name, &b.name) {
                    Agree::Exactly => assert_eq!(a.words, 0, "{name} {}: {a:x?}", b.name),
                    Agree::Within(to) => assert!(a.relative <= to, "{name} {}: {a:x?}", b.name),
                }
                compared += 1;
            }
        }
    }
    assert!(
        programs >= 27 && compared >= 40,
        "{programs} programs, {compared} buffers"
    );
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let Some(root) = recordings() else { return };
    for name in [
        "g71/histogram",
        "g71/matmul",
        "g71/conv3x3",
        "zoo/g71/atomics",
        "zoo/g71/scratch",
    ] {
        let of = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (r, reports) = pool.install(|| run(&root.join(name), Model::G71));
            let last = r.memory.last();
            let all: Vec<Vec<u8>> = r.facts.buffers.iter().map(|b| bytes_of(&r, &last, b)).collect();
            (all, reports)
        };
        let one = of(1);
        for threads in [2, 3, 8] {
            assert!(of(threads) == one, "{name} with {threads} threads");
        }
    }
}
