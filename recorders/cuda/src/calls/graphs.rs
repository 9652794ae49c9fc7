//! Calls on executable graphs: each launch of a graph does what was captured or built, and is recorded after the launch, node by node.

use super::Call;
use super::copies::flatten;
use super::feedback::FeedbackSources;
use super::graph_nodes::{list_nodes, read_fill, read_launch};
use super::launch_arguments::note_missing_arguments;
use super::selected_launches::note_graph_launch;
use crate::driver::is_ok;
use crate::graphs::{NodeWork, for_each_enabled};
use crate::recorder::Recorder;
use crate::trace::{Form, lock};
use cuda_driver::{
    Copy3d, CuGraph, CuGraphExec, CuGraphNode, CuResult, CuStream, FillNode, KernelNode, NODE_COPY, NODE_EVENT_RECORD,
    NODE_FILL, NODE_GRAPH, NODE_HOST, NODE_KERNEL, NODE_WAIT_EVENT, NodeForm,
};
use cuda_session::EntryPayload;
use trace_core::recording::{CALL_OF_GRAPH, CallEvent, CopyKind, CopyRow, FillRow, LaunchRow};

/// Handles the instantiation of a graph.
pub(crate) fn instantiate(
    r: &Recorder,
    call: Call<'_>,
    name: &'static str,
    exec: *mut CuGraphExec,
    graph: CuGraph,
) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    if is_ok(result) && !exec.is_null() {
        let nodes = list_nodes(r, graph);
        // SAFETY: the driver has written the answer.
        let handle = unsafe { *exec } as usize;
        lock(&r.graphs).add(handle, nodes);
    }
    r.trace.record_call(begun, name, None, &[], result);
    result
}

/// Handles `cuGraphExecUpdate`: a graph replaces the instantiated one.
pub(crate) fn update(r: &Recorder, call: Call<'_>, exec: CuGraphExec, graph: CuGraph) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    if is_ok(result) {
        let nodes = list_nodes(r, graph);
        lock(&r.graphs).update(exec as usize, nodes);
    }
    r.trace.record_call(begun, "cuGraphExecUpdate", None, &[], result);
    result
}

/// Changes the work of a node in an executable graph; `None` if the new work is unknown.
fn change(
    r: &Recorder,
    call: Call<'_>,
    name: &'static str,
    exec: CuGraphExec,
    node: CuGraphNode,
    to: Option<NodeWork>,
) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    if is_ok(result) {
        lock(&r.graphs).change(exec as usize, node as usize, to);
    }
    r.trace.record_call(begun, name, None, &[], result);
    result
}

/// Handles a change of a node's launch.
///
/// # Safety
/// The structure is the program's, and the driver reads it as well.
pub(crate) unsafe fn set_kernel(
    r: &Recorder,
    call: Call<'_>,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const KernelNode,
) -> CuResult {
    // SAFETY: guaranteed by the caller.
    let to = unsafe { form.as_ref().map(|form| read_launch(r, form)) };
    change(r, call, "cuGraphExecKernelNodeSetParams", exec, node, to)
}

/// Handles the same change with the first version of the structure, which ends before the kernel and the context.
///
/// # Safety
/// The same as [`set_kernel`], with a structure of that size.
pub(crate) unsafe fn set_kernel_by_first(
    r: &Recorder,
    call: Call<'_>,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const KernelNode,
) -> CuResult {
    const FIRST: usize = std::mem::offset_of!(KernelNode, kernel);
    let mut whole = std::mem::MaybeUninit::<KernelNode>::zeroed();
    if form.is_null() {
        return call();
    }
    // SAFETY: the caller guarantees the source bytes, and the destination is larger.
    unsafe {
        std::ptr::copy_nonoverlapping(form.cast::<u8>(), whole.as_mut_ptr().cast::<u8>(), FIRST);
        set_kernel(r, call, exec, node, whole.as_ptr())
    }
}

/// Handles a change of a node's copy.
///
/// # Safety
/// The same as [`set_kernel`].
pub(crate) unsafe fn set_copy(
    r: &Recorder,
    call: Call<'_>,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const Copy3d,
) -> CuResult {
    // SAFETY: guaranteed by the caller.
    let to = unsafe { form.as_ref() }.map(|form| NodeWork::Copies(flatten(r, form)));
    change(r, call, "cuGraphExecMemcpyNodeSetParams", exec, node, to)
}

/// Handles a change of a node's fill.
///
/// # Safety
/// The same as [`set_kernel`].
pub(crate) unsafe fn set_fill(
    r: &Recorder,
    call: Call<'_>,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const FillNode,
) -> CuResult {
    // SAFETY: guaranteed by the caller.
    let to = unsafe { form.as_ref() }.map(read_fill);
    change(r, call, "cuGraphExecMemsetNodeSetParams", exec, node, to)
}

/// Handles a change of a node's host function, which a finding reports.
pub(crate) fn set_host(r: &Recorder, call: Call<'_>, exec: CuGraphExec, node: CuGraphNode) -> CuResult {
    let to = Some(NodeWork::Nothing);
    change(r, call, "cuGraphExecHostNodeSetParams", exec, node, to)
}

/// Handles a change of a node's child graph.
pub(crate) fn set_child(
    r: &Recorder,
    call: Call<'_>,
    exec: CuGraphExec,
    node: CuGraphNode,
    child: CuGraph,
) -> CuResult {
    let to = (!child.is_null()).then(|| NodeWork::Child(list_nodes(r, child)));
    change(r, call, "cuGraphExecChildGraphNodeSetParams", exec, node, to)
}

