//! Handles: numbers for the driver's objects, checked at each call. Like a real driver's heap, a table reuses a freed
//! handle.

use crate::Answer;
use crate::codes::INVALID_HANDLE;
use crate::lock;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// First address of handles, which look like addresses; the ranges of different kinds do not overlap.
const FIRST: usize = 0x5100_0000_0000;
const KIND: usize = 1 << 32;
const STEP: usize = 0x20;

/// Objects of one kind by their handles.
pub struct Handles<T> {
    kind: usize,
    objects: Mutex<BTreeMap<usize, Arc<T>>>,
}

impl<T> Handles<T> {
    /// Creates an empty table; each kind has its own `kind`.
    pub const fn new(kind: usize) -> Self {
        Self {
            kind,
            objects: Mutex::new(BTreeMap::new()),
        }
    }

    /// Stores the object that `make` creates from its own handle.
    pub fn put(&self, make: impl FnOnce(usize) -> T) -> Arc<T> {
        let mut objects = lock(&self.objects);
        let first = FIRST + self.kind * KIND + STEP;
        // A new object gets the lowest free handle.
        let mut handle = first;
        for used in objects.keys() {
            if *used != handle {
                break;
            }
            handle += STEP;
        }
        let object = Arc::new(make(handle));
        objects.insert(handle, Arc::clone(&object));
        object
    }

    /// Returns the object of a handle.
    pub fn get(&self, handle: *mut c_void) -> Answer<Arc<T>> {
        lock(&self.objects)
            .get(&(handle as usize))
            .cloned()
            .ok_or(INVALID_HANDLE)
    }

    /// Removes an object.
    pub fn take(&self, handle: *mut c_void) -> Answer<Arc<T>> {
        lock(&self.objects).remove(&(handle as usize)).ok_or(INVALID_HANDLE)
    }

    /// Returns all objects.
    pub fn all(&self) -> Vec<Arc<T>> {
        lock(&self.objects).values().cloned().collect()
    }
}

/// Returns a handle as a program's pointer.
pub fn pointer(handle: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(handle)
}
