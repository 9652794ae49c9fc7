//! The exported functions: one for each line of the list of signatures, in both of its forms.
//!
//! Each hands its arguments to the function of the same name in the room that it belongs to; a line of the list that no
//! room answers does not compile.

use crate::call::{Call, answer};
use crate::codes::{NOT_FOUND, NOT_SUPPORTED};
use crate::{Answer, pointers};
use cuda_driver::*;
use std::ffi::{c_char, c_void};

use crate::code::function_calls::*;
use crate::code::library_calls::*;
use crate::code::module_calls::*;
use crate::context::*;
use crate::copies::calls::*;
use crate::copies::fill_calls::*;
use crate::device::*;
use crate::graphs::calls::*;
use crate::graphs::capture_calls::*;
use crate::graphs::exec_calls::*;
use crate::launch::calls::*;
use crate::memory::allocation::*;
use crate::memory::host::*;
use crate::memory::ranges::*;
use crate::memory::virtual_memory::*;
use crate::procs::*;
use crate::streams::calls::*;
use crate::streams::event_calls::*;

/// The work of a function; those with [`NOT_SUPPORTED`] make no sense without a device.
macro_rules! work {
    (cuIpcGetMemHandle $($rest:tt)*) => { unsupported() };
    (cuTexObjectCreate $($rest:tt)*) => { unsupported() };
    (cuTexObjectDestroy $($rest:tt)*) => { unsupported() };
    (cuSurfObjectCreate $($rest:tt)*) => { unsupported() };
    (cuArrayCreate_v2 $($rest:tt)*) => { unsupported() };
    (cuArray3DCreate_v2 $($rest:tt)*) => { unsupported() };
    (cuArrayDestroy $($rest:tt)*) => { unsupported() };
    ($name:ident, $call:ident $(, $arg:ident)*) => { $name($call $(, $arg)*) };
}

fn unsupported() -> Answer {
    Err(NOT_SUPPORTED)
}

macro_rules! export {
    ($inside:ident, $name:ident, $own:ident, $per_thread:literal, ($($arg:ident: $type:ty),*)) => {
        /// The driver's own, as its manual describes it.
        ///
        /// # Safety
        /// As the manual asks for.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the driver's own")]
        pub unsafe extern "C" fn $own($($arg: $type),*) -> CuResult {
            $inside::$own($($arg),*)
        }
    };
}

macro_rules! body {
    ($name:ident, $own:ident, $per_thread:literal, ($($arg:ident: $type:ty),*)) => {
        #[allow(clippy::too_many_arguments, unused_variables, reason = "the driver's own")]
        pub extern "C" fn $own($($arg: $type),*) -> CuResult {
            answer(stringify!($name), $per_thread, |call: &Call| work!($name, call $(, $arg)*))
        }
    };
}

macro_rules! both {
    ($macro:ident [$($inside:ident)?] $name:ident [] $args:tt) => { $macro!($($inside,)? $name, $name, false, $args); };
    ($macro:ident [$($inside:ident)?] $name:ident [$other:ident] $args:tt) => {
        $macro!($($inside,)? $name, $name, false, $args);
        $macro!($($inside,)? $name, $other, true, $args);
    };
}

macro_rules! names {
    ($name:ident []) => { [(stringify!($name), inside::$name as *const (), None)].as_slice() };
    ($name:ident [$other:ident]) => {
        [(stringify!($name), inside::$name as *const (), Some(inside::$other as *const ()))].as_slice()
    };
}

macro_rules! exports {
    ($($name:ident [$($other:ident)?] ($($arg:ident: $type:ty),*);)*) => {
        /// The functions themselves. What `cuGetProcAddress` gives are these: a reference to an exported function could
        /// be taken over by a library of the program's that exports the same name.
        mod inside {
            use super::*;
            $(both!(body [] $name [$($other)?] ($($arg: $type),*));)*
        }

        $(both!(export [inside] $name [$($other)?] ($($arg: $type),*));)*

        /// Both forms of a function by its exported name; the second one where it has another.
        pub fn exported(name: &str) -> Option<(*mut c_void, Option<*mut c_void>)> {
            let find = |all: &[(&str, *const (), Option<*const ()>)]| {
                let (_, at, other) = all.iter().find(|(known, ..)| *known == name)?;
                Some((at.cast_mut().cast(), other.map(|o| o.cast_mut().cast())))
            };
            None$(.or_else(|| find(names!($name [$($other)?]))))*
        }
    };
}

cuda_driver::functions!(exports);

/// Functions that the list of signatures has no line for.
mod further {
    use super::*;

    pub extern "C" fn cuGetErrorString(error: CuResult, to: *mut *const c_char) -> CuResult {
        answer("cuGetErrorString", false, |_| error_string(error, to))
    }

    pub extern "C" fn cuGetExportTable(to: *mut *const c_void, _of: *const Uuid) -> CuResult {
        pointers::give_if_wanted(to, std::ptr::null());
        NOT_FOUND
    }
}

/// The driver's own.
///
/// # Safety
/// As its manual asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: CuResult, to: *mut *const c_char) -> CuResult {
    further::cuGetErrorString(error, to)
}

/// The driver's own: there are no private tables here.
///
/// # Safety
/// As its users ask for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetExportTable(to: *mut *const c_void, of: *const Uuid) -> CuResult {
    further::cuGetExportTable(to, of)
}

/// As [`exported`], those of no line too.
pub fn function(name: &str) -> Option<(*mut c_void, Option<*mut c_void>)> {
    match name {
        "cuGetErrorString" => Some((further::cuGetErrorString as *const () as *mut c_void, None)),
        "cuGetExportTable" => Some((further::cuGetExportTable as *const () as *mut c_void, None)),
        _ => exported(name),
    }
}

