//! Graphs: creation, nodes, instantiation, launches.

use crate::CallResult;
use crate::contexts::{bind, current};
use crate::errors::INVALID_VALUE;
use crate::launch_configuration::Dim3;
use crate::pointers::{get, put};
use crate::registration::kernel;
use crate::slices::Copy3dParameters;
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

/// `cudaGraphUpload`.
pub fn upload(exec: CuGraphExec, stream: CuStream) -> CallResult {
    let driver = bind()?;
    match exec.is_null() {
        true => Err(INVALID_VALUE),
        false => driver.cuGraphUpload(exec, stream),
    }
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
    let driver = bind()?;
    let copy = parameters.to_driver(driver)?;
    driver.cuGraphAddMemcpyNode(node, graph, after.nodes, after.count, &raw const copy, current()?)
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

/// `cudaGraphAddChildGraphNode`.
pub fn add_child(node: *mut CuGraphNode, graph: CuGraph, after: Dependencies, child: CuGraph) -> CallResult {
    bind()?.cuGraphAddChildGraphNode(node, graph, after.nodes, after.count, child)
}

/// `cudaGraphChildGraphNodeGetGraph`.
pub fn write_child(node: CuGraphNode, to: *mut CuGraph) -> CallResult {
    bind()?.cuGraphChildGraphNodeGetGraph(node, to)
}

/// `cudaGraphClone`.
pub fn clone_graph(to: *mut CuGraph, graph: CuGraph) -> CallResult {
    bind()?.cuGraphClone(to, graph)
}

/// `cudaGraphDestroyNode`.
pub fn destroy_node(node: CuGraphNode) -> CallResult {
    bind()?.cuGraphDestroyNode(node)
}

/// `cudaGraphNodeGetType`. The kinds are those of the driver.
pub fn write_kind(node: CuGraphNode, to: *mut u32) -> CallResult {
    bind()?.cuGraphNodeGetType(node, to)
}

/// `cudaGraphGetEdges`. `data` is null for its first form.
pub fn write_edges(
    graph: CuGraph,
    from: *mut CuGraphNode,
    to: *mut CuGraphNode,
    data: Option<*mut c_void>,
    count: *mut usize,
) -> CallResult {
    match data {
        None => bind()?.cuGraphGetEdges(graph, from, to, count),
        Some(data) => bind()?.cuGraphGetEdges_v2(graph, from, to, data, count),
    }
}

/// `cudaGraphGetRootNodes`: the nodes that no edge leads to.
pub fn write_root_nodes(graph: CuGraph, to: *mut CuGraphNode, count: *mut usize) -> CallResult {
    let driver = bind()?;
    let none = std::ptr::null_mut();
    let (mut node_count, mut edge_count) = (0, 0);
    driver.cuGraphGetNodes(graph, none, &raw mut node_count)?;
    driver.cuGraphGetEdges(graph, none, none, &raw mut edge_count)?;
    let mut nodes: Vec<CuGraphNode> = vec![std::ptr::null_mut(); node_count];
    let (mut starts, mut ends) = (
        vec![std::ptr::null_mut(); edge_count],
        vec![std::ptr::null_mut(); edge_count],
    );
    if node_count > 0 {
        driver.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut node_count)?;
    }
    if edge_count > 0 {
        driver.cuGraphGetEdges(graph, starts.as_mut_ptr(), ends.as_mut_ptr(), &raw mut edge_count)?;
    }
    nodes.truncate(node_count);
    nodes.retain(|node| !ends.iter().take(edge_count).any(|end| end == node));
    if to.is_null() {
        return put(count, nodes.len());
    }
    let room = get(count)?;
    for index in 0..room {
        let node = nodes.get(index).copied().unwrap_or(std::ptr::null_mut());
        put(to.wrapping_add(index), node)?;
    }
    put(count, room.min(nodes.len()))
}

/// `cudaGraphKernelNodeSetParams`.
pub fn set_node_kernel(node: CuGraphNode, parameters: *const KernelNodeParameters) -> CallResult {
    let parameters = get(parameters)?.to_driver()?;
    bind()?.cuGraphKernelNodeSetParams_v2(node, &raw const parameters)
}

/// `cudaGraphExecMemcpyNodeSetParams`.
pub fn set_copy(exec: CuGraphExec, node: CuGraphNode, parameters: *const Copy3dParameters) -> CallResult {
    set_copy_of(exec, node, get(parameters)?)
}

/// `cudaGraphExecMemcpyNodeSetParams1D`, with parameters made of its arguments.
pub fn set_copy_of(exec: CuGraphExec, node: CuGraphNode, parameters: Copy3dParameters) -> CallResult {
    let driver = bind()?;
    let copy = parameters.to_driver(driver)?;
    driver.cuGraphExecMemcpyNodeSetParams(exec, node, &raw const copy, current()?)
}

/// `cudaGraphExecMemsetNodeSetParams`.
pub fn set_fill(exec: CuGraphExec, node: CuGraphNode, parameters: *const FillNode) -> CallResult {
    bind()?.cuGraphExecMemsetNodeSetParams(exec, node, parameters, current()?)
}

/// `cudaGraphExecHostNodeSetParams`.
pub fn set_host_function(exec: CuGraphExec, node: CuGraphNode, parameters: *const HostNode) -> CallResult {
    bind()?.cuGraphExecHostNodeSetParams(exec, node, parameters)
}

/// `cudaGraphExecChildGraphNodeSetParams`.
pub fn set_child(exec: CuGraphExec, node: CuGraphNode, child: CuGraph) -> CallResult {
    bind()?.cuGraphExecChildGraphNodeSetParams(exec, node, child)
}

/// `cudaGraphNodeSetEnabled`.
pub fn set_enabled(exec: CuGraphExec, node: CuGraphNode, is_enabled: u32) -> CallResult {
    bind()?.cuGraphNodeSetEnabled(exec, node, is_enabled)
}

/// `cudaGraphExecUpdate`. The report has the driver's form.
pub fn update(exec: CuGraphExec, graph: CuGraph, report: *mut c_void) -> CallResult {
    bind()?.cuGraphExecUpdate_v2(exec, graph, report)
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
