//! Identities of the calling thread and process, without system calls after the first.
#![allow(
    unsafe_code,
    reason = "a variable of the thread at a fixed offset, and a page that forks clear"
)]

use crate::address::HostAddr;
use crate::system::{map_memory, process_id, read_thread_id, wipe_on_fork};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes of the page of the mark.
const PAGE_BYTES: u64 = 4096;

// The id of the thread, 0 if unknown. Its offset from the thread pointer is fixed when the library is loaded: an access
// is two loads, and never asks the C library for memory.
std::arch::global_asm!(
    ".section .tbss.kinescope_nvidia_thread, \"awT\", @nobits",
    ".p2align 2",
    ".globl kinescope_nvidia_thread",
    ".hidden kinescope_nvidia_thread",
    ".type kinescope_nvidia_thread, @object",
    ".size kinescope_nvidia_thread, 4",
    "kinescope_nvidia_thread:",
    ".zero 4",
    ".text",
);

/// Address of a page that holds 1 in the recorded process and 0 in its forks; 0 if there is none.
static MARK: AtomicU64 = AtomicU64::new(0);
/// The recorded process.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Returns the variable of this thread.
fn thread_variable() -> &'static AtomicU32 {
    let at: *mut u32;
    // SAFETY: the instructions compute an address from the thread pointer, which stands at its own address. The variable
    // is aligned and lives as long as the thread; the reference does not leave the functions below.
    unsafe {
        std::arch::asm!(
            "mov {at}, qword ptr [rip + kinescope_nvidia_thread@GOTTPOFF]",
            "add {at}, qword ptr fs:[0]",
            at = out(reg) at,
            options(nostack, readonly),
        );
        AtomicU32::from_ptr(at)
    }
}

/// Returns the id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    let variable = thread_variable();
    match variable.load(Ordering::Relaxed) {
        0 => {
            let id = read_thread_id();
            variable.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

/// Marks this process as the recorded one.
pub(crate) fn mark_process() {
    PROCESS.store(process_id(), Ordering::Relaxed);
    let Some(at) = map_memory(PAGE_BYTES).ok() else { return };
    // A kernel that cannot clear the page at forks has no mark: then the process is asked for its number.
    if wipe_on_fork(at, PAGE_BYTES).is_ok() {
        mark_at(at).store(1, Ordering::Relaxed);
        MARK.store(at.get(), Ordering::Release);
    }
}

/// Whether this process is the recorded one, by its number: a child that shares memory with its parent is another one.
pub(crate) fn is_recorded_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == process_id()
}

/// Whether this process has the memory of the recorded one, and not a copy. It makes no system call if the kernel can
/// clear pages at forks.
pub(crate) fn has_recorded_memory() -> bool {
    match MARK.load(Ordering::Acquire) {
        0 => is_recorded_process(),
        at => mark_at(HostAddr::new(at)).load(Ordering::Relaxed) == 1,
    }
}

/// Forgets the id of the thread that returns from a fork.
pub(crate) fn leave_child() {
    thread_variable().store(0, Ordering::Relaxed);
}

fn mark_at(at: HostAddr) -> &'static AtomicU32 {
    // SAFETY: the page is mapped, aligned, and never removed.
    unsafe { AtomicU32::from_ptr(at.pointer().cast()) }
}
