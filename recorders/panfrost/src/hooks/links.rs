//! Links, and paths with links resolved.

use super::{fail_with, next, place, set_errno};
use crate::paths::VirtualPath;
use libc::{c_char, c_int, c_void, size_t, ssize_t};
use panfrost_node::Errno;
use std::ffi::CStr;
use std::sync::atomic::AtomicPtr;

/// Writes the target of a link, truncated to the buffer.
///
/// # Safety
/// `to` has room for `room` bytes.
unsafe fn read_link(place: VirtualPath, to: *mut c_char, room: size_t) -> ssize_t {
    let target = match place {
        VirtualPath::Link(target) => target,
        VirtualPath::Hidden => return fail_with(Errno::NOENT) as ssize_t,
        _ => return fail_with(Errno::INVAL) as ssize_t,
    };
    let bytes = target.len().min(room);
    // SAFETY: the buffer is the caller's, and the length does not exceed it.
    unsafe { std::ptr::copy_nonoverlapping(target.as_ptr().cast(), to, bytes) };
    bytes as ssize_t
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlink(path: *const c_char, to: *mut c_char, room: size_t) -> ssize_t {
    type ReadLink = unsafe extern "C" fn(*const c_char, *mut c_char, size_t) -> ssize_t;
    // SAFETY: path and buffer are the caller's.
    match unsafe { place(path) } {
        // SAFETY: as above.
        Some((_inside, place)) => unsafe { read_link(place, to, room) },
        None => real!("readlink", ReadLink, -1, path, to, room),
    }
}

/// Replaces the C library's function for programs whose compiler knows the buffer size.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(path: *const c_char, to: *mut c_char, room: size_t, whole: size_t) -> ssize_t {
    type ReadLink = unsafe extern "C" fn(*const c_char, *mut c_char, size_t, size_t) -> ssize_t;
    // SAFETY: path and buffer are the caller's.
    match unsafe { place(path) } {
        // SAFETY: as above.
        Some((_inside, place)) => unsafe { read_link(place, to, room.min(whole)) },
        None => real!("__readlink_chk", ReadLink, -1, path, to, room, whole),
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readlinkat(folder: c_int, path: *const c_char, to: *mut c_char, room: size_t) -> ssize_t {
    type ReadLinkAt = unsafe extern "C" fn(c_int, *const c_char, *mut c_char, size_t) -> ssize_t;
    // SAFETY: path and buffer are the caller's.
    match unsafe { place(path) } {
        // SAFETY: as above.
        Some((_inside, place)) => unsafe { read_link(place, to, room) },
        None => real!("readlinkat", ReadLinkAt, -1, folder, path, to, room),
    }
}

/// Returns the resolved path: paths that the library serves contain no links.
///
/// # Safety
/// `to` is null or has room for the longest path.
unsafe fn real_path(place: VirtualPath, path: *const c_char, to: *mut c_char) -> *mut c_char {
    let text: *const c_char = match place {
        VirtualPath::Link("/sys/bus/platform") => c"/sys/bus/platform".as_ptr(),
        VirtualPath::Link(_) => c"/sys/class/drm".as_ptr(),
        VirtualPath::Hidden => {
            set_errno(Errno::NOENT);
            return std::ptr::null_mut();
        }
        _ => path,
    };
    // SAFETY: the strings end in a zero; the buffer is the caller's, or is allocated by the C library for the caller to
    // free.
    unsafe {
        if to.is_null() {
            libc::strdup(text)
        } else if CStr::from_ptr(text).count_bytes() < libc::PATH_MAX as usize {
            libc::strcpy(to, text)
        } else {
            set_errno(Errno::NAMETOOLONG);
            std::ptr::null_mut()
        }
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char {
    type RealPath = unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char;
    // SAFETY: path and buffer are the caller's.
    match unsafe { place(path) } {
        // SAFETY: as above.
        Some((_inside, place)) => unsafe { real_path(place, path, to) },
        None => real!("realpath", RealPath, std::ptr::null_mut(), path, to),
    }
}

/// Replaces the C library's function for programs whose compiler knows the buffer size.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __realpath_chk(path: *const c_char, to: *mut c_char, room: size_t) -> *mut c_char {
    type RealPath = unsafe extern "C" fn(*const c_char, *mut c_char, size_t) -> *mut c_char;
    // SAFETY: path and buffer are the caller's.
    match unsafe { place(path) } {
        // SAFETY: as above.
        Some((_inside, place)) => unsafe { real_path(place, path, to) },
        None => real!("__realpath_chk", RealPath, std::ptr::null_mut(), path, to, room),
    }
}
