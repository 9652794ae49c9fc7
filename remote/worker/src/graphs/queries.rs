//! Questions about graphs, and attributes of kernel nodes.

use super::find;
use crate::call_error::{CallError, CallResult};
use crate::forms::DriverHandle as _;
use crate::session::Scope;
use crate::{code, memory_copies};
use cuda_driver::{
    Copy3d, CuFunction, CuGraph, CuGraphNode, CudaError, EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE, FillNode, KernelNode,
    NOT_SUPPORTED,
};
use remote_calls::message::{
    DescribeNode, DescribedKind, FunctionDescription, GraphEdge, KernelNodeDescription, Launch, LaunchAttributeValue,
    ListAnswer, ListPart, MAX_ARGUMENT_BYTES, NodeFill, SetNodeAttribute, is_number_attribute,
};
use remote_calls::{Decoder, Encoder, HandleKind, HandleNumber};
use std::ffi::c_void;
use std::mem::MaybeUninit;

const REFUSED: CallError = CallError::Result(NOT_SUPPORTED);

/// Describes the work of a node.
///
/// # Errors
/// If the message is invalid, the node is of another kind, or its memory is not the program's.
pub fn describe(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let query = DescribeNode::read(decoder)?;
    decoder.finish()?;
    let node: CuGraphNode = find(scope, HandleKind::GraphNode, query.node)?;
    let driver = &scope.session.driver;
    match query.kind {
        DescribedKind::Kernel => describe_kernel(scope, query.node, node, answer),
        DescribedKind::Copy => {
            let mut form = MaybeUninit::<Copy3d>::zeroed();
            // SAFETY: the handle is the driver's, the pointer is valid for the result, and zeros are a value of it.
            let form = unsafe {
                driver.cuGraphMemcpyNodeGetParams(node, form.as_mut_ptr())?;
                form.assume_init()
            };
            memory_copies::from_driver(scope, &form)?.write(answer);
            Ok(())
        }
        DescribedKind::Fill => {
            let mut form = MaybeUninit::<FillNode>::zeroed();
            // SAFETY: as above.
            let form = unsafe {
                driver.cuGraphMemsetNodeGetParams(node, form.as_mut_ptr())?;
                form.assume_init()
            };
            NodeFill {
                to: form.to,
                pitch: form.pitch as u64,
                value: form.value,
                element: form.element,
                width: form.width as u64,
                height: form.height as u64,
            }
            .write(answer);
            Ok(())
        }
    }
}

fn describe_kernel(scope: &Scope<'_>, number: HandleNumber, node: CuGraphNode, answer: &mut Encoder) -> CallResult {
    let (driver, handles) = (&scope.session.driver, &scope.session.handles);
    let mut form = MaybeUninit::<KernelNode>::zeroed();
    // SAFETY: the handle is the driver's, the pointer is valid for the result, and zeros are a value of it.
    let form = unsafe {
        driver.cuGraphKernelNodeGetParams_v2(node, form.as_mut_ptr())?;
        form.assume_init()
    };
    let graph = handles.outermost_graph(number);
    // Drivers return a kernel in either field.
    let is_known = |kind, object: CuFunction| handles.find_number(kind, object.object()).is_some();
    let (kind, function) = match form.function.is_null() {
        true => (HandleKind::Kernel, form.kernel),
        false if !is_known(HandleKind::Function, form.function) && is_known(HandleKind::Kernel, form.function) => {
            (HandleKind::Kernel, form.function)
        }
        false => (HandleKind::Function, form.function),
    };
    // A function that the program has not looked up ends with its module, or else with the graph.
    let mut module = std::ptr::null_mut();
    let owner = match kind {
        // SAFETY: the handle is the driver's, and the pointer is valid for the result.
        HandleKind::Function => match unsafe { driver.cuFuncGetModule(&raw mut module, function) } {
            Ok(()) => handles.find_number(HandleKind::Module, module.object()),
            Err(_) => None,
        },
        _ => None,
    };
    let function = code::describe(scope, kind, function, owner.unwrap_or(graph), None)?;
    let arguments = read_arguments(&form, &function)?;
    let launch = Launch {
        function: function.handle,
        grid: form.grid,
        block: form.block,
        shared: form.shared,
        stream: HandleNumber::NULL,
        attributes: None,
        cooperative: false,
        arguments: &arguments,
    };
    let context = handles
        .find_number(HandleKind::Context, form.context.object())
        .unwrap_or_default();
    KernelNodeDescription {
        graph,
        context,
        function,
        launch,
    }
    .write(answer);
    Ok(())
}

