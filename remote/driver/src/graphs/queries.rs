//! Questions about graphs, and attributes of kernel nodes.

use super::existing;
use crate::answer::Answer;
use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::AbiHandle as _;
use crate::pointers::{bytes, get, put, put_bytes, put_if_wanted};
use crate::request::Request;
use crate::{CallResult, code, lock, memory_copies};
use cuda_driver::{
    Copy3d, CuContext, CuFunction, CuGraph, CuGraphNode, FillNode, INVALID_VALUE, KernelNode, NOT_SUPPORTED,
};
use remote_calls::message::{
    DescribeNode, DescribedKind, FunctionDescription, GraphEdge, KernelNodeDescription, LaunchAttributeValue,
    ListAnswer, ListPart, MAX_LISTED, MemoryCopy, NodeFill, SetNodeAttribute, is_number_attribute,
};
use remote_calls::{CallId, HandleKind, HandleNumber, Scalar};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex};

/// Arguments of a kernel node that the program asked for. Their memory belongs to the node.
struct NodeArguments {
    /// The graph that the node ends with.
    graph: HandleNumber,
    /// The arguments, aligned as in a kernel's parameters.
    block: Vec<u128>,
    /// Addresses of the arguments.
    addresses: Vec<usize>,
}

/// Arguments of nodes that the program asked for.
static ARGUMENTS: LazyLock<Mutex<HashMap<HandleNumber, NodeArguments>>> = LazyLock::new(Mutex::default);

impl NodeArguments {
    fn new(graph: HandleNumber, function: &FunctionDescription, arguments: &[u8]) -> CallResult<Self> {
        let mut block = vec![0u128; arguments.len().div_ceil(size_of::<u128>())];
        put_bytes(block.as_mut_ptr().cast(), arguments)?;
        let first = block.as_mut_ptr().expose_provenance();
        Ok(Self {
            graph,
            block,
            addresses: Self::addresses(first, function).collect(),
        })
    }

    fn addresses(first: usize, function: &FunctionDescription) -> impl Iterator<Item = usize> {
        function
            .parameters
            .iter()
            .map(move |place| first + place.offset as usize)
    }

    /// Returns whether these are the arguments. The program may have written to them.
    fn is(&self, function: &FunctionDescription, arguments: &[u8]) -> bool {
        let first = self.block.as_ptr();
        arguments.len() <= self.block.len() * size_of::<u128>()
            && bytes(first.cast(), arguments.len()).is_ok_and(|block| block == arguments)
            && Self::addresses(first.addr(), function).eq(self.addresses.iter().copied())
    }

    fn list(&mut self) -> *mut *mut c_void {
        match self.addresses.is_empty() {
            true => std::ptr::null_mut(),
            false => self.addresses.as_mut_ptr().cast(),
        }
    }
}

/// Forgets the arguments of nodes of a graph that was destroyed.
pub fn forget_arguments(graph: HandleNumber) {
    lock(&ARGUMENTS).retain(|_, arguments| arguments.graph != graph);
}

fn describe(node: HandleNumber, kind: DescribedKind) -> CallResult<Answer> {
    let mut request = Request::new(CallId::describe_graph_node, false)?;
    DescribeNode { node, kind }.write(&mut request.encoder);
    request.ask()
}

/// `cuGraphKernelNodeGetParams`. The arguments are valid until the node is changed or its graph is destroyed.
pub fn describe_kernel(node: CuGraphNode, to: *mut KernelNode) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let number = existing(HandleKind::GraphNode, node)?;
    let answer = describe(number, DescribedKind::Kernel)?;
    let described = KernelNodeDescription::read(&mut answer.decoder()).map_err(|_| DEVICE_UNAVAILABLE)?;
    let KernelNodeDescription {
        graph,
        context,
        function,
        launch,
    } = described;
    if launch.arguments.len() < function.argument_bytes() as usize {
        return Err(DEVICE_UNAVAILABLE);
    }
    let mut all = lock(&ARGUMENTS);
    // Addresses that the program has stay valid while the arguments are the same.
    if !all
        .get(&number)
        .is_some_and(|known| known.is(&function, launch.arguments))
    {
        all.insert(number, NodeArguments::new(graph, &function, launch.arguments)?);
    }
    let parameters = all.get_mut(&number).map_or(std::ptr::null_mut(), NodeArguments::list);
    drop(all);
    let handle = CuFunction::from_number(code::remember(function)?);
    let null = std::ptr::null_mut();
    let is_kernel = launch.function.kind() == Some(HandleKind::Kernel);
    put(
        to,
        KernelNode {
            function: if is_kernel { null } else { handle },
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
            parameters,
            extra: std::ptr::null_mut(),
            kernel: if is_kernel { handle } else { null },
            context: CuContext::from_number(context),
        },
    )
}

/// `cuGraphMemcpyNodeGetParams`.
pub fn describe_copy(node: CuGraphNode, to: *mut Copy3d) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let answer = describe(existing(HandleKind::GraphNode, node)?, DescribedKind::Copy)?;
    let copy = MemoryCopy::read(&mut answer.decoder()).map_err(|_| DEVICE_UNAVAILABLE)?;
    put(to, memory_copies::to_program(&copy)?)
}

/// `cuGraphMemsetNodeGetParams`.
pub fn describe_fill(node: CuGraphNode, to: *mut FillNode) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let answer = describe(existing(HandleKind::GraphNode, node)?, DescribedKind::Fill)?;
    let fill = NodeFill::read(&mut answer.decoder()).map_err(|_| DEVICE_UNAVAILABLE)?;
    let size = |value: u64| usize::try_from(value).map_err(|_| DEVICE_UNAVAILABLE);
    put(
        to,
        FillNode {
            to: fill.to,
            pitch: size(fill.pitch)?,
            value: fill.value,
            element: fill.element,
            width: size(fill.width)?,
            height: size(fill.height)?,
        },
    )
}

