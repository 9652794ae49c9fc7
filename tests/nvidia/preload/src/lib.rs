//! Functions of the C library for `LD_PRELOAD`: they serve a model of NVIDIA's driver, and pass everything else on.
//!
//! `LD_PRELOAD=libnvidia_model.so` gives a program `/dev/nvidiactl`, `/dev/nvidia0`, `/dev/nvidia-uvm` and the texts of
//! `/proc/driver/nvidia`. The crate `nvidia-model` lists the settings. A process has one model, which begins at the first open of one of the files. Calls
//! for other files are system calls: the library calls no other library's `open` or `mmap`. A recorder before it in
//! `LD_PRELOAD` sees each call first.
#![allow(unsafe_code, reason = "C programs call these functions")]

mod folders;

use libc::{c_char, c_int, c_uint, c_ulong, c_void, mode_t, off_t, size_t};
use model::{Errno, Model, Settings};
use std::ffi::CStr;
use std::sync::OnceLock;

static MODEL: OnceLock<Model> = OnceLock::new();

/// Exit status of a program with settings that the model does not know: its test must not pass by chance.
const UNKNOWN_SETTING: c_int = 86;

/// Returns the model of this process. Ends the process if a setting is unknown.
fn model() -> &'static Model {
    MODEL.get_or_init(|| {
        let model = Settings::from_environment().map_err(|error| error.to_string());
        let model = model.and_then(|settings| Model::new(settings).map_err(|error| error.to_string()));
        model.unwrap_or_else(|message| {
            eprintln!("{message}");
            std::process::exit(UNKNOWN_SETTING)
        })
    })
}

/// Returns the model if the program uses it and has this file.
fn model_of(fd: c_int) -> Option<&'static Model> {
    MODEL.get().filter(|model| model.has_descriptor(fd))
}

/// Sets `errno` from an error.
fn set_errno(error: Errno) {
    // SAFETY: the C library has an `errno` for each thread.
    unsafe { *libc::__errno_location() = error.0 };
}

/// Returns a value, or -1 with `errno`.
fn int_result(result: Result<c_int, Errno>) -> c_int {
    result.unwrap_or_else(|error| {
        set_errno(error);
        -1
    })
}

/// Opens a file of the model, or passes the call on.
///
/// # Safety
/// As `openat`.
unsafe fn open_path(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if !path.is_null() {
        // SAFETY: the caller passes a text that ends with a zero byte.
        let name = unsafe { CStr::from_ptr(path) }.to_bytes();
        if Model::has_path(name)
            && let Some(result) = model().open(name, flags)
        {
            return int_result(result);
        }
    }
    let [folder, flags] = [folder, flags].map(libc::c_long::from);
    // SAFETY: the arguments are those of the caller.
    unsafe { libc::syscall(libc::SYS_openat, folder, path, flags, libc::c_long::from(mode)) as c_int }
}

/// `open` of the C library.
///
/// # Safety
/// As `open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the arguments are those of the caller. Without `O_CREAT` the mode is not read.
    unsafe { open_path(libc::AT_FDCWD, path, flags, mode) }
}

/// `open64` of the C library.
///
/// # Safety
/// As `open64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as for `open`.
    unsafe { open_path(libc::AT_FDCWD, path, flags | libc::O_LARGEFILE, mode) }
}

/// `openat` of the C library.
///
/// # Safety
/// As `openat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as for `open`.
    unsafe { open_path(folder, path, flags, mode) }
}

/// `openat64` of the C library.
///
/// # Safety
/// As `openat64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as for `open`.
    unsafe { open_path(folder, path, flags | libc::O_LARGEFILE, mode) }
}

/// `close` of the C library.
#[unsafe(no_mangle)]
pub extern "C" fn close(fd: c_int) -> c_int {
    if let Some(result) = model_of(fd).and_then(|model| model.close(fd)) {
        return int_result(result.map(|()| 0));
    }
    // SAFETY: the call takes no pointer.
    unsafe { libc::syscall(libc::SYS_close, libc::c_long::from(fd)) as c_int }
}

/// `ioctl` of the C library.
///
/// # Safety
/// As `ioctl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: the argument is that of the caller, who expects the driver to use its pointers.
    if let Some(result) = model_of(fd).and_then(|model| unsafe { model.ioctl(fd, request, argument) }) {
        return int_result(result);
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_ioctl, libc::c_long::from(fd), request, argument) as c_int }
}

/// Maps a file of the model, or passes the call on.
///
/// # Safety
/// As `mmap`.
unsafe fn map(
    address: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let model = model_of(fd).filter(|_| flags & libc::MAP_ANONYMOUS == 0);
    // SAFETY: the range is that of the caller.
    let result = model.and_then(|model| unsafe { model.mmap(fd, address, bytes, protection, flags, offset) });
    match result {
        Some(Ok(address)) => address,
        Some(Err(error)) => {
            set_errno(error);
            libc::MAP_FAILED
        }
        None => {
            let [protection, flags, fd] = [protection, flags, fd].map(libc::c_long::from);
            // SAFETY: as above.
            let address = unsafe { libc::syscall(libc::SYS_mmap, address, bytes, protection, flags, fd, offset) };
            std::ptr::with_exposed_provenance_mut(address as usize)
        }
    }
}

/// `mmap` of the C library.
///
/// # Safety
/// As `mmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the arguments are those of the caller.
    unsafe { map(address, bytes, protection, flags, fd, offset) }
}

/// `mmap64` of the C library.
///
/// # Safety
/// As `mmap64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the arguments are those of the caller.
    unsafe { map(address, bytes, protection, flags, fd, offset) }
}

/// `munmap` of the C library.
///
/// # Safety
/// As `munmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: size_t) -> c_int {
    // SAFETY: the range is that of the caller.
    unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int }
}

/// `statx` of the C library. A file of the model is a device.
///
/// # Safety
/// As `statx`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    answer: *mut libc::statx,
) -> c_int {
    // SAFETY: a path of the caller ends with a zero byte.
    let name = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes());
    if name.is_some_and(Model::has_file) && !answer.is_null() {
        // SAFETY: all zeros are a valid answer, and the caller has room for one.
        unsafe {
            answer.write(std::mem::zeroed());
            (*answer).stx_mask = libc::STATX_TYPE | libc::STATX_MODE;
            (*answer).stx_mode = (libc::S_IFCHR | 0o666) as u16;
        }
        return 0;
    }
    let [folder, flags] = [folder, flags].map(libc::c_long::from);
    // SAFETY: the arguments are those of the caller.
    unsafe { libc::syscall(libc::SYS_statx, folder, path, flags, libc::c_long::from(mask), answer) as c_int }
}

/// Returns the number of polls of the doorbell, for tests; 0 before the first open of a device file.
#[unsafe(no_mangle)]
pub extern "C" fn nvidia_model_polls() -> c_uint {
    MODEL.get().map_or(0, |model| model.usage().polls as c_uint)
}
