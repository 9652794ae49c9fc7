//! Graphs: new nodes, and changes of their work.

mod capture_info;
mod exec;
mod queries;

pub use capture_info::{CaptureResults, forget_lists, write_capture_info};
pub use exec::{
    begin_capture, instantiate_with_log, instantiate_with_parameters, set_exec_node, update, update_first_version,
};
pub use queries::{
    describe_copy, describe_fill, describe_kernel, find_child, get_attribute, list_edges, list_edges_with_data,
    list_nodes, set_attribute,
};

use crate::contexts::context_number;
use crate::forms::{AbiHandle, handle_number};
use crate::launches::{self, LaunchForm};
use crate::message::say;
use crate::pointers::{get, get_at, put};
use crate::request::Request;
use crate::{CallResult, connection, handles, host_functions, memory_copies};
use cuda_driver::{
    Copy3d, CuContext, CuFunction, CuGraph, CuGraphExec, CuGraphNode, FillNode, HostNode, INVALID_VALUE, KernelNode,
    NOT_SUPPORTED,
};
use remote_calls::message::{AddNode, MAX_DEPENDENCIES, NodeFill, NodeWork, SetNode};
use remote_calls::{CallId, HandleKind, HandleNumber};
use std::ffi::c_void;
use std::sync::Once;

/// Returns the number of a handle that is not null.
fn existing(kind: HandleKind, handle: impl AbiHandle) -> CallResult<HandleNumber> {
    match handle_number(kind, handle)? {
        HandleNumber::NULL => Err(INVALID_VALUE),
        number => Ok(number),
    }
}

/// Returns the numbers of a list of nodes.
fn node_numbers(nodes: *const CuGraphNode, count: usize) -> CallResult<Vec<HandleNumber>> {
    if count > MAX_DEPENDENCIES as usize {
        return Err(NOT_SUPPORTED);
    }
    (0..count)
        .map(|index| existing(HandleKind::GraphNode, get_at(nodes, index)?))
        .collect()
}

/// A new node: where its handle goes, its graph, and the nodes that it comes after.
pub struct NewNode {
    /// Where the handle goes.
    pub to: *mut CuGraphNode,
    /// The graph.
    pub graph: CuGraph,
    /// Nodes that it comes after.
    pub after: *const CuGraphNode,
    /// Number of these nodes.
    pub count: usize,
}

impl NewNode {
    fn add(&self, context: HandleNumber, work: NodeWork<'_>) -> CallResult {
        if self.to.is_null() {
            return Err(INVALID_VALUE);
        }
        let mut request = Request::new(CallId::add_graph_node, false)?;
        let node = handles::create(HandleKind::GraphNode)?;
        AddNode {
            graph: existing(HandleKind::Graph, self.graph)?,
            node,
            after: node_numbers(self.after, self.count)?,
            context,
            work,
        }
        .write(&mut request.encoder);
        request.ask()?;
        put(self.to, CuGraphNode::from_number(node))
    }
}

/// Changes a node: in an executable graph, or with the null handle in its own graph.
fn set(exec: HandleNumber, node: CuGraphNode, context: HandleNumber, work: NodeWork<'_>) -> CallResult {
    let mut request = Request::new(CallId::set_graph_node, false)?;
    SetNode {
        exec,
        node: existing(HandleKind::GraphNode, node)?,
        context,
        work,
    }
    .write(&mut request.encoder);
    request.ask().map(drop)
}

/// Passes the context and the work of a kernel node to `send`.
fn with_kernel(form: &KernelNode, send: impl FnOnce(HandleNumber, NodeWork<'_>) -> CallResult) -> CallResult {
    let context = context_number(form.context)?;
    let launch = LaunchForm {
        function: if form.function.is_null() {
            form.kernel
        } else {
            form.function
        },
        grid: form.grid,
        block: form.block,
        shared: form.shared,
        stream: std::ptr::null_mut(),
        parameters: form.parameters,
        extra: form.extra,
        is_cooperative: false,
        attributes: None,
    };
    launches::describe(&launch, HandleNumber::NULL, |launch| {
        send(context, NodeWork::Kernel(launch))
    })
}

fn copy_work(form: &Copy3d) -> CallResult<NodeWork<'static>> {
    static HINT: Once = Once::new();
    let copy = memory_copies::describe(form)?;
    if copy.unmapped_source.is_some() || copy.unmapped_target.is_some() {
        HINT.call_once(|| {
            say(format_args!(
                "a graph copies from or to memory that only this process has, which a remote device cannot do. Use \
                 pinned memory from cuMemAllocHost or cudaMallocHost"
            ));
        });
        return Err(NOT_SUPPORTED);
    }
    Ok(NodeWork::Copy(copy.copy))
}

