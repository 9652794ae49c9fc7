//! Random number generators: the number at an offset is a function of seed and offset.

use crate::{Answer, lock};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

/// `CURAND_STATUS_NOT_INITIALIZED`.
pub const NOT_INITIALIZED: i32 = 101;
/// `CURAND_STATUS_TYPE_ERROR`.
pub const TYPE_ERROR: i32 = 103;
/// `CURAND_STATUS_OUT_OF_RANGE`.
pub const OUT_OF_RANGE: i32 = 104;

/// A generator.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    pub kind: i32,
    pub is_host: bool,
    pub seed: u64,
    pub offset: u64,
    pub stream: u64,
    pub dimensions: u32,
}

impl Generator {
    pub fn is_quasi_random(&self) -> bool {
        self.kind >= 200
    }

    /// Returns the next 64-bit number.
    pub fn next(&mut self) -> u64 {
        let mut x = self.seed.wrapping_add(self.offset.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.offset += 1;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Returns the next number above 0 and up to 1.
    pub fn next_uniform(&mut self) -> f64 {
        ((self.next() >> 40) + 1) as f64 / (1u64 << 24) as f64
    }
}

static GENERATORS: Mutex<Option<HashMap<usize, Generator>>> = Mutex::new(None);
static NEXT: Mutex<usize> = Mutex::new(0x7b2a_0000);

/// Creates a generator.
pub fn create(to: *mut *mut c_void, kind: i32, is_host: bool) -> Answer {
    if to.is_null() {
        return Err(OUT_OF_RANGE);
    }
    if !matches!(kind, 100 | 101 | 121 | 141 | 142 | 161 | 200..=204) {
        return Err(TYPE_ERROR);
    }
    if !is_host {
        crate::memory::check_device().map_err(|_| 203)?;
    }
    let generator = Generator {
        kind,
        is_host,
        seed: 0,
        offset: 0,
        stream: 0,
        dimensions: 1,
    };
    let mut next = lock(&NEXT);
    *next += 64;
    lock(&GENERATORS).get_or_insert_default().insert(*next, generator);
    // SAFETY: the caller of the exported function guarantees that results are writable.
    unsafe { to.write(std::ptr::without_provenance_mut(*next)) };
    Ok(())
}

/// Destroys a generator.
pub fn destroy(generator: *mut c_void) -> Answer {
    let removed = lock(&GENERATORS).get_or_insert_default().remove(&generator.addr());
    removed.map(drop).ok_or(NOT_INITIALIZED)
}

/// Changes a generator, and returns what the change returns.
pub fn with<T>(generator: *mut c_void, change: impl FnOnce(&mut Generator) -> Answer<T>) -> Answer<T> {
    let mut generators = lock(&GENERATORS);
    let generator = generators.get_or_insert_default().get_mut(&generator.addr());
    generator.ok_or(NOT_INITIALIZED).and_then(change)
}