/// Returns the arguments of a node that the driver described, as one block.
fn read_arguments(form: &KernelNode, function: &FunctionDescription) -> CallResult<Vec<u8>> {
    let size = function.argument_bytes();
    if size > MAX_ARGUMENT_BYTES {
        return Err(REFUSED);
    }
    let mut block = vec![0; size as usize];
    if block.is_empty() {
        return Ok(block);
    }
    if form.parameters.is_null() {
        let from = extra_buffer(form, block.len()).ok_or(REFUSED)?;
        // SAFETY: the driver's buffer has this many bytes, and belongs to the node, which lives during the call.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), block.as_mut_ptr(), block.len()) };
        return Ok(block);
    }
    for (index, place) in function.parameters.iter().enumerate() {
        let first = place.offset as usize;
        let target = block.get_mut(first..first + place.bytes as usize).ok_or(REFUSED)?;
        // SAFETY: the driver's list has an address for each parameter of the function, and each argument has the
        // parameter's size. They belong to the node, which lives during the call.
        unsafe {
            let from = form.parameters.add(index).read();
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), target.as_mut_ptr(), target.len());
        }
    }
    Ok(block)
}

/// Returns the buffer of arguments in the driver's `extra` list, if it has at least this many bytes.
fn extra_buffer(form: &KernelNode, bytes: usize) -> Option<*mut c_void> {
    if form.extra.is_null() {
        return None;
    }
    let (mut buffer, mut size) = (None, 0);
    // The list has three markers at most.
    for pair in 0..3 {
        // SAFETY: the driver's list ends with a marker, and each other marker has a value.
        let marker = unsafe { form.extra.add(pair * 2).read() };
        if marker.addr() == EXTRA_END {
            break;
        }
        // SAFETY: as above.
        let value = unsafe { form.extra.add(pair * 2 + 1).read() };
        match marker.addr() {
            EXTRA_BUFFER => buffer = Some(value),
            // SAFETY: the value of this marker is the address of a size.
            EXTRA_SIZE => size = unsafe { value.cast::<usize>().read() },
            _ => return None,
        }
    }
    buffer.filter(|_| size >= bytes)
}

/// Returns an attribute of a kernel node.
///
/// # Errors
/// If the message is invalid, the driver refuses, or the attribute is not a number.
pub fn get_attribute(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let (node, id): (HandleNumber, u32) = (decoder.read()?, decoder.read()?);
    decoder.finish()?;
    let node: CuGraphNode = find(scope, HandleKind::GraphNode, node)?;
    if !is_number_attribute(id) {
        return Err(REFUSED);
    }
    let mut value = [0; 8];
    // SAFETY: the handle is the driver's, and the value has the size of every attribute.
    unsafe {
        scope
            .session
            .driver
            .cuGraphKernelNodeGetAttribute(node, id, &raw mut value)?
    };
    answer.write(LaunchAttributeValue { id, value });
    Ok(())
}

/// Sets an attribute of a kernel node.
///
/// # Errors
/// If the message is invalid, the driver refuses, or the attribute is not a number.
pub fn set_attribute(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let set = SetNodeAttribute::read(decoder)?;
    decoder.finish()?;
    let node: CuGraphNode = find(scope, HandleKind::GraphNode, set.node)?;
    let LaunchAttributeValue { id, value } = set.attribute;
    if !is_number_attribute(id) {
        return Err(REFUSED);
    }
    // SAFETY: as above; the value has no pointers.
    unsafe {
        scope
            .session
            .driver
            .cuGraphKernelNodeSetAttribute(node, id, &raw const value)
    }
    .map_err(CallError::from)
}

/// Returns the part of a list that a request asks for.
fn part_of<T>(all: Vec<T>, part: &ListPart) -> impl Iterator<Item = T> {
    let first = usize::try_from(part.first).unwrap_or(usize::MAX);
    all.into_iter().skip(first).take(part.count as usize)
}

