//! Result codes that the library returns by itself, and names of all codes.

pub use cuda_driver::INVALID_CONTEXT;

use crate::CallResult;
use crate::pointers::put;
use cuda_driver::{CuResult, INVALID_VALUE};
use std::ffi::{CString, c_char};
use std::sync::Mutex;

/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: CuResult = 100;
/// `CUDA_ERROR_INVALID_DEVICE`.
pub const INVALID_DEVICE: CuResult = 101;
/// `CUDA_ERROR_DEVICE_UNAVAILABLE`: the worker, the agent or the connection is gone.
pub const DEVICE_UNAVAILABLE: CuResult = 46;
/// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED`.
pub const PEER_ACCESS_UNSUPPORTED: CuResult = 217;
/// `CUDA_ERROR_PEER_ACCESS_NOT_ENABLED`.
pub const PEER_ACCESS_NOT_ENABLED: CuResult = 705;
/// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED`.
pub const ALREADY_REGISTERED: CuResult = 712;
/// `CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED`.
pub const NOT_REGISTERED: CuResult = 713;
/// `CUDA_ERROR_NOT_PERMITTED`.
pub const NOT_PERMITTED: CuResult = 800;
/// `CUDA_ERROR_LOSSY_QUERY`: the answer has data that the program has no memory for.
pub const LOSSY_QUERY: CuResult = 402;

/// Strings that programs keep pointers to. Each string is created once and never freed.
static TEXTS: Mutex<Vec<(CuResult, CString)>> = Mutex::new(Vec::new());

/// Writes the address of the name of an error.
///
/// # Errors
/// `INVALID_VALUE` for an unknown code or a null pointer.
pub fn write_name(error: CuResult, to: *mut *const c_char) -> CallResult {
    let mut texts = crate::lock(&TEXTS);
    if let Some(name) = cuda_driver::result_name(error)
        && !texts.iter().any(|(code, _)| *code == error)
    {
        texts.push((error, CString::new(name).map_err(|_| INVALID_VALUE)?));
    }
    // The string is on the heap, and does not move when the list grows.
    let text = texts
        .iter()
        .find(|(code, _)| *code == error)
        .map(|(_, text)| text.as_ptr());
    put(to, text.unwrap_or(std::ptr::null()))?;
    text.map(drop).ok_or(INVALID_VALUE)
}
