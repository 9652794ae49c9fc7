//! Handles of cuBLAS: memory of this library, known as long as it lives.

use crate::{Answer, lock, memory};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

/// `CUBLAS_STATUS_NOT_INITIALIZED`.
pub const NOT_INITIALIZED: i32 = 1;
/// `CUBLAS_STATUS_INVALID_VALUE`.
pub const INVALID_VALUE: i32 = 7;

/// State of a handle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blas {
    pub stream: u64,
    pub is_device_mode: bool,
    pub atomics: i32,
    pub math: i32,
}

static HANDLES: Mutex<Option<HashMap<usize, Blas>>> = Mutex::new(None);
static NEXT: Mutex<usize> = Mutex::new(0x7b1a_0000);

/// Creates a handle.
pub fn create(to: *mut *mut c_void) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    memory::check_device()?;
    let mut next = lock(&NEXT);
    *next += 64;
    lock(&HANDLES).get_or_insert_default().insert(*next, Blas::default());
    // SAFETY: the caller of the exported function guarantees that results are writable.
    unsafe { to.write(std::ptr::without_provenance_mut(*next)) };
    Ok(())
}

/// Destroys a handle.
pub fn destroy(handle: *mut c_void) -> Answer {
    let removed = lock(&HANDLES).get_or_insert_default().remove(&handle.addr());
    removed.map(drop).ok_or(NOT_INITIALIZED)
}

/// Returns the state of a handle.
pub fn find(handle: *mut c_void) -> Answer<Blas> {
    let found = lock(&HANDLES).get_or_insert_default().get(&handle.addr()).copied();
    found.ok_or(NOT_INITIALIZED)
}

/// Changes the state of a handle.
pub fn change(handle: *mut c_void, change: impl FnOnce(&mut Blas)) -> Answer {
    let mut handles = lock(&HANDLES);
    let state = handles.get_or_insert_default().get_mut(&handle.addr());
    state.map(change).ok_or(NOT_INITIALIZED)
}
