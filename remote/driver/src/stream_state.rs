//! State of streams: which ones calls can use without an answer.

use crate::{handles, lock, thread_state};
use remote_calls::HandleNumber;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

/// Streams where a capture was begun and not ended. A capture can take in other streams through events.
static CAPTURES: LazyLock<Mutex<HashSet<(u32, HandleNumber)>>> = LazyLock::new(Mutex::default);
/// Number of captures: launches read it without a lock.
static CAPTURE_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns whether a launch on a stream cannot fail because of the stream: it exists, and nothing is captured.
pub fn is_plain(stream: HandleNumber) -> bool {
    (stream.kind().is_none() || handles::is_live(stream)) && CAPTURE_COUNT.load(Ordering::Relaxed) == 0
}

/// Returns a stream with the thread that it belongs to, or with 0 if it belongs to all.
fn key(stream: HandleNumber) -> (u32, HandleNumber) {
    match stream == HandleNumber::STREAM_PER_THREAD {
        true => (thread_state::number(), stream),
        false => (0, stream),
    }
}

/// Notes that a capture of a stream was begun.
pub fn note_capture(stream: HandleNumber) {
    let mut captures = lock(&CAPTURES);
    captures.insert(key(stream));
    CAPTURE_COUNT.store(captures.len(), Ordering::Relaxed);
}

/// Notes that a capture of a stream has ended, if there was one.
pub fn end_capture(stream: HandleNumber) {
    let mut captures = lock(&CAPTURES);
    captures.remove(&key(stream));
    CAPTURE_COUNT.store(captures.len(), Ordering::Relaxed);
}
