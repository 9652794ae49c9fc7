//! Runs a single clause on registers of the caller's choice: for tests of operations against another implementation.

use crate::shader::group::alone;

/// Runs one clause of arithmetic on the registers of up to 32 lanes, which all take part.
///
/// `registers` holds the 64 registers of each lane. `push` are the pushed uniforms, 64 bits each.
///
/// # Errors
/// What of the clause cannot be executed: an operation that is unknown, or one that needs memory, a workgroup, a
/// branch.
pub fn run_clause(code: &[u8], registers: &mut [[u32; 64]], push: &[u64]) -> Result<(), String> {
    alone(code, registers, push)
}
