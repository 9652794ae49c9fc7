//! Streams and events: which ones calls can use without an answer, and captures.

use crate::forms::{handle_number, stream_number};
use crate::forwarded;
use crate::pointers::{get, put};
use crate::request::{CallMode, Request};
use crate::{CallResult, connection, graphs, stream_state, thread_state};
use cuda_driver::{CuEvent, CuGraph, CuStream, STREAM_NON_BLOCKING};
use remote_calls::{CallId, HandleKind};

/// Flag of `cuStreamCreate`, and the largest set of flags.
const MAX_STREAM_FLAGS: u32 = STREAM_NON_BLOCKING;
/// Flags of `cuEventCreate` that need no further checks: blocking waits, no timing.
const MAX_EVENT_FLAGS: u32 = 3;

/// Returns how an object with these flags is created: without an answer, if the flags are sure to be valid.
const fn creation_mode(flags: u32, max_flags: u32) -> CallMode {
    CallMode {
        is_per_thread: false,
        needs_answer: flags > max_flags,
    }
}

/// Creates a stream.
pub fn create(to: *mut CuStream, flags: u32, create: impl FnOnce(CallMode, *mut CuStream) -> CallResult) -> CallResult {
    create(creation_mode(flags, MAX_STREAM_FLAGS), to)
}

/// `cuEventCreate`.
pub fn create_event(to: *mut CuEvent, flags: u32) -> CallResult {
    forwarded::cuEventCreate(creation_mode(flags, MAX_EVENT_FLAGS), to, flags)
}

/// `cuStreamDestroy`.
pub fn destroy(stream: CuStream) -> CallResult {
    let number = handle_number(HandleKind::Stream, stream)?;
    forwarded::cuStreamDestroy_v2(false, stream)?;
    stream_state::end_capture(number);
    graphs::forget_lists(number);
    Ok(())
}

/// `cuStreamBeginCapture`.
pub fn begin_capture(is_per_thread: bool, stream: CuStream, mode: u32) -> CallResult {
    let number = stream_number(is_per_thread, stream)?;
    let mut request = Request::new(CallId::begin_capture, is_per_thread)?;
    request.encoder.write(number);
    request.encoder.write(mode);
    request.ask()?;
    stream_state::note_capture(number);
    Ok(())
}

/// `cuStreamEndCapture`: a capture that fails ends too.
pub fn end_capture(is_per_thread: bool, stream: CuStream, graph: *mut CuGraph) -> CallResult {
    let result = forwarded::cuStreamEndCapture(is_per_thread, stream, graph);
    let number = stream_number(is_per_thread, stream)?;
    stream_state::end_capture(number);
    graphs::forget_lists(number);
    result
}

/// `cuThreadExchangeStreamCaptureMode`.
pub fn exchange_capture_mode(mode: *mut u32) -> CallResult {
    connection::current()?;
    // NVIDIA's driver 580 takes any number.
    let new = get(mode)?;
    put(mode, thread_state::exchange_capture_mode(new))
}
