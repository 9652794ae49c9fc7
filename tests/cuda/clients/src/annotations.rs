//! The recorder's C interface, looked up in the process as any program can do.

use std::ffi::{CStr, c_char, c_int};

/// Result if no recorder is in the process.
pub const NOT_RECORDED: c_int = -1;

/// Finds a function in any library of the process; null if there is none.
fn find(name: &CStr) -> *mut libc::c_void {
    // SAFETY: the call looks up a function in any library of the process.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Calls a function of the recorder that has one text as its argument: a string, or null.
fn call_with_text(function: &CStr, text: *const c_char) -> c_int {
    let at = find(function);
    if at.is_null() {
        return NOT_RECORDED;
    }
    // SAFETY: the recorder's functions that are named below have this signature.
    let call = unsafe { std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*const c_char) -> c_int>(at) };
    // SAFETY: the argument is a string or null.
    unsafe { call(text) }
}

/// Begins a range of this thread.
pub fn begin_range(name: &CStr) -> c_int {
    call_with_text(c"kinescope_range_begin", name.as_ptr())
}

/// Returns the results of a mark and of a range whose text is null.
pub fn annotate_without_text() -> [c_int; 2] {
    [c"kinescope_mark", c"kinescope_range_begin"].map(|function| call_with_text(function, std::ptr::null()))
}

/// Ends the last range of this thread.
pub fn end_range() -> c_int {
    let at = find(c"kinescope_range_end");
    if at.is_null() {
        return NOT_RECORDED;
    }
    // SAFETY: a recorder's function of this name has this signature.
    let end = unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_int>(at) };
    end()
}

type NameBuffer = unsafe extern "C" fn(u64, u64, *const c_char, *const c_char) -> c_int;

/// Names memory. Without a name, the recorder gets a null pointer.
pub fn name_buffer(address: u64, bytes: u64, name: Option<&CStr>, form: Option<&CStr>) -> c_int {
    let at = find(c"kinescope_name_buffer");
    if at.is_null() {
        return NOT_RECORDED;
    }
    // SAFETY: a recorder's function of this name has this signature.
    let name_buffer = unsafe { std::mem::transmute::<*mut libc::c_void, NameBuffer>(at) };
    let [name, form] = [name, form].map(|text| text.map_or(std::ptr::null(), CStr::as_ptr));
    // SAFETY: the texts are strings or null.
    unsafe { name_buffer(address, bytes, name, form) }
}
