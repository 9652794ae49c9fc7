//! Replacements of C library functions: each checks whether a call is about the render node, and forwards all others
//! unchanged.
//!
//! A program calls them from any thread, from signal handlers, before `main` and after `exit`. The recorder's own calls
//! during an answer are forwarded at once ([`ReentryGuard`]), so that none of them waits for itself.
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

/// Metadata of a file. On 64-bit Linux the C library's two structures for it are the same.
type StatBuffer = libc::stat64;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Guard for a thread in the recorder: calls that the recorder makes itself are forwarded.
struct ReentryGuard;

impl ReentryGuard {
    /// Enters the recorder. Returns `None` if this thread is already inside or is ending.
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
    // SAFETY: the C library has an error number for every thread.
    unsafe { *libc::__errno_location() = e.raw_os_error() };
}

/// Runs `work` with the signal blocked that a write beyond the process's file size limit raises. The recorder's writes
/// are not the program's and must not end it. The write still fails.
fn without_size_signal(work: &mut dyn FnMut()) {
    // SAFETY: the signal sets are local to this function and the calls fill them. A timeout of zero collects the
    // signals raised on this thread meanwhile. Signals that the thread blocked before stay blocked.
    unsafe {
        let mut held: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut held);
        libc::sigaddset(&raw mut held, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before);
        work();
        if libc::sigismember(&raw const before, libc::SIGXFSZ) == 0 {
            let at_once: libc::timespec = std::mem::zeroed();
            while libc::sigtimedwait(&raw const held, std::ptr::null_mut(), &raw const at_once) == libc::SIGXFSZ {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
    }
}

/// Sets the error number and returns `-1`, as most of these functions fail.
fn fail_with(e: Errno) -> c_int {
    set_errno(e);
    -1
}

/// Returns the next function of a name after this library's own.
fn next(at: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = at.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the call looks a symbol up by a name that ends in a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    at.store(found, Ordering::Relaxed);
    found
}

/// Calls the C library's own function: `real!("close", fn(c_int) -> c_int, -1, fd)`; the third argument is the result
/// if the system does not have the function.
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
            // SAFETY: the C library's function of this name has this type, and the arguments are the caller's.
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

/// Returns what the library serves at a path, or `None` if it does not serve it or the call is the recorder's own.
///
/// # Safety
/// `path` is null or a string that ends in a zero.
unsafe fn place(path: *const c_char) -> Option<(ReentryGuard, VirtualPath)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null, and the caller's string ends in a zero.
    let place = paths::find(unsafe { CStr::from_ptr(path) }.to_bytes())?;
    Some((ReentryGuard::enter()?, place))
}

/// Returns the identity of a descriptor's file.
fn inode_of(fd: c_int) -> Option<Inode> {
    // SAFETY: the structure holds numbers, for which zero is a value.
    let mut known: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the system call fills the structure, which is of the type that it expects on 64-bit Linux.
    let failed = unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut known) };
    (failed == 0).then_some(Inode {
        device: known.st_dev,
        number: known.st_ino,
    })
}

/// Returns the node's open file of a descriptor; `None` also for the recorder's own calls.
fn find_node_file(fd: c_int) -> Option<(ReentryGuard, Inode, process::NodeFile)> {
    if fd < 0 || !process::is_in_use() {
        return None;
    }
    let inside = ReentryGuard::enter()?;
    let inode = inode_of(fd)?;
    Some((inside, inode, process::find_file(inode)?))
}
