//! Writes a made-up driver trace, so that a whole replay can be timed on the model of the driver.
//!
//! `synthetic_recording OUT.kine [SUBMISSIONS [MIB]]` saves MIB MiB (an even number) before the first submission.

#[path = "../benches/channel_plan/synthesis.rs"]
mod synthesis;

use std::error::Error;
use synthesis::{Synthesis, synthesize};
use trace_core::container;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: u64| arguments.get(n).map_or(Ok(default), |text| text.parse::<u64>());
    let path = arguments
        .first()
        .ok_or("synthetic_recording OUT.kine [SUBMISSIONS [MIB]]")?;
    let recording = synthesize(Synthesis {
        submissions: number(1, 861)?,
        saved_bytes: number(2, 24)?.checked_mul(1 << 20).ok_or("too many MiB")?,
        has_launches: false,
    });
    std::fs::write(path, container::to_bytes(&recording)?)?;
    Ok(())
}
