//! The driver library: loaded at the first call, initialised at the first call that needs a device.
//!
//! The methods of [`RuntimeDriver`] have the driver's own names. Their arguments come from callers of the exported
//! functions, which guarantee what the driver's manual requires.
#![allow(unsafe_code, reason = "the driver is a C library")]

use crate::CallResult;
use crate::errors::{CALL_REQUIRES_NEWER_DRIVER, ErrorCode, INSUFFICIENT_DRIVER, SUCCESS};
use cuda_driver::*;
use libloading::Library;
use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

/// File name of the driver library.
const LIBRARY: &str = "libcuda.so.1";

/// The loaded driver.
pub struct RuntimeDriver {
    api: Driver,
    optional: OptionalFunctions,
}

macro_rules! driver_methods {
    ($($name:ident [$($other:ident)?] ($($arg:ident: $type:ty),*);)*) => {
        #[allow(non_snake_case, clippy::too_many_arguments, dead_code, reason = "the driver's own")]
        impl RuntimeDriver {
            $(pub(crate) fn $name(&self $(, $arg: $type)*) -> CallResult {
                // SAFETY: the caller of the exported function keeps the rules of the driver's manual.
                let result = unsafe { self.api.$name($($arg),*) };
                result.map_err(|error| error.result().unwrap_or(CALL_REQUIRES_NEWER_DRIVER))
            })*
        }
    };
}

cuda_driver::functions!(driver_methods);

macro_rules! optional_functions {
    ($($name:ident ($($arg:ident: $type:ty),*);)*) => {
        /// Functions that a driver can lack: the runtime then does without.
        #[allow(non_snake_case, reason = "the driver's own names")]
        struct OptionalFunctions {
            $($name: Option<unsafe extern "C" fn($($type),*) -> CuResult>,)*
        }

        impl OptionalFunctions {
            fn look_up(find: impl Fn(&'static str) -> Option<*mut c_void>) -> Self {
                Self {
                    $($name: find(stringify!($name)).map(|at| {
                        // SAFETY: the driver's function of this name has this signature.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> CuResult>(at) }
                    }),)*
                }
            }
        }

        #[allow(non_snake_case, reason = "the driver's own names")]
        impl RuntimeDriver {
            $(pub(crate) fn $name(&self $(, $arg: $type)*) -> CallResult {
                let function = self.optional.$name.ok_or(CALL_REQUIRES_NEWER_DRIVER)?;
                // SAFETY: the caller of the exported function keeps the rules of the driver's manual.
                match unsafe { function($($arg),*) } {
                    SUCCESS => Ok(()),
                    code => Err(code),
                }
            })*
        }
    };
}

optional_functions! {
    cuMemHostGetFlags (flags: *mut u32, at: *mut c_void);
    cuDeviceCanAccessPeer (can_access: *mut i32, device: CuDevice, peer: CuDevice);
    cuCtxEnablePeerAccess (context: CuContext, flags: u32);
    cuCtxDisablePeerAccess (context: CuContext);
    cuDeviceGetByPCIBusId (device: *mut CuDevice, id: *const c_char);
    cuDeviceGetP2PAttribute (value: *mut i32, attribute: i32, from: CuDevice, to: CuDevice);
    cuOccupancyAvailableDynamicSMemPerBlock (bytes: *mut usize, function: CuFunction, blocks: i32, threads: i32);
}

impl RuntimeDriver {
    fn load() -> CallResult<Self> {
        // SAFETY: loading a driver runs its initialisers, as every program that uses the device does.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|_| INSUFFICIENT_DRIVER)?;
        let find = |name: &'static str| {
            // SAFETY: the pointer is not used here, and its type can represent any function.
            let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            // SAFETY: as above; only the address is taken.
            symbol.ok().map(|s| unsafe { s.into_raw() }.as_raw_ptr())
        };
        // SAFETY: a library of this name has the driver's functions with the signatures that NVIDIA publishes.
        let api = unsafe { Driver::from_symbols(find) };
        let optional = OptionalFunctions::look_up(find);
        // A driver has its own threads and is never unloaded.
        std::mem::forget(library);
        Ok(Self { api, optional })
    }
}

/// Returns the driver, which need not be initialised.
pub fn loaded() -> CallResult<&'static RuntimeDriver> {
    static DRIVER: OnceLock<CallResult<RuntimeDriver>> = OnceLock::new();
    DRIVER.get_or_init(RuntimeDriver::load).as_ref().map_err(|code| *code)
}

/// Returns the initialised driver. An error of the initialisation stays.
pub fn initialized() -> CallResult<&'static RuntimeDriver> {
    static INITIALIZATION: OnceLock<Result<(), ErrorCode>> = OnceLock::new();
    let driver = loaded()?;
    (*INITIALIZATION.get_or_init(|| driver.cuInit(0)))?;
    Ok(driver)
}