const fn fill_work(form: &FillNode) -> NodeWork<'static> {
    NodeWork::Fill(NodeFill {
        to: form.to,
        pitch: form.pitch as u64,
        value: form.value,
        element: form.element,
        width: form.width as u64,
        height: form.height as u64,
    })
}

/// Returns the work of a host node: a function of the program, which the worker has the client call.
///
/// # Errors
/// `INVALID_VALUE` for a null pointer, `OUT_OF_MEMORY` if no thread can be started for it.
fn host_work(form: &HostNode) -> CallResult<NodeWork<'static>> {
    let connection = connection::current()?;
    // The function stays known while the process lives: graphs are cloned, and run again.
    host_functions::register(connection, form.function, form.data, true).map(NodeWork::Host)
}

/// `cuGraphAddKernelNode`.
pub fn add_kernel(node: &NewNode, form: *const KernelNode) -> CallResult {
    with_kernel(&get(form)?, |context, work| node.add(context, work))
}

/// `cuGraphAddMemcpyNode`.
pub fn add_copy(node: &NewNode, form: *const Copy3d, context: CuContext) -> CallResult {
    node.add(context_number(context)?, copy_work(&get(form)?)?)
}

/// `cuGraphAddMemsetNode`.
pub fn add_fill(node: &NewNode, form: *const FillNode, context: CuContext) -> CallResult {
    node.add(context_number(context)?, fill_work(&get(form)?))
}

/// `cuGraphAddHostNode`.
pub fn add_host(node: &NewNode, form: *const HostNode) -> CallResult {
    node.add(HandleNumber::NULL, host_work(&get(form)?)?)
}

/// `cuGraphAddChildGraphNode`.
pub fn add_child(node: &NewNode, child: CuGraph) -> CallResult {
    node.add(HandleNumber::NULL, NodeWork::Child(existing(HandleKind::Graph, child)?))
}

/// `cuGraphAddEmptyNode`.
pub fn add_empty(node: &NewNode) -> CallResult {
    node.add(HandleNumber::NULL, NodeWork::Empty)
}

/// `cuGraphKernelNodeSetParams`.
pub fn set_kernel(node: CuGraphNode, form: *const KernelNode) -> CallResult {
    with_kernel(&get(form)?, |context, work| {
        set(HandleNumber::NULL, node, context, work)
    })
}

/// `cuGraphExecKernelNodeSetParams`, second version.
pub fn set_exec_kernel(exec: CuGraphExec, node: CuGraphNode, form: *const KernelNode) -> CallResult {
    let exec = existing(HandleKind::GraphExec, exec)?;
    with_kernel(&get(form)?, |context, work| set(exec, node, context, work))
}

/// `cuGraphExecKernelNodeSetParams`, first version, whose structure has no kernel and no context.
pub fn set_exec_kernel_first_version(exec: CuGraphExec, node: CuGraphNode, form: *const KernelNode) -> CallResult {
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct FirstVersion {
        function: CuFunction,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    }
    let form: FirstVersion = get(form.cast())?;
    let form = KernelNode {
        function: form.function,
        grid: form.grid,
        block: form.block,
        shared: form.shared,
        parameters: form.parameters,
        extra: form.extra,
        kernel: std::ptr::null_mut(),
        context: std::ptr::null_mut(),
    };
    set_exec_kernel(exec, node, &raw const form)
}

/// `cuGraphExecMemcpyNodeSetParams`.
pub fn set_exec_copy(exec: CuGraphExec, node: CuGraphNode, form: *const Copy3d, context: CuContext) -> CallResult {
    let exec = existing(HandleKind::GraphExec, exec)?;
    set(exec, node, context_number(context)?, copy_work(&get(form)?)?)
}

/// `cuGraphExecMemsetNodeSetParams`.
pub fn set_exec_fill(exec: CuGraphExec, node: CuGraphNode, form: *const FillNode, context: CuContext) -> CallResult {
    let exec = existing(HandleKind::GraphExec, exec)?;
    set(exec, node, context_number(context)?, fill_work(&get(form)?))
}

/// `cuGraphExecHostNodeSetParams`.
pub fn set_exec_host(exec: CuGraphExec, node: CuGraphNode, form: *const HostNode) -> CallResult {
    let exec = existing(HandleKind::GraphExec, exec)?;
    set(exec, node, HandleNumber::NULL, host_work(&get(form)?)?)
}

/// `cuGraphDestroy`: the memory of its nodes ends with it.
pub fn destroy(graph: CuGraph) -> CallResult {
    let number = existing(HandleKind::Graph, graph)?;
    let mut request = Request::new(CallId::destroy_graph, false)?;
    request.encoder.write(number);
    request.ask()?;
    queries::forget_arguments(number);
    Ok(())
}
