//! CUDA driver library, loaded at run time, with a pointer for each function that it exports.
//!
//! This is one of the modules that contain `unsafe`: the signatures of a library's functions are taken from its vendor.
#![allow(unsafe_code)]

use crate::results::format_result;
use crate::types::*;
use libloading::Library;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::path::{Path, PathBuf};

/// File names of the driver library on the supported systems.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// Environment variable with the path of another driver library, for example the tests' stub driver.
pub const LIBRARY_VARIABLE: &str = "KINESCOPE_CUDA_LIBRARY";

/// Reasons why no driver is loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No library with one of the driver's names could be loaded.
    #[error("there is no CUDA driver here: {why} (expected libcuda.so.1, which NVIDIA's driver installs)")]
    NoDriver {
        /// Error of the loader for the last name.
        why: String,
    },
}

/// Error of a driver call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// The driver returned a result other than success.
    #[error("{call}: {}", format_result(*result))]
    Refused {
        /// Name of the function.
        call: &'static str,
        /// Result of the call.
        result: CuResult,
    },
    /// The driver does not export the function: it is too old, or not a CUDA driver.
    #[error("the CUDA driver has no {call}: a newer one is needed")]
    Missing {
        /// Name of the function.
        call: &'static str,
    },
}

impl CudaError {
    /// Returns the driver's result code, if the driver returned one.
    #[must_use]
    pub fn result(&self) -> Option<CuResult> {
        match self {
            Self::Refused { result, .. } => Some(*result),
            Self::Missing { .. } => None,
        }
    }
}

macro_rules! driver {
    ($($name:ident [$($other:ident)?] ($($arg:ident: $type:ty),*);)*) => {
        /// Pointers to the driver's functions. Copies refer to the same library, which stays loaded.
        #[derive(Clone, Copy)]
        #[allow(non_snake_case, reason = "the driver's own names")]
        struct Pointers {
            $($name: Option<unsafe extern "C" fn($($type),*) -> CuResult>,)*
        }

        impl Pointers {
            /// Looks up the functions that the library exports.
            ///
            /// # Safety
            /// The library's functions have the signatures of the list.
            unsafe fn look_up(find: impl Fn(&'static str) -> Option<*mut c_void>) -> Self {
                Self {
                    $($name: find(stringify!($name)).map(|at| {
                        // SAFETY: the caller guarantees that the function has this signature. Function pointers and
                        // data pointers have the same representation on every system that the driver supports.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> CuResult>(at) }
                    }),)*
                }
            }
        }

        #[allow(non_snake_case, missing_docs, clippy::missing_safety_doc, clippy::missing_errors_doc,
                clippy::too_many_arguments, reason = "the driver's own functions, which its manual describes")]
        impl Driver {
            $(pub unsafe fn $name(&self $(, $arg: $type)*) -> Result<(), CudaError> {
                let call = stringify!($name);
                let Some(f) = self.pointers.$name else { return Err(CudaError::Missing { call }) };
                // SAFETY: the caller keeps the rules of the driver's manual.
                match unsafe { f($($arg),*) } {
                    SUCCESS => Ok(()),
                    result => Err(CudaError::Refused { call, result }),
                }
            })*
        }
    };
}

crate::functions!(driver);

/// Loaded CUDA driver. Its functions have the driver's own names and rules; each is `unsafe`, as it is in C.
#[derive(Clone, Copy)]
pub struct Driver {
    // The library is never unloaded, so the pointers are never freed.
    pointers: &'static Pointers,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

impl Driver {
    /// Loads the driver: the library named by the environment variable `KINESCOPE_CUDA_LIBRARY`, or the system's
    /// library.
    ///
    /// # Errors
    /// When no driver library can be loaded.
    pub fn load() -> Result<Self, LoadError> {
        match std::env::var_os(LIBRARY_VARIABLE).filter(|v| !v.is_empty()) {
            Some(path) => Self::load_from(&PathBuf::from(path)),
            None => {
                let mut last = None;
                for name in NAMES {
                    match Self::load_from(Path::new(name)) {
                        Ok(driver) => return Ok(driver),
                        Err(e) => last = last.or(Some(e)),
                    }
                }
                Err(last.unwrap_or(LoadError::NoDriver { why: String::new() }))
            }
        }
    }

    /// Loads the driver from a library with this name or path.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub fn load_from(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: loading a driver runs its initialisers, as every program that uses the device does.
        let library = unsafe { Library::new(path) }.map_err(|e| LoadError::NoDriver { why: e.to_string() })?;
        let find = |name: &'static str| {
            // SAFETY: the pointer is not used here, and its type can represent any function.
            let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            // SAFETY: as above; only the address is taken.
            symbol.ok().map(|s| unsafe { s.into_raw() }.as_raw_ptr())
        };
        // SAFETY: a library of this name has the driver's functions with the signatures that NVIDIA publishes.
        let pointers = unsafe { Pointers::look_up(find) };
        // A driver has its own threads and is never unloaded.
        std::mem::forget(library);
        Ok(Self {
            pointers: Box::leak(Box::new(pointers)),
        })
    }

    /// Creates a driver from the function pointers that `find` returns, for callers that intercept the functions.
    ///
    /// # Safety
    /// The pointers that `find` returns are functions with the signatures of the list.
    #[must_use]
    pub unsafe fn from_symbols(find: impl Fn(&'static str) -> Option<*mut c_void>) -> Self {
        // SAFETY: the caller guarantees the signatures.
        let pointers = unsafe { Pointers::look_up(find) };
        Self {
            pointers: Box::leak(Box::new(pointers)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_driver_and_functions_are_reported() {
        let e = Driver::load_from(Path::new("/nowhere/libcuda.so.1")).unwrap_err();
        assert!(e.to_string().contains("libcuda.so.1"), "{e}");
        // SAFETY: A driver without functions calls nothing.
        let none = unsafe { Driver::from_symbols(|_| None) };
        // SAFETY: The driver has no functions, so it calls nothing.
        let e = unsafe { none.cuInit(0) }.unwrap_err();
        assert_eq!(e.to_string(), "the CUDA driver has no cuInit: a newer one is needed");
        let e = CudaError::Refused {
            call: "cuInit",
            result: 100,
        };
        assert_eq!(e.to_string(), "cuInit: CUDA_ERROR_NO_DEVICE (100)");
    }
}
