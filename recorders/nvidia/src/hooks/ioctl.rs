//! Requests to the driver, and the program's own marks.

use super::ReentryGuard;
use crate::address::HostAddr;
use crate::files;
use crate::guarded_copy::read_memory;
use crate::log::Part;
use crate::next_function::real;
use crate::process::{is_recording, lock};
use crate::records::{DeviceName, IoctlHead, ScanReason, kind};
use crate::requests::{argument_bytes, follow, frees_objects, nested_parameters};
use crate::submissions::log_all;
use crate::system::{errno, monotonic_time, set_errno};
use libc::{c_char, c_int, c_ulong, c_void};
use nvidia_channel::rm::DriverBranch;
use std::ffi::CStr;

fn forward(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    type Ioctl = unsafe extern "C" fn(c_int, c_ulong, ...) -> c_int;
    real!("ioctl", Ioctl, -1, fd, request, argument)
}

/// Replaces the C library's function. The third argument is passed like the first variable argument.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if is_recording()
        && let Some(name) = files::find(fd)
        && let Some(_inside) = ReentryGuard::enter()
        && let Some(branch) = read_branch()
    {
        return record(fd, request, argument, name, branch);
    }
    forward(fd, request, argument)
}

fn read_branch() -> Option<DriverBranch> {
    let mut found = None;
    lock()?.run(|recorder, _| {
        found = Some(recorder.branch);
        Ok(())
    });
    found
}

/// Returns a copy of memory of the program, empty if it is not readable.
fn copy_memory(from: HostAddr, bytes: usize) -> Vec<u8> {
    let mut copy = vec![0; bytes];
    if !read_memory(from, &mut copy) {
        copy.clear();
    }
    copy
}

/// Reads memory again, as many bytes as before.
fn copy_again(from: HostAddr, before: &[u8]) -> Vec<u8> {
    let after = copy_memory(from, before.len());
    if after.len() == before.len() {
        after
    } else {
        before.to_vec()
    }
}

fn record(fd: c_int, request: c_ulong, argument: *mut c_void, name: DeviceName, branch: DriverBranch) -> c_int {
    let file = files::driver_of(&name);
    let number = request as u32;
    let at = HostAddr::new(argument as u64);
    let bytes = if argument.is_null() {
        0
    } else {
        argument_bytes(branch, file, number)
    };
    let before = copy_memory(at, bytes);
    let nested = nested_parameters(branch, file, number, &before);
    let nested_at = nested.map_or(HostAddr::default(), |(at, _)| at);
    let nested_before = nested.map_or_else(Vec::new, |(at, bytes)| copy_memory(at, bytes as usize));
    if frees_objects(file, number)
        && let Some(mut guard) = lock()
    {
        guard.run(|recorder, thread| log_all(recorder, thread, ScanReason::Unmap));
    }
    let begun = monotonic_time();
    let returned = forward(fd, request, argument);
    let error = errno();
    let duration = monotonic_time().saturating_sub(begun);
    let after = copy_again(at, &before);
    let nested_after = copy_again(nested_at, &nested_before);
    let head = IoctlHead {
        fd,
        returned,
        errno: if returned < 0 { error } else { 0 },
        bytes: before.len() as u32,
        nested_bytes: nested_before.len() as u32,
        is_uvm: file == Some(nvidia_channel::rm::DeviceFile::Uvm),
        request,
        duration,
        name,
    }
    .encode();
    let contents = [&head[..], &before, &after, &nested_before, &nested_after].map(Part::Bytes);
    if let Some(mut guard) = lock() {
        guard.run(|recorder, thread| {
            recorder.append(kind::IOCTL, thread, &contents)?;
            recorder.log.prepare();
            if returned >= 0
                && let Some(file) = file
            {
                follow(&mut recorder.tables, branch, file, number, &after, &nested_after);
            }
            Ok(())
        });
    }
    set_errno(error);
    returned
}

/// Adds a mark of the program to the log. Programs look the function up by name; it exists only under the recorder.
///
/// # Safety
/// `text` is null, or a string that ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kinescope_nvidia_mark(text: *const c_char) {
    let Some(_inside) = ReentryGuard::enter() else { return };
    let Some(mut guard) = lock().filter(|_| !text.is_null()) else {
        return;
    };
    // SAFETY: the caller's string ends in a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    guard.run(|recorder, thread| {
        log_all(recorder, thread, ScanReason::Mark)?;
        recorder.append(kind::MARK, thread, &[Part::Bytes(text)])
    });
}
