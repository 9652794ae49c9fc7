//! Objects of NVIDIA's libraries: cuBLAS handles and random number generators, by the numbers that the program has.

use crate::lock;
use remote_calls::library::{LibraryHandle, LibraryStatus, NvidiaLibrary};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Maximum number of objects of a session. Each has memory of the device.
const MAX_OBJECTS: usize = 64 << 10;

/// An object.
pub struct LibraryObject {
    /// Its library.
    library: NvidiaLibrary,
    /// The library's own handle, a pointer.
    pub pointer: u64,
    /// Whether it is a generator of numbers in host memory.
    pub is_host_generator: bool,
    /// What changes. A call holds the lock from its first argument to its last result.
    pub state: Mutex<ObjectState>,
}

/// State of an object.
#[derive(Default)]
pub struct ObjectState {
    /// Whether scalars and results are in device memory.
    pub is_device_mode: bool,
    /// Status of the first call without an answer that failed, or 0.
    pub deferred: LibraryStatus,
    /// Numbers of a host generator that the program has not read yet.
    pub generated: Vec<u8>,
    /// Whether the object was destroyed.
    pub is_destroyed: bool,
}

#[derive(Default)]
struct Table {
    objects: HashMap<LibraryHandle, Arc<LibraryObject>>,
    last: u32,
}

/// All objects of a session.
#[derive(Default)]
pub struct Objects {
    table: Mutex<Table>,
}

impl Objects {
    /// Returns an object of a library, or `None` if the handle names none.
    pub fn find(&self, library: NvidiaLibrary, handle: LibraryHandle) -> Option<Arc<LibraryObject>> {
        let object = lock(&self.table).objects.get(&handle).cloned();
        object.filter(|object| object.library == library)
    }

    /// Returns whether there is room for another object.
    pub fn has_room(&self) -> bool {
        let table = lock(&self.table);
        table.objects.len() < MAX_OBJECTS && table.last < u32::MAX
    }

    /// Adds an object, and returns its handle. Numbers are not used again.
    pub fn add(&self, library: NvidiaLibrary, pointer: u64, is_host_generator: bool) -> LibraryHandle {
        let mut table = lock(&self.table);
        table.last = table.last.saturating_add(1);
        let handle = LibraryHandle::from_number(table.last);
        let object = LibraryObject {
            library,
            pointer,
            is_host_generator,
            state: Mutex::default(),
        };
        table.objects.insert(handle, Arc::new(object));
        handle
    }

    /// Removes an object that was destroyed.
    pub fn remove(&self, handle: LibraryHandle) {
        lock(&self.table).objects.remove(&handle);
    }
}
