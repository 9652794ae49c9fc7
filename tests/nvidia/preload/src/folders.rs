//! `opendir`, `readdir` and `closedir` of the C library: the model's folder of GPUs, and every other folder passed on.

use libc::{DIR, c_char, c_int, c_void, dirent64};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::{LazyLock, Mutex, PoisonError};

/// An open folder of the model: its address is what the program has.
struct OpenFolder {
    /// Names that are not read yet.
    left: std::slice::Iter<'static, &'static str>,
    entry: dirent64,
}

/// Addresses of the open folders of the model.
static OPEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Returns the next function of a name after this library's own.
fn next(name: &CStr) -> usize {
    // SAFETY: the name ends with a zero byte.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize }
}

/// Calls the next function of a name, or returns a value if there is none.
macro_rules! forward {
    ($name:literal, $kind:ty, $without:expr, $argument:expr) => {{
        static NEXT: LazyLock<usize> = LazyLock::new(|| next($name));
        match *NEXT {
            0 => $without,
            // SAFETY: the function of this name has this type, and the argument is the caller's.
            at => unsafe { std::mem::transmute::<usize, $kind>(at)($argument) },
        }
    }};
}

/// Returns the model's folder, or `None` for a folder of the system.
fn find(folder: *mut DIR) -> Option<*mut OpenFolder> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.contains(&(folder as usize)).then_some(folder.cast())
}

/// `opendir` of the C library.
///
/// # Safety
/// As `opendir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: a path of the caller ends with a zero byte.
    let name = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes());
    if name != Some(model::GPU_FOLDER.as_bytes()) {
        type Function = unsafe extern "C" fn(*const c_char) -> *mut DIR;
        return forward!(c"opendir", Function, null_mut(), path);
    }
    let folder = OpenFolder {
        left: model::GPU_NAMES.iter(),
        // SAFETY: all zeros are a valid entry.
        entry: unsafe { std::mem::zeroed() },
    };
    let folder = Box::into_raw(Box::new(folder)).cast::<DIR>();
    OPEN.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(folder as usize);
    folder
}

/// Returns the next entry of the model's folder, or null at its end.
fn read_entry(folder: *mut OpenFolder) -> *mut dirent64 {
    // SAFETY: `opendir` made the folder, `closedir` has not ended it, and one thread at a time reads a folder.
    let folder = unsafe { &mut *folder };
    let Some(name) = folder.left.next() else {
        return null_mut();
    };
    folder.entry.d_ino = 1;
    folder.entry.d_type = libc::DT_DIR;
    folder.entry.d_name.fill(0);
    for (to, from) in folder.entry.d_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    &raw mut folder.entry
}

/// `readdir64` of the C library.
///
/// # Safety
/// As `readdir64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir64(folder: *mut DIR) -> *mut dirent64 {
    type Function = unsafe extern "C" fn(*mut DIR) -> *mut dirent64;
    match find(folder) {
        Some(own) => read_entry(own),
        None => forward!(c"readdir64", Function, null_mut(), folder),
    }
}

/// `readdir` of the C library: on 64-bit machines the same as `readdir64`.
///
/// # Safety
/// As `readdir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir(folder: *mut DIR) -> *mut c_void {
    type Function = unsafe extern "C" fn(*mut DIR) -> *mut c_void;
    match find(folder) {
        Some(own) => read_entry(own).cast(),
        None => forward!(c"readdir", Function, null_mut(), folder),
    }
}

/// `closedir` of the C library.
///
/// # Safety
/// As `closedir`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(folder: *mut DIR) -> c_int {
    type Function = unsafe extern "C" fn(*mut DIR) -> c_int;
    let Some(own) = find(folder) else {
        return forward!(c"closedir", Function, -1, folder);
    };
    OPEN.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|at| *at != folder as usize);
    // SAFETY: `opendir` made the folder as a box, and nothing else ends it.
    drop(unsafe { Box::from_raw(own) });
    0
}
