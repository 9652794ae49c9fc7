//! Lookup of the driver's functions: this `dlsym` precedes the C library's. Results of it and of the driver's
//! `cuGetProcAddress` are replaced if the function is recorded.

use crate::hooks::HOOKS;
use cuda_driver::Driver;
use libc::{c_char, c_int, c_void};
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// The C library's `dlsym`, once it was looked up.
static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);
/// The driver's library, by the loader's name.
const DRIVER: &CStr = c"libcuda.so.1";
/// Version of the C library's `dlsym` on each machine; newer libraries keep the version of the old symbol.
#[cfg(target_arch = "x86_64")]
const DLSYM_VERSION: &CStr = c"GLIBC_2.2.5";
#[cfg(not(target_arch = "x86_64"))]
const DLSYM_VERSION: &CStr = c"GLIBC_2.17";

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// A recorded function of the driver.
pub(crate) struct Hook {
    /// Its name, as the driver exports it.
    pub name: &'static CStr,
    /// The replacement in this library.
    pub ours: *const c_void,
    /// The driver's function, once it is known.
    pub real: &'static AtomicPtr<c_void>,
}

// SAFETY: the pointers are of functions, which are the same for every thread.
unsafe impl Sync for Hook {}

fn real_dlsym() -> Option<Dlsym> {
    let mut at = REAL_DLSYM.load(Ordering::Relaxed);
    if at == 0 {
        // SAFETY: both strings end in a zero; the loader returns null if there is no such function.
        at = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), DLSYM_VERSION.as_ptr()) } as usize;
        REAL_DLSYM.store(at, Ordering::Relaxed);
    }
    // SAFETY: the C library's function of this name has this signature.
    (at != 0).then(|| unsafe { std::mem::transmute::<usize, Dlsym>(at) })
}

/// Returns whether the driver is loaded.
///
/// # Safety
/// The caller must be where calls of the loader are allowed.
unsafe fn is_loaded() -> bool {
    static LOADED: AtomicBool = AtomicBool::new(false);
    if LOADED.load(Ordering::Relaxed) {
        return true;
    }
    // SAFETY: the string ends in a zero. The handle is kept: the driver is never unloaded.
    let handle = unsafe { libc::dlopen(DRIVER.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    LOADED.store(!handle.is_null(), Ordering::Relaxed);
    !handle.is_null()
}

/// Returns the replacement for a function that the program looks up, or null if it gets the original.
extern "C" fn find_hook(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let Some(real) = real_dlsym() else {
        return std::ptr::null_mut();
    };
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
        real = sym REAL_DLSYM,
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
        instead = sym instead,
        real = sym REAL_DLSYM,
    )
}

/// Returns the replacements by the address of the driver's function.
fn by_address() -> &'static HashMap<usize, usize> {
    static MAP: OnceLock<HashMap<usize, usize>> = OnceLock::new();
    MAP.get_or_init(|| {
        let mut map = HashMap::new();
        for hook in HOOKS {
            let at = find(hook.name);
            if !at.is_null() {
                hook.real.store(at, Ordering::Relaxed);
                map.entry(at as usize).or_insert(hook.ours as usize);
            }
        }
        map
    })
}

/// Returns the replacement for a function of the driver.
pub(crate) fn find_replacement(found: *mut c_void) -> Option<*mut c_void> {
    by_address().get(&(found as usize)).map(|ours| *ours as *mut c_void)
}

/// Returns a function of the driver by its exported name, or null if there is none.
fn find(name: &CStr) -> *mut c_void {
    static LIBRARY: AtomicUsize = AtomicUsize::new(0);
    let Some(real) = real_dlsym() else {
        return std::ptr::null_mut();
    };
    let mut library = LIBRARY.load(Ordering::Relaxed);
    if library == 0 {
        // SAFETY: the call loads the driver or returns the loaded one; it is never unloaded.
        library = unsafe { libc::dlopen(DRIVER.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) } as usize;
        LIBRARY.store(library, Ordering::Relaxed);
    }
    if library == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the handle is from the loader, and the name ends in a zero.
    unsafe { real(library as *mut c_void, name.as_ptr()) }
}

/// Returns the driver's function for a hook, or null if it has none.
pub(crate) fn real(hook: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let at = hook.load(Ordering::Relaxed);
    if !at.is_null() {
        return at;
    }
    let at = find(name);
    hook.store(at, Ordering::Relaxed);
    at
}

/// Returns the driver's own functions, for the recorder's own calls.
pub(crate) fn driver() -> &'static Driver {
    static ALL: OnceLock<Driver> = OnceLock::new();
    ALL.get_or_init(|| {
        // SAFETY: the driver's functions have the signatures that NVIDIA publishes.
        unsafe {
            Driver::from_symbols(|name| {
                let mut text = name.as_bytes().to_vec();
                text.push(0);
                let name = CStr::from_bytes_with_nul(&text).ok()?;
                let at = find(name);
                (!at.is_null()).then_some(at)
            })
        }
    })
}

/// Returns the system's id of the calling thread.
pub(crate) fn thread() -> u32 {
    thread_local! {
        static OWN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    let ask = || {
        // SAFETY: the query has no arguments.
        let id: c_int = unsafe { libc::gettid() };
        u32::try_from(id).unwrap_or(0)
    };
    OWN.try_with(|own| {
        if own.get() == 0 {
            own.set(ask());
        }
        own.get()
    })
    .unwrap_or_else(|_| ask())
}
