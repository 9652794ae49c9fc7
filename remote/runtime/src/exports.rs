//! Tables of the exported functions. The packages in `version-12/` and `version-13/` expand them.
//!
//! A line names a function, its twin for per-thread default streams, its arguments, and the code that answers. In that
//! code, the flag is true for the twin.

/// What the expanded tables use.
pub mod table {
    pub use crate::arrays::{ArrayPosition, LinearRows};
    pub use crate::channels::ChannelDescription;
    pub use crate::copies::{CopyOrder, CopyRows, Extent, PitchedPointer};
    pub use crate::device_properties::PropertiesLayout;
    pub use crate::functions::FunctionAttributes;
    pub use crate::graphs::{Dependencies, KernelNodeParameters};
    pub use crate::launch_configuration::{Dim3, LaunchConfiguration};
    pub use crate::launches::RuntimeLaunchConfig;
    pub use crate::libraries::LoadOptions;
    pub use crate::memory::SharedHandle;
    pub use crate::pointer_attributes::{PointerAttributes12, PointerAttributes13};
    pub use crate::registration::BinaryHandle;
    pub use crate::slices::Copy3dParameters;
    pub use crate::streams::{CaptureResults, default_stream, resolve};
    pub use crate::textures::{ResourceLayout, TextureDescription, ViewHead};
    pub use crate::{
        arrays, copies, device_properties, devices, error_names, errors, events, functions, graphs, last_error,
        launch_configuration, launches, libraries, memory, pointer_attributes, pools, registration, slices, streams,
        symbols, textures,
    };
    pub use cuda_driver::{
        CuArray, CuEvent, CuFunction, CuGraph, CuGraphExec, CuGraphNode, CuKernel, CuLibrary, CuMemPool,
        CuMipmappedArray, CuObject, CuStream, FillNode, HostNode, MemLocation,
    };
    pub use std::ffi::{c_char, c_void};
}

/// Exports functions whose result is an error code, which becomes the thread's last error.
#[macro_export]
macro_rules! exported_functions {
    ($($name:ident [$($twin:ident)?] $args:tt => |$flag:ident| $answer:expr;)*) => {
        $(
            $crate::exported_functions!(@one $name false $args |$flag| $answer);
            $($crate::exported_functions!(@one $twin true $args |$flag| $answer);)?
        )*
    };
    (@one $exported:ident $is_per_thread:literal ($($arg:ident: $type:ty),*) |$flag:ident| $answer:expr) => {
        /// The runtime's function of this name.
        ///
        /// # Safety
        /// The same as the runtime's function.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, non_snake_case, reason = "the runtime's own")]
        pub unsafe extern "C" fn $exported($($arg: $type),*) -> errors::ErrorCode {
            let $flag = $is_per_thread;
            last_error::record($answer)
        }
    };
}

/// Exports functions that do not change the thread's last error.
#[macro_export]
macro_rules! exported_values {
    ($($name:ident ($($arg:ident: $type:ty),*) -> $result:ty => $answer:expr;)*) => {
        $(
            /// The runtime's function of this name.
            ///
            /// # Safety
            /// The same as the runtime's function.
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, non_snake_case, reason = "the runtime's own")]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
                $answer
            }
        )*
    };
}

