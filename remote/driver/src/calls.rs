//! Exported functions: those of the table of plain calls, and those with code of their own.
//!
//! Lines of the table that are `exported` are the driver's functions; code of this crate calls the others.

use crate::errors::{PEER_ACCESS_NOT_ENABLED, PEER_ACCESS_UNSUPPORTED};
use crate::graphs::CaptureResults;
use crate::jit_options::JitOptions;
use crate::memory_hints::HintTarget;
use crate::procs::Exported;
use crate::{
    CallResult, arrays, code, connection, contexts, copies, devices, errors, fills, forwarded, graphs, host_functions,
    host_memory, launches, library_calls, links, memory, memory_copies, memory_hints, occupancy, pointer_attributes,
    procs, streams, textures,
};
use cuda_driver::*;
use remote_calls::library::LibraryCallFrame;
use remote_calls::message::ObjectKind;
use remote_calls::{
    Created, Destroyed, Form, Input, InputBytes, Object, OptionalOutput, Output, OutputBytes, Resolved, Text, Value,
    kinds,
};
use std::ffi::{c_char, c_void};

fn result_of(result: CallResult) -> CuResult {
    match result {
        Ok(()) => SUCCESS,
        Err(code) => code,
    }
}

macro_rules! exported_functions {
    ($($name:ident [$($other:ident)?] $policy:ident $export:ident ($($arg:ident: $form:ty),*);)*) => {
        $(export_forwarded!($export $name [$($other)?] ($($arg: $form),*));)*

        /// Returns the addresses of a forwarded function that is exported: its own, and that of its variant.
        fn find_forwarded(name: &str) -> Option<Exported> {
            $(list_forwarded!($export $name [$($other)?] name);)*
            None
        }
    };
}

macro_rules! export_forwarded {
    (inner $($rest:tt)*) => {};
    (exported $name:ident [$($other:ident)?] $args:tt) => {
        export_forwarded!(@one $name $name false $args);
        $(export_forwarded!(@one $name $other true $args);)?
    };
    (@one $name:ident $exported:ident $is_per_thread:literal ($($arg:ident: $form:ty),*)) => {
        /// The driver's function of this name.
        ///
        /// # Safety
        /// The same as the driver's function.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the driver's own")]
        pub unsafe extern "C" fn $exported($($arg: <$form as Form>::Abi),*) -> CuResult {
            result_of(forwarded::$name($is_per_thread $(, $arg)*))
        }
    };
}

macro_rules! list_forwarded {
    (inner $($rest:tt)*) => {};
    (exported $name:ident [$($other:ident)?] $wanted:ident) => {
        if $wanted == stringify!($name) {
            return Some(Exported {
                legacy: $name as *const c_void,
                per_thread: [$($other as *const c_void)?].first().copied(),
            });
        }
    };
}

remote_calls::calls!(exported_functions);

macro_rules! own_functions {
    ($($name:ident [$($other:ident)?] $args:tt => |$flag:ident| $way:expr;)*) => {
        $(
            own_functions!(@one $name false $args |$flag| $way);
            $(own_functions!(@one $other true $args |$flag| $way);)?
        )*

        fn find_own(name: &str) -> Option<Exported> {
            $(if name == stringify!($name) {
                return Some(Exported {
                    legacy: $name as *const c_void,
                    per_thread: [$($other as *const c_void)?].first().copied(),
                });
            })*
            None
        }
    };
    (@one $exported:ident $is_per_thread:literal ($($arg:ident: $type:ty),*) |$flag:ident| $way:expr) => {
        /// The driver's function of this name.
        ///
        /// # Safety
        /// The same as the driver's function.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the driver's own")]
        pub unsafe extern "C" fn $exported($($arg: $type),*) -> CuResult {
            let $flag = $is_per_thread;
            result_of($way)
        }
    };
}

