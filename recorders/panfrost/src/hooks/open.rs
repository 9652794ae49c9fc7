//! Open and close: the node, its files in `/sys`, descriptors.

use super::{fail_with, find_node_file, inode_of, next, place, process_exit, set_errno, without_size_signal};
use crate::paths::VirtualPath;
use crate::process;
use libc::{FILE, c_char, c_int, c_uint, c_void, mode_t};
use panfrost_node::{Errno, Inode};
use std::ffi::CStr;
use std::sync::atomic::AtomicPtr;

/// Returns a descriptor of an anonymous file with this text.
fn text_file(text: &str, close_on_exec: bool) -> c_int {
    let flags = if close_on_exec { libc::MFD_CLOEXEC } else { 0 };
    // SAFETY: the call creates a new file; the name ends in a zero.
    let fd = unsafe { libc::memfd_create(c"sysfs".as_ptr(), flags) };
    if fd >= 0 {
        // SAFETY: the calls write the text into the new file, and seek to its start.
        unsafe {
            libc::write(fd, text.as_ptr().cast(), text.len());
            libc::lseek(fd, 0, libc::SEEK_SET);
        }
    }
    fd
}

fn open_place(place: VirtualPath, flags: c_int) -> c_int {
    let close_on_exec = flags & libc::O_CLOEXEC != 0;
    match place {
        VirtualPath::Node => {
            process_exit::start();
            process::open(close_on_exec, without_size_signal).unwrap_or_else(fail_with)
        }
        VirtualPath::File(text) => text_file(text, close_on_exec),
        // Programs list folders by `opendir`.
        VirtualPath::Folder(_) | VirtualPath::Link(_) => fail_with(Errno::ACCESS),
        VirtualPath::Hidden => fail_with(Errno::NOENT),
    }
}

type Open = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
type OpenAt = unsafe extern "C" fn(c_int, *const c_char, c_int, ...) -> c_int;

macro_rules! opens {
    ($($name:ident($text:literal);)+) => { $(
        /// Replaces the C library's function. The mode of a new file is passed like a variable argument: the 64-bit
        /// calling conventions of Linux pass both the same way.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: the path is the caller's.
            match unsafe { place(path) } {
                Some((_inside, place)) => open_place(place, flags),
                None => real!($text, Open, -1, path, flags, mode as c_uint),
            }
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
            // Served paths start at the root, so that the folder does not matter.
            // SAFETY: the path is the caller's.
            match unsafe { place(path) } {
                Some((_inside, place)) => open_place(place, flags),
                None => real!($text, OpenAt, -1, folder, path, flags, mode as c_uint),
            }
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

macro_rules! fopens {
    ($($name:ident($text:literal);)+) => { $(
        /// Replaces the C library's function.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: the path is the caller's.
            let Some((_inside, place)) = (unsafe { place(path) }) else {
                type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;
                return real!($text, Fopen, std::ptr::null_mut(), path, mode);
            };
            let fd = open_place(place, libc::O_CLOEXEC);
            if fd < 0 {
                return std::ptr::null_mut();
            }
            // SAFETY: the descriptor is open and owned here; the mode is the caller's.
            unsafe { libc::fdopen(fd, mode) }
        }
    )+ };
}

fopens! {
    fopen("fopen");
    fopen64("fopen64");
}

/// Returns whether this process still has a descriptor of a file.
fn is_open_elsewhere(inode: Inode, own: c_int) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        // Unknown: the file stays open.
        return true;
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<c_int>().ok())
        .any(|fd| fd != own && inode_of(fd) == Some(inode))
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    type Close = unsafe extern "C" fn(c_int) -> c_int;
    let found = find_node_file(fd);
    if found.as_ref().is_some_and(|(_, _, open)| open.node_descriptor == fd)
        || process::is_own_descriptor(fd) && process::is_recorder_process()
    {
        // A program that closes every number does not know of this descriptor.
        return fail_with(Errno::BADF);
    }
    let result = real!("close", Close, -1, fd);
    if let Some((_inside, inode, open)) = found
        && process::is_recorder_process()
        && !is_open_elsewhere(inode, open.node_descriptor)
    {
        process::close_file(inode);
    }
    result
}

/// Replaces the C library's function, descriptor by descriptor, so that the node keeps its own.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    type CloseRange = unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int;
    if flags != 0 || !process::is_in_use() || !process::is_recorder_process() || first > last {
        return real!("close_range", CloseRange, -1, first, last, flags);
    }
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return fail_with(Errno::NOSYS);
    };
    let open: Vec<c_int> = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open {
        if u32::try_from(fd).is_ok_and(|fd| (first..=last).contains(&fd)) {
            // SAFETY: the caller requested the close.
            unsafe { close(fd) };
        }
    }
    0
}
