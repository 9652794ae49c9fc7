//! Launches that are recorded one by one, with memory before and after each. Outside them only existing objects are
//! tracked.

use crate::code::FunctionInfo;
use crate::launches::{LaunchShape, read_arguments};
use crate::recorder::{Form, Recorder, is_ok, lock};
use crate::resolve::thread;
use crate::settings::LaunchSelection;
use crate::snapshot::{SnapshotLaunch, SnapshotPoint};
use cuda_driver::{CuResult, CuStream};
use cuda_session::{EntryPayload, LaunchCounter};
use libc::c_void;
use std::collections::HashMap;
use std::sync::Mutex;
use trace_core::recording::{CallEvent, LaunchRow};

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// The selected launches, and those so far.
pub(crate) struct SelectedKernels {
    wanted: LaunchSelection,
    /// Counters by function number.
    launched: Mutex<HashMap<u32, LaunchCounter>>,
}

impl SelectedKernels {
    pub fn new(wanted: LaunchSelection) -> Self {
        Self {
            wanted,
            launched: Mutex::default(),
        }
    }

    /// Returns whether launches of a function of this name are recorded.
    pub fn is_selected(&self, name: &str) -> bool {
        self.wanted.patterns.is_match(name)
    }

    /// Counts a launch of a function. Returns its number among the function's launches, from 1 on, if it is recorded.
    fn next(&self, function: u32, threads: u64) -> Option<u64> {
        let mut all = lock(&self.launched);
        let launched = all.entry(function).or_default();
        let recorded = launched.select_next(self.wanted.pick, self.wanted.max_launches, threads);
        recorded.then_some(launched.seen)
    }

    fn mark_recorded(&self, function: u32, threads: u64) {
        lock(&self.launched)
            .entry(function)
            .or_default()
            .count_recorded(threads);
    }
}

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
    if r.capture_flag(stream, form) != 0 {
        if known.is_selected {
            note_graph_launch(r);
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
            r.count_launch();
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
    row.stream = r.stream_number(stream, form);
    // SAFETY: guaranteed by the caller; the driver reads the same.
    let buffer = unsafe { read_arguments(known, parameters, extra) };
    crate::pinned_access::check_arguments(r, buffer.as_deref());
    if buffer.is_none() {
        crate::launches::note_missing_arguments(r);
    }
    let before = buffer.is_some() && r.snapshot_with(&mut snapshots, SnapshotPoint::Before(which));
    let begun = r.session.start_call();
    let result = call();
    row.result = result;
    row.took = begun.elapsed_ns();
    if before {
        let with = buffer.map_or(EntryPayload::Nothing, EntryPayload::Arguments);
        r.session.record(begun, thread(), CallEvent::Launch(row), with);
        if is_ok(result) && r.snapshot_with(&mut snapshots, SnapshotPoint::After(which)) {
            kernels.mark_recorded(known.number, row.threads());
            if r.launch_count() + 1 != launch {
                r.note_not_recorded(
                    "launches",
                    "other threads launched functions while memory was read before and after a launch: their writes \
                     count as writes of the launch",
                );
            }
        }
    }
    drop(snapshots);
    if is_ok(result) {
        r.count_launch();
    }
    result
}

/// Notes that a selected launch is part of a graph.
pub(crate) fn note_graph_launch(r: &Recorder) {
    r.note_not_recorded(
        "graph",
        "a graph launches a selected function: launches in graphs are not recorded one by one",
    );
}
