//! Requests to the node and mappings of it.

use super::{ReentryGuard, fail_with, find_node_file, inode_of, next, set_errno};
use crate::process;
use libc::{c_int, c_ulong, c_void, off_t, size_t};
use panfrost_node::{Errno, IoctlReply};
use std::ffi::CStr;
use std::sync::atomic::AtomicPtr;
use std::time::Duration;

fn monotonic_ns() -> i64 {
    // SAFETY: the structure holds numbers, for which zero is a value.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Repeats a request until it is answered.
fn retry_until_done(mut ask: impl FnMut() -> Result<IoctlReply, Errno>) -> c_int {
    loop {
        match ask() {
            Ok(IoctlReply::Done) => return 0,
            Ok(IoctlReply::NotYet(until)) if monotonic_ns() < until => std::thread::sleep(Duration::from_millis(1)),
            Ok(IoctlReply::NotYet(_)) => return fail_with(Errno::TIME),
            Err(e) => return fail_with(e),
        }
    }
}

/// Replaces the C library's function. The third argument is passed like the first variable argument.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, arg: *mut c_void) -> c_int {
    type Ioctl = unsafe extern "C" fn(c_int, c_ulong, ...) -> c_int;
    let (raw, at) = (request as u32, arg as u64);
    if let Some((_inside, _, open)) = find_node_file(fd) {
        return retry_until_done(|| process::with_recorder(|r| r.node.ioctl(open.id, raw, at, &r.memory)));
    }
    let sync = panfrost_node::uapi::Request::new(raw).family == panfrost_node::uapi::family::SYNC_FILE;
    if sync
        && process::is_in_use()
        && let Some(_inside) = ReentryGuard::enter()
        && let Some(inode) = inode_of(fd)
        && process::with_recorder(|r| Ok(r.node.is_sync_file(inode))) == Ok(true)
    {
        return retry_until_done(|| process::with_recorder(|r| r.node.sync_file_ioctl(inode, raw, at, &r.memory)));
    }
    real!("ioctl", Ioctl, -1, fd, request, arg)
}

/// Checks whether the node allows a mapping, if the descriptor is the node's.
fn may_map(bytes: size_t, flags: c_int, fd: c_int, offset: off_t) -> Result<(), Errno> {
    let Some((_inside, _, open)) = find_node_file(fd) else {
        return Ok(());
    };
    let kind = flags & libc::MAP_TYPE;
    let shared = kind == libc::MAP_SHARED || kind == libc::MAP_SHARED_VALIDATE;
    process::with_recorder(|r| r.node.check_mapping(open.id, offset as u64, bytes as u64, shared))
}

macro_rules! maps {
    ($($name:ident($text:literal);)+) => { $(
        /// Replaces the C library's function: the node's descriptor holds the bytes of buffer objects, and is mapped
        /// like any file.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            at: *mut c_void,
            bytes: size_t,
            rights: c_int,
            flags: c_int,
            fd: c_int,
            offset: off_t,
        ) -> *mut c_void {
            type Map = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;
            if flags & libc::MAP_ANONYMOUS == 0
                && let Err(e) = may_map(bytes, flags, fd, offset)
            {
                set_errno(e);
                return libc::MAP_FAILED;
            }
            real!($text, Map, libc::MAP_FAILED, at, bytes, rights, flags, fd, offset)
        }
    )+ };
}

maps! {
    mmap("mmap");
    mmap64("mmap64");
}
