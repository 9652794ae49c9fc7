//! Lookup of the driver's functions through the driver, and names of its errors.

use super::exported;
use crate::call::Call;
use crate::codes::{INVALID_VALUE, NOT_FOUND};
use crate::pointers::{give, give_if_wanted, text};
use crate::{Answer, lock};
use cuda_driver::{CuResult, Uuid, symbol_in_version};
use std::ffi::{CString, c_char, c_void};
use std::sync::Mutex;

/// Flag: stream 0 is the calling thread's own.
const PER_THREAD: u64 = 2;
/// Status: the driver has no function of this name.
const SYMBOL_NOT_FOUND: i32 = 1;

fn find(name: &str, version: i32, flags: u64) -> Option<*mut c_void> {
    let (legacy, per_thread) = exported(&symbol_in_version(name, version)?)?;
    Some(per_thread.filter(|_| flags & PER_THREAD != 0).unwrap_or(legacy))
}

pub fn cuGetProcAddress_v2(
    call: &Call,
    symbol: *const c_char,
    to: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut i32,
) -> Answer {
    let result = cuGetProcAddress(call, symbol, to, version, flags);
    give_if_wanted(status, if result.is_err() { SYMBOL_NOT_FOUND } else { 0 });
    result
}

pub fn cuGetProcAddress(_: &Call, symbol: *const c_char, to: *mut *mut c_void, version: i32, flags: u64) -> Answer {
    let name = text(symbol)?;
    let address = name.to_str().ok().and_then(|name| find(name, version, flags));
    give(to, address.unwrap_or(std::ptr::null_mut()))?;
    address.map(|_| ()).ok_or(NOT_FOUND)
}

/// Returns an error: the stand-in has no private tables.
pub fn cuGetExportTable(_: &Call, to: *mut *const c_void, _of: *const Uuid) -> Answer {
    give_if_wanted(to, std::ptr::null());
    Err(NOT_FOUND)
}

/// Strings that programs keep pointers to. Each string is created once and is never freed.
static TEXTS: Mutex<Vec<(CuResult, CString)>> = Mutex::new(Vec::new());

pub fn cuGetErrorName(_: &Call, error: CuResult, to: *mut *const c_char) -> Answer {
    let mut texts = lock(&TEXTS);
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
    give(to, text.unwrap_or(std::ptr::null()))?;
    text.map(|_| ()).ok_or(INVALID_VALUE)
}

/// Returns the name of an error as its description.
pub fn cuGetErrorString(call: &Call, error: CuResult, to: *mut *const c_char) -> Answer {
    cuGetErrorName(call, error, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_of_the_requested_version_is_found() {
        let address_of = |name: &str| exported(name).map(|(at, _)| at);
        assert_eq!(find("cuMemAlloc", 13_000, 0), address_of("cuMemAlloc_v2"));
        assert_eq!(find("cuGetProcAddress", 13_000, 0), address_of("cuGetProcAddress_v2"));
        assert_eq!(find("cuLaunchKernel", 13_000, 0), address_of("cuLaunchKernel"));
        assert_eq!(
            find("cuLaunchKernel", 13_000, PER_THREAD),
            exported("cuLaunchKernel").and_then(|(_, o)| o)
        );
        assert_ne!(find("cuLaunchKernel", 13_000, PER_THREAD), address_of("cuLaunchKernel"));
        assert_eq!(
            find("cuGraphInstantiate", 11_000, 0),
            address_of("cuGraphInstantiate_v2")
        );
        assert_eq!(
            find("cuGraphInstantiate", 12_000, 0),
            address_of("cuGraphInstantiateWithFlags")
        );
        assert_eq!(find("cuCtxSynchronize", 12_000, 0), address_of("cuCtxSynchronize"));
        assert_eq!(find("cuCtxSynchronize", 13_000, 0), address_of("cuCtxSynchronize_v2"));
        assert_eq!(find("cuMemAlloc_v2", 13_000, 0), None);
        assert_eq!(find("cuNothing", 13_000, 0), None);
    }
}
