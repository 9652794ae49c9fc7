//! Runs one input file through a fuzz target and prints how long it took: `cargo run -p fuzz-targets --example play --
//! TARGET FILE…`. For a debugger or a profiler, without libFuzzer.
#![allow(clippy::print_stdout, reason = "it tells")]

use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let name = args.next().unwrap_or_default();
    let found = fuzz_targets::TARGETS.iter().find(|t| name == t.0);
    let Some((_, target)) = found else {
        let known: Vec<&str> = fuzz_targets::TARGETS.iter().map(|t| t.0).collect();
        return Err(format!("expected TARGET FILE…, TARGET one of {}", known.join(", ")).into());
    };
    for file in args {
        let bytes = std::fs::read(&file)?;
        let start = Instant::now();
        let taken = target(&bytes);
        println!(
            "{}: {} in {:?}",
            file.display(),
            if taken { "taken" } else { "refused" },
            start.elapsed()
        );
    }
    Ok(())
}
