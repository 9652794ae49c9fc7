//! Lookup of the driver's functions: this `dlsym` precedes the C library's, and returns the replacements of recorded
//! functions.

use crate::driver::{is_loaded, real_dlsym};
use crate::hooks::find_replacement;
use libc::{c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The C library's `dlsym`, which [`dlsym`] jumps to; [`find_hook`] sets it before.
static JUMP: AtomicUsize = AtomicUsize::new(0);

/// Returns the replacement for a function that the program looks up, or null if it gets the original.
extern "C" fn find_hook(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let Some(real) = real_dlsym() else {
        return std::ptr::null_mut();
    };
    JUMP.store(real as usize, Ordering::Relaxed);
    if name.is_null() {
        return std::ptr::null_mut();
    }
    // Names of the driver's: `cuInit`, but not `cudaMalloc`, `cublasCreate` or `curl_easy_init`.
    // SAFETY: a name ends in a zero; a byte is read only if the one before is not zero.
    let is_cuda = unsafe {
        *name == b'c' as c_char && *name.add(1) == b'u' as c_char && (*name.add(2) as u8).is_ascii_uppercase()
    };
    // A lookup must not load the driver.
    // SAFETY: the string ends in a zero; nothing is loaded.
    if !is_cuda || !unsafe { is_loaded() } {
        return std::ptr::null_mut();
    }
    // SAFETY: the arguments are the program's.
    let found = unsafe { real(handle, name) };
    if found.is_null() {
        return found;
    }
    find_replacement(found).unwrap_or(std::ptr::null_mut())
}

// The C library uses the caller's address to find the next library. All other lookups must therefore be a jump and not
// a call: the return address stays the program's.
#[cfg(target_arch = "x86_64")]
/// Replaces the C library's `dlsym`: the same, except for recorded functions of the driver.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {instead}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "mov rax, qword ptr [rip + {real}]",
        "jmp rax",
        instead = sym find_hook,
        real = sym JUMP,
    )
}

#[cfg(target_arch = "aarch64")]
/// Replaces the C library's `dlsym`: the same, except for recorded functions of the driver.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, -32]!",
        "stp x0, x1, [sp, 16]",
        "bl {instead}",
        "mov x9, x0",
        "ldp x0, x1, [sp, 16]",
        "ldp x29, x30, [sp], 32",
        "cbz x9, 2f",
        "mov x0, x9",
        "ret",
        "2:",
        "adrp x10, {real}",
        "ldr x10, [x10, :lo12:{real}]",
        "br x10",
        instead = sym find_hook,
        real = sym JUMP,
    )
}
