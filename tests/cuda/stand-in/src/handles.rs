//! Handles: numbers that stand for the driver's objects, checked at each call. A freed one is given out again, as a real
//! driver's heap does.

use crate::Answer;
use crate::codes::INVALID_HANDLE;
use crate::lock;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// Handles look like addresses: this one's kinds lie apart.
const FIRST: usize = 0x5100_0000_0000;
const KIND: usize = 1 << 32;
const STEP: usize = 0x20;

/// Objects of one kind by their handles.
pub struct Handles<T> {
    kind: usize,
    objects: Mutex<BTreeMap<usize, Arc<T>>>,
}

impl<T> Handles<T> {
    /// No objects yet; `kind` is another one for each kind.
    pub const fn new(kind: usize) -> Self {
        Self {
            kind,
            objects: Mutex::new(BTreeMap::new()),
        }
    }

    /// Keeps the object that `make` makes of its own handle.
    pub fn put(&self, make: impl FnOnce(usize) -> T) -> Arc<T> {
        let mut objects = lock(&self.objects);
        let first = FIRST + self.kind * KIND + STEP;
        // The lowest that is free.
        let mut handle = first;
        for taken in objects.keys() {
            if *taken != handle {
                break;
            }
            handle += STEP;
        }
        let object = Arc::new(make(handle));
        objects.insert(handle, Arc::clone(&object));
        object
    }

    /// The object of a handle.
    pub fn get(&self, handle: *mut c_void) -> Answer<Arc<T>> {
        lock(&self.objects)
            .get(&(handle as usize))
            .cloned()
            .ok_or(INVALID_HANDLE)
    }

    /// Forgets an object.
    pub fn take(&self, handle: *mut c_void) -> Answer<Arc<T>> {
        lock(&self.objects).remove(&(handle as usize)).ok_or(INVALID_HANDLE)
    }

    /// All objects.
    pub fn all(&self) -> Vec<Arc<T>> {
        lock(&self.objects).values().cloned().collect()
    }
}

/// A handle as programs hold it.
pub fn pointer(handle: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(handle)
}
