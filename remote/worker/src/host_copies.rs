//! Asynchronous copies to the window, and when they are complete: a relay must send their bytes before the program can
//! know it. A program that maps the window itself needs none of this.
#![allow(unsafe_code, reason = "calls of the driver on its own events")]

use crate::lock;
use cuda_driver::{CuEvent, CuStream, Driver, EVENT_NO_TIMING, NOT_READY};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Environment variable: `yes` says that a relay stands between the program and the worker.
pub const RELAY_VARIABLE: &str = "KINESCOPE_WORKER_RELAY";
/// Results of calls that a capture forbids.
const CAPTURE_ERRORS: std::ops::RangeInclusive<u32> = 900..=908;

/// A copy that writes the window until its event is complete.
struct PendingCopy {
    /// Sequence number of its request.
    request: u64,
    /// Its event, or 0 for a copy that is complete.
    event: usize,
}

/// Asynchronous copies to the window.
#[derive(Default)]
pub struct HostCopies {
    is_relayed: AtomicBool,
    pending: Mutex<Vec<PendingCopy>>,
}

/// Destroys an event of this module.
fn destroy(driver: &Driver, event: usize) {
    if event != 0 {
        // SAFETY: the event is one of this module, and nothing uses it after this. A failure does not matter.
        let _ = unsafe { driver.cuEventDestroy_v2(std::ptr::with_exposed_provenance_mut(event)) };
    }
}

impl HostCopies {
    /// Notes that a relay waits for the copies.
    pub fn serve_relay(&self) {
        self.is_relayed.store(true, Ordering::Relaxed);
    }

    /// Returns whether a relay stands between program and worker.
    pub fn is_relayed(&self) -> bool {
        self.is_relayed.load(Ordering::Relaxed)
    }

    /// Returns the requests of copies that are complete, and forgets them.
    pub fn take_completed(&self, driver: &Driver) -> Vec<u64> {
        if !self.is_relayed() {
            return Vec::new();
        }
        let mut completed = Vec::new();
        lock(&self.pending).retain(|copy| {
            let event: CuEvent = std::ptr::with_exposed_provenance_mut(copy.event);
            // SAFETY: the event is one of this module.
            let state = (copy.event != 0).then(|| unsafe { driver.cuEventQuery(event) });
            let result = match state {
                Some(Err(e)) => e.result().unwrap_or(0),
                Some(Ok(())) | None => 0,
            };
            // A capture can forbid the question. Every other result ends the copy.
            if result == NOT_READY || CAPTURE_ERRORS.contains(&result) {
                return true;
            }
            destroy(driver, copy.event);
            completed.push(copy.request);
            false
        });
        completed
    }

    /// Notes a copy to the window that was just submitted to a stream by the request with a sequence number. A stream that
    /// `may_capture` is asked: a copy of a capture is none.
    pub fn note(&self, driver: &Driver, request: u64, stream: CuStream, may_capture: bool) {
        if !self.is_relayed() {
            return;
        }
        let (mut status, mut event) = (0, std::ptr::null_mut());
        if may_capture {
            // SAFETY: the stream is the driver's, and the pointer is valid for the result.
            let asked = unsafe { driver.cuStreamIsCapturing(stream, &raw mut status) };
            if asked.is_err() || status != 0 {
                return;
            }
        }
        // SAFETY: the pointer is valid for the result, and both handles are the driver's.
        let recorded = unsafe {
            driver
                .cuEventCreate(&raw mut event, EVENT_NO_TIMING)
                .and_then(|()| driver.cuEventRecord(event, stream))
        };
        if recorded.is_err() {
            destroy(driver, event.expose_provenance());
            event = std::ptr::null_mut();
            // SAFETY: the stream is the driver's. The copy is complete after this, or its context has an error.
            let _ = unsafe { driver.cuStreamSynchronize(stream) };
        }
        lock(&self.pending).push(PendingCopy {
            request,
            event: event.expose_provenance(),
        });
    }

    /// Waits for all copies: their events end with their context. They count as complete.
    pub fn settle(&self, driver: &Driver) {
        for copy in lock(&self.pending).iter_mut().filter(|copy| copy.event != 0) {
            // SAFETY: the event is one of this module. Failures do not matter: a context with an error copies nothing.
            let _ = unsafe { driver.cuEventSynchronize(std::ptr::with_exposed_provenance_mut(copy.event)) };
            destroy(driver, copy.event);
            copy.event = 0;
        }
    }
}