own_functions! {
    cuInit [] (flags: u32) => |_t| devices::initialize(flags);
    cuDriverGetVersion [] (version: *mut i32) => |_t| devices::driver_version(version);
    cuGetErrorName [] (error: CuResult, text: *mut *const c_char) => |_t| errors::write_name(error, text);
    cuGetErrorString [] (error: CuResult, text: *mut *const c_char) => |_t| errors::write_name(error, text);
    cuGetExportTable [] (table: *mut *const c_void, id: *const Uuid) => |_t| procs::export_table(table, id);
    cuGetProcAddress_v2 [] (symbol: *const c_char, to: *mut *mut c_void, version: i32, flags: u64, status: *mut i32) => |_t| procs::address_with_status(find, symbol, to, version, flags, status);
    cuGetProcAddress [] (symbol: *const c_char, to: *mut *mut c_void, version: i32, flags: u64) => |_t| procs::address(find, symbol, to, version, flags);
    cuDeviceGet [] (device: *mut CuDevice, ordinal: i32) => |_t| devices::get(device, ordinal);
    cuDeviceGetCount [] (count: *mut i32) => |_t| devices::count(count);
    cuDeviceGetName [] (name: *mut c_char, bytes: i32, device: CuDevice) => |_t| devices::name(name, bytes, device);
    cuDeviceGetAttribute [] (value: *mut i32, attribute: i32, device: CuDevice) => |_t| devices::attribute(value, attribute, device);
    cuDeviceTotalMem_v2 [] (bytes: *mut usize, device: CuDevice) => |_t| devices::total_memory(bytes, device);
    cuDeviceGetUuid_v2 [] (uuid: *mut Uuid, device: CuDevice) => |_t| devices::uuid(uuid, device);
    cuDeviceGetUuid [] (uuid: *mut Uuid, device: CuDevice) => |_t| devices::uuid(uuid, device);
    cuDeviceCanAccessPeer [] (can: *mut i32, device: CuDevice, peer: CuDevice) => |_t| devices::can_access_peer(can, device, peer);
    cuDeviceGetP2PAttribute [] (value: *mut i32, attribute: i32, from: CuDevice, to: CuDevice) => |_t| { let _ = attribute; devices::can_access_peer(value, from, to) };
    cuDevicePrimaryCtxRetain [] (context: *mut CuContext, device: CuDevice) => |_t| contexts::retain_primary(context, device);
    cuDevicePrimaryCtxRelease_v2 [] (device: CuDevice) => |_t| contexts::release_primary(device);
    cuDevicePrimaryCtxReset_v2 [] (device: CuDevice) => |_t| contexts::reset_primary(device);
    cuCtxCreate_v2 [] (context: *mut CuContext, flags: u32, device: CuDevice) => |_t| contexts::create(context, flags, device);
    cuCtxCreate_v4 [] (context: *mut CuContext, parameters: *mut c_void, flags: u32, device: CuDevice) => |_t| contexts::create_with(context, parameters, flags, device);
    cuCtxEnablePeerAccess [] (peer: CuContext, flags: u32) => |_t| { let _ = (peer, flags); Err(PEER_ACCESS_UNSUPPORTED) };
    cuCtxDisablePeerAccess [] (peer: CuContext) => |_t| { let _ = peer; Err(PEER_ACCESS_NOT_ENABLED) };
    cuCtxDestroy_v2 [] (context: CuContext) => |_t| contexts::destroy(context);
    cuCtxGetCurrent [] (context: *mut CuContext) => |_t| contexts::get_current(context);
    cuCtxSetCurrent [] (context: CuContext) => |_t| contexts::set_current(context);
    cuCtxPushCurrent_v2 [] (context: CuContext) => |_t| contexts::push(context);
    cuCtxPopCurrent_v2 [] (context: *mut CuContext) => |_t| contexts::pop(context);
    cuCtxGetDevice [] (device: *mut CuDevice) => |_t| contexts::get_device(device);
    cuCtxGetDevice_v2 [] (device: *mut CuDevice, context: CuContext) => |_t| contexts::get_device_of(device, context);
    cuCtxSynchronize_v2 [] (context: CuContext) => |_t| contexts::synchronize(context);
    cuModuleLoad [] (module: *mut CuModule, path: *const c_char) => |_t| code::load_module_file(module, path);
    cuModuleLoadData [] (module: *mut CuModule, image: *const c_void) => |_t| code::load_module(module, image, &JitOptions::NONE);
    cuModuleLoadDataEx [] (module: *mut CuModule, image: *const c_void, count: u32, options: *mut i32, values: *mut *mut c_void) => |_t| code::load_module(module, image, &JitOptions::new(count, options, values));
    cuModuleLoadFatBinary [] (module: *mut CuModule, image: *const c_void) => |_t| code::load_module(module, image, &JitOptions::NONE);
    cuModuleGetFunction [] (function: *mut CuFunction, module: CuModule, name: *const c_char) => |_t| code::find_function(function, module, name);
    cuModuleEnumerateFunctions [] (functions: *mut CuFunction, count: u32, module: CuModule) => |_t| code::list_functions(functions, count, module);
    cuLibraryLoadData [] (library: *mut CuLibrary, image: *const c_void, jit: *mut i32, jit_values: *mut *mut c_void, jit_count: u32, options: *mut i32, values: *mut *mut c_void, count: u32) => |_t| { let _ = (options, values, count); code::load_library(library, image, &JitOptions::new(jit_count, jit, jit_values)) };
    cuLibraryLoadFromFile [] (library: *mut CuLibrary, path: *const c_char, jit: *mut i32, jit_values: *mut *mut c_void, jit_count: u32, options: *mut i32, values: *mut *mut c_void, count: u32) => |_t| { let _ = (options, values, count); code::load_library_file(library, path, &JitOptions::new(jit_count, jit, jit_values)) };
    cuLibraryGetKernel [] (kernel: *mut CuKernel, library: CuLibrary, name: *const c_char) => |_t| code::find_kernel(kernel, library, name);
    cuLibraryEnumerateKernels [] (kernels: *mut CuKernel, count: u32, library: CuLibrary) => |_t| code::list_kernels(kernels, count, library);
    cuKernelGetFunction [] (function: *mut CuFunction, kernel: CuKernel) => |_t| code::function_of_kernel(function, kernel);
    cuKernelGetName [] (name: *mut *const c_char, kernel: CuKernel) => |_t| code::write_name(name, kernel);
    cuKernelGetParamInfo [] (kernel: CuKernel, index: usize, offset: *mut usize, bytes: *mut usize) => |_t| code::write_parameter(kernel, index, offset, bytes);
    cuFuncGetName [] (name: *mut *const c_char, function: CuFunction) => |_t| code::write_name(name, function);
    cuFuncGetParamInfo [] (function: CuFunction, index: usize, offset: *mut usize, bytes: *mut usize) => |_t| code::write_parameter(function, index, offset, bytes);
    cuLinkCreate_v2 [] (count: u32, options: *mut i32, values: *mut *mut c_void, state: *mut CuLinkState) => |_t| links::create(JitOptions::new(count, options, values), state);
    cuLinkAddData_v2 [] (state: CuLinkState, kind: u32, data: *mut c_void, bytes: usize, name: *const c_char, count: u32, options: *mut i32, values: *mut *mut c_void) => |_t| links::add_data(state, kind, data, bytes, name, &JitOptions::new(count, options, values));
    cuLinkAddFile_v2 [] (state: CuLinkState, kind: u32, path: *const c_char, count: u32, options: *mut i32, values: *mut *mut c_void) => |_t| links::add_file(state, kind, path, &JitOptions::new(count, options, values));
    cuLinkComplete [] (state: CuLinkState, image: *mut *mut c_void, bytes: *mut usize) => |_t| links::complete(state, image, bytes);
    cuLinkDestroy [] (state: CuLinkState) => |_t| links::destroy(state);
    cuProfilerStart [] () => |_t| connection::current().map(drop);
    cuProfilerStop [] () => |_t| connection::current().map(drop);
    cuIpcGetMemHandle [] (handle: *mut c_void, at: CuDevicePtr) => |_t| { let _ = (handle, at); Err(NOT_SUPPORTED) };
    cuIpcOpenMemHandle_v2 [] (at: *mut CuDevicePtr) => |_t| { let _ = at; Err(NOT_SUPPORTED) };
    cuIpcOpenMemHandle [] (at: *mut CuDevicePtr) => |_t| { let _ = at; Err(NOT_SUPPORTED) };
    cuIpcCloseMemHandle [] (at: CuDevicePtr) => |_t| { let _ = at; Err(NOT_SUPPORTED) };
    cuIpcGetEventHandle [] (handle: *mut c_void, event: CuEvent) => |_t| { let _ = (handle, event); Err(NOT_SUPPORTED) };
    cuIpcOpenEventHandle [] (event: *mut CuEvent) => |_t| { let _ = event; Err(NOT_SUPPORTED) };
    cuOccupancyMaxPotentialBlockSize [] (grid: *mut i32, block: *mut i32, function: CuFunction, shared_of: *mut c_void, shared: usize, limit: i32) => |_t| occupancy::potential_block_size(grid, block, function, shared_of, shared, limit, 0);
    cuOccupancyMaxPotentialBlockSizeWithFlags [] (grid: *mut i32, block: *mut i32, function: CuFunction, shared_of: *mut c_void, shared: usize, limit: i32, flags: u32) => |_t| occupancy::potential_block_size(grid, block, function, shared_of, shared, limit, flags);
    cuDeviceComputeCapability [] (major: *mut i32, minor: *mut i32, device: CuDevice) => |_t| devices::compute_capability(major, minor, device);
    cuDeviceGetPCIBusId [] (id: *mut c_char, bytes: i32, device: CuDevice) => |_t| devices::pci_bus_id(id, bytes, device);
    cuDeviceGetByPCIBusId [] (device: *mut CuDevice, id: *const c_char) => |_t| devices::by_pci_bus_id(device, id);
    cuMemcpyBatchAsync [cuMemcpyBatchAsync_ptsz] (to: *mut CuDevicePtr, from: *mut CuDevicePtr, bytes: *mut usize, count: usize, attributes: *mut c_void, places: *mut usize, attribute_count: usize, failed: *mut usize, stream: CuStream) => |t| { let _ = (attributes, places, attribute_count); copies::batch(to, from, bytes, count, failed, copies::CopyStream::new(stream, t)) };
    cuMemcpyBatchAsync_v2 [cuMemcpyBatchAsync_v2_ptsz] (to: *mut CuDevicePtr, from: *mut CuDevicePtr, bytes: *mut usize, count: usize, attributes: *mut c_void, places: *mut usize, attribute_count: usize, stream: CuStream) => |t| { let _ = (attributes, places, attribute_count); copies::batch(to, from, bytes, count, std::ptr::null_mut(), copies::CopyStream::new(stream, t)) };
    cuMemAlloc_v2 [] (at: *mut CuDevicePtr, bytes: usize) => |_t| memory::allocate(at, bytes);
    cuMemAllocPitch_v2 [] (at: *mut CuDevicePtr, pitch: *mut usize, width: usize, height: usize, element: u32) => |_t| memory::allocate_pitched(at, pitch, width, height, element);
    cuMemFree_v2 [] (at: CuDevicePtr) => |_t| memory::free(at);
    cuMemPoolCreate [] (pool: *mut CuMemPool, properties: *const c_void) => |_t| memory::create_pool(pool, properties);
    cuMemAllocAsync [cuMemAllocAsync_ptsz] (at: *mut CuDevicePtr, bytes: usize, stream: CuStream) => |t| memory::allocate_async(at, bytes, || forwarded::cuMemAllocAsync(t, at, bytes, stream));
    cuMemAllocFromPoolAsync [cuMemAllocFromPoolAsync_ptsz] (at: *mut CuDevicePtr, bytes: usize, pool: CuMemPool, stream: CuStream) => |t| memory::allocate_async(at, bytes, || forwarded::cuMemAllocFromPoolAsync(t, at, bytes, pool, stream));
    cuMemFreeAsync [cuMemFreeAsync_ptsz] (at: CuDevicePtr, stream: CuStream) => |t| memory::free_async(t, at, stream);
    cuMemGetAddressRange_v2 [] (base: *mut CuDevicePtr, bytes: *mut usize, at: CuDevicePtr) => |_t| forwarded::cuMemGetAddressRange_v2(false, base, bytes, at);
    cuMemAllocHost_v2 [] (at: *mut *mut c_void, bytes: usize) => |_t| host_memory::allocate(at, bytes, 0);
    cuMemHostAlloc [] (at: *mut *mut c_void, bytes: usize, flags: u32) => |_t| host_memory::allocate(at, bytes, flags);
    cuMemFreeHost [] (at: *mut c_void) => |_t| host_memory::free(at);
    cuMemHostRegister_v2 [] (at: *mut c_void, bytes: usize, flags: u32) => |_t| host_memory::register(at, bytes, flags);
    cuMemHostGetDevicePointer_v2 [] (to: *mut CuDevicePtr, at: *mut c_void, flags: u32) => |_t| host_memory::device_pointer(to, at, flags);
    cuMemHostGetFlags [] (to: *mut u32, at: *mut c_void) => |_t| host_memory::flags(to, at);
    cuMemAllocManaged [] (at: *mut CuDevicePtr, bytes: usize, flags: u32) => |_t| host_memory::allocate_managed(at, bytes, flags);
    cuPointerGetAttribute [] (value: *mut c_void, attribute: i32, at: CuDevicePtr) => |_t| pointer_attributes::get(value, attribute, at);
    cuPointerGetAttributes [] (count: u32, attributes: *mut i32, values: *mut *mut c_void, at: CuDevicePtr) => |_t| pointer_attributes::get_all(count, attributes, values, at);
    cuMemSetAccess [] (at: CuDevicePtr, bytes: usize, descriptions: *const AccessDescription, count: usize) => |_t| memory::set_access(at, bytes, descriptions, count);
    cuMemcpy2D_v2 [cuMemcpy2D_v2_ptds] (copy: *const Copy2d) => |t| memory_copies::copy_2d(copy, copies::default_stream(t));
    cuMemcpy2DUnaligned_v2 [cuMemcpy2DUnaligned_v2_ptds] (copy: *const Copy2d) => |t| memory_copies::copy_2d(copy, copies::default_stream(t));
    cuMemcpy2DAsync_v2 [cuMemcpy2DAsync_v2_ptsz] (copy: *const Copy2d, stream: CuStream) => |t| memory_copies::copy_2d(copy, copies::CopyStream::new(stream, t));
    cuMemcpy3D_v2 [cuMemcpy3D_v2_ptds] (copy: *const Copy3d) => |t| memory_copies::copy_3d(copy, copies::default_stream(t));
    cuMemcpy3DAsync_v2 [cuMemcpy3DAsync_v2_ptsz] (copy: *const Copy3d, stream: CuStream) => |t| memory_copies::copy_3d(copy, copies::CopyStream::new(stream, t));
    cuMemcpyHtoA_v2 [cuMemcpyHtoA_v2_ptds] (to: CuArray, offset: usize, from: *const c_void, bytes: usize) => |t| arrays::from_host(to, offset, from, bytes, copies::default_stream(t));
    cuMemcpyHtoAAsync_v2 [cuMemcpyHtoAAsync_v2_ptsz] (to: CuArray, offset: usize, from: *const c_void, bytes: usize, stream: CuStream) => |t| arrays::from_host(to, offset, from, bytes, copies::CopyStream::new(stream, t));
    cuMemcpyAtoH_v2 [cuMemcpyAtoH_v2_ptds] (to: *mut c_void, from: CuArray, offset: usize, bytes: usize) => |t| arrays::to_host(to, from, offset, bytes, copies::default_stream(t));
    cuMemcpyAtoHAsync_v2 [cuMemcpyAtoHAsync_v2_ptsz] (to: *mut c_void, from: CuArray, offset: usize, bytes: usize, stream: CuStream) => |t| arrays::to_host(to, from, offset, bytes, copies::CopyStream::new(stream, t));
    cuMemcpyDtoA_v2 [cuMemcpyDtoA_v2_ptds] (to: CuArray, offset: usize, from: CuDevicePtr, bytes: usize) => |t| arrays::from_device(t, to, offset, from, bytes);
    cuMemcpyAtoD_v2 [cuMemcpyAtoD_v2_ptds] (to: CuDevicePtr, from: CuArray, offset: usize, bytes: usize) => |t| arrays::to_device(t, to, from, offset, bytes);
    cuMemcpyAtoA_v2 [cuMemcpyAtoA_v2_ptds] (to: CuArray, to_offset: usize, from: CuArray, from_offset: usize, bytes: usize) => |t| arrays::to_array(t, to, to_offset, from, from_offset, bytes);
    cuArrayDestroy [] (array: CuArray) => |_t| arrays::destroy(array);
    cuMipmappedArrayDestroy [] (array: CuMipmappedArray) => |_t| arrays::destroy_mipmapped(array);
    cuArray3DGetDescriptor_v2 [] (description: *mut c_void, array: CuArray) => |_t| arrays::describe(description.cast(), array);
    cuTexObjectCreate [] (object: *mut CuObject, resource: *const c_void, texture: *const c_void, view: *const c_void) => |_t| textures::create_texture(object, resource, texture, view);
    cuTexObjectGetResourceDesc [] (resource: *mut c_void, object: CuObject) => |_t| textures::describe(ObjectKind::Texture, resource, object);
    cuSurfObjectCreate [] (object: *mut CuObject, resource: *const c_void) => |_t| textures::create_surface(object, resource);
    cuSurfObjectGetResourceDesc [] (resource: *mut c_void, object: CuObject) => |_t| textures::describe(ObjectKind::Surface, resource, object);
    cuMemPoolSetAttribute [] (pool: CuMemPool, attribute: u32, value: *mut c_void) => |_t| memory::set_pool_attribute(pool, attribute, value);
    cuMemPoolGetAttribute [] (pool: CuMemPool, attribute: u32, value: *mut c_void) => |_t| memory::get_pool_attribute(pool, attribute, value);
    cuMemPrefetchAsync [cuMemPrefetchAsync_ptsz] (at: CuDevicePtr, bytes: usize, device: CuDevice, stream: CuStream) => |t| memory_hints::prefetch(t, at, bytes, HintTarget::Device(device), 0, stream);
    cuMemPrefetchAsync_v2 [cuMemPrefetchAsync_v2_ptsz] (at: CuDevicePtr, bytes: usize, location: MemLocation, flags: u32, stream: CuStream) => |t| memory_hints::prefetch(t, at, bytes, HintTarget::Location(location), flags, stream);
    cuMemAdvise [] (at: CuDevicePtr, bytes: usize, advice: u32, device: CuDevice) => |_t| memory_hints::advise(at, bytes, advice, HintTarget::Device(device));
    cuMemAdvise_v2 [] (at: CuDevicePtr, bytes: usize, advice: u32, location: MemLocation) => |_t| memory_hints::advise(at, bytes, advice, HintTarget::Location(location));
    cuCtxGetApiVersion [] (context: CuContext, version: *mut u32) => |_t| contexts::api_version(context, version);
    cuLibraryGetManaged [] (at: *mut CuDevicePtr, bytes: *mut usize, library: CuLibrary, name: *const c_char) => |_t| { let _ = (at, bytes, library, name); Err(NOT_SUPPORTED) };
    cuStreamGetCtx_v2 [cuStreamGetCtx_v2_ptsz] (stream: CuStream, context: *mut CuContext, part: *mut CuContext) => |t| contexts::of_stream(t, stream, context, part);
    cuThreadExchangeStreamCaptureMode [] (mode: *mut u32) => |_t| streams::exchange_capture_mode(mode);
    cuStreamGetCaptureInfo [cuStreamGetCaptureInfo_ptsz] (stream: CuStream, status: *mut u32, id: *mut u64) => |t| graphs::write_capture_info(t, stream, &CaptureResults { status, id, graph: std::ptr::null_mut(), nodes: std::ptr::null_mut(), edges: std::ptr::null_mut(), count: std::ptr::null_mut() });
    cuStreamGetCaptureInfo_v2 [cuStreamGetCaptureInfo_v2_ptsz] (stream: CuStream, status: *mut u32, id: *mut u64, graph: *mut CuGraph, nodes: *mut *const CuGraphNode, count: *mut usize) => |t| graphs::write_capture_info(t, stream, &CaptureResults { status, id, graph, nodes, edges: std::ptr::null_mut(), count });
    cuStreamGetCaptureInfo_v3 [cuStreamGetCaptureInfo_v3_ptsz] (stream: CuStream, status: *mut u32, id: *mut u64, graph: *mut CuGraph, nodes: *mut *const CuGraphNode, edges: *mut *const c_void, count: *mut usize) => |t| graphs::write_capture_info(t, stream, &CaptureResults { status, id, graph, nodes, edges, count });
    cuMemHostUnregister [] (at: *mut c_void) => |_t| host_memory::unregister(at);
    cuMemcpyHtoD_v2 [cuMemcpyHtoD_v2_ptds] (to: CuDevicePtr, from: *const c_void, bytes: usize) => |t| copies::to_device(to, from, bytes, copies::default_stream(t));
    cuMemcpyHtoDAsync_v2 [cuMemcpyHtoDAsync_v2_ptsz] (to: CuDevicePtr, from: *const c_void, bytes: usize, stream: CuStream) => |t| copies::to_device(to, from, bytes, copies::CopyStream::new(stream, t));
    cuMemcpyDtoH_v2 [cuMemcpyDtoH_v2_ptds] (to: *mut c_void, from: CuDevicePtr, bytes: usize) => |t| copies::to_host(to, from, bytes, copies::default_stream(t));
    cuMemcpyDtoHAsync_v2 [cuMemcpyDtoHAsync_v2_ptsz] (to: *mut c_void, from: CuDevicePtr, bytes: usize, stream: CuStream) => |t| copies::to_host(to, from, bytes, copies::CopyStream::new(stream, t));
    cuMemcpyDtoD_v2 [cuMemcpyDtoD_v2_ptds] (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |t| copies::on_device(to, from, bytes, t);
    cuMemcpy [cuMemcpy_ptds] (to: CuDevicePtr, from: CuDevicePtr, bytes: usize) => |t| copies::unified(to, from, bytes, copies::default_stream(t));
    cuMemcpyAsync [cuMemcpyAsync_ptsz] (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |t| copies::unified(to, from, bytes, copies::CopyStream::new(stream, t));
    cuMemsetD8Async [cuMemsetD8Async_ptsz] (to: CuDevicePtr, value: u8, count: usize, stream: CuStream) => |t| fills::fill_8_async(t, to, value, count, stream);
    cuMemsetD2D8Async [cuMemsetD2D8Async_ptsz] (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize, stream: CuStream) => |t| fills::fill_rows_8_async(t, to, pitch, value, width, height, stream);
    cuMemsetD16Async [cuMemsetD16Async_ptsz] (to: CuDevicePtr, value: u16, count: usize, stream: CuStream) => |t| fills::fill_16_async(t, to, value, count, stream);
    cuMemsetD2D16Async [cuMemsetD2D16Async_ptsz] (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize, stream: CuStream) => |t| fills::fill_rows_16_async(t, to, pitch, value, width, height, stream);
    cuMemsetD32Async [cuMemsetD32Async_ptsz] (to: CuDevicePtr, value: u32, count: usize, stream: CuStream) => |t| fills::fill_32_async(t, to, value, count, stream);
    cuMemsetD2D32Async [cuMemsetD2D32Async_ptsz] (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize, stream: CuStream) => |t| fills::fill_rows_32_async(t, to, pitch, value, width, height, stream);
    cuMemcpyDtoDAsync_v2 [cuMemcpyDtoDAsync_v2_ptsz] (to: CuDevicePtr, from: CuDevicePtr, bytes: usize, stream: CuStream) => |t| copies::on_device_async(to, from, bytes, stream, t);
    cuMemsetD8_v2 [cuMemsetD8_v2_ptds] (to: CuDevicePtr, value: u8, count: usize) => |t| fills::fill_8(t, to, value, count);
    cuMemsetD16_v2 [cuMemsetD16_v2_ptds] (to: CuDevicePtr, value: u16, count: usize) => |t| fills::fill_16(t, to, value, count);
    cuMemsetD32_v2 [cuMemsetD32_v2_ptds] (to: CuDevicePtr, value: u32, count: usize) => |t| fills::fill_32(t, to, value, count);
    cuMemsetD2D8_v2 [cuMemsetD2D8_v2_ptds] (to: CuDevicePtr, pitch: usize, value: u8, width: usize, height: usize) => |t| fills::fill_rows_8(t, to, pitch, value, width, height);
    cuMemsetD2D16_v2 [cuMemsetD2D16_v2_ptds] (to: CuDevicePtr, pitch: usize, value: u16, width: usize, height: usize) => |t| fills::fill_rows_16(t, to, pitch, value, width, height);
    cuMemsetD2D32_v2 [cuMemsetD2D32_v2_ptds] (to: CuDevicePtr, pitch: usize, value: u32, width: usize, height: usize) => |t| fills::fill_rows_32(t, to, pitch, value, width, height);
    cuEventCreate [] (event: *mut CuEvent, flags: u32) => |_t| streams::create_event(event, flags);
    cuStreamCreate [] (stream: *mut CuStream, flags: u32) => |_t| streams::create(stream, flags, |mode, to| forwarded::cuStreamCreate(mode, to, flags));
    cuStreamCreateWithPriority [] (stream: *mut CuStream, flags: u32, priority: i32) => |_t| streams::create(stream, flags, |mode, to| forwarded::cuStreamCreateWithPriority(mode, to, flags, priority));
    cuStreamDestroy_v2 [] (stream: CuStream) => |_t| streams::destroy(stream);
    cuStreamBeginCapture_v2 [cuStreamBeginCapture_v2_ptsz] (stream: CuStream, mode: u32) => |t| streams::begin_capture(t, stream, mode);
    cuStreamBeginCapture [cuStreamBeginCapture_ptsz] (stream: CuStream) => |t| streams::begin_capture(t, stream, 0);
    cuStreamEndCapture [cuStreamEndCapture_ptsz] (stream: CuStream, graph: *mut CuGraph) => |t| streams::end_capture(t, stream, graph);
    cuLaunchHostFunc_v2 [cuLaunchHostFunc_v2_ptsz] (stream: CuStream, function: *mut c_void, data: *mut c_void, mode: u32) => |t| { let _ = mode; host_functions::launch_function(t, stream, function, data) };
    cuLaunchHostFunc [cuLaunchHostFunc_ptsz] (stream: CuStream, function: *mut c_void, data: *mut c_void) => |t| host_functions::launch_function(t, stream, function, data);
    cuStreamAddCallback [cuStreamAddCallback_ptsz] (stream: CuStream, function: *mut c_void, data: *mut c_void, flags: u32) => |t| host_functions::add_callback(t, stream, function, data, flags);
    cuStreamBeginCaptureToGraph [cuStreamBeginCaptureToGraph_ptsz] (stream: CuStream, graph: CuGraph, after: *const CuGraphNode, data: *const c_void, count: usize, mode: u32) => |t| graphs::begin_capture(t, stream, graph, after, data, count, mode);
    cuGraphDestroy [] (graph: CuGraph) => |_t| graphs::destroy(graph);
    cuGraphAddKernelNode_v2 [] (node: *mut CuGraphNode, graph: CuGraph, after: *const CuGraphNode, count: usize, parameters: *const KernelNode) => |_t| graphs::add_kernel(&graphs::NewNode { to: node, graph, after, count }, parameters);
    cuGraphAddMemcpyNode [] (node: *mut CuGraphNode, graph: CuGraph, after: *const CuGraphNode, count: usize, copy: *const Copy3d, context: CuContext) => |_t| graphs::add_copy(&graphs::NewNode { to: node, graph, after, count }, copy, context);
    cuGraphAddMemsetNode [] (node: *mut CuGraphNode, graph: CuGraph, after: *const CuGraphNode, count: usize, fill: *const FillNode, context: CuContext) => |_t| graphs::add_fill(&graphs::NewNode { to: node, graph, after, count }, fill, context);
    cuGraphAddHostNode [] (node: *mut CuGraphNode, graph: CuGraph, after: *const CuGraphNode, count: usize, function: *const HostNode) => |_t| graphs::add_host(&graphs::NewNode { to: node, graph, after, count }, function);
    cuGraphAddChildGraphNode [] (node: *mut CuGraphNode, graph: CuGraph, after: *const CuGraphNode, count: usize, child: CuGraph) => |_t| graphs::add_child(&graphs::NewNode { to: node, graph, after, count }, child);
    cuGraphAddEmptyNode [] (node: *mut CuGraphNode, graph: CuGraph, after: *const CuGraphNode, count: usize) => |_t| graphs::add_empty(&graphs::NewNode { to: node, graph, after, count });
    cuGraphGetNodes [] (graph: CuGraph, nodes: *mut CuGraphNode, count: *mut usize) => |_t| graphs::list_nodes(graph, nodes, count);
    cuGraphGetEdges [] (graph: CuGraph, from: *mut CuGraphNode, to: *mut CuGraphNode, count: *mut usize) => |_t| graphs::list_edges(graph, from, to, count);
    cuGraphGetEdges_v2 [] (graph: CuGraph, from: *mut CuGraphNode, to: *mut CuGraphNode, data: *mut c_void, count: *mut usize) => |_t| graphs::list_edges_with_data(graph, from, to, data, count);
    cuGraphKernelNodeGetParams_v2 [] (node: CuGraphNode, parameters: *mut KernelNode) => |_t| graphs::describe_kernel(node, parameters);
    cuGraphKernelNodeSetParams_v2 [] (node: CuGraphNode, parameters: *const KernelNode) => |_t| graphs::set_kernel(node, parameters);
    cuGraphKernelNodeGetAttribute [] (node: CuGraphNode, attribute: u32, value: *mut [u64; 8]) => |_t| graphs::get_attribute(node, attribute, value);
    cuGraphKernelNodeSetAttribute [] (node: CuGraphNode, attribute: u32, value: *const [u64; 8]) => |_t| graphs::set_attribute(node, attribute, value);
    cuGraphMemcpyNodeGetParams [] (node: CuGraphNode, parameters: *mut Copy3d) => |_t| graphs::describe_copy(node, parameters);
    cuGraphMemsetNodeGetParams [] (node: CuGraphNode, parameters: *mut FillNode) => |_t| graphs::describe_fill(node, parameters);
    cuGraphChildGraphNodeGetGraph [] (node: CuGraphNode, graph: *mut CuGraph) => |_t| graphs::find_child(node, graph);
    cuGraphInstantiate_v2 [] (exec: *mut CuGraphExec, graph: CuGraph, node: *mut CuGraphNode, log: *mut c_char, bytes: usize) => |_t| graphs::instantiate_with_log(exec, graph, node, log, bytes);
    cuGraphInstantiateWithParams [cuGraphInstantiateWithParams_ptsz] (exec: *mut CuGraphExec, graph: CuGraph, parameters: *mut c_void) => |t| graphs::instantiate_with_parameters(t, exec, graph, parameters.cast());
    cuGraphExecUpdate_v2 [] (exec: CuGraphExec, graph: CuGraph, report: *mut c_void) => |_t| graphs::update(exec, graph, report.cast());
    cuGraphExecUpdate [] (exec: CuGraphExec, graph: CuGraph, node: *mut CuGraphNode, outcome: *mut u32) => |_t| graphs::update_first_version(exec, graph, node, outcome);
    cuGraphExecKernelNodeSetParams_v2 [] (exec: CuGraphExec, node: CuGraphNode, parameters: *const KernelNode) => |_t| graphs::set_exec_kernel(exec, node, parameters);
    cuGraphExecKernelNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, parameters: *const KernelNode) => |_t| graphs::set_exec_kernel_first_version(exec, node, parameters);
    cuGraphExecMemcpyNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, copy: *const Copy3d, context: CuContext) => |_t| graphs::set_exec_copy(exec, node, copy, context);
    cuGraphExecMemsetNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, fill: *const FillNode, context: CuContext) => |_t| graphs::set_exec_fill(exec, node, fill, context);
    cuGraphExecHostNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, function: *const HostNode) => |_t| graphs::set_exec_host(exec, node, function);
    cuGraphExecNodeSetParams [] (exec: CuGraphExec, node: CuGraphNode, parameters: *mut NodeForm) => |_t| graphs::set_exec_node(exec, node, parameters);
    cuLaunchKernel [cuLaunchKernel_ptsz] (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |t| launches::launch(t, &launches::LaunchForm { function, grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared, stream, parameters, extra, is_cooperative: false, attributes: None });
    cuLaunchCooperativeKernel [cuLaunchCooperativeKernel_ptsz] (function: CuFunction, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: CuStream, parameters: *mut *mut c_void) => |t| launches::launch(t, &launches::LaunchForm { function, grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared, stream, parameters, extra: std::ptr::null_mut(), is_cooperative: true, attributes: None });
    kinescope_remote_library_call [] (frame: *mut LibraryCallFrame) => |_t| library_calls::send(frame);
    cuLaunchKernelEx [cuLaunchKernelEx_ptsz] (config: *const LaunchConfig, function: CuFunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) => |t| launches::launch_with(t, config, function, parameters, extra);
}

/// Returns the addresses of an exported function by its name.
pub fn find(name: &str) -> Option<Exported> {
    find_own(name).or_else(|| find_forwarded(name))
}
