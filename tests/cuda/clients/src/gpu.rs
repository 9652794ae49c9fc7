//! The driver as the client programs use it: lookup, start, calls. Each function here makes one or two driver calls.

use crate::options::{LookupMode, Options};
use cuda_driver::{CuFunction, CuModule, CuStream, CudaError, Driver, EVENT_NO_TIMING, STREAM_NON_BLOCKING};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// The result of a client, with an error message for the user.
pub type ClientResult<T = ()> = Result<T, String>;

/// Requested version of the interface.
const VERSION: c_int = 13_000;
/// Flag: stream 0 is the calling thread's own.
const PER_THREAD: u64 = 2;

type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> cuda_driver::CuResult;

/// The device.
#[derive(Clone, Copy)]
pub struct Gpu {
    pub d: Driver,
    lookup: LookupMode,
}

// SAFETY: the pointers are to functions of a library that stays loaded, and any thread can call them.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// Loaded code: a module or a library.
#[derive(Clone, Copy)]
pub struct Code {
    handle: *mut c_void,
    library: bool,
}

/// An argument of a launch.
#[derive(Clone, Copy)]
pub enum Arg {
    U64(u64),
    U32(u32),
    F32(f32),
    /// A struct of an address and two words.
    Three(u64, u32, u32),
}

/// Arguments as the driver requires them: addresses of values.
pub struct Args {
    _values: Vec<Box<[u8]>>,
    pointers: Vec<*mut c_void>,
}

impl Args {
    pub fn new(args: &[Arg]) -> Self {
        let bytes = |arg: &Arg| match arg {
            Arg::U64(v) => v.to_le_bytes().to_vec(),
            Arg::U32(v) => v.to_le_bytes().to_vec(),
            Arg::F32(v) => v.to_le_bytes().to_vec(),
            Arg::Three(a, b, c) => [&a.to_le_bytes()[..], &b.to_le_bytes(), &c.to_le_bytes()].concat(),
        };
        let mut values: Vec<Box<[u8]>> = args.iter().map(|a| bytes(a).into_boxed_slice()).collect();
        let pointers = values.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
        Self {
            _values: values,
            pointers,
        }
    }

    pub fn pointers(&mut self) -> *mut *mut c_void {
        self.pointers.as_mut_ptr()
    }
}

fn text(e: CudaError) -> String {
    e.to_string()
}

fn c(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

/// Loads the driver with this lookup mode.
fn driver(lookup: LookupMode) -> ClientResult<Driver> {
    // SAFETY: the call loads the driver, as every program that uses the device does.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: the loader has just failed and returns the reason.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(format!("there is no CUDA driver: {}", why.to_string_lossy()));
    }
    // SAFETY: the handle is from the loader, and the string ends in a zero.
    let by_name = |name: &str| unsafe { libc::dlsym(library, c(name).as_ptr()) };
    if lookup == LookupMode::Loader {
        let find = |name: &'static str| Some(by_name(name)).filter(|at| !at.is_null());
        // SAFETY: a library of this name has the driver's functions with their signatures.
        return Ok(unsafe { Driver::from_symbols(find) });
    }
    let ask = by_name("cuGetProcAddress_v2");
    if ask.is_null() {
        return Err("the driver has no cuGetProcAddress_v2".to_owned());
    }
    // SAFETY: the driver's function of this name has this signature.
    let ask = unsafe { std::mem::transmute::<*mut c_void, GetProcAddress>(ask) };
    let find = |name: &'static str| {
        let (first, version) = cuda_driver::name_and_version(name, VERSION);
        let flags = if lookup == LookupMode::PerThread { PER_THREAD } else { 0 };
        let (mut at, mut status) = (std::ptr::null_mut(), 0);
        // SAFETY: the argument is a string, and the pointers are valid for the answers.
        let result = unsafe { ask(c(first).as_ptr(), &raw mut at, version, flags, &raw mut status) };
        (result == 0 && !at.is_null()).then_some(at)
    };
    // SAFETY: the driver returns its functions by their names.
    Ok(unsafe { Driver::from_symbols(find) })
}

impl Gpu {
    /// Starts the driver, with the primary context of the first device current.
    pub fn begin(options: &Options) -> ClientResult<Self> {
        let gpu = Self {
            d: driver(options.lookup)?,
            lookup: options.lookup,
        };
        // SAFETY: the call starts the driver.
        unsafe { gpu.d.cuInit(0) }.map_err(text)?;
        gpu.enter()?;
        Ok(gpu)
    }

    /// Makes the primary context the thread's current one.
    pub fn enter(&self) -> ClientResult {
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: the pointers are valid for the answers.
        unsafe {
            self.d.cuDeviceGet(&raw mut device, 0).map_err(text)?;
            self.d
                .cuDevicePrimaryCtxRetain(&raw mut context, device)
                .map_err(text)?;
            self.d.cuCtxSetCurrent(context).map_err(text)
        }
    }