/// `cuGraphKernelNodeGetAttribute`.
pub fn get_attribute(node: CuGraphNode, id: u32, to: *mut [u64; 8]) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    if !is_number_attribute(id) {
        return Err(NOT_SUPPORTED);
    }
    let mut request = Request::new(CallId::get_node_attribute, false)?;
    request.encoder.write(existing(HandleKind::GraphNode, node)?);
    request.encoder.write(id);
    let answer = request.ask()?;
    let attribute: LaunchAttributeValue = answer.decoder().read().map_err(|_| DEVICE_UNAVAILABLE)?;
    put(to, attribute.value)
}

/// `cuGraphKernelNodeSetAttribute`.
pub fn set_attribute(node: CuGraphNode, id: u32, value: *const [u64; 8]) -> CallResult {
    if !is_number_attribute(id) {
        return Err(NOT_SUPPORTED);
    }
    let mut request = Request::new(CallId::set_node_attribute, false)?;
    SetNodeAttribute {
        node: existing(HandleKind::GraphNode, node)?,
        attribute: LaunchAttributeValue { id, value: get(value)? },
    }
    .write(&mut request.encoder);
    request.ask().map(drop)
}

/// `cuGraphChildGraphNodeGetGraph`.
pub fn find_child(node: CuGraphNode, to: *mut CuGraph) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut request = Request::new(CallId::find_child_graph, false)?;
    request.encoder.write(existing(HandleKind::GraphNode, node)?);
    let answer = request.ask()?;
    let graph: HandleNumber = answer.decoder().read().map_err(|_| DEVICE_UNAVAILABLE)?;
    put(to, CuGraph::from_number(graph))
}

/// Returns at most `room` elements of a list of a graph, and the number of all.
fn list<T: Scalar>(call: CallId, graph: CuGraph, room: usize, has_data: bool) -> CallResult<(Vec<T>, usize)> {
    let graph = existing(HandleKind::Graph, graph)?;
    let mut all = Vec::new();
    loop {
        let mut request = Request::new(call, false)?;
        ListPart {
            graph,
            first: all.len() as u64,
            count: (room - all.len()).min(MAX_LISTED as usize) as u32,
            has_data,
        }
        .write(&mut request.encoder);
        let answer = request.ask()?;
        let part = ListAnswer::<T>::read(&mut answer.decoder()).map_err(|_| DEVICE_UNAVAILABLE)?;
        let total = usize::try_from(part.total).map_err(|_| DEVICE_UNAVAILABLE)?;
        let is_last = part.elements.is_empty();
        all.extend(part.elements);
        all.truncate(room);
        if is_last || all.len() >= room.min(total) {
            return Ok((all, total));
        }
    }
}

/// Writes a list to the program's memory, which has room for `room` elements. The driver writes null to the rest.
fn put_list<T>(to: *mut T, room: usize, all: impl Iterator<Item = T>, rest: impl Fn() -> T) -> CallResult {
    let filled = all.chain(std::iter::repeat_with(rest));
    (0..room)
        .zip(filled)
        .try_for_each(|(index, element)| put(to.wrapping_add(index), element))
}

/// `cuGraphGetNodes`.
pub fn list_nodes(graph: CuGraph, to: *mut CuGraphNode, count: *mut usize) -> CallResult {
    let room = if to.is_null() { 0 } else { get(count)? };
    let (nodes, total) = list::<HandleNumber>(CallId::list_graph_nodes, graph, room, false)?;
    if to.is_null() {
        return put(count, total);
    }
    // NVIDIA's driver 580 refuses a list without room.
    if room == 0 {
        return Err(INVALID_VALUE);
    }
    put_list(
        to,
        room,
        nodes.iter().map(|node| CuGraphNode::from_number(*node)),
        std::ptr::null_mut,
    )?;
    put(count, nodes.len())
}

/// `cuGraphGetEdges`, first version.
pub fn list_edges(graph: CuGraph, from: *mut CuGraphNode, to: *mut CuGraphNode, count: *mut usize) -> CallResult {
    put_edges(graph, from, to, None, count)
}

/// `cuGraphGetEdges`, second version.
pub fn list_edges_with_data(
    graph: CuGraph,
    from: *mut CuGraphNode,
    to: *mut CuGraphNode,
    data: *mut c_void,
    count: *mut usize,
) -> CallResult {
    put_edges(graph, from, to, Some(data.cast()), count)
}

fn put_edges(
    graph: CuGraph,
    from: *mut CuGraphNode,
    to: *mut CuGraphNode,
    data: Option<*mut u64>,
    count: *mut usize,
) -> CallResult {
    if from.is_null() != to.is_null() {
        return Err(INVALID_VALUE);
    }
    let room = if to.is_null() { 0 } else { get(count)? };
    // The second version refuses edges with data, as the first one does, if the program has no memory for the data.
    let has_data = data.is_some_and(|data| !data.is_null() || to.is_null());
    let (edges, total) = list::<GraphEdge>(CallId::list_graph_edges, graph, room, has_data)?;
    if to.is_null() {
        return put(count, total);
    }
    let null = std::ptr::null_mut;
    put_list(
        from,
        room,
        edges.iter().map(|edge| CuGraphNode::from_number(edge.from)),
        null,
    )?;
    put_list(
        to,
        room,
        edges.iter().map(|edge| CuGraphNode::from_number(edge.to)),
        null,
    )?;
    if let Some(data) = data.filter(|data| !data.is_null()) {
        put_list(data, room, edges.iter().map(|edge| edge.data), || 0)?;
    }
    put_if_wanted(count, edges.len());
    Ok(())
}
