//! Runs input files through a fuzz target and prints how long each took: `cargo run -p fuzz-targets --example play --
//! TARGET FILE…`. It needs no libFuzzer, for a debugger or a profiler.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let name = args.next().unwrap_or_default();
    let found = fuzz_targets::TARGETS.iter().find(|t| name == t.0);
    let Some((_, target)) = found else {
        let names: Vec<&str> = fuzz_targets::TARGETS.iter().map(|t| t.0).collect();
        return Err(format!("expected TARGET FILE…, TARGET one of {}", names.join(", ")).into());
    };
    for file in args {
        let bytes = std::fs::read(&file)?;
        let start = Instant::now();
        let accepted = target(&bytes);
        println!(
            "{}: {} in {:?}",
            file.display(),
            if accepted { "accepted" } else { "refused" },
            start.elapsed()
        );
    }
    Ok(())
}