    /// Loads PTX.
    pub fn load(&self, ptx: &str) -> ClientResult<Code> {
        let image = c(ptx);
        let (mut handle, none) = (std::ptr::null_mut(), std::ptr::null_mut());
        let library = self.lookup == LookupMode::Library;
        // SAFETY: the string ends in a zero, and the pointer is valid for the answer.
        unsafe {
            if library {
                let at = image.as_ptr().cast();
                let none2 = std::ptr::null_mut();
                self.d
                    .cuLibraryLoadData(&raw mut handle, at, none, none2, 0, none, none2, 0)
            } else {
                self.d.cuModuleLoadData(&raw mut handle, image.as_ptr().cast())
            }
        }
        .map_err(text)?;
        Ok(Code { handle, library })
    }

    /// Returns a function by its name.
    pub fn function(&self, code: Code, name: &str) -> ClientResult<CuFunction> {
        let (name, mut function) = (c(name), std::ptr::null_mut());
        // SAFETY: the code is loaded, the name is a string, and the pointer is valid for the answer.
        unsafe {
            if code.library {
                self.d.cuLibraryGetKernel(&raw mut function, code.handle, name.as_ptr())
            } else {
                self.d
                    .cuModuleGetFunction(&raw mut function, code.handle, name.as_ptr())
            }
        }
        .map_err(text)?;
        Ok(function)
    }

    /// Returns the module of a library in the context. Returns a module unchanged.
    pub fn module(&self, code: Code) -> ClientResult<Code> {
        if !code.library {
            return Ok(code);
        }
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is loaded, and the pointer is valid for the answer.
        unsafe { self.d.cuLibraryGetModule(&raw mut handle, code.handle) }.map_err(text)?;
        Ok(Code { handle, library: false })
    }

    /// Returns a function by its name, from the list of all functions.
    pub fn find_listed_function(&self, code: Code, name: &str) -> ClientResult<CuFunction> {
        let mut count = 0;
        // SAFETY: the code is loaded, and the list has as many elements as the count says.
        let all = unsafe {
            if code.library {
                self.d
                    .cuLibraryGetKernelCount(&raw mut count, code.handle)
                    .map_err(text)?;
            } else {
                self.d
                    .cuModuleGetFunctionCount(&raw mut count, code.handle)
                    .map_err(text)?;
            }
            let mut all: Vec<CuFunction> = vec![std::ptr::null_mut(); count as usize];
            if code.library {
                self.d.cuLibraryEnumerateKernels(all.as_mut_ptr(), count, code.handle)
            } else {
                self.d.cuModuleEnumerateFunctions(all.as_mut_ptr(), count, code.handle)
            }
            .map_err(text)?;
            all
        };
        let named = |function: &&CuFunction| {
            let mut function_name = std::ptr::null();
            // SAFETY: the function is of this code, and the pointer is valid for the answer, which is a string.
            unsafe {
                let result = if code.library {
                    self.d.cuKernelGetName(&raw mut function_name, **function)
                } else {
                    self.d.cuFuncGetName(&raw mut function_name, **function)
                };
                result.is_ok() && CStr::from_ptr(function_name).to_bytes() == name.as_bytes()
            }
        };
        let function = all.iter().find(named).copied();
        function.ok_or_else(|| format!("{name} is not in the list"))
    }

    /// Returns the address and the size in bytes of a variable.
    pub fn variable(&self, code: Code, name: &str) -> ClientResult<(u64, usize)> {
        let (name, mut at, mut bytes) = (c(name), 0, 0);
        // SAFETY: the code is loaded, the name is a string, and the pointers are valid for the answers.
        unsafe {
            if code.library {
                self.d
                    .cuLibraryGetGlobal(&raw mut at, &raw mut bytes, code.handle, name.as_ptr())
            } else {
                self.d
                    .cuModuleGetGlobal_v2(&raw mut at, &raw mut bytes, code.handle as CuModule, name.as_ptr())
            }
        }
        .map_err(text)?;
        Ok((at, bytes))
    }

    /// Allocates device memory.
    pub fn alloc(&self, bytes: usize) -> ClientResult<u64> {
        let mut at = 0;
        // SAFETY: the pointer is valid for the answer.
        unsafe { self.d.cuMemAlloc_v2(&raw mut at, bytes) }.map_err(text)?;
        Ok(at)
    }

    pub fn free(&self, at: u64) -> ClientResult {
        // SAFETY: the driver checks the address.
        unsafe { self.d.cuMemFree_v2(at) }.map_err(text)
    }

    /// Allocates device memory with values in it.
    pub fn upload_new<T: bytemuck::NoUninit>(&self, values: &[T]) -> ClientResult<u64> {
        let at = self.alloc(size_of_val(values))?;
        self.upload(at, values)?;
        Ok(at)
    }