/// Lists nodes of a graph.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn list_nodes(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let part = ListPart::read(decoder)?;
    decoder.finish()?;
    let graph: CuGraph = find(scope, HandleKind::Graph, part.graph)?;
    let driver = &scope.session.driver;
    let mut total = 0;
    // SAFETY: the handle is the driver's, and the pointer is valid for the count.
    unsafe { driver.cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut total)? };
    let mut all = Vec::new();
    if part.count > 0 && total > 0 {
        all.resize(total, std::ptr::null_mut());
        // SAFETY: as above; the list has as many elements as the count says.
        unsafe { driver.cuGraphGetNodes(graph, all.as_mut_ptr(), &raw mut total)? };
        all.truncate(total);
    }
    ListAnswer {
        total: total as u64,
        elements: part_of(all, &part)
            .map(|node| node_number(scope, node, part.graph))
            .collect::<CallResult<_>>()?,
    }
    .write(answer);
    Ok(())
}

/// Returns the handle of a node that the driver returned. A new one ends with `graph`.
pub(super) fn node_number(scope: &Scope<'_>, node: CuGraphNode, graph: HandleNumber) -> CallResult<HandleNumber> {
    scope
        .session
        .handles
        .resolve(HandleKind::GraphNode, node.object(), graph)
}

/// Lists edges of a graph.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn list_edges(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let part = ListPart::read(decoder)?;
    decoder.finish()?;
    let graph: CuGraph = find(scope, HandleKind::Graph, part.graph)?;
    let mut total = 0;
    let none = std::ptr::null_mut();
    // SAFETY: no list means that only the count is wanted.
    unsafe { get_edges(scope, part.has_data, graph, none, none, none.cast(), &mut total)? };
    let (mut starts, mut ends, mut data) = (Vec::new(), Vec::new(), Vec::new());
    if part.count > 0 && total > 0 {
        starts.resize(total, std::ptr::null_mut());
        ends.resize(total, std::ptr::null_mut());
        data.resize(total, 0);
        let (from, to) = (starts.as_mut_ptr(), ends.as_mut_ptr());
        // SAFETY: the lists have as many elements as the count says.
        unsafe { get_edges(scope, part.has_data, graph, from, to, data.as_mut_ptr(), &mut total)? };
        starts.truncate(total);
    }
    let all = starts.into_iter().zip(ends).zip(data).collect();
    let edge = |((from, to), data)| {
        Ok(GraphEdge {
            from: node_number(scope, from, part.graph)?,
            to: node_number(scope, to, part.graph)?,
            data,
        })
    };
    ListAnswer {
        total: total as u64,
        elements: part_of(all, &part).map(edge).collect::<CallResult<_>>()?,
    }
    .write(answer);
    Ok(())
}

/// Calls the driver's function for edges with their data, or without.
///
/// # Safety
/// The lists are null, or have `count` elements.
unsafe fn get_edges(
    scope: &Scope<'_>,
    has_data: bool,
    graph: CuGraph,
    from: *mut CuGraphNode,
    to: *mut CuGraphNode,
    data: *mut u64,
    count: &mut usize,
) -> CallResult {
    let driver = &scope.session.driver;
    if has_data {
        // SAFETY: the handle is the driver's; the caller vouches for the lists. An edge's data has 8 bytes.
        match unsafe { driver.cuGraphGetEdges_v2(graph, from, to, data.cast(), count) } {
            // Edges of this driver have no data.
            Err(CudaError::Missing { .. }) => {}
            done => return done.map_err(CallError::from),
        }
    }
    // SAFETY: as above.
    unsafe { driver.cuGraphGetEdges(graph, from, to, count) }.map_err(CallError::from)
}

/// Finds the graph of a child graph's node. Its handle ends with the node.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn find_child(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let number = decoder.read()?;
    decoder.finish()?;
    let node: CuGraphNode = find(scope, HandleKind::GraphNode, number)?;
    let mut graph = std::ptr::null_mut();
    // SAFETY: the handle is the driver's, and the pointer is valid for the result.
    unsafe {
        scope
            .session
            .driver
            .cuGraphChildGraphNodeGetGraph(node, &raw mut graph)?
    };
    answer.write(
        scope
            .session
            .handles
            .resolve(HandleKind::Graph, graph.object(), number)?,
    );
    Ok(())
}
