//! Calls of NVIDIA's other libraries: this project's stand-ins for them send them over this library's connection.

use crate::errors::DEVICE_UNAVAILABLE;
use crate::forms::AbiHandle as _;
use crate::pointers::{bytes, get, put, put_bytes};
use crate::request::{CallMode, Request};
use crate::{CallResult, stream_state};
use cuda_driver::INVALID_VALUE;
use remote_calls::library::{LibraryCallFrame, LibraryRequestKind, OTHER_TABLE};
use remote_calls::{CallId, TABLE_DIGEST};

/// Sends the request of a frame with the calling thread's context, and writes its answer to the frame.
///
/// # Errors
/// `OTHER_TABLE` for a library of another version. Otherwise an error of the connection or of the driver, or
/// `DEVICE_UNAVAILABLE` for an answer that is larger than the frame's memory.
pub fn send(frame: *mut LibraryCallFrame) -> CallResult {
    let mut content = get(frame.cast_const())?;
    if content.digest != TABLE_DIGEST {
        return Err(OTHER_TABLE);
    }
    let kind = LibraryRequestKind::from_number(content.request).ok_or(INVALID_VALUE)?;
    let call = match kind {
        LibraryRequestKind::Open => CallId::open_library,
        LibraryRequestKind::Call => CallId::library_call,
        LibraryRequestKind::BlockingCall => CallId::finish_library_call,
        LibraryRequestKind::ReadGenerated => CallId::read_generated,
    };
    // A call on a stream that is captured or gone can fail: then the error must come from this call.
    let is_plain = content.stream.number().is_some_and(stream_state::is_plain);
    let mode = CallMode {
        is_per_thread: false,
        needs_answer: content.waits != 0 || !is_plain,
    };
    let mut request = Request::new(call, mode)?;
    request
        .encoder
        .write_raw(bytes(content.arguments.cast(), content.argument_bytes)?);
    content.result_bytes = 0;
    if let Some(answer) = request.finish()? {
        let results = answer.results();
        if results.len() > content.result_capacity {
            return Err(DEVICE_UNAVAILABLE);
        }
        put_bytes(content.results.cast(), results)?;
        content.result_bytes = results.len();
    }
    put(frame, content)
}
