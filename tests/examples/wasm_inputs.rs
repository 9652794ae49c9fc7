//! Writes inputs of a test program: `wasm_inputs PROGRAM COUNT SEED FOLDER` gives `FOLDER/000001`, `000002`, …
#![allow(clippy::print_stderr, reason = "an example prints its usage")]

use std::path::PathBuf;
use std::process::ExitCode;
use whole_program_tests::wasm_programs::TEST_PROGRAMS;

fn write_inputs() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, count, seed, folder] = arguments.as_slice() else {
        return Err("usage: wasm_inputs PROGRAM COUNT SEED FOLDER".into());
    };
    let program = TEST_PROGRAMS.iter().find(|p| p.name == name);
    let program = program.ok_or_else(|| format!("no test program has the name {name}"))?;
    let count: u64 = count.parse().map_err(|e| format!("COUNT: {e}"))?;
    let seed: u64 = seed.parse().map_err(|e| format!("SEED: {e}"))?;
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for number in 1..=count {
        let path = folder.join(format!("{number:06}"));
        let input = program.make_input(seed.wrapping_add(number));
        std::fs::write(&path, input).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match write_inputs() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("wasm_inputs: {message}");
            ExitCode::FAILURE
        }
    }
}
