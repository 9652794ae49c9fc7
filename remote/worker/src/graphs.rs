//! Graphs: nodes and their work.
#![allow(unsafe_code, reason = "calls of the driver")]

mod capture_info;
mod exec;
mod queries;

pub use capture_info::describe_capture;
pub use exec::{begin_capture, begin_stream_capture, instantiate, update};
pub use queries::{describe, find_child, get_attribute, list_edges, list_nodes, set_attribute};

use crate::call_error::{CallError, CallResult};
use crate::forms::{DriverHandle, find_object};
use crate::launches::ArgumentBlock;
use crate::session::Scope;
use crate::{host_functions, memory_copies};
use cuda_driver::{
    CuContext, CuFunction, CuGraph, CuGraphExec, CuGraphNode, CuKernel, FillNode, HostNode, INVALID_VALUE, KernelNode,
    NOT_SUPPORTED,
};
use remote_calls::message::{AddNode, Launch, NodeFill, NodeWork, SetNode};
use remote_calls::{Decoder, HandleKind, HandleNumber};

/// Returns the driver's object of a handle that is not null.
fn find<T: DriverHandle>(scope: &Scope<'_>, kind: HandleKind, number: HandleNumber) -> CallResult<T> {
    match number == HandleNumber::NULL {
        true => Err(CallError::Result(INVALID_VALUE)),
        false => Ok(T::from_object(find_object(scope, kind, number)?)),
    }
}

fn find_all(scope: &Scope<'_>, nodes: &[HandleNumber]) -> CallResult<Vec<CuGraphNode>> {
    nodes
        .iter()
        .map(|node| find(scope, HandleKind::GraphNode, *node))
        .collect()
}

/// Calls `play` with a kernel node of the driver. The driver copies the arguments during the call.
fn with_kernel_node(
    scope: &Scope<'_>,
    launch: &Launch<'_>,
    context: CuContext,
    play: impl FnOnce(*const KernelNode) -> CallResult,
) -> CallResult {
    if launch.cooperative || launch.attributes.is_some() || launch.stream != HandleNumber::NULL {
        return Err(CallError::Result(NOT_SUPPORTED));
    }
    let object = find_object(scope, HandleKind::Function, launch.function)?;
    let is_kernel = launch.function.kind() == Some(HandleKind::Kernel);
    let mut arguments = ArgumentBlock::new(launch.arguments);
    let form = KernelNode {
        function: CuFunction::from_object(if is_kernel { 0 } else { object }),
        grid: launch.grid,
        block: launch.block,
        shared: launch.shared,
        parameters: std::ptr::null_mut(),
        extra: arguments.extra(),
        kernel: CuKernel::from_object(if is_kernel { object } else { 0 }),
        context,
    };
    play(&raw const form)
}

fn fill_node(fill: &NodeFill) -> CallResult<FillNode> {
    let size = |value: u64| usize::try_from(value).map_err(|_| CallError::Result(INVALID_VALUE));
    Ok(FillNode {
        to: fill.to,
        pitch: size(fill.pitch)?,
        value: fill.value,
        element: fill.element,
        width: size(fill.width)?,
        height: size(fill.height)?,
    })
}

/// Returns the node for a host function of the program.
///
/// # Errors
/// If no thread can be started for host functions.
fn host_node(scope: &Scope<'_>, function: u64) -> CallResult<HostNode> {
    Ok(HostNode {
        function: host_functions::node_function(),
        data: host_functions::node_data(scope, function)?,
    })
}

