//! Calls on streams and events: the order of completed work.

use super::Call;
use crate::contexts::current_context;
use crate::driver::is_ok;
use crate::recorder::Recorder;
use crate::trace::{Form, lock};
use cuda_driver::{CuContext, CuEvent, CuGraph, CuResult, CuStream, STREAM_NON_BLOCKING};
use cuda_session::{CallStart, EntryPayload};
use libc::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use trace_core::recording::{CallEvent, OrderKind, OrderRow};

fn record_order(
    r: &Recorder,
    begun: CallStart,
    kind: OrderKind,
    stream: u32,
    event: u32,
    flags: u32,
    result: CuResult,
) {
    let row = OrderRow {
        kind: kind as u32,
        stream,
        event,
        flags,
        result,
        took: begun.elapsed_ns(),
    };
    r.trace.record(begun, CallEvent::Order(row), EntryPayload::Nothing);
}

/// Handles `cuStreamCreate`, also with a priority.
pub(crate) fn stream_create(
    r: &Recorder,
    call: Call<'_>,
    stream: *mut CuStream,
    flags: u32,
    priority: i32,
) -> CuResult {
    r.trace.record_device();
    let begun = r.trace.session.start_call();
    let result = call();
    let mut number = None;
    if is_ok(result) && !stream.is_null() {
        // SAFETY: the driver has written the answer.
        let handle = unsafe { *stream } as usize;
        number = Some(
            r.trace
                .session
                .tables()
                .new_stream(handle, flags, priority, |n| format!("stream {n}")),
        );
        lock(&r.streams.progress).add_stream(handle as u64, flags & STREAM_NON_BLOCKING != 0);
        r.trace.invalidate_caches();
    }
    r.trace
        .record_call(begun, "cuStreamCreate", number, &[u64::from(flags)], result);
    result
}

/// Handles `cuStreamDestroy`: the stream's work is done before it is destroyed.
pub(crate) fn stream_destroy(r: &Recorder, form: Form, call: Call<'_>, stream: CuStream) -> CuResult {
    let begun = r.trace.session.start_call();
    let number = r.trace.stream_number(stream, form);
    let result = call();
    r.trace.record_call(begun, "cuStreamDestroy", Some(number), &[], result);
    result
}

/// Handles `cuStreamSynchronize`.
pub(crate) fn stream_wait(r: &Recorder, form: Form, call: Call<'_>, stream: CuStream) -> CuResult {
    let begun = r.trace.session.start_call();
    let number = r.trace.stream_number(stream, form);
    let result = call();
    if is_ok(result) {
        r.streams.stream_done(&r.trace, form.stream_key(stream));
    }
    record_order(r, begun, OrderKind::StreamDone, number, OrderRow::NONE, 0, result);
    result
}

/// Handles `cuStreamQuery`, which is recorded only if all work is done.
pub(crate) fn stream_query(r: &Recorder, form: Form, call: Call<'_>, stream: CuStream) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    if is_ok(result) {
        let number = r.trace.stream_number(stream, form);
        r.streams.stream_done(&r.trace, form.stream_key(stream));
        record_order(r, begun, OrderKind::StreamDone, number, OrderRow::NONE, 0, result);
    }
    result
}

/// Handles `cuStreamWaitEvent`.
pub(crate) fn stream_waits(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    stream: CuStream,
    event: CuEvent,
    _flags: u32,
) -> CuResult {
    let begun = r.trace.session.start_call();
    let number = r.trace.stream_number(stream, form);
    let result = call();
    let captured = r.trace.capture_flag(stream, form);
    if is_ok(result) && captured == 0 {
        lock(&r.streams.progress).wait(form.stream_key(stream), event as usize);
    }
    let event = r.trace.session.tables().event(event as usize);
    record_order(r, begun, OrderKind::StreamWaits, number, event, captured, result);
    result
}

/// Handles `cuEventCreate`.
pub(crate) fn event_create(r: &Recorder, _form: Form, call: Call<'_>, event: *mut CuEvent, _flags: u32) -> CuResult {
    let result = call();
    if is_ok(result) && !event.is_null() {
        // SAFETY: the driver has written the answer.
        let handle = unsafe { *event } as usize;
        r.trace.session.tables().new_event(handle);
        lock(&r.streams.progress).forget_event(handle);
    }
    result
}

/// Handles `cuEventDestroy`.
pub(crate) fn event_destroy(r: &Recorder, call: Call<'_>, event: CuEvent) -> CuResult {
    // This must precede the destruction: another thread's new event can reuse the handle.
    lock(&r.streams.progress).forget_event(event as usize);
    call()
}

