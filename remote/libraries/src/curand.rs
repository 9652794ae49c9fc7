//! Functions of cuRAND that keep state here.

use crate::{CallResult, forwarded, objects};
use std::ffi::c_void;

/// First kind of quasi-random generators: which functions and counts they take, only NVIDIA's library knows.
const FIRST_QUASI_RANDOM: i32 = 200;
/// `CURAND_STATUS_NOT_INITIALIZED`.
const NO_GENERATOR: i32 = remote_calls::library::NvidiaLibrary::Curand.codes().no_object;

fn note_kind(generator: *mut *mut c_void, kind: i32) {
    if let Some(generator) = crate::pointers::get(generator.cast_const()) {
        objects::change(generator, |state| state.waits_for_each = kind >= FIRST_QUASI_RANDOM);
    }
}

/// `curandCreateGenerator`.
///
/// # Errors
/// The library's status.
pub fn create(generator: *mut *mut c_void, kind: i32) -> CallResult {
    forwarded::curandCreateGenerator(generator, kind)?;
    note_kind(generator, kind);
    Ok(())
}

/// `curandCreateGeneratorHost`.
///
/// # Errors
/// The library's status.
pub fn create_host(generator: *mut *mut c_void, kind: i32) -> CallResult {
    forwarded::curandCreateGeneratorHost(generator, kind)
}

/// `curandDestroyGenerator`.
///
/// # Errors
/// The library's status.
pub fn destroy(generator: *mut c_void) -> CallResult {
    objects::find(generator, NO_GENERATOR)?;
    forwarded::curandDestroyGenerator(generator)
}

/// `curandSetStream`.
///
/// # Errors
/// The library's status.
pub fn set_stream(generator: *mut c_void, stream: *mut c_void) -> CallResult {
    forwarded::curandSetStream(generator, stream)?;
    objects::change(generator, |state| state.stream = stream.addr() as u64);
    Ok(())
}
