//! Handles that this library makes.

use crate::{CallResult, read, write};
use cuda_driver::OUT_OF_MEMORY;
use remote_calls::{HandleKind, HandleNumber};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, RwLock};

/// Next index of each kind, by its number.
static NEXT: [AtomicU32; 16] = [const { AtomicU32::new(1) }; 16];

/// Makes a handle. Indices are not used again: a program can make 134 million objects of a kind.
///
/// # Errors
/// `OUT_OF_MEMORY` after the last index.
pub fn create(kind: HandleKind) -> CallResult<HandleNumber> {
    let next = NEXT.get(kind as usize).ok_or(OUT_OF_MEMORY)?;
    let index = next
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |index| {
            (index <= HandleNumber::MAX_INDEX).then_some(index + 1)
        })
        .map_err(|_| OUT_OF_MEMORY)?;
    HandleNumber::from_client(kind, index).ok_or(OUT_OF_MEMORY)
}

/// Handles of this library whose objects exist, as far as the calls say: a call without an answer can still fail.
static LIVE: LazyLock<RwLock<HashSet<HandleNumber>>> = LazyLock::new(RwLock::default);

/// Notes an object that was created.
pub fn add(handle: HandleNumber) {
    write(&LIVE).insert(handle);
}

/// Notes that an object was destroyed.
pub fn remove(handle: HandleNumber) {
    write(&LIVE).remove(&handle);
}

/// Returns whether an object exists.
pub fn is_live(handle: HandleNumber) -> bool {
    read(&LIVE).contains(&handle)
}
