//! The program's `libcuda.so.1`: its driver functions, and the function that sends calls of libraries.
#![allow(unsafe_code, reason = "the driver is a C library")]

use cuda_driver::{Copy2d, CuDevicePtr, CuResult, CuStream, CudaError, Driver};
use libloading::Library;
use remote_calls::library::{LIBRARY_CALL_FUNCTION, LibraryCallFrame};
use std::ffi::c_void;
use std::sync::OnceLock;

/// File name of the driver library.
const LIBRARY: &str = "libcuda.so.1";
/// `CUDA_ERROR_NOT_INITIALIZED`, for a function that the driver lacks.
const NOT_INITIALIZED: CuResult = 3;

/// Type of the driver's function that sends a request. The frame is valid during the call.
type LibraryCallFunction = unsafe extern "C" fn(frame: *mut LibraryCallFrame) -> CuResult;

/// Reasons why there is no connection to a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// There is no driver.
    #[error("the program has no {LIBRARY}: {0}")]
    Missing(String),
    /// The driver is not this project's.
    #[error(
        "this library needs Kinescope's {LIBRARY}, and the program has another one, such as NVIDIA's. Start the program \
         with 'kinescope run --on TARGET -- PROGRAM', or remove this library from its LD_LIBRARY_PATH"
    )]
    Foreign,
}

/// The loaded driver.
pub struct RemoteDriver {
    api: Driver,
    call: LibraryCallFunction,
}

impl RemoteDriver {
    fn load() -> Result<Self, DriverError> {
        // SAFETY: loading a driver runs its initialisers, as every program that uses the device does.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|e| DriverError::Missing(e.to_string()))?;
        // SAFETY: only this project's driver has a function of this name, and it has this type.
        let call = unsafe { library.get::<LibraryCallFunction>(LIBRARY_CALL_FUNCTION.to_bytes_with_nul()) };
        let call = *call.map_err(|_| DriverError::Foreign)?;
        let find = |name: &'static str| {
            // SAFETY: only the address is taken here.
            let symbol = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            // SAFETY: as above.
            symbol.ok().map(|symbol| unsafe { symbol.into_raw() }.as_raw_ptr())
        };
        // SAFETY: this project's driver has the driver's functions with the signatures that NVIDIA publishes.
        let api = unsafe { Driver::from_symbols(find) };
        // A driver is never unloaded.
        std::mem::forget(library);
        Ok(Self { api, call })
    }

    /// Sends the request of a frame, whose pointers are to memory of the caller.
    ///
    /// # Errors
    /// The driver's code, or [`OTHER_TABLE`](remote_calls::library::OTHER_TABLE).
    pub fn send(&self, arguments: &[u8], results: &mut [u8], frame: FrameHead) -> Result<usize, CuResult> {
        let mut frame = LibraryCallFrame {
            digest: remote_calls::TABLE_DIGEST,
            request: frame.request,
            waits: u32::from(frame.waits),
            stream: frame.stream,
            arguments: arguments.as_ptr(),
            argument_bytes: arguments.len(),
            results: results.as_mut_ptr(),
            result_capacity: results.len(),
            result_bytes: 0,
        };
        // SAFETY: the frame and the memory that it names are valid during the call.
        match unsafe { (self.call)(&raw mut frame) } {
            0 => Ok(frame.result_bytes.min(results.len())),
            result => Err(result),
        }
    }

    /// Makes sure that the calling thread has a current context. NVIDIA's libraries use the primary context of device 0
    /// if the program has chosen none.
    ///
    /// # Errors
    /// The driver's code.
    pub fn bind(&self) -> Result<(), CuResult> {
        static INITIALIZATION: OnceLock<Result<(), CuResult>> = OnceLock::new();
        // SAFETY: the call has no pointers.
        (*INITIALIZATION.get_or_init(|| code(unsafe { self.api.cuInit(0) })))?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the result.
        code(unsafe { self.api.cuCtxGetCurrent(&raw mut context) })?;
        if !context.is_null() {
            return Ok(());
        }
        // SAFETY: as above, and the handle is the driver's. The context stays retained, as NVIDIA's runtime keeps it.
        unsafe {
            code(self.api.cuDevicePrimaryCtxRetain(&raw mut context, 0))?;
            code(self.api.cuCtxSetCurrent(context))
        }
    }

    /// Copies rows between the program's memory and the device; without a stream, it waits as `cuMemcpy2D` does.
    ///
    /// # Errors
    /// The driver's code.
    pub fn copy_rows(&self, copy: &Copy2d, stream: Option<CuStream>) -> Result<(), CuResult> {
        // SAFETY: the caller of the exported function guarantees that the program's memory has this form.
        code(unsafe {
            match stream {
                None => self.api.cuMemcpy2DUnaligned_v2(copy),
                Some(stream) => self.api.cuMemcpy2DAsync_v2(copy, stream),
            }
        })
    }

    /// Copies bytes to the device.
    ///
    /// # Errors
    /// The driver's code.
    pub fn copy_to_device(
        &self,
        to: CuDevicePtr,
        from: *const c_void,
        bytes: usize,
        stream: Option<CuStream>,
    ) -> Result<(), CuResult> {
        // SAFETY: the caller of the exported function guarantees that this many bytes are readable.
        code(unsafe {
            match stream {
                None => self.api.cuMemcpyHtoD_v2(to, from, bytes),
                Some(stream) => self.api.cuMemcpyHtoDAsync_v2(to, from, bytes, stream),
            }
        })
    }

    /// Copies bytes to the program.
    ///
    /// # Errors
    /// The driver's code.
    pub fn copy_to_host(
        &self,
        to: *mut c_void,
        from: CuDevicePtr,
        bytes: usize,
        stream: Option<CuStream>,
    ) -> Result<(), CuResult> {
        // SAFETY: the caller of the exported function guarantees that this many bytes are writable.
        code(unsafe {
            match stream {
                None => self.api.cuMemcpyDtoH_v2(to, from, bytes),
                Some(stream) => self.api.cuMemcpyDtoHAsync_v2(to, from, bytes, stream),
            }
        })
    }
}

/// What a frame says about its request.
#[derive(Clone, Copy, Debug)]
pub struct FrameHead {
    /// Number of the request.
    pub request: u32,
    /// Whether the call waits for its answer.
    pub waits: bool,
    /// The stream of the call, as the program passed it.
    pub stream: u64,
}

fn code(result: Result<(), CudaError>) -> Result<(), CuResult> {
    result.map_err(|error| error.result().unwrap_or(NOT_INITIALIZED))
}

/// Returns the driver.
///
/// # Errors
/// If there is none, or if it is not this project's.
pub fn loaded() -> Result<&'static RemoteDriver, &'static DriverError> {
    static DRIVER: OnceLock<Result<RemoteDriver, DriverError>> = OnceLock::new();
    DRIVER.get_or_init(RemoteDriver::load).as_ref()
}
