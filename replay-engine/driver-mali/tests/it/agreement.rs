//! Folders of recorded programs and the required agreement of their results. The reference is a CPU or another
//! implementation of the same shading language. All ways to run the programs share this table.

use std::path::{Path, PathBuf};

/// A folder with a program.
pub struct Program {
    /// Path of the folder below the recordings: `g71/saxpy`.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// Name of the simulator that runs the program.
    pub device: &'static str,
}

/// Folders of programs, each with its simulator.
const PARTS: [(&str, &str); 3] = [("g71", "mali-g71"), ("g52", "mali-g52"), ("zoo/g71", "mali-g71")];

/// Programs that draw. They have no compute jobs and no expected contents.
const DRAWN: [&str; 3] = ["g71/triangle", "g71/tri3", "g52/triangle"];

/// Suffixes of files with expected contents. The buffer's name comes first.
const EXPECTED: [&str; 2] = ["expected.bin", "llvmpipe.bin"];

/// Words that are not compared, with the reason.
const NOT_COMPARED: &[(&str, &str, &[usize], &str)] = &[
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
        "a half that is NaN; no specification defines which NaN",
    ),
];

/// Buffers whose results may differ from the other implementation, with the relative error of values of at least
/// `1e-3`. The causes are approximation tables and different fusing of products. Every word of all other buffers must
/// be equal.
const TOLERANCES: &[(&str, &str, f64)] = &[
    ("zoo/g71/convert", "b2", 1e-6),
    ("zoo/g71/gelu", "b2", 2e-6),
    ("zoo/g71/gemm_vec4", "b2", 2e-5),
];

/// Returns all programs below a folder of recordings, sorted by name.
pub fn programs(root: &Path) -> Vec<Program> {
    let mut all = Vec::new();
    for (part, device) in PARTS {
        for entry in std::fs::read_dir(root.join(part)).unwrap() {
            let folder = entry.unwrap().path();
            if folder.join("spec.json").exists() {
                let name = format!("{part}/{}", folder.file_name().unwrap().to_string_lossy());
                all.push(Program { name, folder, device });
            }
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

impl Program {
    /// Returns whether the program's jobs are compute jobs.
    pub fn computes(&self) -> bool {
        !DRAWN.contains(&self.name.as_str())
    }

    /// Returns the expected contents of a buffer.
    pub fn expected(&self, buffer: &str) -> Vec<Vec<u8>> {
        let files = EXPECTED.iter().map(|end| self.folder.join(format!("{buffer}.{end}")));
        files.filter_map(|f| std::fs::read(f).ok()).collect()
    }

    /// Returns the sorted names of the buffers with expected contents.
    #[allow(dead_code, reason = "some tests do not use it")]
    pub fn checked(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.folder).unwrap();
        let names = files.map(|f| f.unwrap().file_name().into_string().unwrap());
        let mut all: Vec<String> = names
            .filter_map(|n| {
                EXPECTED
                    .iter()
                    .find_map(|end| Some(n.strip_suffix(end)?.strip_suffix('.')?.to_owned()))
            })
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// Asserts that a buffer agrees with its expected contents. Returns the number of compared files.
    pub fn assert_agrees(&self, buffer: &str, ours: &[u8]) -> usize {
        let expected = self.expected(buffer);
        for theirs in &expected {
            self.compare(buffer, ours, theirs.clone());
        }
        expected.len()
    }

    fn compare(&self, buffer: &str, ours: &[u8], mut theirs: Vec<u8>) {
        let name = &self.name;
        assert_eq!(ours.len(), theirs.len(), "{name} {buffer}");
        for (_, _, words, _) in NOT_COMPARED.iter().filter(|(p, of, ..)| p == name && *of == buffer) {
            for n in *words {
                theirs[4 * n..4 * n + 4].copy_from_slice(&ours[4 * n..4 * n + 4]);
            }
        }
        let a = find_mismatches(ours, &theirs);
        match TOLERANCES.iter().find(|(p, b, _)| p == name && *b == buffer) {
            None => assert_eq!(a.words, 0, "{name} {buffer}: {a:x?}"),
            Some((_, _, to)) => assert!(a.relative <= *to, "{name} {buffer}: {a:x?}"),
        }
    }
}

/// Differences between a buffer and its expected contents.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "the first word is printed")]
struct Mismatch {
    words: usize,
    first: Option<(usize, u32, u32)>,
    /// Greatest relative error of floats. Below `1e-3`, the error is relative to `1e-3`.
    relative: f64,
}

fn find_mismatches(ours: &[u8], theirs: &[u8]) -> Mismatch {
    let word = |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap());
    let mut a = Mismatch::default();
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
