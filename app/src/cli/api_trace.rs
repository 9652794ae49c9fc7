//! The API trace of a recording, and the arguments that name device memory and events in it.

use super::source::{SourceRecording, number};
use super::{Failure, progress_line};
use trace_core::GpuVa;
use trace_core::api_trace::ApiTrace;
use trace_core::xref::parse_bare_hex;

/// Loads the API calls of a recording.
///
/// # Errors
/// When the recording is not an API trace.
pub fn load(opened: &SourceRecording) -> Result<ApiTrace, Failure> {
    let found = progress_line::run_with_progress("following buffers through the calls", |progress, _| {
        ApiTrace::from_recording(&opened.recording, progress).map_err(|e| Failure::file(&opened.file, e))
    })?;
    found.ok_or_else(|| {
        Failure::file(
            &opened.file,
            "not an API trace (`kinescope record --with cuda` records one)",
        )
    })
}

/// Returns the first address and size in bytes of a named range: device memory, or the part of it that a copy reads or
/// writes.
#[must_use]
pub fn find_named(opened: &SourceRecording, api_trace: &ApiTrace, name: &str) -> Option<(GpuVa, u64)> {
    let memory = api_trace.buffers().find_memory(name);
    memory.or_else(|| opened.buffer(name).ok().map(|b| (b.va, b.bytes)))
}

/// Parses an address argument: a number, a buffer's name, `NAME+OFFSET`.
///
/// # Errors
/// When the text is none of these.
pub fn parse_address(opened: &SourceRecording, api_trace: &ApiTrace, text: &str) -> Result<GpuVa, Failure> {
    let offset = || {
        let (name, by) = text.rsplit_once('+')?;
        let (at, bytes) = find_named(opened, api_trace, name.trim())?;
        Some((name.trim(), at, bytes, number(by.trim()).ok()?))
    };
    if let Some((at, _)) = find_named(opened, api_trace, text.trim()) {
        return Ok(at);
    }
    if let Some((name, at, bytes, by)) = offset() {
        if by >= bytes {
            return Err(Failure::file(
                &opened.file,
                format!("{by:#x} is beyond the end of '{name}', which has {bytes} bytes"),
            ));
        }
        return Ok(at.saturating_add(by));
    }
    let Some(at) = number(text).ok().or_else(|| parse_bare_hex(text)) else {
        return Err(Failure::file(
            &opened.file,
            format!("'{text}' is neither an address nor a buffer (`kinescope memory` without one lists the buffers)"),
        ));
    };
    let end = opened.recording.events.len() as u64;
    let known = api_trace.buffers().locate_nearest(GpuVa::new(at), end).is_some()
        || api_trace
            .find_last_write(&opened.recording, GpuVa::new(at), 0..end)
            .is_some();
    if !known {
        return Err(Failure::file(
            &opened.file,
            format!("{at:#x} is in no buffer (`kinescope memory` without an address lists the buffers)"),
        ));
    }
    Ok(GpuVa::new(at))
}

/// Returns the event before which memory is shown: the given one, else the last at which the buffer was allocated, else
/// the end.
///
/// # Errors
/// When there is no such event.
pub fn find_event(
    opened: &SourceRecording,
    api_trace: &ApiTrace,
    text: &str,
    given: Option<u64>,
) -> Result<u64, Failure> {
    let at = || parse_address(opened, api_trace, text).ok();
    let end = opened.recording.events.len() as u64;
    let place = || api_trace.buffers().locate_nearest(at()?, end);
    let given_back = || api_trace.buffers().get(place()?.buffer)?.to;
    let event = match given {
        None => given_back().map_or_else(|| opened.check_event(None), Ok)?,
        given => opened.check_event(given)?,
    };
    Ok(event.min(opened.recording.events.len() as u64))
}
