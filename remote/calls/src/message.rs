//! Messages of calls whose arguments are lists, memory, or structures with pointers.

mod code;
mod copy;
mod graph;
mod host_function;
mod host_memory;
mod launch;
mod memory_copy;
mod session;

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

/// Maximum number of descriptions of a `cuMemSetAccess`: one for each device, and one for the host.
pub const MAX_ACCESS_DESCRIPTIONS: u32 = 128;

/// Maximum size of a piece of a linked image in an answer, bytes.
pub const MAX_LINKED_PIECE: usize = 64 << 10;

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
