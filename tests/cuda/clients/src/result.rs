//! A program's result, and the source of its inputs. The result is the bytes copied back, as a checksum and a file.

use std::path::PathBuf;

/// Bytes copied back so far.
#[derive(Debug, Default)]
pub struct ProgramResult {
    bytes: Vec<u8>,
}

impl ProgramResult {
    /// Adds bytes that were copied back, in order.
    pub fn give<T: bytemuck::NoUninit>(&mut self, values: &[T]) {
        self.bytes.extend_from_slice(bytemuck::cast_slice(values));
    }

    /// Writes the file, and prints the last line of a program with a correct result.
    pub fn finish(&self, name: &str, out: Option<&PathBuf>) -> Result<(), String> {
        if let Some(path) = out {
            std::fs::write(path, &self.bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        // The checksum is FNV-1a with 64 bits.
        let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let checksum = self.bytes.iter().fold(0xcbf2_9ce4_8422_2325, step);
        println!("ok {name} checksum={checksum:016x}");
        Ok(())
    }
}

/// Returns a fixed pseudo-random number for an index. Programs make their inputs from these numbers.
pub fn scramble(index: u32) -> u32 {
    let mut x = index.wrapping_add(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Returns `n` pseudo-random words for a seed.
pub fn words(seed: u32, n: u32) -> Vec<u32> {
    (0..n)
        .map(|i| scramble(seed.wrapping_mul(0x0100_0193).wrapping_add(i)))
        .collect()
}

/// Checks that the values are the expected ones.
pub fn check<T: PartialEq + std::fmt::Debug>(name: &str, got: &[T], right: &[T]) -> Result<(), String> {
    if got.len() != right.len() {
        return Err(format!("{name}: {} values instead of {}", got.len(), right.len()));
    }
    match got.iter().zip(right).enumerate().find(|(_, (a, b))| a != b) {
        None => Ok(()),
        Some((n, (a, b))) => Err(format!("{name}: value {n} is {a:?}, not {b:?}")),
    }
}
