//! Arrays of texels: memory that has no address on the device.

use crate::codes::{INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY};
use crate::handles::{Handles, pointer};
use crate::memory::piece::{Piece, pointer as host_pointer};
use crate::{Answer, lock};
use cuda_driver::{ArrayDescription, CuArray, CuMipmappedArray};
use std::sync::{Arc, Mutex};

/// Maximum number of texels of an array in a dimension.
const MAX_SIDE: usize = 1 << 17;
/// All flags of arrays.
const ARRAY_FLAGS: u32 = 0x1ff;
/// `CUDA_ARRAY3D_LAYERED`: the depth is a number of layers.
const LAYERED: u32 = 1;

/// An array.
pub struct Array {
    pub handle: usize,
    memory: Piece,
    /// The program's description.
    pub description: ArrayDescription,
    /// Handle of the mipmapped array that it is a level of, or 0.
    pub mipmapped: usize,
    /// Handle of its context.
    context: usize,
    /// Size of a row, bytes.
    pub row: u64,
    /// Number of rows of a slice.
    pub rows: u64,
    /// Total size, bytes.
    pub bytes: u64,
}

/// An array with levels.
pub struct MipmappedArray {
    pub handle: usize,
    /// Handles of the arrays that are its levels.
    pub levels: Mutex<Vec<usize>>,
    context: usize,
}

fn check(d: &ArrayDescription) -> Answer<u64> {
    let sides = [d.width, d.height, d.depth];
    let is_possible = d.width > 0 && sides.iter().all(|side| *side <= MAX_SIDE) && d.flags & !ARRAY_FLAGS == 0;
    let texel = d
        .texel_bytes()
        .filter(|_| is_possible && matches!(d.channels, 1 | 2 | 4));
    texel.map(|bytes| bytes as u64).ok_or(INVALID_VALUE)
}

impl Array {
    /// Creates an array.
    pub fn make(description: ArrayDescription, context: usize, mipmapped: usize) -> Answer<Arc<Self>> {
        let texel = check(&description)?;
        let row = description.width as u64 * texel;
        let (rows, slices) = (description.height.max(1) as u64, description.depth.max(1) as u64);
        let bytes = row.checked_mul(rows).and_then(|slice| slice.checked_mul(slices));
        let bytes = bytes.ok_or(OUT_OF_MEMORY)?;
        let memory = Piece::of_device(bytes)?;
        Ok(ARRAYS.put(|handle| Self {
            handle,
            memory,
            description,
            mipmapped,
            context,
            row,
            rows,
            bytes,
        }))
    }

    /// Returns its first address in this process.
    pub fn at(&self) -> u64 {
        self.memory.at()
    }

    /// Returns the size of a texel, bytes.
    pub fn texel(&self) -> u64 {
        self.row / self.description.width.max(1) as u64
    }

    /// Returns the address in this process of a word, or `None` beyond the edge.
    fn word(&self, offset: u64) -> Option<*mut u32> {
        let end = offset.checked_add(4).filter(|end| *end <= self.bytes)?;
        Some(host_pointer(self.at() + end - 4).cast())
    }

    /// Reads a word at an offset in bytes.
    pub fn u32(&self, offset: u64) -> Option<u32> {
        // SAFETY: the word is in this array's memory.
        self.word(offset).map(|at| unsafe { at.read_unaligned() })
    }

    /// Writes a word at an offset in bytes.
    pub fn set_u32(&self, offset: u64, value: u32) -> Option<()> {
        // SAFETY: as above.
        self.word(offset).map(|at| unsafe { at.write_unaligned(value) })
    }

    /// Returns the offset of a box, if the array has all of it.
    pub fn offset_of(&self, at: [usize; 3], size: [u64; 3]) -> Answer<u64> {
        let slices = self.bytes / (self.row * self.rows).max(1);
        for ((first, count), all) in at.iter().zip(size).zip([self.row, self.rows, slices]) {
            let end = (*first as u64).checked_add(count);
            end.filter(|end| *end <= all).ok_or(INVALID_VALUE)?;
        }
        let [x, y, z] = at.map(|n| n as u64);
        Ok(x + (y + z * self.rows) * self.row)
    }
}

impl MipmappedArray {
    /// Creates an array with levels. Their number is limited to what the sizes allow.
    pub fn make(description: ArrayDescription, levels: u32, context: usize) -> Answer<Arc<Self>> {
        check(&description)?;
        let is_layered = description.flags & LAYERED != 0;
        let depth = if is_layered { 0 } else { description.depth };
        let largest = description.width.max(description.height).max(depth);
        let levels = levels.clamp(1, largest.ilog2() + 1);
        let array = MIPMAPPED_ARRAYS.put(|handle| Self {
            handle,
            levels: Mutex::default(),
            context,
        });
        let side = |size: usize, level: u32| if size == 0 { 0 } else { (size >> level).max(1) };
        for level in 0..levels {
            let depth = if is_layered {
                description.depth
            } else {
                side(description.depth, level)
            };
            let level = ArrayDescription {
                width: side(description.width, level),
                height: side(description.height, level),
                depth,
                ..description
            };
            match Array::make(level, context, array.handle) {
                Ok(level) => lock(&array.levels).push(level.handle),
                Err(code) => {
                    destroy_mipmapped(pointer(array.handle))?;
                    return Err(code);
                }
            }
        }
        Ok(array)
    }
}

/// All arrays.
pub static ARRAYS: Handles<Array> = Handles::new(3);
/// All arrays with levels.
pub static MIPMAPPED_ARRAYS: Handles<MipmappedArray> = Handles::new(15);

/// Destroys an array that is no level of another one.
pub fn destroy(array: CuArray) -> Answer {
    if ARRAYS.get(array)?.mipmapped != 0 {
        return Err(INVALID_HANDLE);
    }
    ARRAYS.take(array).map(drop)
}

/// Destroys an array with its levels.
pub fn destroy_mipmapped(array: CuMipmappedArray) -> Answer {
    let array = MIPMAPPED_ARRAYS.take(array)?;
    let levels = std::mem::take(&mut *lock(&array.levels));
    levels
        .iter()
        .try_for_each(|level| ARRAYS.take(pointer(*level)).map(drop))
}

/// Removes the arrays of a context that is destroyed.
pub fn forget(context: usize) {
    for array in MIPMAPPED_ARRAYS.all().iter().filter(|a| a.context == context) {
        let _ = destroy_mipmapped(pointer(array.handle));
    }
    for array in ARRAYS.all().iter().filter(|a| a.context == context) {
        let _ = destroy(pointer(array.handle));
    }
}