/// Handles `cuGraphExecNodeSetParams`: a change of a node of any kind.
///
/// # Safety
/// The same as [`set_kernel`].
pub(crate) unsafe fn set_any(
    r: &Recorder,
    call: Call<'_>,
    exec: CuGraphExec,
    node: CuGraphNode,
    form: *const NodeForm,
) -> CuResult {
    // SAFETY: guaranteed by the caller; the structure for all kinds contains the structure of this kind.
    let to = unsafe {
        form.as_ref().and_then(|all| {
            let at = all.form.as_ptr();
            match all.kind {
                NODE_KERNEL => at.cast::<KernelNode>().as_ref().map(|f| read_launch(r, f)),
                NODE_COPY => {
                    let copy = at.cast::<u8>().wrapping_add(NodeForm::COPY_AT).cast::<Copy3d>();
                    copy.as_ref().map(|f| NodeWork::Copies(flatten(r, f)))
                }
                NODE_FILL => at.cast::<FillNode>().as_ref().map(read_fill),
                NODE_GRAPH => Some(NodeWork::Child(list_nodes(r, *at.cast::<CuGraph>()))),
                NODE_HOST | NODE_WAIT_EVENT | NODE_EVENT_RECORD => Some(NodeWork::Nothing),
                _ => None,
            }
        })
    };
    change(r, call, "cuGraphExecNodeSetParams", exec, node, to)
}

/// Handles `cuGraphNodeSetEnabled`: launches skip a node, or run it again.
pub(crate) fn set_enabled(
    r: &Recorder,
    call: Call<'_>,
    exec: CuGraphExec,
    node: CuGraphNode,
    enabled: u32,
) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    if is_ok(result) {
        lock(&r.graphs).set_enabled(exec as usize, node as usize, enabled != 0);
    }
    r.trace
        .record_call(begun, "cuGraphNodeSetEnabled", None, &[u64::from(enabled)], result);
    result
}

/// Handles `cuGraphExecDestroy`.
pub(crate) fn destroy(r: &Recorder, _form: Form, call: Call<'_>, exec: CuGraphExec) -> CuResult {
    let result = call();
    if is_ok(result) {
        lock(&r.graphs).remove(exec as usize);
    }
    result
}

/// Handles `cuGraphLaunch`.
pub(crate) fn launch(r: &Recorder, form: Form, call: Call<'_>, exec: CuGraphExec, stream: CuStream) -> CuResult {
    let ready = lock(&r.graphs).find(exec as usize);
    if r.kernels.is_some() {
        let mut wanted = false;
        for_each_enabled(ready.as_ref().map_or(&[], |ready| &ready.nodes), &mut |what| {
            wanted |= matches!(what, NodeWork::Launch(_, _, true));
        });
        if wanted {
            note_graph_launch(&r.trace);
        }
        return call();
    }
    let begun = r.trace.session.start_call();
    let number = r.trace.stream_number(stream, form);
    let captured = r.trace.capture_flag(stream, form);
    let mut sources = match &ready {
        Some(ready) if captured == 0 => FeedbackSources::from_nodes(r, &ready.nodes, stream, form),
        _ => FeedbackSources::default(),
    };
    let result = call();
    r.trace.record_call(begun, "cuGraphLaunch", Some(number), &[], result);
    if !is_ok(result) || captured != 0 {
        return result;
    }
    let Some(ready) = ready else {
        r.trace
            .note_not_recorded("graph", "a graph was launched whose nodes the recorder does not know");
        return result;
    };
    let key = form.stream_key(stream);
    let (mut launches, mut copies) = (0, 0);
    for_each_enabled(&ready.nodes, &mut |what| match what {
        NodeWork::Launch(row, buffer, _) => {
            lock(&r.streams.progress).add_work(key);
            let row = LaunchRow {
                stream: number,
                flags: row.flags | CALL_OF_GRAPH,
                ..*row
            };
            if buffer.is_none() {
                note_missing_arguments(&r.trace);
            }
            let with = buffer.clone().map_or(EntryPayload::Nothing, EntryPayload::Arguments);
            r.trace.record(begun, CallEvent::Launch(row), with);
            launches += 1;
        }
        NodeWork::Copies(rows) => {
            for row in rows {
                let row = CopyRow {
                    stream: number,
                    flags: row.flags | CALL_OF_GRAPH,
                    ..*row
                };
                let work = lock(&r.streams.progress).add_work(key);
                match CopyKind::from_raw(row.kind) {
                    Some(CopyKind::DeviceToHost) => r.streams.add_readback(&r.trace, begun, key, work, row),
                    Some(CopyKind::HostToDevice) => {
                        let with = sources.content(r, copies, &row, stream, form);
                        r.trace.record(begun, CallEvent::Copy(row), with);
                    }
                    _ => r.trace.record(begun, CallEvent::Copy(row), EntryPayload::Nothing),
                }
                copies += 1;
            }
        }
        NodeWork::Fill(row) => {
            lock(&r.streams.progress).add_work(key);
            let row = FillRow {
                stream: number,
                flags: row.flags | CALL_OF_GRAPH,
                ..*row
            };
            r.trace.record(begun, CallEvent::Fill(row), EntryPayload::Nothing);
        }
        NodeWork::Child(_) | NodeWork::Nothing => {}
    });
    // A graph runs as a whole: the recorded range ends after the graph and not after one of its launches.
    if launches > 0 {
        r.count_launches(launches);
    }
    result
}
