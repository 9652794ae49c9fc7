//! The table of calls, and their numbers in messages.

use crate::Policy;

/// Passes the table of calls with plain arguments to a macro: `calls!(list)` becomes
/// `list! { name [variant] policy export (argument: form, …); … }`. Tokens after the macro's name come first. The names and the order of arguments are those of
/// `cuda.h` of CUDA 13; the forms are in [`crate::Form`]. `variant` is the function whose default stream is per thread.
/// `exported` functions need nothing at the client but this line. `inner` ones are called by code at the client that
/// keeps the state of contexts, memory and functions, and exports the driver's name itself.
#[macro_export]
macro_rules! calls {
    ($with:ident $($extra:tt)*) => {
        $with! {
            $($extra)*
            cuDeviceGetDefaultMemPool [] Answered exported (pool: Resolved<kinds::MemPool>, device: Value<i32>);
            cuDeviceGetMemPool [] Answered exported (pool: Resolved<kinds::MemPool>, device: Value<i32>);
            cuDeviceSetMemPool [] Answered exported (device: Value<i32>, pool: Object<kinds::MemPool>);
            cuDevicePrimaryCtxRetain [] Answered inner (context: Resolved<kinds::Context>, device: Value<i32>);
            cuDevicePrimaryCtxRelease_v2 [] Answered inner (device: Value<i32>);
            cuDevicePrimaryCtxReset_v2 [] Answered inner (device: Value<i32>);
            cuDevicePrimaryCtxGetState [] Answered exported (device: Value<i32>, flags: Output<u32>, active: Output<i32>);
            cuDevicePrimaryCtxSetFlags_v2 [] Answered exported (device: Value<i32>, flags: Value<u32>);
            cuCtxCreate_v2 [] Answered inner (context: Created<kinds::Context>, flags: Value<u32>, device: Value<i32>);
            cuCtxDestroy_v2 [] Answered inner (context: Destroyed<kinds::Context>);
            cuCtxSynchronize [] Blocking exported ();
            cuCtxSetLimit [] Answered exported (limit: Value<u32>, value: Value<usize>);
            cuCtxGetLimit [] Answered exported (value: Output<usize>, limit: Value<u32>);
            cuCtxGetStreamPriorityRange [] Answered exported (lowest: OptionalOutput<i32>, highest: OptionalOutput<i32>);
            cuCtxGetApiVersion [] Answered inner (context: Object<kinds::Context>, version: Output<u32>);
            cuCtxGetFlags [] Answered exported (flags: Output<u32>);
            cuCtxResetPersistingL2Cache [] Answered exported ();
            cuModuleUnload [] Answered exported (module: Destroyed<kinds::Module>);
            cuModuleGetGlobal_v2 [] Answered exported (at: OptionalOutput<u64>, bytes: OptionalOutput<usize>, module: Object<kinds::Module>, name: Text);
            cuModuleGetFunctionCount [] Answered exported (count: Output<u32>, module: Object<kinds::Module>);
            cuLibraryUnload [] Answered exported (library: Destroyed<kinds::Library>);
            cuLibraryGetKernelCount [] Answered exported (count: Output<u32>, library: Object<kinds::Library>);
            cuLibraryGetModule [] Answered exported (module: Resolved<kinds::Module>, library: Object<kinds::Library>);
            cuLibraryGetGlobal [] Answered exported (at: OptionalOutput<u64>, bytes: OptionalOutput<usize>, library: Object<kinds::Library>, name: Text);
            cuKernelGetLibrary [] Answered exported (library: Resolved<kinds::Library>, kernel: Object<kinds::Kernel>);
            cuKernelGetAttribute [] Answered exported (value: Output<i32>, attribute: Value<i32>, kernel: Object<kinds::Kernel>, device: Value<i32>);
            cuKernelSetAttribute [] Answered exported (attribute: Value<i32>, value: Value<i32>, kernel: Object<kinds::Kernel>, device: Value<i32>);
            cuFuncGetModule [] Answered exported (module: Resolved<kinds::Module>, function: Object<kinds::Function>);
            cuFuncGetAttribute [] Answered exported (value: Output<i32>, attribute: Value<i32>, function: Object<kinds::Function>);
            cuFuncSetAttribute [] Answered exported (function: Object<kinds::Function>, attribute: Value<i32>, value: Value<i32>);
            cuFuncSetCacheConfig [] Answered exported (function: Object<kinds::Function>, config: Value<u32>);
            cuOccupancyMaxActiveBlocksPerMultiprocessor [] Answered exported (blocks: Output<i32>, function: Object<kinds::Function>, block: Value<i32>, shared: Value<usize>);
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags [] Answered exported (blocks: Output<i32>, function: Object<kinds::Function>, block: Value<i32>, shared: Value<usize>, flags: Value<u32>);
            cuMemGetInfo_v2 [] Answered exported (free: Output<usize>, total: Output<usize>);
            cuMemAlloc_v2 [] Answered inner (at: Output<u64>, bytes: Value<usize>);
            cuMemAllocPitch_v2 [] Answered inner (at: Output<u64>, pitch: Output<usize>, width: Value<usize>, height: Value<usize>, element: Value<u32>);
            cuMemFree_v2 [] Blocking inner (at: Value<u64>);
            cuMemPoolCreate [] Answered inner (pool: Created<kinds::MemPool>, properties: InputBytes<88>);
            cuMemPoolDestroy [] Answered exported (pool: Destroyed<kinds::MemPool>);
            cuMemPoolTrimTo [] Answered exported (pool: Object<kinds::MemPool>, bytes: Value<usize>);
            cuMemAllocAsync [] Answered inner (at: Output<u64>, bytes: Value<usize>, stream: Object<kinds::Stream>);
            cuMemAllocFromPoolAsync [] Answered inner (at: Output<u64>, bytes: Value<usize>, pool: Object<kinds::MemPool>, stream: Object<kinds::Stream>);
            cuMemFreeAsync [] Quiet inner (at: Value<u64>, stream: Object<kinds::Stream>);
            cuMemGetAddressRange_v2 [] Answered inner (base: OptionalOutput<u64>, bytes: OptionalOutput<usize>, at: Value<u64>);
            cuMemAddressReserve [] Answered exported (at: Output<u64>, bytes: Value<usize>, alignment: Value<usize>, hint: Value<u64>, flags: Value<u64>);
            cuMemAddressFree [] Answered exported (at: Value<u64>, bytes: Value<usize>);
            cuMemCreate [] Answered exported (handle: Created<kinds::Memory>, bytes: Value<usize>, properties: Input<cuda_driver::AllocationProperties>, flags: Value<u64>);
            cuMemRelease [] Answered exported (handle: Destroyed<kinds::Memory>);
            cuMemMap [] Answered exported (at: Value<u64>, bytes: Value<usize>, offset: Value<usize>, handle: Object<kinds::Memory>, flags: Value<u64>);
            cuMemUnmap [] Answered exported (at: Value<u64>, bytes: Value<usize>);
            cuMemGetAllocationGranularity [] Answered exported (bytes: Output<usize>, properties: Input<cuda_driver::AllocationProperties>, option: Value<u32>);
            cuMemcpyDtoD_v2 [] Quiet inner (to: Value<u64>, from: Value<u64>, bytes: Value<usize>);
            cuMemcpyDtoDAsync_v2 [] Quiet inner (to: Value<u64>, from: Value<u64>, bytes: Value<usize>, stream: Object<kinds::Stream>);
            cuMemcpyAsync [] Answered inner (to: Value<u64>, from: Value<u64>, bytes: Value<usize>, stream: Object<kinds::Stream>);
            cuMemsetD8_v2 [] Quiet inner (to: Value<u64>, value: Value<u8>, count: Value<usize>);
            cuMemsetD16_v2 [] Quiet inner (to: Value<u64>, value: Value<u16>, count: Value<usize>);
            cuMemsetD32_v2 [] Quiet inner (to: Value<u64>, value: Value<u32>, count: Value<usize>);
            cuMemsetD2D8_v2 [] Quiet inner (to: Value<u64>, pitch: Value<usize>, value: Value<u8>, width: Value<usize>, height: Value<usize>);
            cuMemsetD2D16_v2 [] Quiet inner (to: Value<u64>, pitch: Value<usize>, value: Value<u16>, width: Value<usize>, height: Value<usize>);
            cuMemsetD2D32_v2 [] Quiet inner (to: Value<u64>, pitch: Value<usize>, value: Value<u32>, width: Value<usize>, height: Value<usize>);
            cuMemsetD8Async [] Quiet inner (to: Value<u64>, value: Value<u8>, count: Value<usize>, stream: Object<kinds::Stream>);
            cuMemsetD16Async [] Quiet inner (to: Value<u64>, value: Value<u16>, count: Value<usize>, stream: Object<kinds::Stream>);
            cuMemsetD32Async [] Quiet inner (to: Value<u64>, value: Value<u32>, count: Value<usize>, stream: Object<kinds::Stream>);
            cuMemsetD2D8Async [] Quiet inner (to: Value<u64>, pitch: Value<usize>, value: Value<u8>, width: Value<usize>, height: Value<usize>, stream: Object<kinds::Stream>);
            cuMemsetD2D16Async [] Quiet inner (to: Value<u64>, pitch: Value<usize>, value: Value<u16>, width: Value<usize>, height: Value<usize>, stream: Object<kinds::Stream>);
            cuMemsetD2D32Async [] Quiet inner (to: Value<u64>, pitch: Value<usize>, value: Value<u32>, width: Value<usize>, height: Value<usize>, stream: Object<kinds::Stream>);
            cuMemcpyDtoA_v2 [] Blocking inner (to: Object<kinds::Array>, offset: Value<usize>, from: Value<u64>, bytes: Value<usize>);
            cuMemcpyAtoD_v2 [] Blocking inner (to: Value<u64>, from: Object<kinds::Array>, offset: Value<usize>, bytes: Value<usize>);
            cuMemcpyAtoA_v2 [] Blocking inner (to: Object<kinds::Array>, to_offset: Value<usize>, from: Object<kinds::Array>, from_offset: Value<usize>, bytes: Value<usize>);
            cuStreamCreate [] Quiet inner (stream: Created<kinds::Stream>, flags: Value<u32>);
            cuStreamCreateWithPriority [] Quiet inner (stream: Created<kinds::Stream>, flags: Value<u32>, priority: Value<i32>);
            cuStreamDestroy_v2 [] Quiet inner (stream: Destroyed<kinds::Stream>);
            cuStreamSynchronize [cuStreamSynchronize_ptsz] Blocking exported (stream: Object<kinds::Stream>);
            cuStreamQuery [cuStreamQuery_ptsz] Answered exported (stream: Object<kinds::Stream>);
            cuStreamGetFlags [cuStreamGetFlags_ptsz] Answered exported (stream: Object<kinds::Stream>, flags: Output<u32>);
            cuStreamGetPriority [cuStreamGetPriority_ptsz] Answered exported (stream: Object<kinds::Stream>, priority: Output<i32>);
            cuStreamGetCtx [cuStreamGetCtx_ptsz] Answered exported (stream: Object<kinds::Stream>, context: Resolved<kinds::Context>);
            cuStreamSetAttribute [cuStreamSetAttribute_ptsz] Answered exported (stream: Object<kinds::Stream>, attribute: Value<u32>, value: InputBytes<64>);
            cuStreamGetAttribute [cuStreamGetAttribute_ptsz] Answered exported (stream: Object<kinds::Stream>, attribute: Value<u32>, value: OutputBytes<64>);
            cuStreamCopyAttributes [cuStreamCopyAttributes_ptsz] Answered exported (to: Object<kinds::Stream>, from: Object<kinds::Stream>);
            cuStreamWaitEvent [cuStreamWaitEvent_ptsz] Quiet exported (stream: Object<kinds::Stream>, event: Object<kinds::Event>, flags: Value<u32>);
            cuStreamEndCapture [] Answered inner (stream: Object<kinds::Stream>, graph: Resolved<kinds::Graph>);
            cuStreamIsCapturing [cuStreamIsCapturing_ptsz] Answered exported (stream: Object<kinds::Stream>, status: Output<u32>);
            cuEventCreate [] Quiet inner (event: Created<kinds::Event>, flags: Value<u32>);
            cuEventDestroy_v2 [] Quiet exported (event: Destroyed<kinds::Event>);
            cuEventRecord [cuEventRecord_ptsz] Quiet exported (event: Object<kinds::Event>, stream: Object<kinds::Stream>);
            cuEventRecordWithFlags [cuEventRecordWithFlags_ptsz] Quiet exported (event: Object<kinds::Event>, stream: Object<kinds::Stream>, flags: Value<u32>);
            cuEventSynchronize [] Blocking exported (event: Object<kinds::Event>);
            cuEventQuery [] Answered exported (event: Object<kinds::Event>);
            cuEventElapsedTime [] Answered exported (milliseconds: Output<f32>, from: Object<kinds::Event>, to: Object<kinds::Event>);
            cuEventElapsedTime_v2 [] Answered exported (milliseconds: Output<f32>, from: Object<kinds::Event>, to: Object<kinds::Event>);
            cuGraphCreate [] Answered exported (graph: Created<kinds::Graph>, flags: Value<u32>);
            cuGraphInstantiateWithFlags [] Answered exported (exec: Created<kinds::GraphExec>, graph: Object<kinds::Graph>, flags: Value<u64>);
            cuGraphLaunch [cuGraphLaunch_ptsz] Quiet exported (exec: Object<kinds::GraphExec>, stream: Object<kinds::Stream>);
            cuGraphUpload [cuGraphUpload_ptsz] Quiet exported (exec: Object<kinds::GraphExec>, stream: Object<kinds::Stream>);
            cuGraphClone [] Answered exported (clone: Created<kinds::Graph>, graph: Object<kinds::Graph>);
            cuGraphDestroyNode [] Answered exported (node: Destroyed<kinds::GraphNode>);
            cuGraphExecDestroy [] Quiet exported (exec: Destroyed<kinds::GraphExec>);
            cuGraphNodeGetType [] Answered exported (node: Object<kinds::GraphNode>, kind: Output<u32>);
            cuGraphExecChildGraphNodeSetParams [] Answered exported (exec: Object<kinds::GraphExec>, node: Object<kinds::GraphNode>, child: Object<kinds::Graph>);
            cuGraphNodeSetEnabled [] Answered exported (exec: Object<kinds::GraphExec>, node: Object<kinds::GraphNode>, enabled: Value<u32>);
            cuTexObjectDestroy [] Answered exported (object: Value<u64>);
            cuTexObjectGetTextureDesc [] Answered exported (texture: OutputBytes<104>, object: Value<u64>);
            cuTexObjectGetResourceViewDesc [] Answered exported (view: OutputBytes<112>, object: Value<u64>);
            cuSurfObjectDestroy [] Answered exported (object: Value<u64>);
            cuArrayCreate_v2 [] Answered exported (array: Created<kinds::Array>, description: InputBytes<24>);
            cuArray3DCreate_v2 [] Answered exported (array: Created<kinds::Array>, description: InputBytes<40>);
            cuArrayDestroy [] Blocking inner (array: Destroyed<kinds::Array>);
            cuArrayGetDescriptor_v2 [] Answered exported (description: OutputBytes<24>, array: Object<kinds::Array>);
            cuArray3DGetDescriptor_v2 [] Answered inner (description: OutputBytes<40>, array: Object<kinds::Array>);
            cuMipmappedArrayCreate [] Answered exported (array: Created<kinds::MipmappedArray>, description: InputBytes<40>, levels: Value<u32>);
            cuMipmappedArrayGetLevel [] Answered exported (level_array: Resolved<kinds::Array>, array: Object<kinds::MipmappedArray>, level: Value<u32>);
            cuMipmappedArrayDestroy [] Blocking inner (array: Destroyed<kinds::MipmappedArray>);
        }
    };
}