/// Exports the functions that have one form in all versions.
#[macro_export]
macro_rules! export_common_functions {
    () => {
        mod common_functions {
            use $crate::exports::table::*;
            $crate::exported_values! {
                cudaGetLastError () -> errors::ErrorCode => last_error::take();
                cudaPeekAtLastError () -> errors::ErrorCode => last_error::peek();
                cudaGetErrorName (code: errors::ErrorCode) -> *const c_char => error_names::name(code);
                cudaGetErrorString (code: errors::ErrorCode) -> *const c_char => error_names::description(code);
                cudaCreateChannelDesc (x: i32, y: i32, z: i32, w: i32, kind: u32) -> ChannelDescription => ChannelDescription::new([x, y, z, w], kind);
                __cudaRegisterFatBinary (wrapper: *mut c_void) -> BinaryHandle => registration::register_binary(wrapper);
                __cudaRegisterFatBinaryEnd (binary: BinaryHandle) -> () => registration::finish_binary(binary);
                __cudaUnregisterFatBinary (binary: BinaryHandle) -> () => registration::unregister_binary(binary);
                __cudaRegisterFunction (binary: BinaryHandle, function: *const c_void, _device_function: *mut c_char, name: *const c_char, _max_threads: i32, _thread: *mut c_void, _block: *mut c_void, _block_size: *mut c_void, _grid_size: *mut c_void, _warp_size: *mut i32) -> () => registration::register_function(binary, function, name);
                __cudaRegisterVar (binary: BinaryHandle, variable: *const c_void, _device_address: *mut c_char, name: *const c_char, _is_external: i32, _bytes: usize, _is_constant: i32, _is_global: i32) -> () => registration::register_variable(binary, variable, name);
                __cudaRegisterManagedVar (binary: BinaryHandle, pointer: *mut *mut c_void, _device_address: *mut c_char, name: *const c_char, _is_external: i32, _bytes: usize, _is_constant: i32, _is_global: i32) -> () => registration::register_managed(binary, pointer, name);
                __cudaInitModule (binary: BinaryHandle) -> c_char => c_char::from(registration::initialize_module(binary));
            }
            $crate::exported_functions! {
                __cudaPushCallConfiguration [] (grid: Dim3, block: Dim3, shared: usize, stream: CuStream) => |_t| launch_configuration::push(LaunchConfiguration { grid, block, shared, stream });
                __cudaPopCallConfiguration [] (grid: *mut Dim3, block: *mut Dim3, shared: *mut usize, stream: *mut c_void) => |_t| launch_configuration::pop(grid, block, shared, stream);
                __cudaGetKernel [] (kernel: *mut CuKernel, function: *const c_void) => |_t| registration::write_kernel(kernel, function);
                __cudaLaunchKernel [__cudaLaunchKernel_ptsz] (kernel: CuKernel, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: CuStream) => |t| launches::launch_kernel(kernel, LaunchConfiguration { grid, block, shared, stream: resolve(stream, t) }, arguments);
                cudaLaunchKernel [cudaLaunchKernel_ptsz] (function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: CuStream) => |t| launches::launch_function(function, LaunchConfiguration { grid, block, shared, stream: resolve(stream, t) }, arguments);
                cudaLaunchCooperativeKernel [cudaLaunchCooperativeKernel_ptsz] (function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: CuStream) => |t| launches::launch_cooperative(function, LaunchConfiguration { grid, block, shared, stream: resolve(stream, t) }, arguments);
                cudaLaunchKernelExC [cudaLaunchKernelExC_ptsz] (config: *const RuntimeLaunchConfig, function: *const c_void, arguments: *mut *mut c_void) => |t| launches::launch_with_attributes(config, function, arguments, t);
                cudaGetKernel [] (kernel: *mut CuKernel, function: *const c_void) => |_t| registration::write_kernel(kernel, function);
                cudaGetFuncBySymbol [] (to: *mut CuFunction, function: *const c_void) => |_t| registration::write_function(to, function);

                cudaMalloc [] (at: *mut *mut c_void, bytes: usize) => |_t| memory::allocate(at, bytes);
                cudaFree [] (at: *mut c_void) => |_t| memory::free(at);
                cudaMallocHost [] (at: *mut *mut c_void, bytes: usize) => |_t| memory::allocate_host(at, bytes, 0);
                cudaHostAlloc [] (at: *mut *mut c_void, bytes: usize, flags: u32) => |_t| memory::allocate_host(at, bytes, flags);
                cudaFreeHost [] (at: *mut c_void) => |_t| memory::free_host(at);
                cudaHostRegister [] (at: *mut c_void, bytes: usize, flags: u32) => |_t| memory::register_host(at, bytes, flags);
                cudaHostUnregister [] (at: *mut c_void) => |_t| memory::unregister_host(at);
                cudaHostGetDevicePointer [] (to: *mut *mut c_void, at: *mut c_void, flags: u32) => |_t| memory::host_device_pointer(to, at, flags);
                cudaHostGetFlags [] (to: *mut u32, at: *mut c_void) => |_t| memory::host_flags(to, at);
                cudaMallocManaged [] (at: *mut *mut c_void, bytes: usize, flags: u32) => |_t| memory::allocate_managed(at, bytes, flags);
                cudaMallocPitch [] (at: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) => |_t| memory::allocate_pitched(at, pitch, width, height);
                cudaMalloc3D [] (to: *mut PitchedPointer, extent: Extent) => |_t| memory::allocate_slices(to, extent);
                cudaMallocAsync [cudaMallocAsync_ptsz] (at: *mut *mut c_void, bytes: usize, stream: CuStream) => |t| memory::allocate_async(at, bytes, resolve(stream, t));
                cudaMallocFromPoolAsync [cudaMallocFromPoolAsync_ptsz] (at: *mut *mut c_void, bytes: usize, pool: CuMemPool, stream: CuStream) => |t| memory::allocate_from_pool(at, bytes, pool, resolve(stream, t));
                cudaFreeAsync [cudaFreeAsync_ptsz] (at: *mut c_void, stream: CuStream) => |t| memory::free_async(at, resolve(stream, t));
                cudaDeviceGetDefaultMemPool [] (pool: *mut CuMemPool, device: i32) => |_t| pools::write_default(pool, device);
                cudaDeviceGetMemPool [] (pool: *mut CuMemPool, device: i32) => |_t| pools::write_current(pool, device);
                cudaDeviceSetMemPool [] (device: i32, pool: CuMemPool) => |_t| pools::set_current(device, pool);
                cudaMemPoolCreate [] (pool: *mut CuMemPool, properties: *const c_void) => |_t| pools::create(pool, properties);
                cudaMemPoolDestroy [] (pool: CuMemPool) => |_t| pools::destroy(pool);
                cudaMemPoolTrimTo [] (pool: CuMemPool, bytes: usize) => |_t| pools::trim(pool, bytes);
                cudaMemPoolSetAttribute [] (pool: CuMemPool, attribute: u32, value: *mut c_void) => |_t| pools::set_attribute(pool, attribute, value);
                cudaMemPoolGetAttribute [] (pool: CuMemPool, attribute: u32, to: *mut c_void) => |_t| pools::write_attribute(pool, attribute, to);
                cudaIpcGetMemHandle [] (_handle: *mut c_void, _at: *mut c_void) => |_t| Err(errors::NOT_SUPPORTED);
                cudaIpcOpenMemHandle [] (_to: *mut *mut c_void, _handle: SharedHandle, _flags: u32) => |_t| Err(errors::NOT_SUPPORTED);
                cudaIpcCloseMemHandle [] (_at: *mut c_void) => |_t| Err(errors::NOT_SUPPORTED);
                cudaIpcGetEventHandle [] (_handle: *mut c_void, _event: CuEvent) => |_t| Err(errors::NOT_SUPPORTED);
                cudaIpcOpenEventHandle [] (_to: *mut CuEvent, _handle: SharedHandle) => |_t| Err(errors::NOT_SUPPORTED);
                cudaMemGetInfo [] (free: *mut usize, total: *mut usize) => |_t| memory::sizes(free, total);
                cudaStreamAttachMemAsync [cudaStreamAttachMemAsync_ptsz] (_stream: CuStream, at: *mut c_void, _bytes: usize, flags: u32) => |_t| memory::attach_to_stream(at, flags);
                cudaMemset [cudaMemset_ptds] (to: *mut c_void, value: i32, bytes: usize) => |t| memory::fill(to, value, bytes, t.then(|| default_stream(t)));
                cudaMemsetAsync [cudaMemsetAsync_ptsz] (to: *mut c_void, value: i32, bytes: usize, stream: CuStream) => |t| memory::fill(to, value, bytes, Some(resolve(stream, t)));
                cudaMemset2D [cudaMemset2D_ptds] (to: *mut c_void, pitch: usize, value: i32, width: usize, height: usize) => |t| memory::fill_rows(to, pitch, value, width, height, t.then(|| default_stream(t)));
                cudaMemset2DAsync [cudaMemset2DAsync_ptsz] (to: *mut c_void, pitch: usize, value: i32, width: usize, height: usize, stream: CuStream) => |t| memory::fill_rows(to, pitch, value, width, height, Some(resolve(stream, t)));
                cudaMemset3D [cudaMemset3D_ptds] (to: PitchedPointer, value: i32, extent: Extent) => |t| memory::fill_slices(to, value, extent, t.then(|| default_stream(t)));
                cudaMemset3DAsync [cudaMemset3DAsync_ptsz] (to: PitchedPointer, value: i32, extent: Extent, stream: CuStream) => |t| memory::fill_slices(to, value, extent, Some(resolve(stream, t)));

                cudaMemcpy [cudaMemcpy_ptds] (to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) => |t| copies::copy(to, from, bytes, kind, CopyOrder::immediate(t));
                cudaMemcpyAsync [cudaMemcpyAsync_ptsz] (to: *mut c_void, from: *const c_void, bytes: usize, kind: u32, stream: CuStream) => |t| copies::copy(to, from, bytes, kind, CopyOrder::Queued(resolve(stream, t)));
                cudaMallocArray [] (to: *mut CuArray, channels: *const ChannelDescription, width: usize, height: usize, flags: u32) => |_t| arrays::create(to, channels, Extent { width, height, depth: 0 }, flags);
                cudaMalloc3DArray [] (to: *mut CuArray, channels: *const ChannelDescription, extent: Extent, flags: u32) => |_t| arrays::create(to, channels, extent, flags);
                cudaFreeArray [] (array: CuArray) => |_t| arrays::destroy(array);
                cudaArrayGetInfo [] (channels: *mut ChannelDescription, extent: *mut Extent, flags: *mut u32, array: CuArray) => |_t| arrays::write_info(channels, extent, flags, array);
                cudaGetChannelDesc [] (to: *mut ChannelDescription, array: CuArray) => |_t| arrays::write_channels(to, array);
                cudaMallocMipmappedArray [] (to: *mut CuMipmappedArray, channels: *const ChannelDescription, extent: Extent, levels: u32, flags: u32) => |_t| arrays::create_mipmapped(to, channels, extent, levels, flags);
                cudaGetMipmappedArrayLevel [] (to: *mut CuArray, array: CuMipmappedArray, level: u32) => |_t| arrays::write_level(to, array, level);
                cudaFreeMipmappedArray [] (array: CuMipmappedArray) => |_t| arrays::destroy_mipmapped(array);
                cudaMemcpy2DToArray [cudaMemcpy2DToArray_ptds] (array: CuArray, x: usize, y: usize, at: *const c_void, pitch: usize, width: usize, height: usize, kind: u32) => |t| arrays::copy_rows_to(ArrayPosition { array, x, y }, LinearRows { at, pitch }, width, height, kind, CopyOrder::immediate(t));
                cudaMemcpy2DToArrayAsync [cudaMemcpy2DToArrayAsync_ptsz] (array: CuArray, x: usize, y: usize, at: *const c_void, pitch: usize, width: usize, height: usize, kind: u32, stream: CuStream) => |t| arrays::copy_rows_to(ArrayPosition { array, x, y }, LinearRows { at, pitch }, width, height, kind, CopyOrder::Queued(resolve(stream, t)));
                cudaMemcpy2DFromArray [cudaMemcpy2DFromArray_ptds] (at: *mut c_void, pitch: usize, array: CuArray, x: usize, y: usize, width: usize, height: usize, kind: u32) => |t| arrays::copy_rows_from(LinearRows { at, pitch }, ArrayPosition { array, x, y }, width, height, kind, CopyOrder::immediate(t));
                cudaMemcpy2DFromArrayAsync [cudaMemcpy2DFromArrayAsync_ptsz] (at: *mut c_void, pitch: usize, array: CuArray, x: usize, y: usize, width: usize, height: usize, kind: u32, stream: CuStream) => |t| arrays::copy_rows_from(LinearRows { at, pitch }, ArrayPosition { array, x, y }, width, height, kind, CopyOrder::Queued(resolve(stream, t)));
                cudaMemcpy2DArrayToArray [cudaMemcpy2DArrayToArray_ptds] (to: CuArray, to_x: usize, to_y: usize, from: CuArray, from_x: usize, from_y: usize, width: usize, height: usize, kind: u32) => |t| arrays::copy_rows_between(ArrayPosition { array: to, x: to_x, y: to_y }, ArrayPosition { array: from, x: from_x, y: from_y }, width, height, kind, CopyOrder::immediate(t));
                cudaMemcpyToArray [cudaMemcpyToArray_ptds] (array: CuArray, x: usize, y: usize, from: *const c_void, bytes: usize, kind: u32) => |t| arrays::copy_to(ArrayPosition { array, x, y }, from, bytes, kind, CopyOrder::immediate(t));
                cudaMemcpyToArrayAsync [cudaMemcpyToArrayAsync_ptsz] (array: CuArray, x: usize, y: usize, from: *const c_void, bytes: usize, kind: u32, stream: CuStream) => |t| arrays::copy_to(ArrayPosition { array, x, y }, from, bytes, kind, CopyOrder::Queued(resolve(stream, t)));
                cudaMemcpyFromArray [cudaMemcpyFromArray_ptds] (to: *mut c_void, array: CuArray, x: usize, y: usize, bytes: usize, kind: u32) => |t| arrays::copy_from(to, ArrayPosition { array, x, y }, bytes, kind, CopyOrder::immediate(t));
                cudaMemcpyFromArrayAsync [cudaMemcpyFromArrayAsync_ptsz] (to: *mut c_void, array: CuArray, x: usize, y: usize, bytes: usize, kind: u32, stream: CuStream) => |t| arrays::copy_from(to, ArrayPosition { array, x, y }, bytes, kind, CopyOrder::Queued(resolve(stream, t)));
                cudaMemcpyArrayToArray [cudaMemcpyArrayToArray_ptds] (to: CuArray, to_x: usize, to_y: usize, from: CuArray, from_x: usize, from_y: usize, bytes: usize, kind: u32) => |t| arrays::copy_between(ArrayPosition { array: to, x: to_x, y: to_y }, ArrayPosition { array: from, x: from_x, y: from_y }, bytes, kind, CopyOrder::immediate(t));
                cudaDestroyTextureObject [] (object: CuObject) => |_t| textures::destroy_texture(object);
                cudaGetTextureObjectTextureDesc [] (to: *mut TextureDescription, object: CuObject) => |_t| textures::write_texture(to, object);
                cudaDestroySurfaceObject [] (object: CuObject) => |_t| textures::destroy_surface(object);

                cudaMemcpyPeer [] (to: *mut c_void, _to_device: i32, from: *const c_void, _from_device: i32, bytes: usize) => |t| copies::copy_peer(to, from, bytes, CopyOrder::immediate(t));
                cudaMemcpyPeerAsync [] (to: *mut c_void, _to_device: i32, from: *const c_void, _from_device: i32, bytes: usize, stream: CuStream) => |t| copies::copy_peer(to, from, bytes, CopyOrder::Queued(resolve(stream, t)));
                cudaMemcpy2D [cudaMemcpy2D_ptds] (to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize, kind: u32) => |t| copies::copy_rows(CopyRows { to, to_pitch, from, from_pitch, width, height }, kind, CopyOrder::immediate(t));
                cudaMemcpy2DAsync [cudaMemcpy2DAsync_ptsz] (to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize, kind: u32, stream: CuStream) => |t| copies::copy_rows(CopyRows { to, to_pitch, from, from_pitch, width, height }, kind, CopyOrder::Queued(resolve(stream, t)));
                cudaMemcpy3D [cudaMemcpy3D_ptds] (parameters: *const Copy3dParameters) => |t| slices::copy_slices(parameters, CopyOrder::immediate(t));
                cudaMemcpy3DAsync [cudaMemcpy3DAsync_ptsz] (parameters: *const Copy3dParameters, stream: CuStream) => |t| slices::copy_slices(parameters, CopyOrder::Queued(resolve(stream, t)));
                cudaMemcpyToSymbol [cudaMemcpyToSymbol_ptds] (symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: u32) => |t| copies::copy_to_symbol(symbol, from, bytes, offset, kind, CopyOrder::immediate(t));
                cudaMemcpyToSymbolAsync [cudaMemcpyToSymbolAsync_ptsz] (symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: u32, stream: CuStream) => |t| copies::copy_to_symbol(symbol, from, bytes, offset, kind, CopyOrder::Queued(resolve(stream, t)));
                cudaMemcpyFromSymbol [cudaMemcpyFromSymbol_ptds] (to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: u32) => |t| copies::copy_from_symbol(to, symbol, bytes, offset, kind, CopyOrder::immediate(t));
                cudaMemcpyFromSymbolAsync [cudaMemcpyFromSymbolAsync_ptsz] (to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: u32, stream: CuStream) => |t| copies::copy_from_symbol(to, symbol, bytes, offset, kind, CopyOrder::Queued(resolve(stream, t)));
                cudaGetSymbolAddress [] (to: *mut *mut c_void, symbol: *const c_void) => |_t| symbols::write_address(to, symbol);
                cudaGetSymbolSize [] (to: *mut usize, symbol: *const c_void) => |_t| symbols::write_size(to, symbol);

                cudaGetDevice [] (to: *mut i32) => |_t| devices::write_device(to);
                cudaGetDeviceCount [] (to: *mut i32) => |_t| devices::count(to);
                cudaSetDevice [] (device: i32) => |_t| devices::set_device(device);
                cudaInitDevice [] (device: i32, _device_flags: u32, _flags: u32) => |_t| devices::initialize_device(device);
                cudaSetDeviceFlags [] (flags: u32) => |_t| devices::set_flags(flags);
                cudaGetDeviceFlags [] (to: *mut u32) => |_t| devices::write_flags(to);
                cudaDeviceSynchronize [] () => |_t| devices::synchronize();
                cudaDeviceReset [] () => |_t| devices::reset();
                cudaDeviceGetAttribute [] (to: *mut i32, attribute: i32, device: i32) => |_t| devices::write_attribute(to, attribute, device);
                cudaDriverGetVersion [] (to: *mut i32) => |_t| devices::write_driver_version(to);
                cudaDeviceGetPCIBusId [] (to: *mut c_char, room: i32, device: i32) => |_t| devices::write_pci_address(to, room, device);
                cudaDeviceGetByPCIBusId [] (to: *mut i32, text: *const c_char) => |_t| devices::find_pci_address(to, text);
                cudaDeviceGetP2PAttribute [] (to: *mut i32, attribute: i32, device: i32, peer: i32) => |_t| devices::write_peer_attribute(to, attribute, device, peer);
                cudaCtxResetPersistingL2Cache [] () => |_t| devices::reset_cache();
                cudaGetDriverEntryPointByVersion [cudaGetDriverEntryPointByVersion_ptsz] (symbol: *const c_char, to: *mut *mut c_void, version: u32, flags: u64, status: *mut i32) => |t| devices::write_entry_point(symbol, to, i32::try_from(version).unwrap_or(i32::MAX), devices::entry_point_flags(flags, t), status);
                cudaDeviceCanAccessPeer [] (to: *mut i32, device: i32, peer: i32) => |_t| devices::write_peer_access(to, device, peer);
                cudaDeviceEnablePeerAccess [] (peer: i32, _flags: u32) => |_t| devices::set_peer_access(peer, true);
                cudaDeviceDisablePeerAccess [] (peer: i32) => |_t| devices::set_peer_access(peer, false);
                cudaDeviceSetLimit [] (limit: u32, value: usize) => |_t| devices::set_limit(limit, value);
                cudaDeviceGetLimit [] (to: *mut usize, limit: u32) => |_t| devices::write_limit(to, limit);
                cudaDeviceSetCacheConfig [] (config: u32) => |_t| devices::CACHE_CONFIG.set(config);
                cudaDeviceGetCacheConfig [] (to: *mut u32) => |_t| devices::CACHE_CONFIG.write(to);
                cudaDeviceSetSharedMemConfig [] (config: u32) => |_t| devices::SHARED_MEMORY_CONFIG.set(config);
                cudaDeviceGetSharedMemConfig [] (to: *mut u32) => |_t| devices::SHARED_MEMORY_CONFIG.write(to);
                cudaDeviceGetStreamPriorityRange [] (lowest: *mut i32, highest: *mut i32) => |_t| devices::write_priority_range(lowest, highest);
                cudaProfilerStart [] () => |_t| memory::ignore_hint();
                cudaProfilerStop [] () => |_t| memory::ignore_hint();

                cudaStreamCreate [] (to: *mut CuStream) => |_t| streams::create(to, 0);
                cudaStreamCreateWithFlags [] (to: *mut CuStream, flags: u32) => |_t| streams::create(to, flags);
                cudaStreamCreateWithPriority [] (to: *mut CuStream, flags: u32, priority: i32) => |_t| streams::create_with_priority(to, flags, priority);
                cudaStreamDestroy [] (stream: CuStream) => |_t| streams::destroy(stream);
                cudaStreamSynchronize [cudaStreamSynchronize_ptsz] (stream: CuStream) => |t| streams::synchronize(resolve(stream, t));
                cudaStreamQuery [cudaStreamQuery_ptsz] (stream: CuStream) => |t| streams::query(resolve(stream, t));
                cudaStreamWaitEvent [cudaStreamWaitEvent_ptsz] (stream: CuStream, event: CuEvent, flags: u32) => |t| streams::wait_event(resolve(stream, t), event, flags);
                cudaStreamGetFlags [cudaStreamGetFlags_ptsz] (stream: CuStream, to: *mut u32) => |t| streams::flags(resolve(stream, t), to);
                cudaStreamGetPriority [cudaStreamGetPriority_ptsz] (stream: CuStream, to: *mut i32) => |t| streams::priority(resolve(stream, t), to);
                cudaStreamAddCallback [cudaStreamAddCallback_ptsz] (stream: CuStream, function: *mut c_void, data: *mut c_void, flags: u32) => |t| streams::add_callback(resolve(stream, t), function, data, flags);
                cudaLaunchHostFunc [cudaLaunchHostFunc_ptsz] (stream: CuStream, function: *mut c_void, data: *mut c_void) => |t| streams::launch_host_function(resolve(stream, t), function, data);
                cudaStreamBeginCapture [cudaStreamBeginCapture_ptsz] (stream: CuStream, mode: u32) => |t| streams::begin_capture(resolve(stream, t), mode);
                cudaStreamEndCapture [cudaStreamEndCapture_ptsz] (stream: CuStream, graph: *mut CuGraph) => |t| streams::end_capture(resolve(stream, t), graph);
                cudaStreamIsCapturing [cudaStreamIsCapturing_ptsz] (stream: CuStream, status: *mut u32) => |t| streams::is_capturing(resolve(stream, t), status);
                cudaStreamSetAttribute [cudaStreamSetAttribute_ptsz] (stream: CuStream, attribute: u32, value: *const c_void) => |t| streams::set_attribute(resolve(stream, t), attribute, value);
                cudaStreamGetAttribute [cudaStreamGetAttribute_ptsz] (stream: CuStream, attribute: u32, to: *mut c_void) => |t| streams::write_attribute(resolve(stream, t), attribute, to);
                cudaStreamCopyAttributes [cudaStreamCopyAttributes_ptsz] (to: CuStream, from: CuStream) => |t| streams::copy_attributes(resolve(to, t), resolve(from, t));
                cudaThreadExchangeStreamCaptureMode [] (mode: *mut u32) => |_t| streams::exchange_capture_mode(mode);

                cudaEventCreate [] (to: *mut CuEvent) => |_t| events::create(to, 0);
                cudaEventCreateWithFlags [] (to: *mut CuEvent, flags: u32) => |_t| events::create(to, flags);
                cudaEventDestroy [] (event: CuEvent) => |_t| events::destroy(event);
                cudaEventRecord [cudaEventRecord_ptsz] (event: CuEvent, stream: CuStream) => |t| events::record(event, resolve(stream, t));
                cudaEventRecordWithFlags [cudaEventRecordWithFlags_ptsz] (event: CuEvent, stream: CuStream, flags: u32) => |t| events::record_with_flags(event, resolve(stream, t), flags);
                cudaEventSynchronize [] (event: CuEvent) => |_t| events::synchronize(event);
                cudaEventQuery [] (event: CuEvent) => |_t| events::query(event);
                cudaEventElapsedTime [] (milliseconds: *mut f32, from: CuEvent, to: CuEvent) => |_t| events::elapsed_time(milliseconds, from, to);

                cudaGraphCreate [] (to: *mut CuGraph, flags: u32) => |_t| graphs::create(to, flags);
                cudaGraphDestroy [] (graph: CuGraph) => |_t| graphs::destroy(graph);
                cudaGraphInstantiate [] (to: *mut CuGraphExec, graph: CuGraph, flags: u64) => |_t| graphs::instantiate(to, graph, flags);
                cudaGraphInstantiateWithFlags [] (to: *mut CuGraphExec, graph: CuGraph, flags: u64) => |_t| graphs::instantiate(to, graph, flags);
                cudaGraphLaunch [cudaGraphLaunch_ptsz] (exec: CuGraphExec, stream: CuStream) => |t| graphs::launch(exec, resolve(stream, t));
                cudaGraphUpload [cudaGraphUpload_ptsz] (exec: CuGraphExec, stream: CuStream) => |t| graphs::upload(exec, resolve(stream, t));
                cudaGraphExecDestroy [] (exec: CuGraphExec) => |_t| graphs::destroy_exec(exec);
                cudaGraphGetNodes [] (graph: CuGraph, nodes: *mut CuGraphNode, count: *mut usize) => |_t| graphs::write_nodes(graph, nodes, count);
                cudaGraphAddKernelNode [] (node: *mut CuGraphNode, graph: CuGraph, nodes: *const CuGraphNode, count: usize, parameters: *const KernelNodeParameters) => |_t| graphs::add_kernel(node, graph, Dependencies { nodes, count }, parameters);
                cudaGraphExecKernelNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, parameters: *const KernelNodeParameters) => |_t| graphs::set_kernel_parameters(exec, node, parameters);
                cudaGraphAddMemcpyNode [] (node: *mut CuGraphNode, graph: CuGraph, nodes: *const CuGraphNode, count: usize, parameters: *const Copy3dParameters) => |_t| graphs::add_copy(node, graph, Dependencies { nodes, count }, parameters);
                cudaGraphAddMemcpyNode1D [] (node: *mut CuGraphNode, graph: CuGraph, nodes: *const CuGraphNode, count: usize, to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) => |_t| graphs::add_copy_of(node, graph, Dependencies { nodes, count }, Copy3dParameters::linear(to, from, bytes, kind));
                cudaGraphAddMemsetNode [] (node: *mut CuGraphNode, graph: CuGraph, nodes: *const CuGraphNode, count: usize, parameters: *const FillNode) => |_t| graphs::add_fill(node, graph, Dependencies { nodes, count }, parameters);
                cudaGraphAddHostNode [] (node: *mut CuGraphNode, graph: CuGraph, nodes: *const CuGraphNode, count: usize, parameters: *const HostNode) => |_t| graphs::add_host_function(node, graph, Dependencies { nodes, count }, parameters);
                cudaGraphAddEmptyNode [] (node: *mut CuGraphNode, graph: CuGraph, nodes: *const CuGraphNode, count: usize) => |_t| graphs::add_empty(node, graph, Dependencies { nodes, count });

                cudaGraphAddChildGraphNode [] (node: *mut CuGraphNode, graph: CuGraph, nodes: *const CuGraphNode, count: usize, child: CuGraph) => |_t| graphs::add_child(node, graph, Dependencies { nodes, count }, child);
                cudaGraphChildGraphNodeGetGraph [] (node: CuGraphNode, to: *mut CuGraph) => |_t| graphs::write_child(node, to);
                cudaGraphClone [] (to: *mut CuGraph, graph: CuGraph) => |_t| graphs::clone_graph(to, graph);
                cudaGraphDestroyNode [] (node: CuGraphNode) => |_t| graphs::destroy_node(node);
                cudaGraphNodeGetType [] (node: CuGraphNode, to: *mut u32) => |_t| graphs::write_kind(node, to);
                cudaGraphGetRootNodes [] (graph: CuGraph, to: *mut CuGraphNode, count: *mut usize) => |_t| graphs::write_root_nodes(graph, to, count);
                cudaGraphKernelNodeSetParams [] (node: CuGraphNode, parameters: *const KernelNodeParameters) => |_t| graphs::set_node_kernel(node, parameters);
                cudaGraphExecMemcpyNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, parameters: *const Copy3dParameters) => |_t| graphs::set_copy(exec, node, parameters);
                cudaGraphExecMemcpyNodeSetParams1D [] (exec: CuGraphExec, node: CuGraphNode, to: *mut c_void, from: *const c_void, bytes: usize, kind: u32) => |_t| graphs::set_copy_of(exec, node, Copy3dParameters::linear(to, from, bytes, kind));
                cudaGraphExecMemsetNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, parameters: *const FillNode) => |_t| graphs::set_fill(exec, node, parameters);
                cudaGraphExecHostNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, parameters: *const HostNode) => |_t| graphs::set_host_function(exec, node, parameters);
                cudaGraphExecChildGraphNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, child: CuGraph) => |_t| graphs::set_child(exec, node, child);
                cudaGraphNodeSetEnabled [] (exec: CuGraphExec, node: CuGraphNode, is_enabled: u32) => |_t| graphs::set_enabled(exec, node, is_enabled);
                cudaGraphExecUpdate [] (exec: CuGraphExec, graph: CuGraph, report: *mut c_void) => |_t| graphs::update(exec, graph, report);

                cudaLibraryLoadData [] (to: *mut CuLibrary, code: *const c_void, jit: *mut i32, jit_values: *mut *mut c_void, jit_count: u32, options: *mut i32, values: *mut *mut c_void, count: u32) => |_t| libraries::load(to, code, LoadOptions { options: jit, values: jit_values, count: jit_count }, LoadOptions { options, values, count });
                cudaLibraryLoadFromFile [] (to: *mut CuLibrary, path: *const c_char, jit: *mut i32, jit_values: *mut *mut c_void, jit_count: u32, options: *mut i32, values: *mut *mut c_void, count: u32) => |_t| libraries::load_file(to, path, LoadOptions { options: jit, values: jit_values, count: jit_count }, LoadOptions { options, values, count });
                cudaLibraryUnload [] (library: CuLibrary) => |_t| libraries::unload(library);
                cudaLibraryGetKernel [] (to: *mut CuKernel, library: CuLibrary, name: *const c_char) => |_t| libraries::write_kernel(to, library, name);
                cudaLibraryGetKernelCount [] (to: *mut u32, library: CuLibrary) => |_t| libraries::write_kernel_count(to, library);
                cudaLibraryEnumerateKernels [] (to: *mut CuKernel, count: u32, library: CuLibrary) => |_t| libraries::write_kernels(to, count, library);
                cudaLibraryGetGlobal [] (to: *mut *mut c_void, bytes: *mut usize, library: CuLibrary, name: *const c_char) => |_t| libraries::write_variable(to, bytes, library, name);

                cudaFuncGetAttributes [] (to: *mut FunctionAttributes, function: *const c_void) => |_t| functions::write_attributes(to, function);
                cudaFuncSetAttribute [] (function: *const c_void, attribute: i32, value: i32) => |_t| functions::set_attribute(function, attribute, value);
                cudaFuncSetCacheConfig [] (function: *const c_void, config: u32) => |_t| functions::set_cache_config(function, config);
                cudaFuncGetName [] (to: *mut *const c_char, function: *const c_void) => |_t| functions::write_name(to, function);
                cudaFuncGetParamInfo [] (function: *const c_void, index: usize, offset: *mut usize, bytes: *mut usize) => |_t| functions::write_parameter(function, index, offset, bytes);
                cudaOccupancyMaxActiveBlocksPerMultiprocessor [] (to: *mut i32, function: *const c_void, block: i32, shared: usize) => |_t| functions::max_active_blocks(to, function, block, shared, None);
                cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags [] (to: *mut i32, function: *const c_void, block: i32, shared: usize, flags: u32) => |_t| functions::max_active_blocks(to, function, block, shared, Some(flags));
                cudaOccupancyAvailableDynamicSMemPerBlock [] (to: *mut usize, function: *const c_void, blocks: i32, threads: i32) => |_t| functions::available_shared_memory(to, function, blocks, threads);
            }
        }
    };
}

