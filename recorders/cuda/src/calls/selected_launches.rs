//! Launches that are recorded one by one, with memory before and after each. Outside them only existing objects are
//! tracked.

use super::Call;
use super::launch_arguments::{LaunchShape, note_missing_arguments, read_arguments};
use crate::code::FunctionInfo;
use crate::driver::is_ok;
use crate::kernels::SelectedKernels;
use crate::pinned_access;
use crate::recorder::Recorder;
use crate::snapshots::{SnapshotLaunch, SnapshotPoint};
use crate::trace::{Form, Trace, lock};
use cuda_driver::{CuResult, CuStream};
use cuda_session::EntryPayload;
use libc::c_void;
use trace_core::recording::{CallEvent, LaunchRow};

/// Handles a launch when launches are recorded one by one.
///
/// # Safety
/// The pointers are those of the program's call.
#[allow(clippy::too_many_arguments, reason = "those of the driver's function")]
pub(crate) unsafe fn launch(
    r: &Recorder,
    kernels: &SelectedKernels,
    known: &FunctionInfo,
    form: Form,
    call: Call<'_>,
    shape: LaunchShape,
    stream: CuStream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CuResult {
    if r.trace.capture_flag(stream, form) != 0 {
        if known.is_selected {
            note_graph_launch(&r.trace);
        }
        return call();
    }
    let mut row = LaunchRow {
        function: known.number,
        grid: shape.grid,
        block: shape.block,
        cluster: shape.cluster,
        shared: shape.shared,
        flags: shape.flags,
        ..Default::default()
    };
    let own = if known.is_selected {
        kernels.next(known.number, row.threads())
    } else {
        None
    };
    let Some(own) = own else {
        let result = call();
        if is_ok(result) {
            r.count_launches(1);
        }
        return result;
    };
    // One at a time: memory before and after must belong to this launch.
    let mut snapshots = lock(&r.snapshots);
    let launch = r.launch_count() + 1;
    let which = SnapshotLaunch {
        function: known.number,
        launch,
        function_launch: own,
    };
    row.stream = r.trace.stream_number(stream, form);
    // SAFETY: guaranteed by the caller; the driver reads the same.
    let buffer = unsafe { read_arguments(known, parameters, extra) };
    pinned_access::check_arguments(&r.trace, &r.memory, buffer.as_deref());
    if buffer.is_none() {
        note_missing_arguments(&r.trace);
    }
    let before = buffer.is_some() && r.snapshot(&mut snapshots, SnapshotPoint::Before(which));
    let begun = r.trace.session.start_call();
    let result = call();
    row.result = result;
    row.took = begun.elapsed_ns();
    if before {
        let with = buffer.map_or(EntryPayload::Nothing, EntryPayload::Arguments);
        r.trace.record_always(begun, CallEvent::Launch(row), with);
        if is_ok(result) && r.snapshot(&mut snapshots, SnapshotPoint::After(which)) {
            kernels.mark_recorded(known.number, row.threads());
            if r.launch_count() + 1 != launch {
                r.trace.note_not_recorded(
                    "launches",
                    "other threads launched functions while memory was read before and after a launch: their writes \
                     count as writes of the launch",
                );
            }
        }
    }
    drop(snapshots);
    if is_ok(result) {
        r.count_launches(1);
    }
    result
}

/// Notes that a selected launch is part of a graph.
pub(crate) fn note_graph_launch(trace: &Trace) {
    trace.note_not_recorded(
        "graph",
        "a graph launches a selected function: launches in graphs are not recorded one by one",
    );
}
