//! Messages of calls whose arguments are lists, memory, or structures with pointers.

mod array_copy;
mod capture;
mod code;
mod copy;
mod graph;
mod host_function;
mod host_memory;
mod launch;
mod memory_copy;
mod session;
mod texture;

pub use array_copy::{ArrayCopy, ArrayCopyDirection};
pub use capture::CaptureInfo;
pub use code::{
    CodeImage, FunctionDescription, FunctionList, FunctionLookup, JitOption, LoadAnswer, LoadCode, MAX_FUNCTIONS,
    MAX_PARAMETERS, ParameterPlace,
};
pub use copy::{CompletedCopies, CopyToDevice, CopyToHost, HostPart, MAX_COMPLETED};
pub use graph::{
    AddNode, CaptureToGraph, DescribeNode, DescribedKind, GraphEdge, InstantiateGraph, InstantiationAnswer,
    InstantiationForm, KernelNodeDescription, ListAnswer, ListPart, MAX_DEPENDENCIES, MAX_INSTANTIATION_LOG_BYTES,
    MAX_LISTED, NodeFill, NodeWork, SetNode, SetNodeAttribute, UpdateAnswer, UpdateExec,
};
pub use host_function::{HostFunctionCall, HostFunctionDone, HostFunctionForm, LaunchHostFunction, MAX_HOST_FUNCTION};
pub use host_memory::AllocateHost;
pub use launch::{Launch, LaunchAttributeValue, MAX_ARGUMENT_BYTES, MAX_LAUNCH_ATTRIBUTES, is_number_attribute};
pub use memory_copy::{MemoryCopy, MemoryPlace, MemorySide};
pub use session::{BeginSession, DeviceSnapshot, MAX_ATTRIBUTE, MAX_DEVICES, Snapshot};
pub use texture::{CreateTexture, DescribeObject, ObjectKind, ObjectMemory, ObjectResource, TEXTURE_WORDS, VIEW_WORDS};

/// Maximum number of descriptions of a `cuMemSetAccess`: one for each device, and one for the host.
pub const MAX_ACCESS_DESCRIPTIONS: u32 = 128;

/// Maximum size of a piece of a linked image in an answer, bytes.
pub const MAX_LINKED_PIECE: usize = 64 << 10;

/// Returns the size of an attribute of a memory pool, bytes, or `None` for one that is not supported.
#[must_use]
pub const fn pool_attribute_bytes(attribute: u32) -> Option<usize> {
    match attribute {
        // Reuse of freed memory, and properties of the pool.
        1..=3 | 9..=12 | 14 => Some(4),
        // Sizes.
        4..=8 | 13 => Some(8),
        _ => None,
    }
}

/// Sizes of pointer attributes by their numbers, bytes; 0 for those that are not supported. Attributes 1 and 17 are
/// handles; 5 is a structure of two numbers.
const POINTER_ATTRIBUTE_BYTES: [u8; 22] = [0, 8, 4, 8, 8, 16, 4, 8, 4, 4, 4, 8, 8, 4, 8, 4, 4, 8, 8, 8, 4, 0];

/// Returns the size of a pointer attribute, bytes, or `None` for one that is not supported.
#[must_use]
pub fn pointer_attribute_bytes(attribute: i32) -> Option<usize> {
    let index = usize::try_from(attribute).ok()?;
    let size = POINTER_ATTRIBUTE_BYTES.get(index).copied()?;
    (size > 0).then_some(usize::from(size))
}
