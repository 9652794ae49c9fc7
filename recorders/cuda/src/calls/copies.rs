//! Copies and fills: content from the host is read when the call returns, content for the host when it has arrived.

use super::{Call, unsupported};
use crate::content::content_at;
use crate::driver::is_ok;
use crate::memory::{is_device, is_pinned};
use crate::process_memory::HostAddr;
use crate::recorder::Recorder;
use crate::shared_memory;
use crate::streams::rows_end;
use crate::trace::{Form, lock};
use cuda_driver::{
    Copy2d, Copy3d, CuDevicePtr, CuResult, CuStream, MEMORY_ARRAY, MEMORY_DEVICE, MEMORY_HOST, MEMORY_UNIFIED,
};
use cuda_session::EntryPayload;
use libc::c_void;
use trace_core::GpuVa;
use trace_core::recording::{CALL_ASYNC, CallEvent, CopyKind, CopyRow, FillRow};

/// Maximum number of slices of a copy that are recorded one by one: the driver refuses a program that requests more.
const MAX_SLICES: usize = 1 << 20;
/// Maximum number of copies of a batch.
const MAX_BATCH_COPIES: usize = 1 << 20;

/// A stream, if a call names one.
#[derive(Clone, Copy)]
pub(crate) struct CopyStream {
    stream: CuStream,
    form: Form,
    waits: bool,
}

impl CopyStream {
    /// Returns the default stream; the call waits until the copy is done.
    pub fn synchronous(form: Form) -> Self {
        Self {
            stream: std::ptr::null_mut(),
            form,
            waits: true,
        }
    }

    /// Returns a stream; the call does not wait.
    pub fn asynchronous(stream: CuStream, form: Form) -> Self {
        Self {
            stream,
            form,
            waits: false,
        }
    }
}

/// Records a copy of rows.
pub(crate) fn copy(r: &Recorder, at: CopyStream, call: Call<'_>, row: CopyRow) -> CuResult {
    let begun = r.trace.session.start_call();
    let captured = r.trace.capture_flag(at.stream, at.form);
    let mut row = CopyRow {
        stream: r.trace.stream_number(at.stream, at.form),
        flags: captured | if at.waits { 0 } else { CALL_ASYNC },
        ..row
    };
    // Host writes to memory that is shared with the device are not calls: they are recorded before the copy reads them.
    if captured == 0 && r.trace.is_inside() {
        let read = shared_memory::find_copy_source(&r.memory, &row);
        if !read.is_empty() {
            shared_memory::record_host_writes(&r.trace, &r.shared, &read, at.stream, at.form);
        }
    }
    let result = call();
    row.result = result;
    row.took = begun.elapsed_ns();
    let key = at.form.stream_key(at.stream);
    let kind = CopyKind::from_raw(row.kind);
    if !is_ok(result) || captured != 0 || row.bytes == 0 || row.rows == 0 || !r.trace.is_inside() {
        r.trace.record(begun, CallEvent::Copy(row), EntryPayload::Nothing);
        return result;
    }
    let work = lock(&r.streams.progress).add_work(key);
    // Copies on the device return before they are done; copies to memory that the driver does not know are done on
    // return.
    let to = HostAddr::new(row.to);
    let done = match kind {
        Some(CopyKind::HostToDevice) => at.waits,
        Some(CopyKind::DeviceToHost) => at.waits || !is_pinned(&r.memory, to, rows_end(to, row.to_pitch, &row)),
        _ => false,
    };
    match kind {
        Some(CopyKind::HostToDevice) => {
            let with = if at.waits
                || r.streams
                    .is_source_ready(&r.trace, &r.memory, (at.stream, at.form), &row)
            {
                content_at(&r.trace, HostAddr::new(row.from), row.from_pitch, &row)
            } else {
                EntryPayload::Nothing
            };
            r.trace.record(begun, CallEvent::Copy(row), with);
        }
        Some(CopyKind::DeviceToHost) if done => {
            let with = content_at(&r.trace, to, row.to_pitch, &row);
            r.trace.record(begun, CallEvent::Copy(row), with);
        }
        Some(CopyKind::DeviceToHost) => r.streams.add_readback(&r.trace, begun, key, work, row),
        _ => r.trace.record(begun, CallEvent::Copy(row), EntryPayload::Nothing),
    }
    r.annotations.follow_copy(&r.trace, &row);
    if done {
        r.streams.stream_done(&r.trace, key);
    }
    result
}

/// Returns a copy of contiguous bytes. Each address is one of the host or of the device, as `kind` says.
fn linear(to: u64, from: u64, bytes: usize, kind: CopyKind) -> CopyRow {
    CopyRow {
        to,
        from,
        bytes: bytes as u64,
        rows: 1,
        to_pitch: 0,
        from_pitch: 0,
        kind: kind as u32,
        ..Default::default()
    }
}

