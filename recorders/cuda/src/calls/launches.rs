//! Calls that launch functions.

use super::launch_arguments::{LaunchShape, note_missing_arguments, read_arguments};
use super::{Call, selected_launches};
use crate::code::FunctionInfo;
use crate::driver::is_ok;
use crate::recorder::Recorder;
use crate::trace::{Form, lock};
use crate::{pinned_access, shared_memory};
use cuda_driver::{
    CuFunction, CuResult, CuStream, LAUNCH_CLUSTER, LAUNCH_COMPLETION_EVENT, LAUNCH_COOPERATIVE, LAUNCH_PROGRAMMATIC,
    LAUNCH_PROGRAMMATIC_EVENT, LAUNCH_UPDATABLE, LaunchAttribute, LaunchConfig,
};
use cuda_session::EntryPayload;
use libc::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use trace_core::recording::{CallEvent, LaunchRow};

/// Maximum number of a launch's attributes that are read.
const MAX_ATTRIBUTES: u32 = 64;

/// Handles a launch.
///
/// # Safety
/// The pointers are those of the program's call.
#[allow(clippy::too_many_arguments, reason = "those of the driver's function")]
pub(crate) unsafe fn launch(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    function: CuFunction,
    shape: LaunchShape,
    stream: CuStream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CuResult {
    if let Some(kernels) = &r.kernels {
        let known = r.find_function(function);
        // SAFETY: guaranteed by the caller.
        return unsafe { selected_launches::launch(r, kernels, &known, form, call, shape, stream, parameters, extra) };
    }
    let begun = r.trace.session.start_call();
    let captured = r.trace.capture_flag(stream, form);
    let known = r.find_function(function);
    if known.collective {
        note_collective(r, &known);
    }
    // SAFETY: guaranteed by the caller; the driver reads the same.
    let buffer = unsafe { read_arguments(&known, parameters, extra) };
    // The memory that a captured launch accesses is not checked when its graph is launched.
    let shared = if captured == 0 {
        shared_memory::find_reached(&r.memory, buffer.as_deref())
    } else {
        pinned_access::check_arguments(&r.trace, &r.memory, buffer.as_deref());
        Vec::new()
    };
    let is_seen = !shared.is_empty() && shared_memory::record_host_writes(&r.trace, &r.shared, &shared, stream, form);
    let result = call();
    if is_ok(result) && captured == 0 {
        lock(&r.streams.progress).add_work(form.stream_key(stream));
    }
    let row = LaunchRow {
        function: known.number,
        stream: r.trace.stream_number(stream, form),
        grid: shape.grid,
        block: shape.block,
        cluster: shape.cluster,
        shared: shape.shared,
        flags: shape.flags | captured,
        result,
        took: begun.elapsed_ns(),
        ..Default::default()
    };
    if buffer.is_none() {
        note_missing_arguments(&r.trace);
    }
    r.trace.record(
        begun,
        CallEvent::Launch(row),
        buffer.map_or(EntryPayload::Nothing, EntryPayload::Arguments),
    );
    if is_seen && is_ok(result) {
        shared_memory::record_launch_writes(&r.trace, &r.shared, &shared, stream, form);
    }
    if is_ok(result) && captured == 0 {
        r.count_launches(1);
    }
    result
}

/// Notes once that a launch waits for other devices or processes.
fn note_collective(r: &Recorder, known: &FunctionInfo) {
    static NOTED: AtomicBool = AtomicBool::new(false);
    if NOTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let tables = r.trace.session.tables();
    let function = tables.metadata.functions.get(known.number as usize);
    let name = function.map(|f| f.display_name().to_owned()).unwrap_or_default();
    drop(tables);
    r.trace.note_not_recorded(
        "another device",
        format!(
            "{name} exchanges memory with other devices or processes: a replay does not have them, and waits for \
             them until its time limit"
        ),
    );
}

/// Notes once that a launch has an attribute that a replay does not set.
fn note_unsupported_attribute(r: &Recorder, attribute: u32) {
    static NOTED: AtomicU32 = AtomicU32::new(0);
    let why = match attribute {
        LAUNCH_PROGRAMMATIC => {
            "launches may begin before the previous launch in their stream has ended: in a replay they wait for its end"
        }
        LAUNCH_PROGRAMMATIC_EVENT => {
            "launches record events when their blocks trigger them: the recording does not contain the work that \
             waits for these events"
        }
        LAUNCH_COMPLETION_EVENT => {
            "launches record events when all of their blocks have begun: the recording does not contain the work \
             that waits for these events"
        }
        LAUNCH_UPDATABLE => "kernels change nodes of graphs: the recording does not contain the changed nodes",
        // Hints for caches, schedulers and memory, which do not affect results.
        0..=16 => return,
        _ => "launches have attributes that the recorder does not know; a replay does not set them",
    };
    let bit = 1u32 << attribute.min(31);
    if NOTED.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        r.trace
            .note_not_recorded("launch attributes", format!("attribute {attribute}: {why}"));
    }
}

/// Handles `cuLaunchKernelEx`.
///
/// # Safety
/// The same as [`launch`].
pub(crate) unsafe fn launch_ex(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    config: *const LaunchConfig,
    function: CuFunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CuResult {
    if config.is_null() {
        return call();
    }
    // SAFETY: the pointer is not null, and the driver reads it as well.
    let c = unsafe { *config };
    let mut shape = LaunchShape {
        grid: c.grid,
        block: c.block,
        shared: c.shared,
        ..Default::default()
    };
    if !c.attributes.is_null() {
        for n in 0..c.attribute_count.min(MAX_ATTRIBUTES) as usize {
            // SAFETY: there are as many attributes as the structure says.
            let a: LaunchAttribute = unsafe { *c.attributes.add(n) };
            let [low, high, ..] = a.value;
            match a.id {
                LAUNCH_COOPERATIVE if low as u32 != 0 => shape.flags |= LaunchRow::COOPERATIVE,
                LAUNCH_COOPERATIVE => {}
                LAUNCH_CLUSTER => shape.cluster = [low as u32, (low >> 32) as u32, high as u32],
                LAUNCH_PROGRAMMATIC if low as u32 == 0 => {}
                other => note_unsupported_attribute(r, other),
            }
        }
    }
    // SAFETY: guaranteed by the caller.
    unsafe { launch(r, form, call, function, shape, c.stream, parameters, extra) }
}
