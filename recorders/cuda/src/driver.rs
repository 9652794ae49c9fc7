//! NVIDIA's driver: its functions by name, for hooks and for the recorder's own calls.

use cuda_driver::{CuResult, Driver, SUCCESS};
use libc::{c_char, c_int, c_void};
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

/// Returns the C library's `dlsym`.
pub(crate) fn real_dlsym() -> Option<Dlsym> {
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
pub(crate) unsafe fn is_loaded() -> bool {
    static LOADED: AtomicBool = AtomicBool::new(false);
    if LOADED.load(Ordering::Relaxed) {
        return true;
    }
    // SAFETY: the string ends in a zero. The handle is kept: the driver is never unloaded.
    let handle = unsafe { libc::dlopen(DRIVER.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    LOADED.store(!handle.is_null(), Ordering::Relaxed);
    !handle.is_null()
}

/// Returns a function of the driver by its exported name, or null if there is none.
pub(crate) fn find(name: &CStr) -> *mut c_void {
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

/// Returns whether a call succeeded.
pub(crate) fn is_ok(result: CuResult) -> bool {
    result == SUCCESS
}

/// Returns a string of the program or of the driver; empty for a null pointer.
pub(crate) fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: the program passed it to the driver as a string, or the driver returned it as one.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}
