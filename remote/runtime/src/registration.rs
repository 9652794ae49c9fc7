//! Registration of device code: what a program's constructors say about its kernels and variables.
//!
//! Registration calls nothing of the driver. The code of a binary is loaded when one of its kernels or variables is
//! used for the first time. It stays loaded until the process ends: a driver may be gone when a program's destructors
//! run.

use crate::contexts::bind;
use crate::errors::{
    CALL_REQUIRES_NEWER_DRIVER, INVALID_DEVICE_FUNCTION, INVALID_KERNEL_IMAGE, INVALID_RESOURCE_HANDLE, INVALID_SYMBOL,
    NOT_SUPPORTED, SUCCESS, SYMBOL_NOT_FOUND,
};
use crate::pointers::{get, put, text};
use crate::{CallResult, last_error, lock, read, write};
use cuda_driver::{CuDevicePtr, CuFunction, CuKernel, CuLibrary};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

/// First word of the wrapper structure of a binary.
const WRAPPER_MAGIC: u32 = 0x4662_43b1;

/// Handle of a registered binary, as programs keep it.
pub type BinaryHandle = *mut *mut c_void;

/// The device code of a compiled file or program.
pub struct DeviceBinary {
    /// Address of the wrapper structure, which points to the fatbin.
    wrapper: usize,
    /// The driver's handle, as a number, after the first use.
    library: Mutex<Option<usize>>,
    /// Managed variables: the address of the host's pointer, and the name.
    managed: Mutex<Vec<(usize, CString)>>,
}

/// A kernel: named in a binary, known to the program by the address of its host function.
struct KernelEntry {
    binary: Arc<DeviceBinary>,
    name: CString,
    /// The driver's handle, as a number, after the first use.
    kernel: OnceLock<usize>,
}

/// Address and size of a variable in a context.
#[derive(Clone, Copy, Debug)]
pub struct SymbolLocation {
    /// Number of resets before it.
    pub generation: u64,
    /// The context, as a number.
    pub context: usize,
    /// Address of the first byte.
    pub address: CuDevicePtr,
    /// Size, bytes.
    pub bytes: usize,
}

/// A variable of device code, known to the program by the address of its host variable.
pub struct VariableEntry {
    binary: Arc<DeviceBinary>,
    /// Name in the binary.
    pub name: CString,
    /// Address and size, after the first use.
    pub location: Mutex<Option<SymbolLocation>>,
}

struct Registry {
    binaries: BTreeMap<usize, Arc<DeviceBinary>>,
    kernels: BTreeMap<usize, Arc<KernelEntry>>,
    variables: BTreeMap<usize, Arc<VariableEntry>>,
    /// Handles of kernels that a program can have: it may launch by them.
    kernel_handles: BTreeSet<usize>,
}

static REGISTRY: RwLock<Registry> = RwLock::new(Registry {
    binaries: BTreeMap::new(),
    kernels: BTreeMap::new(),
    variables: BTreeMap::new(),
    kernel_handles: BTreeSet::new(),
});

impl DeviceBinary {
    /// Returns the driver's library. The first call loads it.
    pub fn library(&self) -> CallResult<CuLibrary> {
        let driver = bind()?;
        let mut library = lock(&self.library);
        if let Some(library) = *library {
            return Ok(std::ptr::with_exposed_provenance_mut(library));
        }
        let wrapper: *const c_void = std::ptr::with_exposed_provenance(self.wrapper);
        if get(wrapper.cast::<u32>()) != Ok(WRAPPER_MAGIC) {
            return Err(INVALID_KERNEL_IMAGE);
        }
        let mut handle = std::ptr::null_mut();
        let none = std::ptr::null_mut;
        driver.cuLibraryLoadData(
            &raw mut handle,
            wrapper,
            none(),
            none().cast(),
            0,
            none(),
            none().cast(),
            0,
        )?;
        *library = Some(handle.expose_provenance());
        Ok(handle)
    }
}

impl VariableEntry {
    /// Returns the library that defines the variable.
    pub fn library(&self) -> CallResult<CuLibrary> {
        self.binary.library()
    }
}

fn binary(handle: BinaryHandle) -> Option<Arc<DeviceBinary>> {
    read(&REGISTRY).binaries.get(&handle.addr()).map(Arc::clone)
}

/// `__cudaRegisterFatBinary`: returns the handle of a binary by its wrapper structure.
pub fn register_binary(wrapper: *mut c_void) -> BinaryHandle {
    let binary = Arc::new(DeviceBinary {
        wrapper: wrapper.expose_provenance(),
        library: Mutex::new(None),
        managed: Mutex::default(),
    });
    let handle = Arc::as_ptr(&binary).cast_mut().cast::<*mut c_void>();
    write(&REGISTRY).binaries.insert(handle.addr(), binary);
    handle
}

/// `__cudaUnregisterFatBinary`: removes a binary with its kernels and variables.
pub fn unregister_binary(handle: BinaryHandle) {
    let mut registry = write(&REGISTRY);
    let Some(binary) = registry.binaries.remove(&handle.addr()) else {
        return;
    };
    registry
        .kernels
        .retain(|_, kernel| !Arc::ptr_eq(&kernel.binary, &binary));
    registry
        .variables
        .retain(|_, variable| !Arc::ptr_eq(&variable.binary, &binary));
}

