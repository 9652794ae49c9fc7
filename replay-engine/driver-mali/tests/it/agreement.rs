//! The folders of recorded programs, and how closely what is computed of each has to agree with what a CPU computed or
//! another implementation of the same shading language: one table for every way in which they are run.

use std::path::{Path, PathBuf};

/// A folder with a program.
pub struct Program {
    /// Where it lies below the recordings: `g71/saxpy`.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// The software device that it is for.
    pub device: &'static str,
}

/// Folders of programs, and the device of each.
const PARTS: [(&str, &str); 3] = [("g71", "mali-g71"), ("g52", "mali-g52"), ("zoo/g71", "mali-g71")];

/// Programs that draw: nothing of them is computed, and nothing is expected.
const DRAWN: [&str; 3] = ["g71/triangle", "g71/tri3", "g52/triangle"];

/// What files of expected contents end in, behind the buffer's name.
const EXPECTED: [&str; 2] = ["expected.bin", "llvmpipe.bin"];

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

/// Buffers that are not computed exactly as another implementation does, to a relative error of what is not below
/// `1e-3` in magnitude: approximation tables, products that are fused here and not there. Every
/// word of all other buffers must be the same.
const CLOSE: &[(&str, &str, f64)] = &[
    ("zoo/g71/convert", "b2", 1e-6),
    ("zoo/g71/gelu", "b2", 2e-6),
    ("zoo/g71/gemm_vec4", "b2", 2e-5),
];

/// All programs below a folder of recordings, by name.
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
    /// Whether its jobs are compute jobs.
    pub fn computes(&self) -> bool {
        !DRAWN.contains(&self.name.as_str())
    }

    /// Contents that are expected of a buffer.
    pub fn expected(&self, buffer: &str) -> Vec<Vec<u8>> {
        let files = EXPECTED.iter().map(|end| self.folder.join(format!("{buffer}.{end}")));
        files.filter_map(|f| std::fs::read(f).ok()).collect()
    }

    /// Names of the buffers that contents are expected of, in order.
    #[allow(dead_code, reason = "not every test has to ask")]
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

    /// Asserts that what a buffer holds agrees with what is expected of it; gives with how many files it was compared.
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
        for (_, _, words, _) in LEFT_OUT.iter().filter(|(p, of, ..)| p == name && *of == buffer) {
            for n in *words {
                theirs[4 * n..4 * n + 4].copy_from_slice(&ours[4 * n..4 * n + 4]);
            }
        }
        let a = apart(ours, &theirs);
        match CLOSE.iter().find(|(p, b, _)| p == name && *b == buffer) {
            None => assert_eq!(a.words, 0, "{name} {buffer}: {a:x?}"),
            Some((_, _, to)) => assert!(a.relative <= *to, "{name} {buffer}: {a:x?}"),
        }
    }
}

/// What of a buffer does not agree.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "the first word is printed")]
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
