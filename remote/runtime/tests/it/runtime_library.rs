//! One of the two built libraries, loaded as a program loads it, over the stand-in for the driver.

use cuda_driver::{FillNode, MemLocation};
use kinescope_remote_cudart::channels::ChannelDescription;
use kinescope_remote_cudart::copies::{Extent, PitchedPointer};
use kinescope_remote_cudart::graphs::KernelNodeParameters;
use kinescope_remote_cudart::launch_configuration::Dim3;
use kinescope_remote_cudart::slices::Copy3dParameters;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;

/// Handle of a registered binary.
pub type BinaryHandle = *mut *mut c_void;

/// A loaded library.
#[derive(Clone, Copy)]
pub struct RuntimeLibrary {
    /// Major version of the library.
    pub version: u32,
    handle: *mut c_void,
}

// SAFETY: handles of the loader can be used by all threads.
unsafe impl Send for RuntimeLibrary {}
// SAFETY: as above.
unsafe impl Sync for RuntimeLibrary {}

macro_rules! runtime_functions {
    ($($name:ident ($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the runtime's own")]
        impl RuntimeLibrary {
            $(pub fn $name(&self $(, $arg: $type)*) -> $result {
                let at = self.find(stringify!($name));
                assert!(!at.is_null(), "version {} has no {}", self.version, stringify!($name));
                // SAFETY: the function of this name has this signature.
                let function = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $result>(at) };
                // SAFETY: the tests pass valid pointers.
                unsafe { function($($arg),*) }
            })*
        }
    };
}

runtime_functions! {
    __cudaRegisterFatBinary(wrapper: *const c_void) -> BinaryHandle;
    __cudaRegisterFatBinaryEnd(binary: BinaryHandle) -> ();
    __cudaUnregisterFatBinary(binary: BinaryHandle) -> ();
    __cudaRegisterFunction(binary: BinaryHandle, function: *const c_void, device_function: *const c_char, name: *const c_char, max_threads: i32, thread: *const c_void, block: *const c_void, block_size: *const c_void, grid_size: *const c_void, warp: *const c_void) -> ();
    __cudaRegisterVar(binary: BinaryHandle, variable: *const c_void, address: *const c_char, name: *const c_char, is_external: i32, bytes: usize, is_constant: i32, is_global: i32) -> ();
    __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: *mut c_void) -> u32;
    __cudaPopCallConfiguration(grid: *mut Dim3, block: *mut Dim3, shared: *mut usize, stream: *mut *mut c_void) -> u32;
    __cudaGetKernel(kernel: *mut *mut c_void, function: *const c_void) -> u32;
    __cudaLaunchKernel(kernel: *mut c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: *mut c_void) -> u32;
    __cudaLaunchKernel_ptsz(kernel: *mut c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: *mut c_void) -> u32;
    cudaLaunchKernel(function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: *mut c_void) -> u32;
    cudaMalloc(at: *mut u64, bytes: usize) -> u32;
    cudaFree(at: u64) -> u32;
    cudaMallocPitch(at: *mut u64, pitch: *mut usize, width: usize, height: usize) -> u32;
    cudaMalloc3D(to: *mut PitchedPointer, extent: Extent) -> u32;
    cudaMemset3D(to: PitchedPointer, value: i32, extent: Extent) -> u32;
    cudaMemset2D(to: u64, pitch: usize, value: i32, width: usize, height: usize) -> u32;
    cudaMemset(to: u64, value: i32, bytes: usize) -> u32;
    cudaMemcpy(to: u64, from: u64, bytes: usize, kind: u32) -> u32;
    cudaMemcpy_ptds(to: u64, from: u64, bytes: usize, kind: u32) -> u32;
    cudaMemcpy2D(to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize, kind: u32) -> u32;
    cudaMemcpy3D(parameters: *const Copy3dParameters) -> u32;
    cudaCreateChannelDesc(x: i32, y: i32, z: i32, w: i32, kind: u32) -> ChannelDescription;
    cudaMallocArray(array: *mut *mut c_void, channels: *const ChannelDescription, width: usize, height: usize, flags: u32) -> u32;
    cudaMalloc3DArray(array: *mut *mut c_void, channels: *const ChannelDescription, extent: Extent, flags: u32) -> u32;
    cudaFreeArray(array: *mut c_void) -> u32;
    cudaArrayGetInfo(channels: *mut ChannelDescription, extent: *mut Extent, flags: *mut u32, array: *mut c_void) -> u32;
    cudaGetChannelDesc(channels: *mut ChannelDescription, array: *mut c_void) -> u32;
    cudaMallocMipmappedArray(array: *mut *mut c_void, channels: *const ChannelDescription, extent: Extent, levels: u32, flags: u32) -> u32;
    cudaGetMipmappedArrayLevel(level: *mut *mut c_void, array: *mut c_void, number: u32) -> u32;
    cudaFreeMipmappedArray(array: *mut c_void) -> u32;
    cudaMemcpy2DToArray(array: *mut c_void, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize, kind: u32) -> u32;
    cudaMemcpy2DToArrayAsync(array: *mut c_void, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize, kind: u32, stream: *mut c_void) -> u32;
    cudaMemcpy2DFromArray(to: u64, pitch: usize, array: *mut c_void, x: usize, y: usize, width: usize, height: usize, kind: u32) -> u32;
    cudaMemcpy2DFromArrayAsync(to: u64, pitch: usize, array: *mut c_void, x: usize, y: usize, width: usize, height: usize, kind: u32, stream: *mut c_void) -> u32;
    cudaMemcpy2DArrayToArray(to: *mut c_void, to_x: usize, to_y: usize, from: *mut c_void, x: usize, y: usize, width: usize, height: usize, kind: u32) -> u32;
    cudaMemcpyToArray(array: *mut c_void, x: usize, y: usize, from: u64, bytes: usize, kind: u32) -> u32;
    cudaMemcpyFromArray(to: u64, array: *mut c_void, x: usize, y: usize, bytes: usize, kind: u32) -> u32;
    cudaMemcpyArrayToArray(to: *mut c_void, to_x: usize, to_y: usize, from: *mut c_void, x: usize, y: usize, bytes: usize, kind: u32) -> u32;
    cudaCreateTextureObject(object: *mut u64, resource: *const c_void, texture: *const u32, view: *const c_void) -> u32;
    cudaDestroyTextureObject(object: u64) -> u32;
    cudaGetTextureObjectResourceDesc(resource: *mut u64, object: u64) -> u32;
    cudaGetTextureObjectTextureDesc(texture: *mut u32, object: u64) -> u32;
    cudaCreateSurfaceObject(object: *mut u64, resource: *const c_void) -> u32;
    cudaDestroySurfaceObject(object: u64) -> u32;
    cudaGetSurfaceObjectResourceDesc(resource: *mut u64, object: u64) -> u32;
    cudaMallocManaged(at: *mut u64, bytes: usize, flags: u32) -> u32;
    cudaMemsetAsync(to: u64, value: i32, bytes: usize, stream: *mut c_void) -> u32;
    cudaMemAdvise(at: u64, bytes: usize, advice: u32, location: MemLocation) -> u32;
    cudaMemAdvise_v2(at: u64, bytes: usize, advice: u32, location: MemLocation) -> u32;
    cudaMemPrefetchAsync(at: u64, bytes: usize, location: MemLocation, flags: u32, stream: *mut c_void) -> u32;
    cudaMemPrefetchAsync_v2(at: u64, bytes: usize, location: MemLocation, flags: u32, stream: *mut c_void) -> u32;
    cudaMemPoolCreate(pool: *mut *mut c_void, properties: *const c_void) -> u32;
    cudaMemPoolDestroy(pool: *mut c_void) -> u32;
    cudaMemPoolTrimTo(pool: *mut c_void, bytes: usize) -> u32;
    cudaMemPoolSetAttribute(pool: *mut c_void, attribute: u32, value: *mut c_void) -> u32;
    cudaMemPoolGetAttribute(pool: *mut c_void, attribute: u32, value: *mut c_void) -> u32;
    cudaDeviceSetMemPool(device: i32, pool: *mut c_void) -> u32;
    cudaDeviceGetMemPool(pool: *mut *mut c_void, device: i32) -> u32;
    cudaDeviceGetDefaultMemPool(pool: *mut *mut c_void, device: i32) -> u32;
    cudaStreamSetAttribute(stream: *mut c_void, attribute: u32, value: *const c_void) -> u32;
    cudaStreamGetAttribute(stream: *mut c_void, attribute: u32, value: *mut c_void) -> u32;
    cudaStreamCopyAttributes(to: *mut c_void, from: *mut c_void) -> u32;
    cudaStreamGetCaptureInfo(stream: *mut c_void, status: *mut u32, id: *mut u64, graph: *mut *mut c_void, nodes: *mut *const *mut c_void, edges: *mut *const c_void, count: *mut usize) -> u32;
    cudaStreamGetCaptureInfo_v2(stream: *mut c_void, status: *mut u32, id: *mut u64, graph: *mut *mut c_void, nodes: *mut *const *mut c_void, count: *mut usize) -> u32;
    cudaCtxResetPersistingL2Cache() -> u32;
    cudaGetDriverEntryPoint(symbol: *const c_char, function: *mut *mut c_void, flags: u64, status: *mut i32) -> u32;
    cudaIpcGetMemHandle(handle: *mut c_void, at: u64) -> u32;
    cudaGraphUpload(exec: *mut c_void, stream: *mut c_void) -> u32;
    cudaGraphClone(clone: *mut *mut c_void, graph: *mut c_void) -> u32;
    cudaGraphDestroyNode(node: *mut c_void) -> u32;
    cudaGraphGetRootNodes(graph: *mut c_void, nodes: *mut *mut c_void, count: *mut usize) -> u32;
    cudaGraphNodeGetType(node: *mut c_void, kind: *mut u32) -> u32;
    cudaGraphAddChildGraphNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, child: *mut c_void) -> u32;
    cudaGraphChildGraphNodeGetGraph(node: *mut c_void, graph: *mut *mut c_void) -> u32;
    cudaGraphNodeSetEnabled(exec: *mut c_void, node: *mut c_void, is_enabled: u32) -> u32;
    cudaGraphExecMemsetNodeSetParams(exec: *mut c_void, node: *mut c_void, parameters: *const FillNode) -> u32;
    cudaGraphExecUpdate(exec: *mut c_void, graph: *mut c_void, report: *mut c_void) -> u32;
    cudaMemcpyToSymbol(symbol: *const c_void, from: u64, bytes: usize, offset: usize, kind: u32) -> u32;
    cudaMemcpyFromSymbol(to: u64, symbol: *const c_void, bytes: usize, offset: usize, kind: u32) -> u32;
    cudaGetSymbolSize(bytes: *mut usize, symbol: *const c_void) -> u32;
    cudaHostAlloc(at: *mut u64, bytes: usize, flags: u32) -> u32;
    cudaFreeHost(at: u64) -> u32;
    cudaPointerGetAttributes(to: *mut c_void, at: u64) -> u32;
    cudaGetDeviceCount(count: *mut i32) -> u32;
    cudaGetDevice(device: *mut i32) -> u32;
    cudaSetDevice(device: i32) -> u32;
    cudaGetDeviceProperties(to: *mut c_void, device: i32) -> u32;
    cudaGetDeviceProperties_v2(to: *mut c_void, device: i32) -> u32;
    cudaRuntimeGetVersion(to: *mut i32) -> u32;
    cudaDriverGetVersion(to: *mut i32) -> u32;
    cudaDeviceSynchronize() -> u32;
    cudaDeviceReset() -> u32;
    cudaGetLastError() -> u32;
    cudaPeekAtLastError() -> u32;
    cudaGetErrorName(code: u32) -> *const c_char;
    cudaStreamCreate(stream: *mut *mut c_void) -> u32;
    cudaStreamDestroy(stream: *mut c_void) -> u32;
    cudaStreamSynchronize(stream: *mut c_void) -> u32;
    cudaStreamBeginCapture(stream: *mut c_void, mode: u32) -> u32;
    cudaStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> u32;
    cudaGraphInstantiate(exec: *mut *mut c_void, graph: *mut c_void, flags: u64) -> u32;
    cudaGraphLaunch(exec: *mut c_void, stream: *mut c_void) -> u32;
    cudaGraphExecDestroy(exec: *mut c_void) -> u32;
    cudaGraphDestroy(graph: *mut c_void) -> u32;
    cudaLibraryLoadData(library: *mut *mut c_void, code: *const c_void, jit: *const i32, jit_values: *const *mut c_void, jit_count: u32, options: *const i32, values: *const *mut c_void, count: u32) -> u32;
    cudaLibraryUnload(library: *mut c_void) -> u32;
    cudaLibraryGetKernel(kernel: *mut *mut c_void, library: *mut c_void, name: *const c_char) -> u32;
    cudaLibraryEnumerateKernels(kernels: *mut *mut c_void, count: u32, library: *mut c_void) -> u32;
    cudaLibraryGetGlobal(at: *mut u64, bytes: *mut usize, library: *mut c_void, name: *const c_char) -> u32;
    cudaGraphCreate(graph: *mut *mut c_void, flags: u32) -> u32;
    cudaGraphAddKernelNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, parameters: *const KernelNodeParameters) -> u32;
    cudaGraphAddMemsetNode(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, parameters: *const FillNode) -> u32;
    cudaGraphAddMemcpyNode1D(node: *mut *mut c_void, graph: *mut c_void, after: *const *mut c_void, count: usize, to: u64, from: u64, bytes: usize, kind: u32) -> u32;
    cudaGraphExecKernelNodeSetParams(exec: *mut c_void, node: *mut c_void, parameters: *const KernelNodeParameters) -> u32;
    cudaEventCreate(event: *mut *mut c_void) -> u32;
    cudaEventRecord(event: *mut c_void, stream: *mut c_void) -> u32;
    cudaEventSynchronize(event: *mut c_void) -> u32;
    cudaEventElapsedTime(milliseconds: *mut f32, from: *mut c_void, to: *mut c_void) -> u32;
    cudaEventDestroy(event: *mut c_void) -> u32;
    cudaFuncSetAttribute(function: *const c_void, attribute: i32, value: i32) -> u32;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut i32, function: *const c_void, block: i32, shared: usize) -> u32;
}