/// Handles a copy from the host to the device.
pub(crate) fn to_device(
    r: &Recorder,
    at: CopyStream,
    call: Call<'_>,
    to: CuDevicePtr,
    from: *const c_void,
    bytes: usize,
) -> CuResult {
    copy(r, at, call, linear(to, from as u64, bytes, CopyKind::HostToDevice))
}

/// Handles a copy from the device to the host.
pub(crate) fn to_host(
    r: &Recorder,
    at: CopyStream,
    call: Call<'_>,
    to: *mut c_void,
    from: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    copy(r, at, call, linear(to as u64, from, bytes, CopyKind::DeviceToHost))
}

/// Handles a copy from the device to the device.
pub(crate) fn on_device(
    r: &Recorder,
    at: CopyStream,
    call: Call<'_>,
    to: CuDevicePtr,
    from: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    copy(r, at, call, linear(to, from, bytes, CopyKind::DeviceToDevice))
}

/// Handles a copy from one device to another.
pub(crate) fn between_peers(
    r: &Recorder,
    at: CopyStream,
    call: Call<'_>,
    to: CuDevicePtr,
    from: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    let (what, why) = unsupported::PEERS;
    r.trace.note_not_recorded(what, why);
    on_device(r, at, call, to, from, bytes)
}

/// Handles a copy between addresses whose kind the driver finds out.
pub(crate) fn unified(
    r: &Recorder,
    at: CopyStream,
    call: Call<'_>,
    to: CuDevicePtr,
    from: CuDevicePtr,
    bytes: usize,
) -> CuResult {
    copy(
        r,
        at,
        call,
        linear(
            to,
            from,
            bytes,
            copy_kind(
                is_device(&r.memory, GpuVa::new(to)),
                is_device(&r.memory, GpuVa::new(from)),
            ),
        ),
    )
}

fn copy_kind(to_device: bool, from_device: bool) -> CopyKind {
    match (to_device, from_device) {
        (true, true) => CopyKind::DeviceToDevice,
        (true, false) => CopyKind::HostToDevice,
        (false, true) => CopyKind::DeviceToHost,
        (false, false) => CopyKind::Other,
    }
}

/// Returns one side of a copy of rows: whether it is the device's, its first address and pitch. Returns `None` for an
/// array.
fn side(r: &Recorder, kind: u32, host: u64, device: u64, pitch: usize, x: usize, y: usize) -> Option<(bool, u64, u64)> {
    let base = match kind {
        MEMORY_HOST => (false, host),
        MEMORY_DEVICE => (true, device),
        MEMORY_UNIFIED => (is_device(&r.memory, GpuVa::new(device)), device),
        _ => return None,
    };
    let at = base.1.wrapping_add((y.wrapping_mul(pitch)).wrapping_add(x) as u64);
    Some((base.0, at, pitch as u64))
}

/// Handles `cuMemcpy2D`.
///
/// # Safety
/// The structure is the program's, and the driver reads it as well.
pub(crate) unsafe fn rows(r: &Recorder, at: CopyStream, call: Call<'_>, copy2d: *const Copy2d) -> CuResult {
    if copy2d.is_null() {
        return call();
    }
    // SAFETY: the pointer is not null, and the driver is about to read it.
    let c = unsafe { *copy2d };
    let from = side(
        r,
        c.source_kind,
        c.source_host as u64,
        c.source_device,
        c.source_pitch,
        c.source_x,
        c.source_y,
    );
    let to = side(r, c.to_kind, c.to_host as u64, c.to_device, c.to_pitch, c.to_x, c.to_y);
    copy(r, at, call, build_row(r, to, from, c.width, c.height))
}

fn build_row(
    r: &Recorder,
    to: Option<(bool, u64, u64)>,
    from: Option<(bool, u64, u64)>,
    width: usize,
    rows: usize,
) -> CopyRow {
    let (Some(to), Some(from)) = (to, from) else {
        let (what, why) = unsupported::ARRAYS;
        r.trace.note_not_recorded(what, why);
        return CopyRow {
            bytes: width as u64,
            rows: rows as u64,
            kind: CopyKind::Other as u32,
            ..Default::default()
        };
    };
    CopyRow {
        to: to.1,
        from: from.1,
        bytes: width as u64,
        rows: rows as u64,
        to_pitch: to.2,
        from_pitch: from.2,
        kind: copy_kind(to.0, from.0) as u32,
        ..Default::default()
    }
}

