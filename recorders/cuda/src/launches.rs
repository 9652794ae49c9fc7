//! Launches: function, arguments and number of threads.

use crate::code::{self, FunctionInfo};
use crate::kernels;
use crate::recorder::{Form, Recorder, is_ok, lock};
use crate::shared_memory;
use cuda_driver::{
    CuFunction, CuResult, CuStream, EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE, LAUNCH_CLUSTER, LAUNCH_COMPLETION_EVENT,
    LAUNCH_COOPERATIVE, LAUNCH_PROGRAMMATIC, LAUNCH_PROGRAMMATIC_EVENT, LAUNCH_UPDATABLE, LaunchAttribute,
    LaunchConfig,
};
use cuda_session::EntryPayload;
use libc::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use trace_core::recording::{CallEvent, LaunchRow};

type Call<'a> = &'a mut dyn FnMut() -> CuResult;

/// Maximum number of a launch's attributes that are read.
const MAX_ATTRIBUTES: u32 = 64;

/// Properties of a launch other than its function and its arguments.
#[derive(Clone, Copy, Default)]
pub(crate) struct LaunchShape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared: u32,
    pub flags: u32,
}

/// [`LaunchRow::COOPERATIVE`], for the table of hooks.
pub(crate) const COOPERATIVE: u32 = LaunchRow::COOPERATIVE;

impl LaunchShape {
    pub fn new(grid: [u32; 3], block: [u32; 3], shared: u32, flags: u32) -> Self {
        Self {
            grid,
            block,
            cluster: [0; 3],
            shared,
            flags,
        }
    }
}

/// Returns the arguments of a launch as one buffer in the layout of the function's parameters, or `None` if they are
/// unknown.
///
/// # Safety
/// The pointers are those of a launch: as many parameters as the function has, each of the size that it states.
pub(crate) unsafe fn read_arguments(
    known: &FunctionInfo,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Option<Vec<u8>> {
    let layout = known.layout.as_deref().map(Vec::as_slice);
    if !parameters.is_null() {
        let layout = layout?;
        let mut buffer = vec![0u8; known.bytes as usize];
        for (n, [at, bytes]) in layout.iter().enumerate() {
            // SAFETY: the caller guarantees as many pointers as parameters.
            let from = unsafe { *parameters.add(n) }.cast::<u8>();
            let to = buffer.get_mut(*at as usize..)?.get_mut(..*bytes as usize)?;
            if from.is_null() {
                return None;
            }
            // SAFETY: the caller guarantees the parameter's size, and the destination has the same size.
            unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        }
        return Some(buffer);
    }
    if extra.is_null() {
        return layout.is_none_or(<[_]>::is_empty).then(Vec::new);
    }
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0usize);
    let mut n = 0;
    loop {
        // SAFETY: the list ends in a zero, which ends the loop.
        let key = unsafe { *extra.add(n) } as usize;
        match key {
            EXTRA_END => break,
            // SAFETY: a value follows each key.
            EXTRA_BUFFER => buffer = unsafe { *extra.add(n + 1) }.cast(),
            // SAFETY: the value is the address of the size.
            EXTRA_SIZE => size = unsafe { *(*extra.add(n + 1)).cast::<usize>() },
            _ => return None,
        }
        n += 2;
    }
    if buffer.is_null() || size > 1 << 20 {
        return (size == 0).then(Vec::new);
    }
    // SAFETY: the program states that the buffer has this many bytes, and the driver reads them as well.
    Some(unsafe { std::slice::from_raw_parts(buffer, size) }.to_vec())
}

/// Notes that the arguments of a launch are unknown.
pub(crate) fn note_missing_arguments(r: &Recorder) {
    r.note_not_recorded(
        "arguments",
        "a launch's arguments could not be read: the driver does not report the function's parameters",
    );
}

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
        let known = code::function(r, function);
        // SAFETY: guaranteed by the caller.
        return unsafe { kernels::launch(r, kernels, &known, form, call, shape, stream, parameters, extra) };
    }
    let begun = r.session.start_call();
    let captured = r.capture_flag(stream, form);
    let known = code::function(r, function);
    if known.collective {
        note_collective(r, &known);
    }
    // SAFETY: guaranteed by the caller; the driver reads the same.
    let buffer = unsafe { read_arguments(&known, parameters, extra) };
    // The memory that a captured launch accesses is not checked when its graph is launched.
    let shared = if captured == 0 {
        shared_memory::find_reached(r, buffer.as_deref())
    } else {
        crate::pinned_access::check_arguments(r, buffer.as_deref());
        Vec::new()
    };
    let is_seen = !shared.is_empty() && shared_memory::record_host_writes(r, &shared, stream, form);
    let result = call();
    if is_ok(result) && captured == 0 {
        lock(&r.progress).add_work(Recorder::stream_key(stream, form));
    }
    let row = LaunchRow {
        function: known.number,
        stream: r.stream_number(stream, form),
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
        note_missing_arguments(r);
    }
    r.record(
        begun,
        CallEvent::Launch(row),
        buffer.map_or(EntryPayload::Nothing, EntryPayload::Arguments),
    );
    if is_seen && is_ok(result) {
        shared_memory::record_launch_writes(r, &shared, stream, form);
    }
    if is_ok(result) && captured == 0 {
        r.count_launch();
    }
    result
}

/// Notes once that a launch waits for other devices or processes.
fn note_collective(r: &Recorder, known: &FunctionInfo) {
    static NOTED: AtomicBool = AtomicBool::new(false);
    if NOTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let tables = r.session.tables();
    let function = tables.metadata.functions.get(known.number as usize);
    let name = function.map(|f| f.display_name().to_owned()).unwrap_or_default();
    drop(tables);
    r.note_not_recorded(
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
        r.note_not_recorded("launch attributes", format!("attribute {attribute}: {why}"));
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