/// Sets the major version of the runtime when the library is loaded.
#[macro_export]
macro_rules! set_version_at_load {
    ($major:literal) => {
        extern "C" fn set_version() {
            $crate::version::set_major($major);
        }

        // SAFETY: the loader calls the functions of this section once, before the program uses the library.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static SET_VERSION: extern "C" fn() = set_version;
    };
}

/// Exports the functions that CUDA 12 has alone, or in forms of its own.
#[macro_export]
macro_rules! export_functions_12 {
    () => {
        mod functions_12 {
            use $crate::exports::table::*;
            $crate::set_version_at_load!(12);
            $crate::exported_functions! {
                cudaRuntimeGetVersion [] (to: *mut i32) => |_t| devices::write_runtime_version(to, 12_090);
                cudaGetDeviceProperties [] (to: *mut c_void, device: i32) => |_t| device_properties::write_properties(to, device, PropertiesLayout::Cuda11);
                cudaGetDeviceProperties_v2 [] (to: *mut c_void, device: i32) => |_t| device_properties::write_properties(to, device, PropertiesLayout::Cuda12);
                cudaPointerGetAttributes [] (to: *mut PointerAttributes12, at: *const c_void) => |_t| pointer_attributes::write_attributes_12(to, at);
                cudaMemPrefetchAsync [cudaMemPrefetchAsync_ptsz] (at: *const c_void, bytes: usize, device: i32, stream: CuStream) => |t| memory::prefetch(at, bytes, device, resolve(stream, t));
                cudaMemPrefetchAsync_v2 [cudaMemPrefetchAsync_v2_ptsz] (at: *const c_void, bytes: usize, location: MemLocation, flags: u32, stream: CuStream) => |t| memory::prefetch_to(at, bytes, location, flags, resolve(stream, t));
                cudaMemAdvise [] (at: *const c_void, bytes: usize, advice: u32, device: i32) => |_t| memory::advise(at, bytes, advice, device);
                cudaMemAdvise_v2 [] (at: *const c_void, bytes: usize, advice: u32, location: MemLocation) => |_t| memory::advise_for(at, bytes, advice, location);
                cudaGetDriverEntryPoint [cudaGetDriverEntryPoint_ptsz] (symbol: *const c_char, to: *mut *mut c_void, flags: u64, status: *mut i32) => |t| devices::write_entry_point(symbol, to, 12_090, devices::entry_point_flags(flags, t), status);
                cudaStreamGetCaptureInfo [cudaStreamGetCaptureInfo_ptsz] (stream: CuStream, status: *mut u32, id: *mut u64) => |t| streams::write_capture_info(resolve(stream, t), CaptureResults::new(status, id));
                cudaStreamGetCaptureInfo_v2 [cudaStreamGetCaptureInfo_v2_ptsz] (stream: CuStream, status: *mut u32, id: *mut u64, graph: *mut CuGraph, nodes: *mut *const CuGraphNode, count: *mut usize) => |t| streams::write_capture_info(resolve(stream, t), CaptureResults { graph, nodes, count, ..CaptureResults::new(status, id) });
                cudaStreamGetCaptureInfo_v3 [cudaStreamGetCaptureInfo_v3_ptsz] (stream: CuStream, status: *mut u32, id: *mut u64, graph: *mut CuGraph, nodes: *mut *const CuGraphNode, edges: *mut *const c_void, count: *mut usize) => |t| streams::write_capture_info(resolve(stream, t), CaptureResults { status, id, graph, nodes, edges, count });
                cudaGraphGetEdges [] (graph: CuGraph, from: *mut CuGraphNode, to: *mut CuGraphNode, count: *mut usize) => |_t| graphs::write_edges(graph, from, to, None, count);
                cudaGraphGetEdges_v2 [] (graph: CuGraph, from: *mut CuGraphNode, to: *mut CuGraphNode, data: *mut c_void, count: *mut usize) => |_t| graphs::write_edges(graph, from, to, Some(data), count);
                cudaFuncSetSharedMemConfig [] (_function: *const c_void, _config: u32) => |_t| memory::ignore_hint();
                cudaCreateTextureObject [] (to: *mut CuObject, resource: *const c_void, texture: *const TextureDescription, view: *const ViewHead) => |_t| textures::create_texture(to, resource, texture, view, ResourceLayout::Cuda12);
                cudaGetTextureObjectResourceDesc [] (to: *mut c_void, object: CuObject) => |_t| textures::write_texture_resource(to, object, ResourceLayout::Cuda12);
                cudaGetTextureObjectResourceViewDesc [] (to: *mut c_void, object: CuObject) => |_t| textures::write_view(to, object, ResourceLayout::Cuda12);
                cudaCreateSurfaceObject [] (to: *mut CuObject, resource: *const c_void) => |_t| textures::create_surface(to, resource, ResourceLayout::Cuda12);
                cudaGetSurfaceObjectResourceDesc [] (to: *mut c_void, object: CuObject) => |_t| textures::write_surface_resource(to, object, ResourceLayout::Cuda12);
                cudaEventElapsedTime_v2 [] (milliseconds: *mut f32, from: CuEvent, to: CuEvent) => |_t| events::elapsed_time(milliseconds, from, to);
                cudaThreadSynchronize [] () => |_t| devices::synchronize();
                cudaThreadExit [] () => |_t| devices::reset();
            }
        }
    };
}