/// Handles `cuMemcpy3D`: contiguous slices are recorded as one copy, other slices one by one.
///
/// # Safety
/// The same as [`rows`].
pub(crate) unsafe fn slices(r: &Recorder, at: CopyStream, call: Call<'_>, copy3d: *const Copy3d) -> CuResult {
    if copy3d.is_null() {
        return call();
    }
    // SAFETY: the pointer is not null, and the driver is about to read it.
    let c = unsafe { *copy3d };
    let rows = flatten(r, &c);
    match rows.as_slice() {
        [one] => copy(r, at, call, *one),
        many => {
            let mut result = None;
            for row in many {
                // The driver is called once; the other slices get the same result.
                let answered = copy(r, at, &mut || *result.get_or_insert_with(&mut *call), *row);
                if !is_ok(answered) {
                    return answered;
                }
            }
            result.unwrap_or_else(call)
        }
    }
}

/// Returns the row copies that make up a copy of slices.
pub(crate) fn flatten(r: &Recorder, c: &Copy3d) -> Vec<CopyRow> {
    if c.source_kind == MEMORY_ARRAY || c.to_kind == MEMORY_ARRAY || c.depth == 0 {
        return vec![build_row(r, None, None, c.width, c.height.saturating_mul(c.depth))];
    }
    let one = c.depth == 1;
    let joined = !one && c.source_height == c.height && c.to_height == c.height;
    let (slices, height) = if joined {
        (1, c.height.saturating_mul(c.depth))
    } else {
        (c.depth, c.height)
    };
    if slices > MAX_SLICES {
        r.trace.note_not_recorded(
            "copies",
            "a copy has more slices than the recorder stores one by one: its other slices are not in the recording",
        );
    }
    (0..slices.min(MAX_SLICES))
        .map(|z| {
            let y = |first: usize, own: usize, height: usize| {
                first.wrapping_add((own.wrapping_add(z)).wrapping_mul(height))
            };
            let from = side(
                r,
                c.source_kind,
                c.source_host as u64,
                c.source_device,
                c.source_pitch,
                c.source_x,
                y(c.source_y, c.source_z, c.source_height),
            );
            let to = side(
                r,
                c.to_kind,
                c.to_host as u64,
                c.to_device,
                c.to_pitch,
                c.to_x,
                y(c.to_y, c.to_z, c.to_height),
            );
            build_row(r, to, from, c.width, height)
        })
        .collect()
}

/// Handles `cuMemcpyBatchAsync`: each copy of a batch is recorded by itself, in the listed order, which is one of the
/// orders that the device can choose.
///
/// # Safety
/// The lists have as many destinations, sources and sizes as the count says, as the driver requires.
pub(crate) unsafe fn batch(
    r: &Recorder,
    at: CopyStream,
    call: Call<'_>,
    to: *const CuDevicePtr,
    from: *const CuDevicePtr,
    bytes: *const usize,
    count: usize,
) -> CuResult {
    if to.is_null() || from.is_null() || bytes.is_null() {
        return call();
    }
    if count > MAX_BATCH_COPIES {
        return unsupported::forward(r, call, unsupported::BATCHES);
    }
    let mut result = None;
    for n in 0..count {
        // SAFETY: guaranteed by the caller.
        let (to, from, bytes) = unsafe { (*to.add(n), *from.add(n), *bytes.add(n)) };
        // The driver is called once; the other copies get the same result.
        let mut once = || *result.get_or_insert_with(&mut *call);
        let answered = unified(r, at, &mut once, to, from, bytes);
        if !is_ok(answered) {
            return answered;
        }
    }
    result.unwrap_or_else(call)
}

/// Records a fill of memory.
pub(crate) fn fill(r: &Recorder, at: CopyStream, call: Call<'_>, row: FillRow) -> CuResult {
    let begun = r.trace.session.start_call();
    let captured = r.trace.capture_flag(at.stream, at.form);
    let stream = r.trace.stream_number(at.stream, at.form);
    let result = call();
    if is_ok(result) && captured == 0 {
        lock(&r.streams.progress).add_work(at.form.stream_key(at.stream));
    }
    let row = FillRow {
        stream,
        flags: captured | if at.waits { 0 } else { CALL_ASYNC },
        result,
        took: begun.elapsed_ns(),
        ..row
    };
    r.trace.record(begun, CallEvent::Fill(row), EntryPayload::Nothing);
    result
}

/// Returns a fill of consecutive elements.
pub(crate) fn elements(to: CuDevicePtr, value: u32, element: u32, count: usize) -> FillRow {
    FillRow {
        to: GpuVa::new(to),
        elements: count as u64,
        rows: 1,
        pitch: 0,
        value,
        element,
        ..Default::default()
    }
}

/// Returns a fill of rows.
pub(crate) fn element_rows(
    to: CuDevicePtr,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
) -> FillRow {
    FillRow {
        to: GpuVa::new(to),
        elements: width as u64,
        rows: height as u64,
        pitch: pitch as u64,
        value,
        element,
        ..Default::default()
    }
}
