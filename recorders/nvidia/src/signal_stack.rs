//! Stacks of signal handlers that are large enough for the recorder.
//!
//! The handler of faults runs on the stack that the program gave its thread, and a fault of the guarded copy on the same one.
//! Two frames of the kernel have 7 KiB on a processor with AVX-512, and programs often give the usual 8 KiB.
#![allow(
    unsafe_code,
    reason = "stacks are memory that the kernel uses; why each call is sound stands at it"
)]

use libc::{c_int, c_void, stack_t as SignalStack};
use std::cell::Cell;

/// Minimum size of a stack. It has room for nested faults in builds without optimization.
const MIN_BYTES: usize = 64 << 10;

thread_local! {
    /// The stack that the program gave the thread, and the larger one in its place; null before there is one.
    static REPLACED: Cell<Replacement> = const { Cell::new(Replacement::NONE) };
}

#[derive(Clone, Copy)]
struct Replacement {
    given: Option<SignalStack>,
    own: *mut c_void,
}

impl Replacement {
    const NONE: Self = Self {
        given: None,
        own: std::ptr::null_mut(),
    };
}

/// Sets the stack of signal handlers of this thread as the C library's `sigaltstack` does. A small stack is replaced by a
/// larger one of the recorder. `old` gets what the program has set before.
///
/// # Safety
/// As for the C library's function.
pub(crate) unsafe fn set(new: *const SignalStack, old: *mut SignalStack) -> c_int {
    // SAFETY: the pointer is null or the caller's structure.
    let wanted = unsafe { new.as_ref() }.copied();
    let before = REPLACED.try_with(Cell::get).unwrap_or(Replacement::NONE);
    let mut after = Replacement { given: None, ..before };
    let mut changed = wanted;
    if let Some(stack) = wanted.filter(is_small) {
        if after.own.is_null() {
            after.own = allocate();
        }
        if !after.own.is_null() {
            after.given = wanted;
            changed = Some(SignalStack {
                ss_sp: after.own,
                ss_size: MIN_BYTES,
                ..stack
            });
        }
    }
    let changed = changed.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the structures are complete; the memory of a replacement stays as long as the thread. The kernel refuses a
    // change of the stack that is in use.
    let result = unsafe { libc::syscall(libc::SYS_sigaltstack, changed, old) };
    if result != 0 {
        return -1;
    }
    // SAFETY: the pointer is null or the caller's structure.
    if let (Some(old), Some(given)) = (unsafe { old.as_mut() }, before.given) {
        (old.ss_sp, old.ss_size) = (given.ss_sp, given.ss_size);
    }
    if wanted.is_some() {
        // A thread that ends disables its stack.
        if after.given.is_none() && !after.own.is_null() {
            // SAFETY: the kernel does not use the memory any more.
            unsafe { libc::munmap(after.own, MIN_BYTES) };
            after.own = std::ptr::null_mut();
        }
        let _ = REPLACED.try_with(|replaced| replaced.set(after));
    }
    0
}

/// Returns whether a stack is large enough for the kernel and too small for the recorder.
fn is_small(stack: &SignalStack) -> bool {
    stack.ss_flags & libc::SS_DISABLE == 0 && (libc::MINSIGSTKSZ..MIN_BYTES).contains(&stack.ss_size)
}

/// Returns memory for a stack, or null.
fn allocate() -> *mut c_void {
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: new anonymous memory is mapped, wherever the kernel likes. The call does not go through the recorder's `mmap`.
    let mapped = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            std::ptr::null_mut::<c_void>(),
            MIN_BYTES,
            protection,
            flags,
            -1,
            0,
        )
    };
    match usize::try_from(mapped) {
        Ok(at) => std::ptr::with_exposed_provenance_mut(at),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Replaces the stack of this thread if it is small. Threads of tests have theirs from the standard library, whose calls do
/// not come here.
#[cfg(test)]
pub(crate) fn enlarge() {
    // SAFETY: the structure is complete and local, and the stack is the thread's own.
    unsafe {
        let mut present: SignalStack = std::mem::zeroed();
        assert_eq!(set(std::ptr::null(), &raw mut present), 0);
        if present.ss_flags & libc::SS_DISABLE == 0 {
            assert_eq!(set(&raw const present, std::ptr::null_mut()), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> SignalStack {
        // SAFETY: the structure is complete and local.
        unsafe {
            let mut found: SignalStack = std::mem::zeroed();
            assert_eq!(set(std::ptr::null(), &raw mut found), 0);
            found
        }
    }

    /// Returns the stack that the kernel has.
    fn kernel_stack() -> SignalStack {
        // SAFETY: the structure is complete and local.
        unsafe {
            let mut found: SignalStack = std::mem::zeroed();
            let null = std::ptr::null::<SignalStack>();
            assert_eq!(libc::syscall(libc::SYS_sigaltstack, null, &raw mut found), 0);
            found
        }
    }

    #[test]
    fn small_stacks_are_replaced_and_the_program_sees_its_own() {
        let first = kernel_stack();
        let mut memory = vec![0u8; 8 << 10];
        let small = SignalStack {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: memory.len(),
        };
        // SAFETY: the memory outlives its use as a stack.
        assert_eq!(unsafe { set(&raw const small, std::ptr::null_mut()) }, 0);
        assert_eq!((query().ss_sp, query().ss_size), (small.ss_sp, small.ss_size));
        assert_eq!(kernel_stack().ss_size, MIN_BYTES);
        assert_ne!(kernel_stack().ss_sp, small.ss_sp);
        let disabled = SignalStack {
            ss_flags: libc::SS_DISABLE,
            ..small
        };
        // SAFETY: the structure holds numbers and a pointer, for which zero is a value.
        let mut before: SignalStack = unsafe { std::mem::zeroed() };
        // SAFETY: both structures are complete and local.
        assert_eq!(unsafe { set(&raw const disabled, &raw mut before) }, 0);
        assert_eq!((before.ss_sp, before.ss_size), (small.ss_sp, small.ss_size));
        assert_ne!(query().ss_flags & libc::SS_DISABLE, 0);
        // The kernel refuses less than its minimum.
        let tiny = SignalStack { ss_size: 512, ..small };
        // SAFETY: the structure is complete and local, and the stack is not used.
        assert_eq!(unsafe { set(&raw const tiny, std::ptr::null_mut()) }, -1);
        // Large ones stay.
        let mut memory = vec![0u8; 2 * MIN_BYTES];
        let large = SignalStack {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: memory.len(),
        };
        // SAFETY: the memory outlives its use as a stack.
        assert_eq!(unsafe { set(&raw const large, std::ptr::null_mut()) }, 0);
        assert_eq!(kernel_stack().ss_sp, large.ss_sp);
        // SAFETY: the stack of the standard library, which the thread had before.
        assert_eq!(unsafe { set(&raw const first, std::ptr::null_mut()) }, 0);
    }
}