/// Handles `cuEventRecord`.
pub(crate) fn event_record(r: &Recorder, form: Form, call: Call<'_>, event: CuEvent, stream: CuStream) -> CuResult {
    let begun = r.trace.session.start_call();
    let captured = r.trace.capture_flag(stream, form);
    let number = r.trace.stream_number(stream, form);
    let result = call();
    if is_ok(result) && captured == 0 {
        lock(&r.streams.progress).record(event as usize, form.stream_key(stream));
    }
    let event = r.trace.session.tables().event(event as usize);
    record_order(r, begun, OrderKind::Record, number, event, captured, result);
    result
}

/// Handles `cuEventRecordWithFlags`.
pub(crate) fn event_record_with(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    event: CuEvent,
    stream: CuStream,
    _flags: u32,
) -> CuResult {
    event_record(r, form, call, event, stream)
}

/// Handles `cuEventSynchronize`.
pub(crate) fn event_wait(r: &Recorder, _form: Form, call: Call<'_>, event: CuEvent) -> CuResult {
    let begun = r.trace.session.start_call();
    let result = call();
    if is_ok(result) {
        r.streams.event_done(&r.trace, event as usize);
    }
    let event = r.trace.session.tables().event(event as usize);
    record_order(r, begun, OrderKind::EventDone, OrderRow::NONE, event, 0, result);
    result
}

/// Handles `cuEventQuery`, which is recorded only if the event is complete.
pub(crate) fn event_query(r: &Recorder, form: Form, call: Call<'_>, event: CuEvent) -> CuResult {
    let mut result = None;
    let answered = call();
    if is_ok(answered) {
        result = Some(event_wait(r, form, &mut || answered, event));
    }
    result.unwrap_or(answered)
}

/// Handles `cuCtxSynchronize`: `context` is null for the current context.
pub(crate) fn context_wait(r: &Recorder, _form: Form, call: Call<'_>, context: CuContext) -> CuResult {
    let begun = r.trace.session.start_call();
    let host = lock(&r.streams.progress).host_positions(if context.is_null() {
        current_context()
    } else {
        context as usize
    });
    let result = call();
    r.streams.all_done(&r.trace, Some(result));
    if is_ok(result) {
        lock(&r.streams.progress).mark_reached(&host);
    }
    record_order(
        r,
        begun,
        OrderKind::ContextDone,
        OrderRow::NONE,
        OrderRow::NONE,
        0,
        result,
    );
    result
}

/// Handles `cuLaunchHostFunc` and `cuStreamAddCallback`.
pub(crate) fn host_function(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    stream: CuStream,
    _function: *mut c_void,
    _data: *mut c_void,
) -> CuResult {
    let begun = r.trace.session.start_call();
    let captured = r.trace.capture_flag(stream, form);
    let number = r.trace.stream_number(stream, form);
    let result = call();
    if is_ok(result) && captured == 0 {
        lock(&r.streams.progress).add_host_work(form.stream_key(stream), current_context());
    }
    static NOTED: AtomicBool = AtomicBool::new(false);
    if is_ok(result) && !NOTED.swap(true, Ordering::Relaxed) {
        r.trace.note_not_recorded(
            "host functions",
            "streams call host functions, which a replay leaves out: what they write is recorded if a copy moves it \
             to the device, but not if kernels access it directly",
        );
    }
    record_order(
        r,
        begun,
        OrderKind::HostFunction,
        number,
        OrderRow::NONE,
        captured,
        result,
    );
    result
}

/// Handles `cuStreamBeginCapture`, also into an existing graph.
pub(crate) fn capture_begin(r: &Recorder, form: Form, call: Call<'_>, stream: CuStream, mode: u32) -> CuResult {
    let begun = r.trace.session.start_call();
    let number = r.trace.stream_number(stream, form);
    // Counted before the call: another thread's call on this stream can already go into the graph.
    r.trace.captures.fetch_add(1, Ordering::Relaxed);
    let result = call();
    if !is_ok(result) {
        r.trace.captures.fetch_sub(1, Ordering::Relaxed);
    }
    r.trace
        .record_call(begun, "cuStreamBeginCapture", Some(number), &[u64::from(mode)], result);
    result
}

/// Handles `cuStreamEndCapture`.
pub(crate) fn capture_end(
    r: &Recorder,
    form: Form,
    call: Call<'_>,
    stream: CuStream,
    _graph: *mut CuGraph,
) -> CuResult {
    let begun = r.trace.session.start_call();
    let number = r.trace.stream_number(stream, form);
    let was = r.trace.capture_flag(stream, form) != 0;
    let result = call();
    // The call can fail and still end the capture, or fail and leave it active.
    if is_ok(result) || (was && r.trace.capture_flag(stream, form) == 0) {
        let _ = r
            .trace
            .captures
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_sub(1)));
    }
    r.trace
        .record_call(begun, "cuStreamEndCapture", Some(number), &[], result);
    result
}
