//! Lookup of the driver's functions by the driver.

use crate::pointers::{put, put_if_wanted, text};
use crate::{CallResult, runtime_hint};
use cuda_driver::{NOT_FOUND, Uuid, symbol_in_version};
use std::ffi::{c_char, c_void};

/// Flag: stream 0 is the calling thread's own.
const PER_THREAD: u64 = 2;
/// Status: the driver has no function of this name.
const SYMBOL_NOT_FOUND: i32 = 1;
/// A function that finds an exported function by its name.
pub type FindExported = fn(&str) -> Option<Exported>;

/// Addresses of an exported function.
#[derive(Clone, Copy)]
pub struct Exported {
    /// The function.
    pub legacy: *const c_void,
    /// The function whose default stream is the calling thread's own.
    pub per_thread: Option<*const c_void>,
}

fn find(exported: FindExported, name: &str, version: i32, flags: u64) -> Option<*const c_void> {
    // A program calls what it gets with the arguments of its version: another form would be wrong.
    let found = exported(&symbol_in_version(name, version)?)?;
    Some(
        found
            .per_thread
            .filter(|_| flags & PER_THREAD != 0)
            .unwrap_or(found.legacy),
    )
}

/// `cuGetProcAddress`, first version.
pub fn address(
    exported: FindExported,
    symbol: *const c_char,
    to: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> CallResult {
    let name = text(symbol)?;
    let address = name.to_str().ok().and_then(|name| find(exported, name, version, flags));
    put(to, address.unwrap_or(std::ptr::null()).cast_mut())?;
    address.map(drop).ok_or(NOT_FOUND)
}

/// `cuGetProcAddress`, second version, with a status.
pub fn address_with_status(
    exported: FindExported,
    symbol: *const c_char,
    to: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut i32,
) -> CallResult {
    let result = address(exported, symbol, to, version, flags);
    put_if_wanted(status, if result.is_err() { SYMBOL_NOT_FOUND } else { 0 });
    result
}

/// `cuGetExportTable`: this driver has no private tables. NVIDIA's runtime does not work without them, so a program that
/// contains it gets one message.
pub fn export_table(to: *mut *const c_void, _id: *const Uuid) -> CallResult {
    runtime_hint::give();
    put_if_wanted(to, std::ptr::null());
    Err(NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = [
        "cuStreamGetCaptureInfo",
        "cuStreamGetCaptureInfo_v2",
        "cuStreamGetCaptureInfo_v3",
        "cuMemAdvise",
        "cuMemAdvise_v2",
        "cuMemAlloc_v2",
    ];

    /// Returns an address of its own for each name.
    fn exported(name: &str) -> Option<Exported> {
        let known = NAMES.iter().find(|known| **known == name)?;
        Some(Exported {
            legacy: known.as_ptr().cast(),
            per_thread: None,
        })
    }

    #[test]
    fn functions_have_the_form_of_the_requested_version() {
        for (name, version, expected) in [
            ("cuStreamGetCaptureInfo", 11_000, "cuStreamGetCaptureInfo"),
            ("cuStreamGetCaptureInfo", 12_000, "cuStreamGetCaptureInfo_v2"),
            ("cuStreamGetCaptureInfo", 12_030, "cuStreamGetCaptureInfo_v3"),
            ("cuMemAdvise", 12_000, "cuMemAdvise"),
            ("cuMemAdvise", 13_000, "cuMemAdvise_v2"),
            ("cuMemAlloc", 11_000, "cuMemAlloc_v2"),
        ] {
            let address = exported(expected).map(|found| found.legacy);
            assert_eq!(find(exported, name, version, 0), address, "{name} {version}");
        }
        assert_eq!(find(exported, "cuMemAlloc_v2", 13_000, 0), None);
    }
}
