//! Variables of a module: arrays with initial values, and addresses of functions. All are read only.

use crate::memory::Width;

/// First address of `.global` variables.
const GLOBAL_BASE: u64 = 0x7fff_0000_0000_0000;
/// First address of `.const` variables, in their own space.
const CONST_BASE: u64 = 0x1_0000;
/// Address of the first function.
const FUNCTION_BASE: u64 = 0x7ffe_0000_0000_0000;
/// Distance of the addresses of functions.
const FUNCTION_STEP: u64 = 16;

/// Contents of the variables of one state space.
#[derive(Clone, Debug, Default)]
pub struct Image {
    base: u64,
    pub bytes: Vec<u8>,
}

impl Image {
    /// Returns the value at an address, or `None` outside the image.
    pub fn load(&self, address: u64, width: Width) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let bytes = self.bytes.get(offset..)?.get(..width.bytes() as usize)?;
        Some(bytes.iter().rev().fold(0, |value, b| value << 8 | u64::from(*b)))
    }

    /// Adds an array, aligned, and returns its address.
    pub fn add(&mut self, bytes: &[u8], alignment: usize) -> u64 {
        let start = self.bytes.len().next_multiple_of(alignment.max(1));
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(bytes);
        self.base + start as u64
    }
}

/// Variables of a module.
#[derive(Clone, Debug)]
pub struct Variables {
    pub global: Image,
    pub constant: Image,
}

impl Default for Variables {
    fn default() -> Self {
        let image = |base| Image {
            base,
            bytes: Vec::new(),
        };
        Self {
            global: image(GLOBAL_BASE),
            constant: image(CONST_BASE),
        }
    }
}

/// Returns the address of a function by its index.
pub fn function_address(index: u32) -> u64 {
    FUNCTION_BASE + u64::from(index) * FUNCTION_STEP
}

/// Returns the index of the function at an address, if one may be there.
pub fn function_index(address: u64) -> Option<usize> {
    let offset = address.checked_sub(FUNCTION_BASE)?;
    (offset % FUNCTION_STEP == 0).then(|| usize::try_from(offset / FUNCTION_STEP).ok())?
}