/// Exports the functions that CUDA 13 has in forms of its own.
#[macro_export]
macro_rules! export_functions_13 {
    () => {
        mod functions_13 {
            use $crate::exports::table::*;
            $crate::set_version_at_load!(13);
            $crate::exported_functions! {
                cudaRuntimeGetVersion [] (to: *mut i32) => |_t| devices::write_runtime_version(to, 13_000);
                cudaGetDeviceProperties [] (to: *mut c_void, device: i32) => |_t| device_properties::write_properties(to, device, PropertiesLayout::Cuda13);
                cudaPointerGetAttributes [] (to: *mut PointerAttributes13, at: *const c_void) => |_t| pointer_attributes::write_attributes_13(to, at);
                cudaMemPrefetchAsync [cudaMemPrefetchAsync_ptsz] (at: *const c_void, bytes: usize, location: MemLocation, flags: u32, stream: CuStream) => |t| memory::prefetch_to(at, bytes, location, flags, resolve(stream, t));
                cudaMemAdvise [] (at: *const c_void, bytes: usize, advice: u32, location: MemLocation) => |_t| memory::advise_for(at, bytes, advice, location);
                cudaGetDriverEntryPoint [cudaGetDriverEntryPoint_ptsz] (symbol: *const c_char, to: *mut *mut c_void, flags: u64, status: *mut i32) => |t| devices::write_entry_point(symbol, to, 13_000, devices::entry_point_flags(flags, t), status);
                cudaStreamGetCaptureInfo [cudaStreamGetCaptureInfo_ptsz] (stream: CuStream, status: *mut u32, id: *mut u64, graph: *mut CuGraph, nodes: *mut *const CuGraphNode, edges: *mut *const c_void, count: *mut usize) => |t| streams::write_capture_info(resolve(stream, t), CaptureResults { status, id, graph, nodes, edges, count });
                cudaGraphGetEdges [] (graph: CuGraph, from: *mut CuGraphNode, to: *mut CuGraphNode, data: *mut c_void, count: *mut usize) => |_t| graphs::write_edges(graph, from, to, Some(data), count);
                cudaFuncSetSharedMemConfig [] (_function: *const c_void, _config: u32) => |_t| memory::ignore_hint();
                cudaCreateTextureObject [] (to: *mut CuObject, resource: *const c_void, texture: *const TextureDescription, view: *const ViewHead) => |_t| textures::create_texture(to, resource, texture, view, ResourceLayout::Cuda13);
                cudaGetTextureObjectResourceDesc [] (to: *mut c_void, object: CuObject) => |_t| textures::write_texture_resource(to, object, ResourceLayout::Cuda13);
                cudaGetTextureObjectResourceViewDesc [] (to: *mut c_void, object: CuObject) => |_t| textures::write_view(to, object, ResourceLayout::Cuda13);
                cudaCreateSurfaceObject [] (to: *mut CuObject, resource: *const c_void) => |_t| textures::create_surface(to, resource, ResourceLayout::Cuda13);
                cudaGetSurfaceObjectResourceDesc [] (to: *mut c_void, object: CuObject) => |_t| textures::write_surface_resource(to, object, ResourceLayout::Cuda13);
            }
        }
    };
}
