//! Executable graphs, and captures into graphs.

use super::queries::node_number;
use super::{find, find_all};
use crate::call_error::{CallError, CallResult};
use crate::forms::{DriverHandle as _, find_object};
use crate::session::Scope;
use cuda_driver::{
    CuGraph, CuGraphExec, CuResult, CuStream, CudaError, INVALID_VALUE, InstantiationParameters, NOT_SUPPORTED,
    UpdateReport,
};
use remote_calls::message::{
    CaptureToGraph, InstantiateGraph, InstantiationAnswer, InstantiationForm, UpdateAnswer, UpdateExec,
};
use remote_calls::{Decoder, Encoder, HandleKind};

fn result_of(done: Result<(), CudaError>) -> CuResult {
    match done {
        Ok(()) => 0,
        Err(e) => e.result().unwrap_or(NOT_SUPPORTED),
    }
}

/// Instantiates a graph. The answer has the driver's result, and what it says about a failure.
///
/// # Errors
/// If the message is invalid.
pub fn instantiate(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let request = InstantiateGraph::read(decoder)?;
    decoder.finish()?;
    let driver = &scope.session.driver;
    let graph: CuGraph = find(scope, HandleKind::Graph, request.graph)?;
    let (mut exec, mut node, mut outcome) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    let mut log = Vec::new();
    let done = match request.form {
        InstantiationForm::WithLog(bytes) => {
            log.resize(bytes as usize, 0u8);
            let (first, bytes) = (log.as_mut_ptr().cast(), log.len());
            // SAFETY: the handle is the driver's, the pointers are valid for the results, and the log has this size.
            unsafe { driver.cuGraphInstantiate_v2(&raw mut exec, graph, &raw mut node, first, bytes) }
        }
        InstantiationForm::WithParameters { flags, stream } => {
            let mut parameters = InstantiationParameters {
                flags,
                stream: CuStream::from_object(find_object(scope, HandleKind::Stream, stream)?),
                node,
                outcome,
            };
            let form = (&raw mut parameters).cast();
            // SAFETY: as above; the structure lives during the call.
            let done = unsafe { driver.cuGraphInstantiateWithParams(&raw mut exec, graph, form) };
            (node, outcome) = (parameters.node, parameters.outcome);
            done
        }
    };
    let result = result_of(done);
    if result == 0 {
        let owner = scope.owner(HandleKind::GraphExec);
        scope
            .session
            .handles
            .insert(HandleKind::GraphExec, request.exec, exec.object(), owner)?;
    }
    InstantiationAnswer {
        result,
        outcome,
        node: node_number(scope, node, request.graph)?,
        log: log.split(|byte| *byte == 0).next().unwrap_or_default(),
    }
    .write(answer);
    Ok(())
}

/// Replaces the work of an executable graph by that of a graph. The answer has the driver's result, and what it says
/// about a failure.
///
/// # Errors
/// If the message is invalid.
pub fn update(scope: &Scope<'_>, decoder: &mut Decoder<'_>, answer: &mut Encoder) -> CallResult {
    let request = UpdateExec::read(decoder)?;
    decoder.finish()?;
    let driver = &scope.session.driver;
    let exec: CuGraphExec = find(scope, HandleKind::GraphExec, request.exec)?;
    let graph: CuGraph = find(scope, HandleKind::Graph, request.graph)?;
    let mut report = UpdateReport {
        outcome: 0,
        node: std::ptr::null_mut(),
        edge_start: std::ptr::null_mut(),
    };
    // SAFETY: the handles are the driver's, and the pointer is valid for the report.
    let mut done = unsafe { driver.cuGraphExecUpdate_v2(exec, graph, (&raw mut report).cast()) };
    if matches!(done, Err(CudaError::Missing { .. })) {
        // SAFETY: as above.
        done = unsafe { driver.cuGraphExecUpdate(exec, graph, &raw mut report.node, &raw mut report.outcome) };
    }
    UpdateAnswer {
        result: result_of(done),
        outcome: report.outcome,
        node: node_number(scope, report.node, request.graph)?,
        edge_start: node_number(scope, report.edge_start, request.graph)?,
    }
    .write(answer);
    Ok(())
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`. The other modes are about threads of the program, which the worker's are not: a
/// capture could not end on another thread, and would forbid calls of others.
const RELAXED: u32 = 2;

/// Begins the capture of a stream.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn begin_stream_capture(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let number = decoder.read()?;
    let mode: u32 = decoder.read()?;
    decoder.finish()?;
    if mode > RELAXED {
        return Err(CallError::Result(INVALID_VALUE));
    }
    let stream = CuStream::from_object(find_object(scope, HandleKind::Stream, number)?);
    // SAFETY: the handle is the driver's.
    unsafe { scope.session.driver.cuStreamBeginCapture_v2(stream, RELAXED)? };
    scope.note_capture(number);
    Ok(())
}

/// Begins the capture of a stream into a graph.
///
/// # Errors
/// If the message is invalid, or the driver refuses.
pub fn begin_capture(scope: &Scope<'_>, decoder: &mut Decoder<'_>) -> CallResult {
    let capture = CaptureToGraph::read(decoder)?;
    decoder.finish()?;
    if capture.mode > RELAXED {
        return Err(CallError::Result(INVALID_VALUE));
    }
    let graph: CuGraph = find(scope, HandleKind::Graph, capture.graph)?;
    let stream = CuStream::from_object(find_object(scope, HandleKind::Stream, capture.stream)?);
    let after = find_all(scope, &capture.after)?;
    let data = match capture.data.is_empty() {
        true => std::ptr::null(),
        false => capture.data.as_ptr().cast(),
    };
    let driver = &scope.session.driver;
    let (first, count) = (after.as_ptr(), after.len());
    // SAFETY: the handles are the driver's, and the lists have this many elements; an edge's data has 8 bytes.
    unsafe { driver.cuStreamBeginCaptureToGraph(stream, graph, first, data, count, RELAXED)? };
    scope.note_capture(capture.stream);
    Ok(())
}