macro_rules! call_ids {
    ([$($own:ident: $own_policy:ident;)*] $($name:ident [$($other:ident)?] $policy:ident $export:ident ($($arg:ident: $form:ty),*);)*) => {
        /// A call, by its number in messages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types, missing_docs, reason = "the driver's own names")]
        #[repr(u16)]
        pub enum CallId {
            $($own,)*
            $($name,)*
        }

        impl CallId {
            /// All calls, by their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$own,)* $(Self::$name,)*];

            /// Returns the name: the driver's function, or the request's own name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$own => stringify!($own),)*
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Returns how the call travels.
            #[must_use]
            pub const fn policy(self) -> Policy {
                match self {
                    $(Self::$own => Policy::$own_policy,)*
                    $(Self::$name => Policy::$policy,)*
                }
            }
        }

        /// Digest of the table: a library and a worker with different tables refuse each other.
        pub const TABLE_DIGEST: u64 = digest(
            concat!(
                env!("CARGO_PKG_VERSION"),
                $(stringify!($own), stringify!($own_policy),)*
                $(stringify!($name), stringify!($policy), $(stringify!($form), ",",)* ";",)*
            ),
            crate::library::TABLE_TEXT,
        );
    };
}

// The first list: requests of the session, and calls with messages of their own, see `message`.
crate::calls!(call_ids [
    begin_session: Answered;
    drain_staging: Blocking;
    release_staging: Quiet;
    code_piece: Quiet;
    load_module: Answered;
    load_library: Answered;
    find_function: Answered;
    find_kernel: Answered;
    list_functions: Answered;
    function_of_kernel: Answered;
    create_link: Answered;
    add_to_link: Answered;
    complete_link: Answered;
    read_linked: Answered;
    destroy_link: Answered;
    launch: Quiet;
    launch_host_function: Quiet;
    begin_capture: Answered;
    copy_to_device: Quiet;
    copy_to_host: Blocking;
    finish_copy_to_device: Blocking;
    begin_copy_to_host: Quiet;
    copy_memory: Blocking;
    begin_copy_memory: Quiet;
    allocate_host: Answered;
    free_host: Blocking;
    expose_host: Quiet;
    pointer_attribute: Answered;
    set_access: Answered;
    destroy_graph: Answered;
    add_graph_node: Answered;
    set_graph_node: Answered;
    describe_graph_node: Answered;
    get_node_attribute: Answered;
    set_node_attribute: Answered;
    list_graph_nodes: Answered;
    list_graph_edges: Answered;
    find_child_graph: Answered;
    instantiate_graph: Answered;
    update_exec: Answered;
    capture_to_graph: Answered;
    capture_info: Answered;
    copy_array: Blocking;
    begin_copy_array: Quiet;
    create_texture: Answered;
    create_surface: Answered;
    describe_object: Answered;
    set_pool_attribute: Answered;
    get_pool_attribute: Answered;
    open_library: Answered;
    library_call: Quiet;
    finish_library_call: Blocking;
    read_generated: Answered;
]);

impl CallId {
    /// Returns the number in messages.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Returns the call with a number, or `None` for an unknown number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Returns the 64-bit FNV-1a hash of two texts. It separates versions by accident, not by design of an attacker.
const fn digest(calls: &str, library_functions: &str) -> u64 {
    hash_text(hash_text(0xcbf2_9ce4_8422_2325, calls), library_functions)
}

const fn hash_text(mut hash: u64, text: &str) -> u64 {
    let (bytes, mut at) = (text.as_bytes(), 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}
