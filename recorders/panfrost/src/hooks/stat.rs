//! Metadata and access rights of a path or a descriptor.

use super::{StatBuffer, fail_with, find_node_file, next, place, set_errno};
use crate::paths::{self, VirtualPath};
use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, c_char, c_int, c_uint, c_void};
use panfrost_node::Errno;
use std::ffi::CStr;
use std::sync::atomic::AtomicPtr;

/// Fills in the metadata of a served path.
///
/// # Safety
/// `to` is the caller's structure.
unsafe fn describe(place: VirtualPath, follow: bool, to: *mut StatBuffer) -> c_int {
    let (mode, bytes) = match place {
        VirtualPath::Node => (libc::S_IFCHR | 0o666, 0),
        VirtualPath::File(text) => (libc::S_IFREG | 0o444, text.len()),
        VirtualPath::Link(to) if !follow => (libc::S_IFLNK | 0o777, to.len()),
        VirtualPath::Folder(_) | VirtualPath::Link(_) => (libc::S_IFDIR | 0o755, 0),
        VirtualPath::Hidden => return fail_with(Errno::NOENT),
    };
    if to.is_null() {
        return fail_with(Errno::FAULT);
    }
    // SAFETY: the structure holds numbers, for which zero is a value.
    let mut known: StatBuffer = unsafe { std::mem::zeroed() };
    known.st_mode = mode;
    known.st_nlink = 1;
    known.st_size = bytes as i64;
    known.st_blksize = 4096;
    if place == VirtualPath::Node {
        known.st_rdev = libc::makedev(paths::MAJOR, paths::MINOR);
    }
    // SAFETY: the structure is the caller's, where the C library would write.
    unsafe { to.write(known) };
    0
}

/// Changes the system's metadata of a descriptor: a file of the node becomes a graphics device.
///
/// # Safety
/// `to` is the caller's structure, filled in if `reported` is 0.
unsafe fn disguise(fd: c_int, reported: c_int, to: *mut StatBuffer) -> c_int {
    if reported == 0 && find_node_file(fd).is_some() {
        // SAFETY: guaranteed by the caller.
        unsafe {
            (*to).st_mode = libc::S_IFCHR | 0o666;
            (*to).st_rdev = libc::makedev(paths::MAJOR, paths::MINOR);
            (*to).st_size = 0;
        }
    }
    reported
}

type Stat = unsafe extern "C" fn(*const c_char, *mut StatBuffer) -> c_int;
type OldStat = unsafe extern "C" fn(c_int, *const c_char, *mut StatBuffer) -> c_int;
type StatAt = unsafe extern "C" fn(c_int, *const c_char, *mut StatBuffer, c_int) -> c_int;
type OldStatAt = unsafe extern "C" fn(c_int, c_int, *const c_char, *mut StatBuffer, c_int) -> c_int;
type FdStat = unsafe extern "C" fn(c_int, *mut StatBuffer) -> c_int;
type OldFdStat = unsafe extern "C" fn(c_int, c_int, *mut StatBuffer) -> c_int;

macro_rules! stats {
    ($($name:ident, $text:literal, $old:ident, $old_text:literal, $follow:literal;)+) => { $(
        /// Replaces the C library's function.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, to: *mut StatBuffer) -> c_int {
            // SAFETY: path and structure are the caller's.
            match unsafe { place(path) } {
                // SAFETY: as above.
                Some((_inside, place)) => unsafe { describe(place, $follow, to) },
                None => real!($text, Stat, -1, path, to),
            }
        }

        /// Replaces the C library's older function, for programs that were built with it.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old(version: c_int, path: *const c_char, to: *mut StatBuffer) -> c_int {
            // SAFETY: path and structure are the caller's.
            match unsafe { place(path) } {
                // SAFETY: as above.
                Some((_inside, place)) => unsafe { describe(place, $follow, to) },
                None => real!($old_text, OldStat, -1, version, path, to),
            }
        }
    )+ };
}

// On 64-bit Linux both structures are the same.
stats! {
    stat, "stat", __xstat, "__xstat", true;
    stat64, "stat64", __xstat64, "__xstat64", true;
    lstat, "lstat", __lxstat, "__lxstat", false;
    lstat64, "lstat64", __lxstat64, "__lxstat64", false;
}

macro_rules! fd_stats {
    ($($name:ident, $text:literal, $old:ident, $old_text:literal;)+) => { $(
        /// Replaces the C library's function.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, to: *mut StatBuffer) -> c_int {
            let reported = real!($text, FdStat, -1, fd, to);
            // SAFETY: the structure is the caller's.
            unsafe { disguise(fd, reported, to) }
        }

        /// Replaces the C library's older function, for programs that were built with it.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old(version: c_int, fd: c_int, to: *mut StatBuffer) -> c_int {
            let reported = real!($old_text, OldFdStat, -1, version, fd, to);
            // SAFETY: the structure is the caller's.
            unsafe { disguise(fd, reported, to) }
        }
    )+ };
}

fd_stats! {
    fstat, "fstat", __fxstat, "__fxstat";
    fstat64, "fstat64", __fxstat64, "__fxstat64";
}

