//! Lookup of the driver's functions by the driver.

use crate::CallResult;
use crate::pointers::{put, put_if_wanted, text};
use cuda_driver::{NOT_FOUND, Uuid};
use std::ffi::{c_char, c_void};
use std::sync::Once;

/// Flag: stream 0 is the calling thread's own.
const PER_THREAD: u64 = 2;
/// Status: the driver has no function of this name.
const SYMBOL_NOT_FOUND: i32 = 1;
/// Functions whose newer versions have other arguments: the name, and since which version of the interface another
/// function is meant.
const RENAMED: [(&str, i32, &str); 1] = [("cuGraphInstantiate", 12_000, "cuGraphInstantiateWithFlags")];

/// Functions whose second versions have other arguments: the name, and since which version of the interface the second
/// one is meant.
const SECOND_VERSIONS: [(&str, i32); 6] = [
    ("cuGraphAddKernelNode", 12_000),
    ("cuGraphKernelNodeGetParams", 12_000),
    ("cuGraphKernelNodeSetParams", 12_000),
    ("cuGraphExecKernelNodeSetParams", 12_000),
    ("cuGraphExecUpdate", 12_000),
    ("cuGraphGetEdges", 12_030),
];

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

static RUNTIME_HINT: Once = Once::new();

fn find(exported: FindExported, name: &str, version: i32, flags: u64) -> Option<*const c_void> {
    // Programs look up the first version's name; the driver chooses among all versions up to the requested one.
    if name.ends_with("_v2") {
        return None;
    }
    let renamed = RENAMED
        .iter()
        .find(|(from, since, _)| *from == name && version >= *since);
    let name = renamed.map_or(name, |(_, _, to)| to);
    let is_first = SECOND_VERSIONS
        .iter()
        .any(|(second, since)| *second == name && version < *since);
    let ends: &[&str] = if is_first { &[""] } else { &["_v4", "_v3", "_v2", ""] };
    let newest = ends.iter().find_map(|end| exported(&format!("{name}{end}")))?;
    Some(
        newest
            .per_thread
            .filter(|_| flags & PER_THREAD != 0)
            .unwrap_or(newest.legacy),
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
    RUNTIME_HINT.call_once(|| {
        crate::message::say(format_args!(
            "this program contains NVIDIA's CUDA runtime, which needs NVIDIA's own driver. Build it with 'nvcc \
             --cudart=shared' to run it on a remote device"
        ));
    });
    put_if_wanted(to, std::ptr::null());
    Err(NOT_FOUND)
}
