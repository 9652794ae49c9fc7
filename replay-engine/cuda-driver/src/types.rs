//! Handles, structures and constants of the CUDA driver API, as `cuda.h` of CUDA 13 defines them on 64-bit machines.

use std::ffi::c_void;

/// Result code of a call: 0 is success, see [`crate::result_name`].
pub type CuResult = u32;
/// Number of a device, starting at 0.
pub type CuDevice = i32;
/// Address in device memory.
pub type CuDevicePtr = u64;
/// Handle of a context.
pub type CuContext = *mut c_void;
/// Handle of a module.
pub type CuModule = *mut c_void;
/// Handle of a library, which is code that belongs to no context.
pub type CuLibrary = *mut c_void;
/// Handle of a link, which makes machine code of texts.
pub type CuLinkState = *mut c_void;
/// Handle of a function. Launch functions also accept a [`CuKernel`].
pub type CuFunction = *mut c_void;
/// Handle of a kernel of a library.
pub type CuKernel = *mut c_void;
/// Handle of a stream; 0, 1 and 2 are the default streams.
pub type CuStream = *mut c_void;
/// Handle of an event.
pub type CuEvent = *mut c_void;
/// Handle of a graph.
pub type CuGraph = *mut c_void;
/// Handle of a node of a graph.
pub type CuGraphNode = *mut c_void;
/// Handle of an executable graph.
pub type CuGraphExec = *mut c_void;
/// Handle of a memory pool.
pub type CuMemPool = *mut c_void;
/// Handle of an array of texels.
pub type CuArray = *mut c_void;
/// Handle of a mipmapped array, each of whose levels is an array.
pub type CuMipmappedArray = *mut c_void;
/// Handle of physical memory, created by `cuMemCreate` of [`crate::Driver`].
pub type CuMemHandle = u64;
/// Handle of a texture or surface object.
pub type CuObject = u64;

/// Success.
pub const SUCCESS: CuResult = 0;
/// An argument is invalid.
pub const INVALID_VALUE: CuResult = 1;
/// No memory is left.
pub const OUT_OF_MEMORY: CuResult = 2;
/// The driver is missing or not initialised.
pub const NOT_INITIALIZED: CuResult = 3;
/// The thread has no current context, or the context is invalid.
pub const INVALID_CONTEXT: CuResult = 201;
/// The handle is invalid, or belongs to another context than the thread's current one.
pub const INVALID_HANDLE: CuResult = 400;
/// A name was not found.
pub const NOT_FOUND: CuResult = 500;
/// The work is not complete yet.
pub const NOT_READY: CuResult = 600;
/// The device accessed an address that is not mapped.
pub const ILLEGAL_ADDRESS: CuResult = 700;
/// A launch exceeded the time limit.
pub const LAUNCH_TIMEOUT: CuResult = 702;
/// The call is not supported.
pub const NOT_SUPPORTED: CuResult = 801;
/// The call is not permitted while a stream is being captured.
pub const STREAM_CAPTURE_UNSUPPORTED: CuResult = 900;

/// The default stream that waits for all other streams.
pub const STREAM_LEGACY: usize = 1;
/// The default stream of a thread.
pub const STREAM_PER_THREAD: usize = 2;

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
pub const DEVICE_MULTIPROCESSORS: i32 = 16;
/// `CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR`.
pub const DEVICE_MULTIPROCESSOR_THREADS: i32 = 39;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub const DEVICE_CAPABILITY_MAJOR: i32 = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
pub const DEVICE_CAPABILITY_MINOR: i32 = 76;
/// `CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED`.
pub const DEVICE_VIRTUAL_MEMORY: i32 = 102;

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`.
pub const FUNCTION_MAX_THREADS: i32 = 0;
/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`.
pub const FUNCTION_SHARED: i32 = 1;
/// `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES`.
pub const FUNCTION_LOCAL: i32 = 3;
/// `CU_FUNC_ATTRIBUTE_NUM_REGS`.
pub const FUNCTION_REGISTERS: i32 = 4;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const FUNCTION_MAX_DYNAMIC_SHARED: i32 = 8;

