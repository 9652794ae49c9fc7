//! Detection of host memory that kernels access directly: addresses of pinned memory among the arguments of launches.

use crate::memory::Memory;
use crate::process_memory::HostAddr;
use crate::trace::{Trace, lock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// First address of all pinned memory so far, and one past the last.
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
static END: AtomicU64 = AtomicU64::new(0);
static NOTED: AtomicBool = AtomicBool::new(false);

/// Adds pinned host memory.
pub(crate) fn add_pinned(at: HostAddr, bytes: u64) {
    FIRST.fetch_min(at.get(), Ordering::Relaxed);
    END.fetch_max(at.saturating_add(bytes).get(), Ordering::Relaxed);
}

/// Checks the arguments of a launch, if memory was pinned and nothing was found yet.
#[inline]
pub(crate) fn check_arguments(trace: &Trace, memory: &Mutex<Memory>, arguments: Option<&[u8]>) {
    let (first, end) = (FIRST.load(Ordering::Relaxed), END.load(Ordering::Relaxed));
    if first >= end || NOTED.load(Ordering::Relaxed) {
        return;
    }
    let words = arguments.unwrap_or_default().as_chunks::<8>().0;
    for word in words {
        let word = u64::from_le_bytes(*word);
        if word >= first && word < end {
            note_access(trace, memory, HostAddr::new(word));
        }
    }
}

#[cold]
fn note_access(trace: &Trace, memory: &Mutex<Memory>, at: HostAddr) {
    let is_pinned = lock(memory).find_pinned(at).is_some();
    if is_pinned && !NOTED.swap(true, Ordering::Relaxed) {
        trace.note_not_recorded(
            "host memory",
            "kernels receive addresses of host memory: what they read and write there is not in the recording, and a \
             replay does not have it",
        );
    }
}