/// `__cudaRegisterFunction`: names the kernel of a host function.
pub fn register_function(handle: BinaryHandle, function: *const c_void, name: *const c_char) {
    let (Some(binary), Ok(name)) = (binary(handle), text(name)) else {
        return;
    };
    let kernel = KernelEntry {
        binary,
        name,
        kernel: OnceLock::new(),
    };
    write(&REGISTRY).kernels.insert(function.addr(), Arc::new(kernel));
}

/// `__cudaRegisterVar`: names the variable of a host variable.
pub fn register_variable(handle: BinaryHandle, variable: *const c_void, name: *const c_char) {
    let (Some(binary), Ok(name)) = (binary(handle), text(name)) else {
        return;
    };
    let entry = VariableEntry {
        binary,
        name,
        location: Mutex::default(),
    };
    write(&REGISTRY).variables.insert(variable.addr(), Arc::new(entry));
}

/// `__cudaRegisterManagedVar`: names the managed variable that a host's pointer points to from the first use on.
pub fn register_managed(handle: BinaryHandle, pointer: *mut *mut c_void, name: *const c_char) {
    if let (Some(binary), Ok(name)) = (binary(handle), text(name)) {
        lock(&binary.managed).push((pointer.expose_provenance(), name));
    }
}

/// `__cudaInitModule`: sets the pointers of a binary's managed variables. Returns whether this succeeded.
pub fn initialize_module(handle: BinaryHandle) -> bool {
    let result = initialize_managed(handle);
    if matches!(result, Err(CALL_REQUIRES_NEWER_DRIVER | NOT_SUPPORTED)) {
        // The program goes on with null pointers, and its next access to such a variable ends it.
        eprintln!(
            "kinescope: this program has __managed__ variables, which the driver does not support. Use \
             cudaMallocManaged instead."
        );
    }
    last_error::record(result) == SUCCESS
}

fn initialize_managed(handle: BinaryHandle) -> CallResult {
    let binary = binary(handle).ok_or(INVALID_SYMBOL)?;
    let library = binary.library()?;
    let driver = bind()?;
    for (pointer, name) in &*lock(&binary.managed) {
        let (mut address, mut bytes) = (0, 0);
        driver.cuLibraryGetManaged(&raw mut address, &raw mut bytes, library, name.as_ptr())?;
        let pointer = std::ptr::with_exposed_provenance_mut::<u64>(*pointer);
        put(pointer, address)?;
    }
    Ok(())
}

/// Returns the kernel of a host function. A kernel's handle is returned as it is.
pub fn kernel(function: *const c_void) -> CallResult<CuKernel> {
    let found = {
        let registry = read(&REGISTRY);
        match registry.kernels.get(&function.addr()) {
            Some(entry) => Arc::clone(entry),
            None if registry.kernel_handles.contains(&function.addr()) => return Ok(function.cast_mut()),
            None => {
                drop(registry);
                // Without a device, this is the error to report.
                bind()?;
                return Err(INVALID_RESOURCE_HANDLE);
            }
        }
    };
    if let Some(kernel) = found.kernel.get() {
        return Ok(std::ptr::with_exposed_provenance_mut(*kernel));
    }
    let library = found.binary.library()?;
    let mut kernel = std::ptr::null_mut();
    bind()?
        .cuLibraryGetKernel(&raw mut kernel, library, found.name.as_ptr())
        .map_err(|code| {
            if code == SYMBOL_NOT_FOUND {
                INVALID_DEVICE_FUNCTION
            } else {
                code
            }
        })?;
    found.kernel.get_or_init(|| kernel.expose_provenance());
    allow_kernel(kernel);
    Ok(kernel)
}

/// Makes launches accept a kernel's handle in place of a host function.
pub fn allow_kernel(kernel: CuKernel) {
    write(&REGISTRY).kernel_handles.insert(kernel.expose_provenance());
}

/// `cudaGetKernel` and `__cudaGetKernel`.
pub fn write_kernel(to: *mut CuKernel, function: *const c_void) -> CallResult {
    put(to, kernel(function)?)
}

/// `cudaGetFuncBySymbol`: the kernel's function in the current context.
pub fn write_function(to: *mut CuFunction, function: *const c_void) -> CallResult {
    put(to, function_of(function)?)
}

/// Returns the kernel's function in the current context.
pub fn function_of(function: *const c_void) -> CallResult<CuFunction> {
    let kernel = kernel(function)?;
    let mut to = std::ptr::null_mut();
    bind()?.cuKernelGetFunction(&raw mut to, kernel)?;
    Ok(to)
}

/// Returns the variable of a host variable.
pub fn variable(symbol: *const c_void) -> CallResult<Arc<VariableEntry>> {
    let found = read(&REGISTRY).variables.get(&symbol.addr()).map(Arc::clone);
    match found {
        Some(variable) => Ok(variable),
        None => {
            // Without a device, this is the error to report.
            bind()?;
            Err(INVALID_SYMBOL)
        }
    }
}

/// `__cudaRegisterFatBinaryEnd`: nothing remains to do, since code is loaded at its first use.
pub const fn finish_binary(_handle: BinaryHandle) {}