/// `CU_JIT_MAX_REGISTERS`.
pub const JIT_MAX_REGISTERS: i32 = 0;
/// `CU_JIT_INFO_LOG_BUFFER`.
pub const JIT_INFO_LOG: i32 = 3;
/// `CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES`.
pub const JIT_INFO_LOG_BYTES: i32 = 4;
/// `CU_JIT_ERROR_LOG_BUFFER`.
pub const JIT_ERROR_LOG: i32 = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
pub const JIT_ERROR_LOG_BYTES: i32 = 6;
/// `CU_JIT_LOG_VERBOSE`: the information log also has a line for each function.
pub const JIT_LOG_VERBOSE: i32 = 12;
/// `CU_JIT_SPLIT_COMPILE`: number of threads of the compiler, since CUDA 12.9.
pub const JIT_SPLIT_COMPILE: i32 = 34;
/// `CU_JIT_INPUT_PTX`: the data of a link is PTX text.
pub const INPUT_PTX: u32 = 1;

/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
pub const LAUNCH_COOPERATIVE: u32 = 2;
/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
pub const LAUNCH_CLUSTER: u32 = 4;
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
pub const LAUNCH_PROGRAMMATIC: u32 = 6;
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT`.
pub const LAUNCH_PROGRAMMATIC_EVENT: u32 = 7;
/// `CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT`.
pub const LAUNCH_COMPLETION_EVENT: u32 = 12;
/// `CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE`.
pub const LAUNCH_UPDATABLE: u32 = 13;

/// `CU_LIMIT_STACK_SIZE`.
pub const LIMIT_STACK: u32 = 0;
/// `CU_LIMIT_PRINTF_FIFO_SIZE`.
pub const LIMIT_PRINTF: u32 = 1;
/// `CU_LIMIT_MALLOC_HEAP_SIZE`.
pub const LIMIT_HEAP: u32 = 2;

/// Marker for the end of a launch's `extra` list.
pub const EXTRA_END: usize = 0;
/// Marker in `extra`: the next entry is the address of the parameter buffer.
pub const EXTRA_BUFFER: usize = 1;
/// Marker in `extra`: the next entry is the address of the buffer's size.
pub const EXTRA_SIZE: usize = 2;

/// `CU_MEMORYTYPE_HOST`.
pub const MEMORY_HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`.
pub const MEMORY_DEVICE: u32 = 2;
/// `CU_MEMORYTYPE_ARRAY`.
pub const MEMORY_ARRAY: u32 = 3;
/// `CU_MEMORYTYPE_UNIFIED`.
pub const MEMORY_UNIFIED: u32 = 4;

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
pub const POINTER_MEMORY_TYPE: i32 = 2;
/// `CU_POINTER_ATTRIBUTE_IS_MANAGED`.
pub const POINTER_MANAGED: i32 = 8;
/// `CU_POINTER_ATTRIBUTE_RANGE_START_ADDR`.
pub const POINTER_RANGE_START: i32 = 11;
/// `CU_POINTER_ATTRIBUTE_RANGE_SIZE`.
pub const POINTER_RANGE_BYTES: i32 = 12;

/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub const ALLOCATION_PINNED: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub const LOCATION_DEVICE: u32 = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub const ACCESS_READ_WRITE: u32 = 3;

/// `CU_STREAM_NON_BLOCKING`: the stream does not wait for the default stream.
pub const STREAM_NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub const EVENT_NO_TIMING: u32 = 2;

/// `CU_GRAPH_NODE_TYPE_KERNEL`.
pub const NODE_KERNEL: u32 = 0;
/// `CU_GRAPH_NODE_TYPE_MEMCPY`.
pub const NODE_COPY: u32 = 1;
/// `CU_GRAPH_NODE_TYPE_MEMSET`.
pub const NODE_FILL: u32 = 2;
/// `CU_GRAPH_NODE_TYPE_HOST`.
pub const NODE_HOST: u32 = 3;
/// `CU_GRAPH_NODE_TYPE_GRAPH`.
pub const NODE_GRAPH: u32 = 4;
/// `CU_GRAPH_NODE_TYPE_EMPTY`.
pub const NODE_EMPTY: u32 = 5;
/// `CU_GRAPH_NODE_TYPE_WAIT_EVENT`.
pub const NODE_WAIT_EVENT: u32 = 6;
/// `CU_GRAPH_NODE_TYPE_EVENT_RECORD`.
pub const NODE_EVENT_RECORD: u32 = 7;

/// `CUmemLocation`: location of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemLocation {
    /// [`LOCATION_DEVICE`] or another.
    pub kind: u32,
    /// Number of the device.
    pub id: i32,
}

