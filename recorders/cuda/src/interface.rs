//! The C interface for recorded programs: marks, ranges and names of memory. `include/kinescope.h` describes it.

use crate::annotations::{GivenName, Refusal};
use crate::hooks::Inside;
use crate::process;
use crate::process_memory::HostAddr;
use crate::recorder::Recorder;
use crate::trace::lock;
use libc::{c_char, c_int};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use trace_core::GpuVa;
use trace_core::recording::{BufferShape, RANGE_BEGIN_CALL, RANGE_END_CALL, check_buffer_name, check_range_name};

/// Nothing is recorded now, or the recorder failed.
const NOT_RECORDED: c_int = -1;
/// An argument is not valid.
const INVALID: c_int = -2;
/// There are too many names.
const TOO_MANY: c_int = -3;

/// Runs an annotation, and returns its result as a number. A failure of the recorder does not reach the program.
fn annotate(recorder: Option<&'static Recorder>, work: impl FnOnce(&Recorder) -> Result<(), Refusal>) -> c_int {
    let (Some(recorder), Some(_inside)) = (recorder, Inside::enter()) else {
        return NOT_RECORDED;
    };
    match catch_unwind(AssertUnwindSafe(|| work(recorder))) {
        Ok(Ok(())) => 0,
        Ok(Err(Refusal::Invalid)) => INVALID,
        Ok(Err(Refusal::TooMany)) => TOO_MANY,
        Ok(Err(Refusal::NotRecorded)) | Err(_) => NOT_RECORDED,
    }
}

/// Names memory of the device, or memory of the host whose copies get the name.
fn name_buffer(r: &Recorder, at: u64, bytes: u64, given: GivenName) -> Result<(), Refusal> {
    check_buffer_name(&given.name).map_err(|_| Refusal::Invalid)?;
    let last = at.checked_add(bytes).and_then(|end| end.checked_sub(1));
    let last = last.filter(|_| bytes > 0 && at > 0).ok_or(Refusal::Invalid)?;
    if given.form.as_ref().is_some_and(|form| !form.fits(bytes)) {
        return Err(Refusal::Invalid);
    }
    let is_device = {
        let memory = lock(&r.memory);
        memory.is_device(GpuVa::new(at)) && memory.is_device(GpuVa::new(last))
    };
    match is_device {
        true => r.annotations.name_device(&r.trace, GpuVa::new(at), bytes, given),
        false => r.annotations.name_host(&r.trace, HostAddr::new(at), bytes, given),
    }
}

/// Begins a range of this thread.
fn begin_range(r: &Recorder, name: &str) -> Result<(), Refusal> {
    check_range_name(name).map_err(|_| Refusal::Invalid)?;
    match r.trace.annotate(RANGE_BEGIN_CALL, name.as_bytes().to_vec()) {
        true => Ok(()),
        false => Err(Refusal::NotRecorded),
    }
}

/// Ends the last range that this thread began.
fn end_range(r: &Recorder) -> Result<(), Refusal> {
    match r.trace.annotate(RANGE_END_CALL, Vec::new()) {
        true => Ok(()),
        false => Err(Refusal::NotRecorded),
    }
}

/// Marks the recorded part of a program: `begin` and `end`; other texts are notes. Returns 0 if the mark was accepted, and
/// `INVALID` for a null pointer.
///
/// # Safety
/// The text is null or ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kinescope_mark(text: *const c_char) -> c_int {
    if text.is_null() {
        return INVALID;
    }
    annotate(process::recorder(), |r| {
        // SAFETY: guaranteed by the caller.
        r.mark(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
        Ok(())
    })
}

/// Begins a named range of this thread. Returns 0 if it was accepted, and `INVALID` for a null pointer.
///
/// # Safety
/// The name is null or ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kinescope_range_begin(name: *const c_char) -> c_int {
    if name.is_null() {
        return INVALID;
    }
    annotate(process::recorder_or_begin(), |r| {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { CStr::from_ptr(name) }.to_str();
        begin_range(r, name.map_err(|_| Refusal::Invalid)?)
    })
}

/// Ends the last open range of this thread. Returns 0 if it was accepted.
#[unsafe(no_mangle)]
pub extern "C" fn kinescope_range_end() -> c_int {
    annotate(process::recorder(), end_range)
}

/// Names memory of the device or of the host. `form` is null, or the element type and the shape as text. Returns 0 if it
/// was accepted, and `INVALID` for a name that is null.
///
/// # Safety
/// The texts are null or end in a zero. The memory is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kinescope_name_buffer(
    address: u64,
    bytes: u64,
    name: *const c_char,
    form: *const c_char,
) -> c_int {
    if name.is_null() {
        return INVALID;
    }
    annotate(process::recorder_or_begin(), |r| {
        // SAFETY: guaranteed by the caller.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Refusal::Invalid)?;
        let form = if form.is_null() {
            None
        } else {
            // SAFETY: guaranteed by the caller.
            let text = unsafe { CStr::from_ptr(form) }.to_str().map_err(|_| Refusal::Invalid)?;
            Some(BufferShape::parse(text).ok_or(Refusal::Invalid)?)
        };
        let name = name.to_owned();
        name_buffer(r, address, bytes, GivenName { name, form })
    })
}
