//! Folder listings for a program.

use super::{ReentryGuard, fail_with, next, place, set_errno};
use crate::paths::VirtualPath;
use libc::{DIR, c_char, c_int, c_void, dirent64};
use panfrost_node::Errno;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A folder listing that the library serves.
struct Listing {
    names: &'static [&'static str],
    next: usize,
    entry: dirent64,
}

/// Addresses of all [`Listing`]s: a program's other folders are the C library's.
static LISTINGS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
/// Number of listings, so that a call needs no lock when there are none.
static LISTING_COUNT: AtomicUsize = AtomicUsize::new(0);

fn listing(folder: *mut DIR) -> Option<*mut Listing> {
    if LISTING_COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let _inside = ReentryGuard::enter()?;
    let all = LISTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    all.contains(&(folder as usize)).then_some(folder.cast())
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    type OpenDir = unsafe extern "C" fn(*const c_char) -> *mut DIR;
    // SAFETY: the path is the caller's.
    let Some((_inside, place)) = (unsafe { place(path) }) else {
        return real!("opendir", OpenDir, std::ptr::null_mut(), path);
    };
    let VirtualPath::Folder(names) = place else {
        set_errno(if place == VirtualPath::Hidden {
            Errno::NOENT
        } else {
            Errno::NOTDIR
        });
        return std::ptr::null_mut();
    };
    let new = Box::new(Listing {
        names,
        next: 0,
        // SAFETY: the structure holds numbers, for which zero is a value.
        entry: unsafe { std::mem::zeroed() },
    });
    let at = Box::into_raw(new);
    LISTINGS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(at as usize);
    LISTING_COUNT.fetch_add(1, Ordering::Release);
    at.cast()
}

/// Returns the next name of a folder; null after the last one.
///
/// # Safety
/// `at` is a listing that the caller has open.
unsafe fn next_name(at: *mut Listing) -> *mut dirent64 {
    // SAFETY: `opendir` created it and it is not closed; a program must list one folder from one thread, as with the C
    // library.
    let listing = unsafe { &mut *at };
    let Some(name) = listing.names.get(listing.next) else {
        return std::ptr::null_mut();
    };
    listing.next += 1;
    let entry = &mut listing.entry;
    entry.d_ino = listing.next as u64;
    entry.d_reclen = size_of::<dirent64>() as u16;
    entry.d_type = if *name == "renderD128" {
        libc::DT_CHR
    } else {
        libc::DT_UNKNOWN
    };
    entry.d_name = [0; 256];
    for (to, from) in entry.d_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    std::ptr::from_mut(entry)
}

macro_rules! readdirs {
    ($($name:ident($text:literal);)+) => { $(
        /// Replaces the C library's function.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(folder: *mut DIR) -> *mut dirent64 {
            type ReadDir = unsafe extern "C" fn(*mut DIR) -> *mut dirent64;
            match listing(folder) {
                // SAFETY: it is one of the listings.
                Some(at) => unsafe { next_name(at) },
                None => real!($text, ReadDir, std::ptr::null_mut(), folder),
            }
        }
    )+ };
}

readdirs! {
    readdir("readdir");
    readdir64("readdir64");
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rewinddir(folder: *mut DIR) {
    type Rewind = unsafe extern "C" fn(*mut DIR);
    match listing(folder) {
        // SAFETY: it is one of the listings.
        Some(at) => unsafe { (*at).next = 0 },
        None => real!("rewinddir", Rewind, (), folder),
    }
}

/// Replaces the C library's function: a folder that the library serves has no descriptor.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dirfd(folder: *mut DIR) -> c_int {
    type DirFd = unsafe extern "C" fn(*mut DIR) -> c_int;
    match listing(folder) {
        Some(_) => fail_with(Errno::NOTSUP),
        None => real!("dirfd", DirFd, -1, folder),
    }
}

/// Replaces the C library's function.
///
/// # Safety
/// The same as the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(folder: *mut DIR) -> c_int {
    type CloseDir = unsafe extern "C" fn(*mut DIR) -> c_int;
    let Some(at) = listing(folder) else {
        return real!("closedir", CloseDir, -1, folder);
    };
    let Some(_inside) = ReentryGuard::enter() else { return 0 };
    let mine = LISTINGS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(&(at as usize));
    if mine {
        LISTING_COUNT.fetch_sub(1, Ordering::Release);
        // SAFETY: `opendir` created it from a box, and it is out of the list, so that no other thread finds it.
        drop(unsafe { Box::from_raw(at) });
    }
    0
}