/// Returns a built library. Built libraries are in the folder above this test's, or in `KINESCOPE_BIN_DIR`.
fn built_library(name: &str) -> PathBuf {
    let folder = match std::env::var_os("KINESCOPE_BIN_DIR") {
        Some(folder) => folder.into(),
        None => std::env::current_exe()
            .unwrap()
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .to_owned(),
    };
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{}: not built; run `cargo build --workspace --exclude replay-bare`, then the test again",
        path.display()
    );
    path
}

fn load(name: &str) -> *mut c_void {
    let path = CString::new(built_library(name).to_str().unwrap()).unwrap();
    // SAFETY: the libraries of this workspace can be loaded at any time.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{path:?} cannot be loaded");
    handle
}

impl RuntimeLibrary {
    /// Loads the library of a major version. It finds the driver as a machine without devices does.
    pub fn without_driver(version: u32) -> Self {
        Self {
            version,
            handle: load(&format!("libkinescope_remote_cudart_{version}.so")),
        }
    }

    /// Loads the library of a major version over the stand-in, which has the name of the driver.
    pub fn new(version: u32) -> Self {
        load("libcuda_stand_in.so");
        Self::without_driver(version)
    }

    /// Returns both libraries.
    pub fn both() -> [Self; 2] {
        [Self::new(12), Self::new(13)]
    }

    /// Returns the address of an exported function, which has the library's own version, or null.
    pub fn find(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).unwrap();
        let version = CString::new(format!("libcudart.so.{}", self.version)).unwrap();
        // SAFETY: the handle is valid, and both texts end in a zero.
        unsafe { libc::dlvsym(self.handle, name.as_ptr(), version.as_ptr()) }
    }

    /// Returns the name of an error code.
    pub fn error_name(&self, code: u32) -> String {
        // SAFETY: the runtime's names are constants.
        unsafe { CStr::from_ptr(self.cudaGetErrorName(code)) }
            .to_str()
            .unwrap()
            .to_owned()
    }
}
