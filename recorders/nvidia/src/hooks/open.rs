//! Open, copy and close of descriptors.

use super::ReentryGuard;
use crate::files;
use crate::lifetime::start;
use crate::log::Part;
use crate::next_function::real;
use crate::process::{is_log_descriptor, is_recording, lock};
use crate::records::{self, kind};
use crate::system::{errno, set_errno};
use libc::{c_char, c_int, c_uint, mode_t};
use std::ffi::CStr;

type Open = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
type OpenAt = unsafe extern "C" fn(c_int, *const c_char, c_int, ...) -> c_int;

/// Opens a file by `open`, and remembers and logs a device file of NVIDIA's driver. The recording starts at the first
/// one.
///
/// # Safety
/// `path` is null or a string that ends in a zero.
unsafe fn open_with(path: *const c_char, flags: c_int, open: impl FnOnce() -> c_int) -> c_int {
    if path.is_null() {
        return open();
    }
    // SAFETY: the pointer is not null, and the caller's string ends in a zero.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let Some(name) = files::device_name(path) else {
        let fd = open();
        if fd >= 0 && is_recording() {
            files::remember(fd, None);
        }
        return fd;
    };
    let Some(_inside) = ReentryGuard::enter() else {
        return open();
    };
    start();
    let fd = open();
    let error = errno();
    if fd >= 0 {
        files::remember(fd, Some(&name));
    }
    if let Some(mut guard) = lock() {
        let failure = if fd < 0 { error } else { 0 };
        let record = records::open(fd, flags, failure, path);
        guard.run(|recorder, thread| recorder.append(kind::OPEN, thread, &[Part::Bytes(&record)]));
    }
    set_errno(error);
    fd
}

macro_rules! opens {
    ($($name:ident($text:literal);)+) => { $(
        /// Replaces the C library's function. The mode of a new file is passed like a variable argument: the 64-bit
        /// calling conventions of Linux pass both the same way.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            let open = || real!($text, Open, -1, path, flags, mode as c_uint);
            // SAFETY: the path is the caller's.
            unsafe { open_with(path, flags, open) }
        }
    )+ };
}

macro_rules! opens_at {
    ($($name:ident($text:literal);)+) => { $(
        /// Replaces the C library's function; see [`open`].
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // Paths of device files start at the root, so that the folder does not matter.
            let open = || real!($text, OpenAt, -1, folder, path, flags, mode as c_uint);
            // SAFETY: the path is the caller's.
            unsafe { open_with(path, flags, open) }
        }
    )+ };
}

opens! {
    open("open");
    open64("open64");
    __open_2("__open_2");
    __open64_2("__open64_2");
}

opens_at! {
    openat("openat");
    openat64("openat64");
    __openat_2("__openat_2");
    __openat64_2("__openat64_2");
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    type Close = unsafe extern "C" fn(c_int) -> c_int;
    if is_log_descriptor(fd) {
        // A program that closes every number does not know of this descriptor.
        set_errno(libc::EBADF);
        return -1;
    }
    if is_recording()
        && files::find(fd).is_some()
        && let Some(_inside) = ReentryGuard::enter()
        && let Some(mut guard) = lock()
    {
        let record = records::close(fd);
        guard.run(|recorder, thread| recorder.append(kind::CLOSE, thread, &[Part::Bytes(&record)]));
    }
    files::forget(fd);
    real!("close", Close, -1, fd)
}

/// Remembers the file of a copied descriptor, and returns the copy.
fn remember_copy(from: c_int, to: c_int) -> c_int {
    if to >= 0 && is_recording() {
        let error = errno();
        match files::find(from) {
            Some(name) => files::remember(to, Some(&name)),
            None => files::forget(to),
        }
        set_errno(error);
    }
    to
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    type Dup = unsafe extern "C" fn(c_int) -> c_int;
    remember_copy(fd, real!("dup", Dup, -1, fd))
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    type Dup2 = unsafe extern "C" fn(c_int, c_int) -> c_int;
    remember_copy(fd, real!("dup2", Dup2, -1, fd, to))
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    type Dup3 = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;
    remember_copy(fd, real!("dup3", Dup3, -1, fd, to, flags))
}
