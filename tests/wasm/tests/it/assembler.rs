//! NVIDIA's assembler `ptxas`, if this machine has it: it checks texts as the driver's compiler does.

use rayon::prelude::{IntoParallelRefIterator as _, ParallelIterator as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use wasm_gpu::{TranslationOptions, translate};
use wasm_ptx::MAX_REGISTERS;
use wasm_run::{Program, RunOptions};

/// Environment variable with the path of the assembler.
const VARIABLE: &str = "KINESCOPE_PTXAS";

/// The assembler's program.
pub struct Assembler(PathBuf);

/// Returns the assembler from `KINESCOPE_PTXAS` or `PATH`. Without one, prints why a test is skipped.
pub fn find() -> Option<Assembler> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = named
        .into_iter()
        .chain(std::env::split_paths(&path).map(|folder| folder.join("ptxas")));
    let found = candidates.find(|candidate| candidate.is_file());
    if found.is_none() {
        println!("skipped: no ptxas in {VARIABLE} or PATH (PyPI: nvidia-cuda-nvcc)");
    }
    found.map(Assembler)
}

impl Assembler {
    /// Assembles a text for a GPU such as `sm_80`, and returns what the assembler prints about registers and stack.
    pub fn assemble(&self, text: &str, arch: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let source = folder.path().join("program.ptx");
        let mut file = std::fs::File::create(&source).map_err(|e| e.to_string())?;
        file.write_all(text.as_bytes()).map_err(|e| e.to_string())?;
        let output = Command::new(&self.0)
            // As the driver compiles a program that it links.
            .args([
                "-v",
                "-c",
                "-maxrregcount",
                &MAX_REGISTERS.to_string(),
                "-arch",
                arch,
                "-o",
            ])
            .arg(folder.path().join("program.cubin"))
            .arg(&source)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            return Ok(messages);
        }
        let head: String = messages.lines().take(4).collect::<Vec<_>>().join("\n");
        let context: Vec<String> = messages
            .lines()
            .filter_map(|line| {
                line.split("line ")
                    .nth(1)?
                    .split(';')
                    .next()?
                    .trim()
                    .parse::<usize>()
                    .ok()
            })
            .take(2)
            .filter_map(|number| Some(format!("{number}: {}", text.lines().nth(number.checked_sub(1)?)?)))
            .collect();
        // Without a message the assembler has crashed.
        Err(format!("{}: {head}\n{}", output.status, context.join("\n")))
    }
}

#[test]
#[ignore = "make test-full: assembles whole programs"]
fn the_assembler_accepts_the_programs_with_the_registers_of_their_kernels() {
    let Some(assembler) = find() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "wasm"))
        .collect();
    assert!(paths.len() >= 9, "{paths:?}");
    let refused: Vec<String> = paths
        .par_iter()
        .filter_map(|path| {
            let program = Program::parse(std::fs::read(path).unwrap()).unwrap();
            let options = RunOptions::default();
            let translated = translate(&program, &options, TranslationOptions::default(), 1 << 16).unwrap();
            let error = assembler.assemble(&translated.program.text, "sm_90").err()?;
            Some(format!("{}: {error}", path.display()))
        })
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