/// `CUmemAllocationProp`: properties of physical memory to allocate.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AllocationProperties {
    /// [`ALLOCATION_PINNED`].
    pub kind: u32,
    /// Kinds of handles for sharing the memory; 0 means none.
    pub handle_types: u32,
    /// Location of the memory.
    pub location: MemLocation,
    /// Windows only.
    pub win32: *mut c_void,
    /// Compression, direct access by other devices, usage, reserved.
    pub flags: [u8; 8],
}

/// `CUmemAccessDesc`: access rights of a device to memory.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct AccessDescription {
    /// The device.
    pub location: MemLocation,
    /// [`ACCESS_READ_WRITE`].
    pub flags: u32,
}

/// `CU_RESOURCE_TYPE_ARRAY`.
pub const RESOURCE_ARRAY: u32 = 0;
/// `CU_RESOURCE_TYPE_MIPMAPPED_ARRAY`.
pub const RESOURCE_MIPMAPPED_ARRAY: u32 = 1;
/// `CU_RESOURCE_TYPE_LINEAR`.
pub const RESOURCE_LINEAR: u32 = 2;
/// `CU_RESOURCE_TYPE_PITCH2D`.
pub const RESOURCE_ROWS: u32 = 3;

/// `CUDA_RESOURCE_DESC`: memory that a texture or surface object accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ResourceDescription {
    /// [`RESOURCE_ARRAY`] or another.
    pub kind: u32,
    /// Not used.
    pub pad: u32,
    /// The handle of an array, or the address of linear memory.
    pub memory: u64,
    /// `CUarray_format` of a texel of linear memory.
    pub format: u32,
    /// Number of channels of a texel of linear memory.
    pub channels: u32,
    /// Size of linear memory, bytes; of rows, their width and number in texels, and their distance in bytes.
    pub sizes: [u64; 3],
    /// Not used.
    pub reserved: [u64; 11],
    /// No flags are known.
    pub flags: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`: sizes and texels of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ArrayDescription {
    /// Number of texels of a row.
    pub width: usize,
    /// Number of rows; 0 for an array with one dimension.
    pub height: usize,
    /// Number of slices or layers; 0 for an array without.
    pub depth: usize,
    /// `CUarray_format`.
    pub format: u32,
    /// Number of channels of a texel.
    pub channels: u32,
    /// `CUDA_ARRAY3D_LAYERED` and others.
    pub flags: u32,
}

impl ArrayDescription {
    /// Returns the size of a texel, bytes, or `None` for a format whose texels have no size of their own.
    #[must_use]
    pub fn texel_bytes(&self) -> Option<usize> {
        let channel = match self.format {
            1 | 8 => 1,
            2 | 9 | 16 => 2,
            3 | 10 | 32 => 4,
            _ => return None,
        };
        usize::try_from(self.channels).ok()?.checked_mul(channel)
    }
}

/// `CUDA_MEMCPY2D`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the names say it, in the driver's own order")]
pub struct Copy2d {
    pub source_x: usize,
    pub source_y: usize,
    pub source_kind: u32,
    pub source_host: *const c_void,
    pub source_device: CuDevicePtr,
    pub source_array: CuArray,
    pub source_pitch: usize,
    pub to_x: usize,
    pub to_y: usize,
    pub to_kind: u32,
    pub to_host: *mut c_void,
    pub to_device: CuDevicePtr,
    pub to_array: CuArray,
    pub to_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// `CUDA_MEMCPY3D`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the names say it, in the driver's own order")]
pub struct Copy3d {
    pub source_x: usize,
    pub source_y: usize,
    pub source_z: usize,
    pub source_level: usize,
    pub source_kind: u32,
    pub source_host: *const c_void,
    pub source_device: CuDevicePtr,
    pub source_array: CuArray,
    pub reserved0: *mut c_void,
    pub source_pitch: usize,
    pub source_height: usize,
    pub to_x: usize,
    pub to_y: usize,
    pub to_z: usize,
    pub to_level: usize,
    pub to_kind: u32,
    pub to_host: *mut c_void,
    pub to_device: CuDevicePtr,
    pub to_array: CuArray,
    pub reserved1: *mut c_void,
    pub to_pitch: usize,
    pub to_height: usize,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// `CUlaunchAttribute`: an attribute id and a value of 64 bytes whose meaning depends on the id.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaunchAttribute {
    /// [`LAUNCH_COOPERATIVE`], [`LAUNCH_CLUSTER`] or another.
    pub id: u32,
    /// Not used.
    pub pad: [u8; 4],
    /// Value, depending on the id: one `u32` or three.
    pub value: [u64; 8],
}

/// `CUlaunchConfig`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaunchConfig {
    /// Number of blocks per dimension.
    pub grid: [u32; 3],
    /// Number of threads of a block per dimension.
    pub block: [u32; 3],
    /// Size of dynamic shared memory, bytes.
    pub shared: u32,
    /// The stream.
    pub stream: CuStream,
    /// The attributes.
    pub attributes: *const LaunchAttribute,
    /// Number of attributes.
    pub attribute_count: u32,
}

/// `CUDA_KERNEL_NODE_PARAMS`, second version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelNode {
    /// The function; null if `kernel` is set.
    pub function: CuFunction,
    /// Number of blocks per dimension.
    pub grid: [u32; 3],
    /// Number of threads of a block per dimension.
    pub block: [u32; 3],
    /// Size of dynamic shared memory, bytes.
    pub shared: u32,
    /// Addresses of the parameters.
    pub parameters: *mut *mut c_void,
    /// Parameters as one buffer.
    pub extra: *mut *mut c_void,
    /// The kernel.
    pub kernel: CuKernel,
    /// The context; null means the current one.
    pub context: CuContext,
}

/// `CUDA_HOST_NODE_PARAMS`, first version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct HostNode {
    /// The function.
    pub function: *mut c_void,
    /// Argument of the function.
    pub data: *mut c_void,
}

/// `CUDA_MEMSET_NODE_PARAMS`, first version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FillNode {
    /// Address of the first byte.
    pub to: CuDevicePtr,
    /// Distance from one row to the next, bytes.
    pub pitch: usize,
    /// The value.
    pub value: u32,
    /// Size of an element, bytes.
    pub element: u32,
    /// Number of elements of a row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
}

/// `CUgraphNodeParams`: parameters of a node, depending on its kind.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NodeForm {
    /// [`NODE_KERNEL`] or another.
    pub kind: u32,
    /// Not used.
    pub reserved: [u32; 3],
    /// Parameters of a node of this kind.
    pub form: [u64; 29],
    /// Not used.
    pub last: u64,
}

impl NodeForm {
    /// Size of the fields before the copy parameters of a [`NODE_COPY`] node (flags and context), bytes.
    pub const COPY_AT: usize = 16;
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct InstantiationParameters {
    /// Flags.
    pub flags: u64,
    /// Stream of the upload.
    pub stream: CuStream,
    /// Result: the node that failed, or null.
    pub node: CuGraphNode,
    /// Result: `CUgraphInstantiateResult`.
    pub outcome: u32,
}

/// `CUgraphExecUpdateResultInfo`: what the driver says about an update of an executable graph.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UpdateReport {
    /// `CUgraphExecUpdateResult`.
    pub outcome: u32,
    /// The node that does not fit, or null.
    pub node: CuGraphNode,
    /// The node that the edge which does not fit starts at, or null.
    pub edge_start: CuGraphNode,
}

/// `CUuuid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Uuid {
    /// Its bytes.
    pub bytes: [u8; 16],
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes are those of a C compiler with `cuda.h` of CUDA 13.0 on x86-64.
    #[test]
    fn struct_sizes_match_the_cuda_header() {
        assert_eq!(size_of::<AllocationProperties>(), 32);
        assert_eq!(size_of::<AccessDescription>(), 12);
        assert_eq!(size_of::<Copy2d>(), 128);
        assert_eq!(size_of::<Copy3d>(), 200);
        assert_eq!(size_of::<LaunchAttribute>(), 72);
        assert_eq!(size_of::<LaunchConfig>(), 56);
        assert_eq!(std::mem::offset_of!(LaunchConfig, stream), 32);
        assert_eq!(size_of::<KernelNode>(), 72);
        assert_eq!(std::mem::offset_of!(KernelNode, parameters), 40);
        assert_eq!(size_of::<FillNode>(), 40);
        assert_eq!(size_of::<InstantiationParameters>(), 32);
        assert_eq!(size_of::<UpdateReport>(), 24);
        assert_eq!(size_of::<NodeForm>(), 256);
        assert_eq!(std::mem::offset_of!(NodeForm, form), 16);
    }
}
