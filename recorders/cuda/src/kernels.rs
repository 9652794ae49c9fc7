//! Launches that are recorded one by one, with memory before and after each; of everything else only what there is has
//! to be known.

use crate::code::Known;
use crate::launches::{Shape, arguments};
use crate::recorder::{Form, Recorder, is_ok, lock};
use crate::resolve::thread;
use crate::settings::Wanted;
use crate::snapshot::{Moment, Which};
use cuda_driver::{CuResult, CuStream};
use cuda_session::{Launched, With};
use libc::c_void;
use std::collections::HashMap;
use std::sync::Mutex;
use trace_core::recording::{CallEvent, LaunchRow};

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// Which launches are recorded, and those that there were.
pub(crate) struct Kernels {
    wanted: Wanted,
    /// By the function's number.
    launched: Mutex<HashMap<u32, Launched>>,
}

impl Kernels {
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            launched: Mutex::default(),
        }
    }

    /// Whether launches of a function of this name are recorded.
    pub fn fit(&self, name: &str) -> bool {
        self.wanted.patterns.fit(name)
    }

    /// A launch of a function comes: its number among those of the function, from 1 on, where it is recorded.
    fn next(&self, function: u32, threads: u64) -> Option<u64> {
        let mut all = lock(&self.launched);
        let launched = all.entry(function).or_default();
        let recorded = launched.next(self.wanted.pick, self.wanted.most, threads);
        recorded.then_some(launched.seen)
    }

    fn took(&self, function: u32, threads: u64) {
        lock(&self.launched).entry(function).or_default().took(threads);
    }
}

/// A launch, where launches are recorded one by one.
///
/// # Safety
/// The pointers are those of the program's call.
#[allow(clippy::too_many_arguments, reason = "those of the driver's function")]
pub(crate) unsafe fn launch(
    r: &Recorder,
    kernels: &Kernels,
    known: &Known,
    form: Form,
    call: Call<'_>,
    shape: Shape,
    stream: CuStream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CuResult {
    if r.captured(stream, form) != 0 {
        if known.wanted {
            in_graph(r);
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
    let own = if known.wanted {
        kernels.next(known.number, row.threads())
    } else {
        None
    };
    let Some(own) = own else {
        let result = call();
        if is_ok(result) {
            r.launched();
        }
        return result;
    };
    // One at a time: what memory holds before and after is told of this launch.
    let mut snapshots = lock(&r.snapshots);
    let launch = r.launches() + 1;
    let which = Which {
        function: known.number,
        launch,
        own,
    };
    row.stream = r.stream(stream, form);
    // SAFETY: the caller's promise; the driver reads the same.
    let buffer = unsafe { arguments(known, parameters, extra) };
    crate::reached::look(r, buffer.as_deref());
    if buffer.is_none() {
        crate::launches::untold(r);
    }
    let before = buffer.is_some() && r.snapshot_with(&mut snapshots, Moment::Before(which));
    let begun = r.session.begun();
    let result = call();
    row.result = result;
    row.took = begun.took();
    if before {
        let with = buffer.map_or(With::Nothing, With::Arguments);
        r.session.record(begun, thread(), CallEvent::Launch(row), with);
        if is_ok(result) && r.snapshot_with(&mut snapshots, Moment::After(which)) {
            kernels.took(known.number, row.threads());
            if r.launches() + 1 != launch {
                r.not_recorded(
                    "launches",
                    "other threads launched functions while memory before and after a launch was read: what these wrote counts as the launch's",
                );
            }
        }
    }
    drop(snapshots);
    if is_ok(result) {
        r.launched();
    }
    result
}

/// A launch that is wanted is a graph's.
pub(crate) fn in_graph(r: &Recorder) {
    r.not_recorded(
        "graph",
        "a function whose launches are wanted is launched by a graph: what is within graphs is not recorded one by one",
    );
}
