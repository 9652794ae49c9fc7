//! The functions of the C library that stand before its own: each asks whether a call is about the render node, and
//! hands all others on as they came.
//!
//! A program calls them from any thread, from signal handlers, before `main` and after `exit`. What the recorder itself
//! calls while it answers goes straight on ([`Inside`]), so that none of them waits for itself.
#![allow(
    unsafe_code,
    reason = "functions in the place of the C library's are foreign calls on both sides; why each is sound stands at it"
)]

use crate::paths::{self, VirtualPath};
use crate::process;
use libc::{c_char, c_int, c_void};
use panfrost_node::{Errno, Inode};
use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What is known of a file. On 64-bit Linux the C library's two structures for it are the same.
type Known = libc::stat64;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The recorder is at work on this thread: calls that it makes itself are not for it to answer.
struct ReentryGuard;

impl ReentryGuard {
    /// `None` when this thread is inside already, or is ending.
    fn enter() -> Option<Self> {
        let entered = INSIDE.try_with(|inside| !inside.replace(true));
        entered.unwrap_or(false).then_some(Self)
    }
}

impl Drop for ReentryGuard {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

fn set_errno(e: Errno) {
    // SAFETY: the C library gives every thread a place for its error number.
    unsafe { *libc::__errno_location() = e.raw_os_error() };
}

/// Works while the signal is held back that a file would raise that grows beyond the process's limit: what the recorder
/// writes is not the program's, and must not end it. The write fails all the same.
pub(crate) fn without_size_signal<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals of this function, which the calls fill, and a time of zero to wait for what was raised on
    // this thread meanwhile. What the thread held back before stays so.
    unsafe {
        let mut held: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut held);
        libc::sigaddset(&raw mut held, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before);
        let out = work();
        if libc::sigismember(&raw const before, libc::SIGXFSZ) == 0 {
            let at_once: libc::timespec = std::mem::zeroed();
            while libc::sigtimedwait(&raw const held, std::ptr::null_mut(), &raw const at_once) == libc::SIGXFSZ {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
        out
    }
}

/// `-1` with an error number, as most of these functions fail.
fn fail_with(e: Errno) -> c_int {
    set_errno(e);
    -1
}

/// The next function of a name behind this library's own.
fn next(at: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = at.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: looks a symbol up by a name that ends in zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    at.store(found, Ordering::Relaxed);
    found
}

/// Calls the C library's own function: `real!("close", fn(c_int) -> c_int, -1, fd)`; the third is what a system
/// without it gives.
macro_rules! real {
    ($name:literal, $kind:ty, $without:expr $(, $arg:expr)*) => {{
        static AT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
        let found = next(&AT, const { match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        } });
        if found.is_null() {
            set_errno(Errno::NOSYS);
            $without
        } else {
            // SAFETY: the C library gives this name to a function of this type, and the arguments are the caller's.
            unsafe { std::mem::transmute::<*mut c_void, $kind>(found)($($arg),*) }
        }
    }};
}

mod directories;
mod ioctl_mmap;
mod links;
mod marker;
mod open;
mod process_exit;
mod stat;

/// What the library answers for at a path; `None`: nothing, or it is the recorder's own call.
///
/// # Safety
/// `path` is null or a text that ends in zero.
unsafe fn place(path: *const c_char) -> Option<(ReentryGuard, VirtualPath)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: not null, and of the caller a text that ends in zero.
    let place = paths::find(unsafe { CStr::from_ptr(path) }.to_bytes())?;
    Some((ReentryGuard::enter()?, place))
}

/// What tells the file of a descriptor from others.
fn inode_of(fd: c_int) -> Option<Inode> {
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut known: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the system call fills the structure, which is of the type that it expects on 64-bit Linux.
    let failed = unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut known) };
    (failed == 0).then_some(Inode {
        device: known.st_dev,
        number: known.st_ino,
    })
}

/// The open file of the node that a descriptor is of. `None` also for the recorder's own calls.
fn find_node_file(fd: c_int) -> Option<(ReentryGuard, Inode, process::NodeFile)> {
    if fd < 0 || !process::is_in_use() {
        return None;
    }
    let inside = ReentryGuard::enter()?;
    let inode = inode_of(fd)?;
    Some((inside, inode, process::find_file(inode)?))
}
