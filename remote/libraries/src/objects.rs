//! Objects of the program in this library: what the program has set, so that calls can be encoded without a question.

use crate::{CallResult, read, write};
use remote_calls::library::{LibraryHandle, LibraryStatus};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, RwLock};

/// What this library knows of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectState {
    /// Whether scalars and results are in device memory.
    pub is_device_mode: bool,
    /// The stream, as the program passed it.
    pub stream: u64,
    /// Whether the object is a generator of numbers in host memory.
    pub is_host_generator: bool,
    /// Whether each call waits: the object has rules that only NVIDIA's library knows.
    pub waits_for_each: bool,
}

static OBJECTS: LazyLock<RwLock<HashMap<LibraryHandle, ObjectState>>> = LazyLock::new(RwLock::default);

/// Returns the handle and the state of an object that the program passes, or `no_object` if there is none.
///
/// # Errors
/// `no_object`.
pub fn find(object: *mut c_void, no_object: LibraryStatus) -> CallResult<(LibraryHandle, ObjectState)> {
    let handle = LibraryHandle::from_address(object.addr() as u64).ok_or(no_object)?;
    let state = read(&OBJECTS).get(&handle).copied().ok_or(no_object)?;
    Ok((handle, state))
}

/// Notes a new object, and returns it as the program sees it.
pub fn add(handle: LibraryHandle, state: ObjectState) -> *mut c_void {
    write(&OBJECTS).insert(handle, state);
    std::ptr::without_provenance_mut(handle.as_address() as usize)
}

/// Changes the state of an object that the program passes.
pub fn change(object: *mut c_void, change: impl FnOnce(&mut ObjectState)) {
    if let Some(handle) = LibraryHandle::from_address(object.addr() as u64)
        && let Some(state) = write(&OBJECTS).get_mut(&handle)
    {
        change(state);
    }
}

/// Forgets an object.
pub fn remove(handle: LibraryHandle) {
    write(&OBJECTS).remove(&handle);
}