/// Adds a node to a graph.
///
/// # Errors
/// If the message is invalid, or the driver refuses the node.
pub fn add(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let add = AddNode::read(decoder)?;
    decoder.finish()?;
    let driver = &scope.session.driver;
    let graph: CuGraph = find(scope, HandleKind::Graph, add.graph)?;
    let after = find_all(scope, &add.after)?;
    let context = CuContext::from_object(find_object(scope, HandleKind::Context, add.context)?);
    let (first, count) = (after.as_ptr(), after.len());
    let mut node = CuGraphNode::from_object(0);
    let to = &raw mut node;
    match &add.work {
        NodeWork::Kernel(launch) => with_kernel_node(scope, launch, context, |form| {
            // SAFETY: the handles are the driver's, the list has this many nodes, and the structure lives during the call.
            unsafe { driver.cuGraphAddKernelNode_v2(to, graph, first, count, form) }.map_err(CallError::from)
        })?,
        NodeWork::Copy(copy) => {
            let copy = memory_copies::to_driver(scope, copy)?;
            // SAFETY: as above; host ranges are in the window, which stays mapped.
            unsafe { driver.cuGraphAddMemcpyNode(to, graph, first, count, &raw const copy, context)? };
        }
        NodeWork::Fill(fill) => {
            let fill = fill_node(fill)?;
            // SAFETY: as above. Addresses of device memory are the program's own affair.
            unsafe { driver.cuGraphAddMemsetNode(to, graph, first, count, &raw const fill, context)? };
        }
        NodeWork::Host(function) => {
            let function = host_node(scope, *function)?;
            // SAFETY: as above; the function is one of the worker.
            unsafe { driver.cuGraphAddHostNode(to, graph, first, count, &raw const function)? };
        }
        NodeWork::Child(child) => {
            let child = find(scope, HandleKind::Graph, *child)?;
            // SAFETY: as above.
            unsafe { driver.cuGraphAddChildGraphNode(to, graph, first, count, child)? };
        }
        NodeWork::Empty => {
            // SAFETY: as above.
            unsafe { driver.cuGraphAddEmptyNode(to, graph, first, count)? };
        }
    }
    scope
        .session
        .handles
        .insert(HandleKind::GraphNode, add.node, node.object(), add.graph)
}

/// Changes the work of a node: in an executable graph, or in its own graph.
///
/// # Errors
/// If the message is invalid, or the driver refuses the change.
pub fn set(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let set = SetNode::read(decoder)?;
    decoder.finish()?;
    let driver = &scope.session.driver;
    let node: CuGraphNode = find(scope, HandleKind::GraphNode, set.node)?;
    let context = CuContext::from_object(find_object(scope, HandleKind::Context, set.context)?);
    if set.exec == HandleNumber::NULL {
        let NodeWork::Kernel(launch) = &set.work else {
            return Err(CallError::Result(NOT_SUPPORTED));
        };
        return with_kernel_node(scope, launch, context, |form| {
            // SAFETY: the handle is the driver's, and the structure lives during the call.
            unsafe { driver.cuGraphKernelNodeSetParams_v2(node, form) }.map_err(CallError::from)
        });
    }
    let exec: CuGraphExec = find(scope, HandleKind::GraphExec, set.exec)?;
    match &set.work {
        NodeWork::Kernel(launch) => with_kernel_node(scope, launch, context, |form| {
            // SAFETY: as above.
            unsafe { driver.cuGraphExecKernelNodeSetParams_v2(exec, node, form) }.map_err(CallError::from)
        }),
        NodeWork::Copy(copy) => {
            let copy = memory_copies::to_driver(scope, copy)?;
            // SAFETY: as above; host ranges are in the window, which stays mapped.
            unsafe { driver.cuGraphExecMemcpyNodeSetParams(exec, node, &raw const copy, context) }
                .map_err(CallError::from)
        }
        NodeWork::Fill(fill) => {
            let fill = fill_node(fill)?;
            // SAFETY: as above. Addresses of device memory are the program's own affair.
            unsafe { driver.cuGraphExecMemsetNodeSetParams(exec, node, &raw const fill, context) }
                .map_err(CallError::from)
        }
        NodeWork::Host(function) => {
            let function = host_node(scope, *function)?;
            // SAFETY: as above; the function is one of the worker.
            unsafe { driver.cuGraphExecHostNodeSetParams(exec, node, &raw const function) }.map_err(CallError::from)
        }
        NodeWork::Child(child) => {
            let child = find(scope, HandleKind::Graph, *child)?;
            // SAFETY: as above.
            unsafe { driver.cuGraphExecChildGraphNodeSetParams(exec, node, child) }.map_err(CallError::from)
        }
        NodeWork::Empty => Err(CallError::Result(INVALID_VALUE)),
    }
}

/// Destroys a graph. The handles of its nodes and of their child graphs end with it.
///
/// # Errors
/// If the message is invalid, the graph belongs to a node, or the driver refuses.
pub fn destroy(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let number: HandleNumber = decoder.read()?;
    decoder.finish()?;
    let graph: CuGraph = find(scope, HandleKind::Graph, number)?;
    let handles = &scope.session.handles;
    // A child graph ends with its node: drivers do not check that, and would use it after its end.
    if handles.outermost_graph(number) != number {
        return Err(CallError::Result(INVALID_VALUE));
    }
    // SAFETY: the handle is the driver's.
    unsafe { scope.session.driver.cuGraphDestroy(graph)? };
    handles.remove(number);
    Ok(())
}
