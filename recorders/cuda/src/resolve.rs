//! How programs find the driver's functions: the loader's `dlsym` stands here before the C library's, and what it or the
//! driver's `cuGetProcAddress` gives is replaced where it is a function that is recorded.

use crate::hooks::HOOKS;
use cuda_driver::Driver;
use libc::{c_char, c_int, c_void};
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// The C library's `dlsym`, once it was looked up.
static REAL_DLSYM: AtomicUsize = AtomicUsize::new(0);
/// The driver's library, as the loader names it.
const DRIVER: &CStr = c"libcuda.so.1";
/// Version of the C library's `dlsym` on each machine; newer ones keep the old name's version.
#[cfg(target_arch = "x86_64")]
const DLSYM_VERSION: &CStr = c"GLIBC_2.2.5";
#[cfg(not(target_arch = "x86_64"))]
const DLSYM_VERSION: &CStr = c"GLIBC_2.17";

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// A function of the driver that is recorded.
pub(crate) struct Hook {
    /// Its name, as the driver exports it.
    pub name: &'static CStr,
    /// Ours.
    pub ours: *const c_void,
    /// The driver's, once it is known.
    pub real: &'static AtomicPtr<c_void>,
}

// SAFETY: the pointers are of functions, which are the same for every thread.
unsafe impl Sync for Hook {}

fn real_dlsym() -> Option<Dlsym> {
    let mut at = REAL_DLSYM.load(Ordering::Relaxed);
    if at == 0 {
        // SAFETY: both texts end in a zero; the loader answers null where there is none.
        at = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), DLSYM_VERSION.as_ptr()) } as usize;
        REAL_DLSYM.store(at, Ordering::Relaxed);
    }
    // SAFETY: the C library's function of this name has this signature.
    (at != 0).then(|| unsafe { std::mem::transmute::<usize, Dlsym>(at) })
}

/// Whether the driver is loaded.
///
/// # Safety
/// Called where the loader may be asked.
unsafe fn is_loaded() -> bool {
    static LOADED: AtomicBool = AtomicBool::new(false);
    if LOADED.load(Ordering::Relaxed) {
        return true;
    }
    // SAFETY: a text that ends in a zero. The handle is kept: the driver is never unloaded.
    let handle = unsafe { libc::dlopen(DRIVER.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    LOADED.store(!handle.is_null(), Ordering::Relaxed);
    !handle.is_null()
}

/// The function of ours that a program gets in the place of one that it asks for; null: it gets what it asked for.
extern "C" fn find_hook(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let Some(real) = real_dlsym() else {
        return std::ptr::null_mut();
    };
    if name.is_null() {
        return std::ptr::null_mut();
    }
    // Names of the driver's: `cuInit`, and not `cudaMalloc`, `cublasCreate` or `curl_easy_init`.
    // SAFETY: a name ends in a zero; a byte is looked at only when the one before was none.
    let is_cuda = unsafe {
        *name == b'c' as c_char && *name.add(1) == b'u' as c_char && (*name.add(2) as u8).is_ascii_uppercase()
    };
    // Where the driver is not loaded it is not loaded for a question.
    // SAFETY: a text that ends in a zero; nothing is loaded.
    if !is_cuda || !unsafe { is_loaded() } {
        return std::ptr::null_mut();
    }
    // SAFETY: as the program called it.
    let found = unsafe { real(handle, name) };
    if found.is_null() {
        return found;
    }
    find_replacement(found).unwrap_or(std::ptr::null_mut())
}

// The C library looks at who called to know which library is next, so that everything that is not ours has to be a jump
// and not a call: the return address stays the program's.
#[cfg(target_arch = "x86_64")]
/// As the C library's, but for functions of the driver that are recorded.
///
/// # Safety
/// As the C library's.
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
/// As the C library's, but for functions of the driver that are recorded.
///
/// # Safety
/// As the C library's.
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

/// Ours by the address of the driver's.
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

/// The function of ours for one of the driver's.
pub(crate) fn find_replacement(found: *mut c_void) -> Option<*mut c_void> {
    by_address().get(&(found as usize)).map(|ours| *ours as *mut c_void)
}

/// A function of the driver by the name that it exports; null where it has none.
fn find(name: &CStr) -> *mut c_void {
    static LIBRARY: AtomicUsize = AtomicUsize::new(0);
    let Some(real) = real_dlsym() else {
        return std::ptr::null_mut();
    };
    let mut library = LIBRARY.load(Ordering::Relaxed);
    if library == 0 {
        // SAFETY: loads the driver, or tells the one that is loaded; it is never unloaded.
        library = unsafe { libc::dlopen(DRIVER.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) } as usize;
        LIBRARY.store(library, Ordering::Relaxed);
    }
    if library == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: a handle of the loader's and a name that ends in a zero.
    unsafe { real(library as *mut c_void, name.as_ptr()) }
}

/// The driver's function behind a hook; null where it has none.
pub(crate) fn real(hook: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let at = hook.load(Ordering::Relaxed);
    if !at.is_null() {
        return at;
    }
    let at = find(name);
    hook.store(at, Ordering::Relaxed);
    at
}

/// The driver's own functions, for what the recorder asks by itself.
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

/// The number that the system gives the calling thread.
pub(crate) fn thread() -> u32 {
    thread_local! {
        static OWN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    let ask = || {
        // SAFETY: a question without arguments.
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