/// Returns whether a call with a folder is about the descriptor itself.
///
/// # Safety
/// `path` is null or a string that ends in a zero.
unsafe fn is_descriptor(fd: c_int, path: *const c_char, flags: c_int) -> bool {
    // SAFETY: the byte is read only if the pointer is not null; then the first byte exists.
    let empty = path.is_null() || unsafe { *path } == 0;
    fd != AT_FDCWD && flags & AT_EMPTY_PATH != 0 && empty
}

/// Does the same as [`disguise`] for a call that can be about a path in a folder.
///
/// # Safety
/// Path and structure are the caller's, the structure filled in if `reported` is 0.
unsafe fn disguise_at(folder: c_int, path: *const c_char, flags: c_int, reported: c_int, to: *mut StatBuffer) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if is_descriptor(folder, path, flags) {
            disguise(folder, reported, to)
        } else {
            reported
        }
    }
}

macro_rules! stats_at {
    ($($name:ident, $text:literal, $old:ident, $old_text:literal;)+) => { $(
        /// Replaces the C library's function.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, to: *mut StatBuffer, flags: c_int) -> c_int {
            // SAFETY: path and structure are the caller's.
            if let Some((_inside, place)) = unsafe { place(path) } {
                // SAFETY: as above.
                return unsafe { describe(place, flags & AT_SYMLINK_NOFOLLOW == 0, to) };
            }
            let reported = real!($text, StatAt, -1, folder, path, to, flags);
            // SAFETY: as above.
            unsafe { disguise_at(folder, path, flags, reported, to) }
        }

        /// Replaces the C library's older function, for programs that were built with it.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $old(
            version: c_int,
            folder: c_int,
            path: *const c_char,
            to: *mut StatBuffer,
            flags: c_int,
        ) -> c_int {
            // SAFETY: path and structure are the caller's.
            if let Some((_inside, place)) = unsafe { place(path) } {
                // SAFETY: as above.
                return unsafe { describe(place, flags & AT_SYMLINK_NOFOLLOW == 0, to) };
            }
            let reported = real!($old_text, OldStatAt, -1, version, folder, path, to, flags);
            // SAFETY: as above.
            unsafe { disguise_at(folder, path, flags, reported, to) }
        }
    )+ };
}

stats_at! {
    fstatat, "fstatat", __fxstatat, "__fxstatat";
    fstatat64, "fstatat64", __fxstatat64, "__fxstatat64";
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut libc::statx,
) -> c_int {
    type Statx = unsafe extern "C" fn(c_int, *const c_char, c_int, c_uint, *mut libc::statx) -> c_int;
    // SAFETY: the path is the caller's.
    if let Some((_inside, place)) = unsafe { place(path) } {
        // SAFETY: the structures hold numbers, for which zero is a value.
        let (mut known, mut out): (StatBuffer, libc::statx) = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is local to this function.
        let reported = unsafe { describe(place, flags & AT_SYMLINK_NOFOLLOW == 0, &raw mut known) };
        if reported == 0 && !to.is_null() {
            out.stx_mask = libc::STATX_BASIC_STATS;
            out.stx_mode = known.st_mode as u16;
            out.stx_nlink = 1;
            out.stx_size = known.st_size as u64;
            out.stx_blksize = 4096;
            if place == VirtualPath::Node {
                (out.stx_rdev_major, out.stx_rdev_minor) = (paths::MAJOR, paths::MINOR);
            }
            // SAFETY: the structure is the caller's, where the C library would write.
            unsafe { to.write(out) };
        }
        return reported;
    }
    let reported = real!("statx", Statx, -1, folder, path, flags, mask, to);
    // SAFETY: path and structure are the caller's, and the structure was filled in.
    unsafe {
        if reported == 0 && is_descriptor(folder, path, flags) && find_node_file(folder).is_some() {
            (*to).stx_mode = (libc::S_IFCHR | 0o666) as u16;
            ((*to).stx_rdev_major, (*to).stx_rdev_minor) = (paths::MAJOR, paths::MINOR);
            (*to).stx_size = 0;
        }
    }
    reported
}

fn check_access(place: VirtualPath, rights: c_int) -> c_int {
    match place {
        VirtualPath::Hidden => fail_with(Errno::NOENT),
        VirtualPath::Node if rights & libc::X_OK == 0 => 0,
        _ if rights & libc::W_OK == 0 => 0,
        _ => fail_with(Errno::ACCESS),
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn access(path: *const c_char, rights: c_int) -> c_int {
    type Access = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
    // SAFETY: the path is the caller's.
    match unsafe { place(path) } {
        Some((_inside, place)) => check_access(place, rights),
        None => real!("access", Access, -1, path, rights),
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(folder: c_int, path: *const c_char, rights: c_int, flags: c_int) -> c_int {
    type AccessAt = unsafe extern "C" fn(c_int, *const c_char, c_int, c_int) -> c_int;
    // SAFETY: the path is the caller's.
    match unsafe { place(path) } {
        Some((_inside, place)) => check_access(place, rights),
        None => real!("faccessat", AccessAt, -1, folder, path, rights, flags),
    }
}
