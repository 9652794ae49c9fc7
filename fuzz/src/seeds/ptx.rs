//! Seeds of the interpreter of PTX: short kernels that hold each statement and most instructions.

use super::seed::Add;

const ARITHMETIC: &str = include_str!("ptx/arithmetic.ptx");
const CALLS: &str = include_str!("ptx/calls.ptx");
const MEMORY: &str = include_str!("ptx/memory.ptx");

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    for (name, text) in [
        ("arithmetic.ptx", ARITHMETIC),
        ("calls.ptx", CALLS),
        ("memory.ptx", MEMORY),
    ] {
        add("ptx_interpreter", name, text.as_bytes().to_vec());
    }
}