    /// Copies values to the device, and waits.
    pub fn upload<T: bytemuck::NoUninit>(&self, to: u64, values: &[T]) -> ClientResult {
        // SAFETY: the size is that of the values.
        unsafe { self.d.cuMemcpyHtoD_v2(to, values.as_ptr().cast(), size_of_val(values)) }.map_err(text)
    }

    /// Copies values from the device, and waits.
    pub fn download<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
        &self,
        from: u64,
        n: usize,
    ) -> ClientResult<Vec<T>> {
        let mut values = vec![T::zeroed(); n];
        // SAFETY: the size is that of the buffer.
        unsafe {
            self.d
                .cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), from, n * size_of::<T>())
        }
        .map_err(text)?;
        Ok(values)
    }

    /// Copies words from the device into memory that exists, and waits.
    pub fn download_into(&self, to: &mut [u32], from: u64) -> ClientResult {
        // SAFETY: the size is that of the buffer.
        unsafe { self.d.cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from, size_of_val(to)) }.map_err(text)
    }

    /// Fills words of memory, in a stream.
    pub fn fill(&self, to: u64, value: u32, n: usize, stream: CuStream) -> ClientResult {
        // SAFETY: the driver checks the addresses.
        unsafe { self.d.cuMemsetD32Async(to, value, n, stream) }.map_err(text)
    }

    /// Allocates pinned host memory of this many words.
    pub fn pinned(&self, words: usize) -> ClientResult<&'static mut [u32]> {
        let mut at = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the answer.
        unsafe { self.d.cuMemHostAlloc(&raw mut at, words * 4, 0) }.map_err(text)?;
        // SAFETY: the memory has this size, and is not freed before the process ends.
        unsafe {
            std::ptr::write_bytes(at.cast::<u8>(), 0, words * 4);
            Ok(std::slice::from_raw_parts_mut(at.cast(), words))
        }
    }

    /// Launches a function with a one-dimensional grid.
    pub fn launch(&self, function: CuFunction, grid: u32, block: u32, stream: CuStream, args: &[Arg]) -> ClientResult {
        let mut args = Args::new(args);
        let none = std::ptr::null_mut();
        // SAFETY: the function has as many arguments as are passed.
        unsafe {
            self.d
                .cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, args.pointers(), none)
        }
        .map_err(text)
    }

    /// Launches one thread for each of `n` elements, in the default stream.
    pub fn launch_for_each(&self, function: CuFunction, n: u32, args: &[Arg]) -> ClientResult {
        self.launch(function, n.div_ceil(128), 128, std::ptr::null_mut(), args)
    }

    pub fn stream(&self) -> ClientResult<CuStream> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the answer.
        unsafe { self.d.cuStreamCreate(&raw mut stream, STREAM_NON_BLOCKING) }.map_err(text)?;
        Ok(stream)
    }

    pub fn event(&self) -> ClientResult<*mut c_void> {
        let mut event = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the answer.
        unsafe { self.d.cuEventCreate(&raw mut event, EVENT_NO_TIMING) }.map_err(text)?;
        Ok(event)
    }

    pub fn record(&self, event: *mut c_void, stream: CuStream) -> ClientResult {
        // SAFETY: the handles are the driver's.
        unsafe { self.d.cuEventRecord(event, stream) }.map_err(text)
    }

    pub fn wait(&self, stream: CuStream, event: *mut c_void) -> ClientResult {
        // SAFETY: as above.
        unsafe { self.d.cuStreamWaitEvent(stream, event, 0) }.map_err(text)
    }

    pub fn finish(&self, stream: CuStream) -> ClientResult {
        // SAFETY: as above.
        unsafe { self.d.cuStreamSynchronize(stream) }.map_err(text)
    }

    pub fn synchronize(&self) -> ClientResult {
        // SAFETY: the call only waits.
        unsafe { self.d.cuCtxSynchronize() }.map_err(text)
    }

    /// Copies words of pinned memory to the device, in a stream.
    pub fn upload_async(&self, to: u64, from: &[u32], stream: CuStream) -> ClientResult {
        // SAFETY: pinned memory stays until the process ends.
        unsafe {
            self.d
                .cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), size_of_val(from), stream)
        }
        .map_err(text)
    }

    /// Copies words of the device to pinned memory, in a stream.
    pub fn download_async(&self, to: &mut [u32], from: u64, stream: CuStream) -> ClientResult {
        // SAFETY: as above.
        unsafe {
            self.d
                .cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from, size_of_val(to), stream)
        }
        .map_err(text)
    }
}

/// Sends a mark to the recorder, if there is one.
pub fn mark(text: &CStr) {
    // SAFETY: the call looks up a function in any library of the process.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"kinescope_mark".as_ptr()) };
    if !at.is_null() {
        // SAFETY: a recorder's function of this name has this signature.
        let mark = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(at) };
        // SAFETY: the argument is a string.
        unsafe { mark(text.as_ptr()) };
    }
}
