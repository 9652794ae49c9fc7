//! The driver's library, loaded at run time: a pointer for each function that it has.
//!
//! This is one of the modules with `unsafe` in it: a library's functions are what its maker says they are.
#![allow(unsafe_code)]

use crate::results::result_name;
use crate::types::*;
use libloading::Library;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::path::{Path, PathBuf};

/// Names under which systems have the driver.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// Names a driver for whoever wants another than the system's: the tests' stand-in, for one.
pub const LIBRARY_VARIABLE: &str = "KINESCOPE_CUDA_LIBRARY";

/// Why there is no driver.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No library of the driver's names could be loaded.
    #[error("there is no CUDA driver here: {why} (expected libcuda.so.1, which NVIDIA's driver brings)")]
    NoDriver {
        /// What the loader said of the last name.
        why: String,
    },
}

/// A call that the driver refused, or that it does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// The driver answered something else than success.
    #[error("{call}: {}", shown(*result))]
    Refused {
        /// The function.
        call: &'static str,
        /// What it answered.
        result: CuResult,
    },
    /// The driver is too old, or no driver.
    #[error("the CUDA driver has no {call}: a newer one is needed")]
    Missing {
        /// The function.
        call: &'static str,
    },
}

impl CudaError {
    /// What the driver answered, where it did.
    #[must_use]
    pub fn result(&self) -> Option<CuResult> {
        match self {
            Self::Refused { result, .. } => Some(*result),
            Self::Missing { .. } => None,
        }
    }
}

fn shown(result: CuResult) -> String {
    match result_name(result) {
        Some(name) => format!("{name} ({result})"),
        None => format!("error {result}"),
    }
}

macro_rules! driver {
    ($($name:ident [$($other:ident)?] ($($arg:ident: $type:ty),*);)*) => {
        /// Pointers to the driver's functions. Copies are of the same library, which stays loaded.
        #[derive(Clone, Copy)]
        #[allow(non_snake_case, reason = "the driver's own names")]
        struct Pointers {
            $($name: Option<unsafe extern "C" fn($($type),*) -> CuResult>,)*
        }

        impl Pointers {
            /// Those of a library that has them.
            ///
            /// # Safety
            /// The library's functions have the signatures of the list.
            unsafe fn of(find: impl Fn(&'static str) -> Option<*mut c_void>) -> Self {
                Self {
                    $($name: find(stringify!($name)).map(|at| {
                        // SAFETY: the caller says that the function has this signature, and a pointer to a function has
                        // the form of one to data on every system that the driver is for.
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
                // SAFETY: the caller keeps what the driver's manual asks for.
                match unsafe { f($($arg),*) } {
                    SUCCESS => Ok(()),
                    result => Err(CudaError::Refused { call, result }),
                }
            })*
        }
    };
}

crate::functions!(driver);

/// The driver, loaded. Its functions have the driver's own names and rules; each is `unsafe` as it is in C.
#[derive(Clone, Copy)]
pub struct Driver {
    // Of a library that is never unloaded, and so never given back.
    pointers: &'static Pointers,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

impl Driver {
    /// Loads the driver: the library that the environment's `KINESCOPE_CUDA_LIBRARY` names, or the system's.
    ///
    /// # Errors
    /// When there is none.
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

    /// Loads the driver from a library of this name or path.
    ///
    /// # Errors
    /// When it cannot be loaded.
    pub fn load_from(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: loading a driver runs its initialisers, as every program that uses the device does.
        let library = unsafe { Library::new(path) }.map_err(|e| LoadError::NoDriver { why: e.to_string() })?;
        let find = |name: &'static str| {
            // SAFETY: the pointer is not used here, and its form is any function's.
            let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            // SAFETY: as above; the address alone is taken.
            symbol.ok().map(|s| unsafe { s.into_raw() }.as_raw_ptr())
        };
        // SAFETY: a library of this name has the driver's functions with the signatures that NVIDIA publishes.
        let pointers = unsafe { Pointers::of(find) };
        // A driver has threads of its own and is never unloaded.
        std::mem::forget(library);
        Ok(Self {
            pointers: Box::leak(Box::new(pointers)),
        })
    }

    /// The driver's functions as whoever replaces them knows them.
    ///
    /// # Safety
    /// What `find` gives are functions with the signatures of the list.
    #[must_use]
    pub unsafe fn from_symbols(find: impl Fn(&'static str) -> Option<*mut c_void>) -> Self {
        // SAFETY: the caller's promise.
        let pointers = unsafe { Pointers::of(find) };
        Self {
            pointers: Box::leak(Box::new(pointers)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_no_driver_that_is_said() {
        let e = Driver::load_from(Path::new("/nowhere/libcuda.so.1")).unwrap_err();
        assert!(e.to_string().contains("libcuda.so.1"), "{e}");
        // SAFETY: a driver without functions calls none.
        let none = unsafe { Driver::from_symbols(|_| None) };
        // SAFETY: as above.
        let e = unsafe { none.cuInit(0) }.unwrap_err();
        assert_eq!(e.to_string(), "the CUDA driver has no cuInit: a newer one is needed");
        let e = CudaError::Refused {
            call: "cuInit",
            result: 100,
        };
        assert_eq!(e.to_string(), "cuInit: CUDA_ERROR_NO_DEVICE (100)");
    }
}
