//! Executable graphs, and captures into graphs.

use super::{existing, node_numbers, set_exec_copy, set_exec_fill, set_exec_host, set_exec_kernel};
use crate::copies::CopyStream;
use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::{AbiHandle as _, stream_number};
use crate::forwarded;
use crate::pointers::{get, get_at, put, put_bytes, put_if_wanted};
use crate::request::Request;
use crate::{CallResult, handles, stream_state};
use cuda_driver::{
    CuContext, CuGraph, CuGraphExec, CuGraphNode, CuResult, CuStream, INVALID_VALUE, InstantiationParameters,
    NODE_COPY, NODE_FILL, NODE_GRAPH, NODE_HOST, NODE_KERNEL, NOT_SUPPORTED, NodeForm, SUCCESS, UpdateReport,
};
use remote_calls::message::{
    CaptureToGraph, InstantiateGraph, InstantiationAnswer, InstantiationForm, MAX_INSTANTIATION_LOG_BYTES,
    UpdateAnswer, UpdateExec,
};
use remote_calls::{CallId, HandleKind};
use std::ffi::{c_char, c_void};

/// Index of the context in the words of a [`NODE_COPY`] form. The flags are before it.
const COPY_CONTEXT: usize = 1;
/// Index of the context in the words of a [`NODE_FILL`] form.
const FILL_CONTEXT: usize = 5;

const fn check(result: CuResult) -> CallResult {
    match result {
        SUCCESS => Ok(()),
        result => Err(result),
    }
}

/// Instantiates a graph. Passes what the driver says to `report`, with failures too.
fn instantiate(
    to: *mut CuGraphExec,
    graph: CuGraph,
    form: InstantiationForm,
    report: impl FnOnce(&InstantiationAnswer<'_>) -> CallResult,
) -> CallResult {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut request = Request::new(CallId::instantiate_graph, false)?;
    let exec = handles::create(HandleKind::GraphExec)?;
    InstantiateGraph {
        exec,
        graph: existing(HandleKind::Graph, graph)?,
        form,
    }
    .write(&mut request.encoder);
    let answer = request.ask()?;
    let answer = InstantiationAnswer::read(&mut answer.decoder()).map_err(|_| DEVICE_UNAVAILABLE)?;
    report(&answer)?;
    check(answer.result)?;
    put(to, CuGraphExec::from_number(exec))
}

/// `cuGraphInstantiate`, second version.
pub fn instantiate_with_log(
    to: *mut CuGraphExec,
    graph: CuGraph,
    node: *mut CuGraphNode,
    log: *mut c_char,
    bytes: usize,
) -> CallResult {
    let room = if log.is_null() { 0 } else { bytes };
    let max_bytes = u32::try_from(room).unwrap_or(u32::MAX).min(MAX_INSTANTIATION_LOG_BYTES);
    instantiate(to, graph, InstantiationForm::WithLog(max_bytes), |answer| {
        put_if_wanted(node, CuGraphNode::from_number(answer.node));
        let Some(max_text) = room.checked_sub(1) else {
            return Ok(());
        };
        let text = answer.log.get(..max_text).unwrap_or(answer.log);
        put_bytes(log.cast(), text)?;
        put(log.wrapping_add(text.len()), 0)
    })
}

/// `cuGraphInstantiateWithParams`.
pub fn instantiate_with_parameters(
    is_per_thread: bool,
    to: *mut CuGraphExec,
    graph: CuGraph,
    parameters: *mut InstantiationParameters,
) -> CallResult {
    let form = get(parameters)?;
    let stream = CopyStream::new(form.stream, is_per_thread).number()?;
    let flags = form.flags;
    instantiate(
        to,
        graph,
        InstantiationForm::WithParameters { flags, stream },
        |answer| {
            let node = CuGraphNode::from_number(answer.node);
            let outcome = answer.outcome;
            put(parameters, InstantiationParameters { node, outcome, ..form })
        },
    )
}

fn ask_for_update(exec: CuGraphExec, graph: CuGraph) -> CallResult<UpdateAnswer> {
    let mut request = Request::new(CallId::update_exec, false)?;
    UpdateExec {
        exec: existing(HandleKind::GraphExec, exec)?,
        graph: existing(HandleKind::Graph, graph)?,
    }
    .write(&mut request.encoder);
    UpdateAnswer::read(&mut request.ask()?.decoder()).map_err(|_| DEVICE_UNAVAILABLE)
}

/// `cuGraphExecUpdate`, second version.
pub fn update(exec: CuGraphExec, graph: CuGraph, report: *mut UpdateReport) -> CallResult {
    let answer = ask_for_update(exec, graph)?;
    put_if_wanted(
        report,
        UpdateReport {
            outcome: answer.outcome,
            node: CuGraphNode::from_number(answer.node),
            edge_start: CuGraphNode::from_number(answer.edge_start),
        },
    );
    check(answer.result)
}

/// `cuGraphExecUpdate`, first version.
pub fn update_first_version(
    exec: CuGraphExec,
    graph: CuGraph,
    node: *mut CuGraphNode,
    outcome: *mut u32,
) -> CallResult {
    let answer = ask_for_update(exec, graph)?;
    put_if_wanted(node, CuGraphNode::from_number(answer.node));
    put_if_wanted(outcome, answer.outcome);
    check(answer.result)
}

/// `cuGraphExecNodeSetParams`: the structure contains that of the node's kind.
pub fn set_exec_node(exec: CuGraphExec, node: CuGraphNode, form: *mut NodeForm) -> CallResult {
    let all = get(form)?;
    let at = all.form.as_ptr();
    let context = |index| get_at(at.cast::<CuContext>(), index);
    match all.kind {
        NODE_KERNEL => set_exec_kernel(exec, node, at.cast()),
        NODE_COPY => {
            let flags: u32 = get(at.cast())?;
            if flags != 0 {
                return Err(INVALID_VALUE);
            }
            let copy = at.wrapping_byte_add(NodeForm::COPY_AT).cast();
            set_exec_copy(exec, node, copy, context(COPY_CONTEXT)?)
        }
        NODE_FILL => set_exec_fill(exec, node, at.cast(), context(FILL_CONTEXT)?),
        NODE_HOST => set_exec_host(exec, node, at.cast()),
        NODE_GRAPH => forwarded::cuGraphExecChildGraphNodeSetParams(false, exec, node, get(at.cast())?),
        _ => Err(NOT_SUPPORTED),
    }
}

/// `cuStreamBeginCaptureToGraph`.
pub fn begin_capture(
    is_per_thread: bool,
    stream: CuStream,
    graph: CuGraph,
    after: *const CuGraphNode,
    data: *const c_void,
    count: usize,
    mode: u32,
) -> CallResult {
    let mut request = Request::new(CallId::capture_to_graph, false)?;
    let after = node_numbers(after, count)?;
    let data = match data.is_null() {
        true => Vec::new(),
        // The data of an edge has 8 bytes.
        false => (0..after.len())
            .map(|index| get_at(data.cast(), index))
            .collect::<CallResult<_>>()?,
    };
    CaptureToGraph {
        stream: CopyStream::new(stream, is_per_thread).number()?,
        graph: existing(HandleKind::Graph, graph)?,
        after,
        data,
        mode,
    }
    .write(&mut request.encoder);
    request.ask()?;
    stream_state::note_capture(stream_number(is_per_thread, stream)?);
    Ok(())
}
