//! Messages of calls whose arguments are lists, memory, or structures with pointers.

mod code;
mod copy;
mod graph;
mod host_function;
mod launch;
mod memory_copy;
mod session;

pub use code::{
    CodeImage, FunctionDescription, FunctionList, FunctionLookup, JitOption, LoadAnswer, LoadCode, MAX_FUNCTIONS,
    MAX_PARAMETERS, ParameterPlace,
};
pub use copy::{CopyToDevice, CopyToHost, HostPart};
pub use graph::{
    AddNode, CaptureToGraph, DescribeNode, DescribedKind, GraphEdge, InstantiateGraph, InstantiationAnswer,
    InstantiationForm, KernelNodeDescription, ListAnswer, ListPart, MAX_DEPENDENCIES, MAX_INSTANTIATION_LOG_BYTES,
    MAX_LISTED, NodeFill, NodeWork, SetNode, SetNodeAttribute, UpdateAnswer, UpdateExec,
};
pub use host_function::{HostFunctionCall, HostFunctionDone, HostFunctionForm, LaunchHostFunction, MAX_HOST_FUNCTION};
pub use launch::{Launch, LaunchAttributeValue, MAX_ARGUMENT_BYTES, MAX_LAUNCH_ATTRIBUTES, is_number_attribute};
pub use memory_copy::{MemoryCopy, MemoryPlace, MemorySide};
pub use session::{BeginSession, DeviceSnapshot, MAX_ATTRIBUTE, MAX_DEVICES, Snapshot};

/// Maximum number of descriptions of a `cuMemSetAccess`: one for each device, and one for the host.
pub const MAX_ACCESS_DESCRIPTIONS: u32 = 128;

/// Maximum size of a piece of a linked image in an answer, bytes.
pub const MAX_LINKED_PIECE: usize = 64 << 10;
