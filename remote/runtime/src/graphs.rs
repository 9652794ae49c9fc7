//! Graphs: creation, nodes, instantiation, launches.

use crate::CallResult;
use crate::contexts::{bind, current};
use crate::copies::Copy3dParameters;
use crate::errors::INVALID_VALUE;
use crate::launch_configuration::Dim3;
use crate::pointers::get;
use crate::registration::kernel;
use cuda_driver::{CuGraph, CuGraphExec, CuGraphNode, CuStream, FillNode, HostNode, KernelNode};
use std::ffi::c_void;

/// `cudaKernelNodeParams`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KernelNodeParameters {
    /// Address of the host function.
    pub function: *const c_void,
    /// Number of blocks.
    pub grid: Dim3,
    /// Number of threads of a block.
    pub block: Dim3,
    /// Size of dynamic shared memory, bytes.
    pub shared: u32,
    /// Addresses of the arguments.
    pub parameters: *mut *mut c_void,
    /// Arguments as one buffer.
    pub extra: *mut *mut c_void,
}

impl KernelNodeParameters {
    /// Returns the driver's form, which names the kernel by its handle.
    fn to_driver(self) -> CallResult<KernelNode> {
        Ok(KernelNode {
            function: std::ptr::null_mut(),
            grid: self.grid.sizes(),
            block: self.block.sizes(),
            shared: self.shared,
            parameters: self.parameters,
            extra: self.extra,
            kernel: kernel(self.function)?,
            context: std::ptr::null_mut(),
        })
    }
}

/// The nodes that a new node depends on.
#[derive(Clone, Copy, Debug)]
pub struct Dependencies {
    /// The nodes.
    pub nodes: *const CuGraphNode,
    /// Number of nodes.
    pub count: usize,
}

/// `cudaGraphCreate`.
pub fn create(to: *mut CuGraph, flags: u32) -> CallResult {
    bind()?.cuGraphCreate(to, flags)
}

/// `cudaGraphDestroy`.
pub fn destroy(graph: CuGraph) -> CallResult {
    bind()?.cuGraphDestroy(graph)
}

/// `cudaGraphInstantiate` and `cudaGraphInstantiateWithFlags`, which have one form since CUDA 12.
pub fn instantiate(to: *mut CuGraphExec, graph: CuGraph, flags: u64) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    bind()?.cuGraphInstantiateWithFlags(to, graph, flags)
}

/// `cudaGraphLaunch`.
pub fn launch(exec: CuGraphExec, stream: CuStream) -> CallResult {
    bind()?.cuGraphLaunch(exec, stream)
}

/// `cudaGraphUpload`: a hint, since a launch uploads what is missing.
pub fn upload(exec: CuGraphExec) -> CallResult {
    bind()?;
    if exec.is_null() { Err(INVALID_VALUE) } else { Ok(()) }
}

/// `cudaGraphExecDestroy`.
pub fn destroy_exec(exec: CuGraphExec) -> CallResult {
    bind()?.cuGraphExecDestroy(exec)
}

/// `cudaGraphGetNodes`.
pub fn write_nodes(graph: CuGraph, nodes: *mut CuGraphNode, count: *mut usize) -> CallResult {
    bind()?.cuGraphGetNodes(graph, nodes, count)
}

/// `cudaGraphAddKernelNode`.
pub fn add_kernel(
    node: *mut CuGraphNode,
    graph: CuGraph,
    after: Dependencies,
    parameters: *const KernelNodeParameters,
) -> CallResult {
    let parameters = get(parameters)?.to_driver()?;
    bind()?.cuGraphAddKernelNode_v2(node, graph, after.nodes, after.count, &raw const parameters)
}

/// `cudaGraphExecKernelNodeSetParams`.
pub fn set_kernel_parameters(
    exec: CuGraphExec,
    node: CuGraphNode,
    parameters: *const KernelNodeParameters,
) -> CallResult {
    let parameters = get(parameters)?.to_driver()?;
    bind()?.cuGraphExecKernelNodeSetParams_v2(exec, node, &raw const parameters)
}

/// `cudaGraphAddMemcpyNode`.
pub fn add_copy(
    node: *mut CuGraphNode,
    graph: CuGraph,
    after: Dependencies,
    parameters: *const Copy3dParameters,
) -> CallResult {
    add_copy_of(node, graph, after, get(parameters)?)
}

/// `cudaGraphAddMemcpyNode1D`, with parameters made of its arguments.
pub fn add_copy_of(
    node: *mut CuGraphNode,
    graph: CuGraph,
    after: Dependencies,
    parameters: Copy3dParameters,
) -> CallResult {
    let copy = parameters.to_driver()?;
    bind()?.cuGraphAddMemcpyNode(node, graph, after.nodes, after.count, &raw const copy, current()?)
}

/// `cudaGraphAddMemsetNode`. The runtime's parameters have the driver's form.
pub fn add_fill(
    node: *mut CuGraphNode,
    graph: CuGraph,
    after: Dependencies,
    parameters: *const FillNode,
) -> CallResult {
    bind()?.cuGraphAddMemsetNode(node, graph, after.nodes, after.count, parameters, current()?)
}

/// `cudaGraphAddHostNode`. The runtime's parameters have the driver's form.
pub fn add_host_function(
    node: *mut CuGraphNode,
    graph: CuGraph,
    after: Dependencies,
    parameters: *const HostNode,
) -> CallResult {
    bind()?.cuGraphAddHostNode(node, graph, after.nodes, after.count, parameters)
}

/// `cudaGraphAddEmptyNode`.
pub fn add_empty(node: *mut CuGraphNode, graph: CuGraph, after: Dependencies) -> CallResult {
    bind()?.cuGraphAddEmptyNode(node, graph, after.nodes, after.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_node_parameters_have_the_size_of_the_header() {
        assert_eq!(size_of::<KernelNodeParameters>(), 56);
        assert_eq!(std::mem::offset_of!(KernelNodeParameters, parameters), 40);
    }
}
