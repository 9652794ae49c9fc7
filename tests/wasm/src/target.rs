//! What a machine needs of the device of its copy: the memory of the copy, and launches.

use crate::error::MachineError;
use wasm_ptx::{BufferOffset, Program, Run};

/// The device of one copy of a program.
pub trait CopyTarget {
    /// Returns the number of the copy.
    fn copy(&self) -> u32;

    /// Takes a program, and returns the maximum number of nested calls: `depth`, or fewer.
    ///
    /// A target with a program keeps the contents of the copy: the new program has the same instances and perhaps more.
    ///
    /// # Errors
    ///
    /// Returns why the device refuses the program.
    fn load(&mut self, program: &Program, depth: u32) -> Result<u32, MachineError>;

    /// Reads words of the copy that stand next to each other in a region with cells of 4 bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if a word is outside the area, or the device fails.
    fn read_words(&mut self, at: BufferOffset, words: &mut [u32]) -> Result<(), MachineError>;

    /// Writes words of the copy that stand next to each other in a region with cells of 4 bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if a word is outside the area, or the device fails.
    fn write_words(&mut self, at: BufferOffset, words: &[u32]) -> Result<(), MachineError>;

    /// Reads runs of bytes. `to` has the bytes of all runs.
    ///
    /// # Errors
    ///
    /// Returns an error if a run is outside the copy, or the device fails.
    fn read_runs(&mut self, runs: &[Run], to: &mut [u8]) -> Result<(), MachineError>;

    /// Writes runs of bytes. `from` has the bytes of all runs.
    ///
    /// # Errors
    ///
    /// Returns an error if a run is outside the copy, or the device fails.
    fn write_runs(&mut self, runs: &[Run], from: &[u8]) -> Result<(), MachineError>;

    /// Launches the kernel, and waits for its end. `slice` is the fuel of the launch.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel faults.
    fn launch(&mut self, slice: u32) -> Result<(), MachineError>;
}
