//! Exported functions: one for each line of the list of signatures, in both forms of the function.
//!
//! Each function forwards its arguments to the function of the same name in one of the modules. A line of the list
//! without such a function does not compile.

pub mod allocation;
pub mod arrays;
pub mod captures;
pub mod contexts;
pub mod copies;
pub mod devices;
pub mod events;
pub mod fills;
pub mod functions;
pub mod graph_exec;
pub mod graph_nodes;
pub mod host_memory;
pub mod launches;
pub mod libraries;
pub mod linking;
pub mod memory_hints;
pub mod memory_queries;
pub mod modules;
pub mod pools;
pub mod procs;
pub mod streams;
pub mod textures;
pub mod virtual_memory;

use crate::call::{Call, is_in_host_function};
use crate::codes::{NOT_INITIALIZED, NOT_PERMITTED, SUCCESS, is_sticky};
use crate::settings::settings;
use crate::{Answer, context, device};
use cuda_driver::*;
use std::ffi::{c_char, c_void};

/// The functions that the exported ones call.
mod implementations {
    pub use super::allocation::*;
    pub use super::arrays::*;
    pub use super::captures::*;
    pub use super::contexts::*;
    pub use super::copies::*;
    pub use super::devices::*;
    pub use super::events::*;
    pub use super::fills::*;
    pub use super::functions::*;
    pub use super::graph_exec::*;
    pub use super::graph_nodes::*;
    pub use super::host_memory::*;
    pub use super::launches::*;
    pub use super::libraries::*;
    pub use super::linking::*;
    pub use super::memory_hints::*;
    pub use super::memory_queries::*;
    pub use super::modules::*;
    pub use super::pools::*;
    pub use super::procs::*;
    pub use super::streams::*;
    pub use super::textures::*;
    pub use super::virtual_memory::*;
}

/// Functions that are allowed before `cuInit`, inside a host function, and in the child of a process that used the
/// device.
const ALWAYS: [&str; 6] = [
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
];

/// Runs a call and returns its result code.
fn answer(function: &'static str, per_thread: bool, work: impl FnOnce(&Call) -> Answer) -> CuResult {
    if !ALWAYS.contains(&function) {
        if device::is_child() || (!device::is_initialized() && function != "cuInit") {
            return NOT_INITIALIZED;
        }
        if is_in_host_function() {
            return NOT_PERMITTED;
        }
        if let Some(code) = settings().due_call(function) {
            if is_sticky(code) {
                context::hurt_current(code);
            }
            return code;
        }
    }
    work(&Call { per_thread }).map_or_else(|code| code, |()| SUCCESS)
}

macro_rules! export {
    ($name:ident, $own:ident, $per_thread:literal, ($($arg:ident: $type:ty),*)) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the driver's own")]
        unsafe extern "C" fn $own($($arg: $type),*) -> CuResult {
            answer(stringify!($name), $per_thread, |call| implementations::$name(call $(, $arg)*))
        }
    };
}

macro_rules! exports {
    ($($name:ident [$($other:ident)?] $args:tt;)*) => {
        $(
            export!($name, $name, false, $args);
            $(export!($name, $other, true, $args);)?
        )*

        /// Returns both forms of a function by its exported name. The second form is `None` if it does not exist.
        pub fn exported(name: &str) -> Option<(*mut c_void, Option<*mut c_void>)> {
            type Form = *const ();
            let all: &[(&str, Form, &[Form])] = &[
                $((stringify!($name), $name as Form, &[$($other as Form)?]),)*
            ];
            let (_, at, other) = all.iter().find(|(known, ..)| *known == name)?;
            Some((at.cast_mut().cast(), other.first().map(|o| o.cast_mut().cast())))
        }
    };
}

cuda_driver::functions!(exports);
