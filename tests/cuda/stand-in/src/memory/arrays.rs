//! Arrays of texels: memory that has no address on the device.

use crate::Answer;
use crate::handles::Handles;
use crate::memory::piece::Piece;
use std::sync::Arc;

/// An array.
pub struct Array {
    pub handle: usize,
    memory: Piece,
    /// Size of a row, bytes.
    pub row: u64,
    /// Total size, bytes.
    pub bytes: u64,
}

impl Array {
    /// Creates an array with rows of this size.
    pub fn make(row: u64, bytes: u64) -> Answer<Arc<Self>> {
        let memory = Piece::of_device(bytes)?;
        Ok(ARRAYS.put(|handle| Self {
            handle,
            memory,
            row,
            bytes,
        }))
    }

    /// Returns its first address in this process.
    pub fn at(&self) -> u64 {
        self.memory.at()
    }
}

/// All arrays.
pub static ARRAYS: Handles<Array> = Handles::new(3);
