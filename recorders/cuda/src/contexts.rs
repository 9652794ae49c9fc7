//! Contexts of the driver: the calling thread's, and the recorder's own waits for their work.

use crate::driver::driver;
use crate::trace::Trace;
use cuda_driver::{CuContext, CuDevice, CuStream, CudaError, NOT_READY};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum time that the recorder waits for a stream by itself; after it, it does not wait any more.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Returns the context of the calling thread, and its device.
pub(crate) fn current_context_and_device() -> Option<(usize, CuDevice)> {
    let d = driver();
    let (mut device, mut context): (CuDevice, CuContext) = (0, std::ptr::null_mut());
    // SAFETY: the queries have valid pointers for the answers.
    let asked = unsafe {
        d.cuCtxGetCurrent(&raw mut context)
            .and_then(|()| d.cuCtxGetDevice(&raw mut device))
    };
    (asked.is_ok() && !context.is_null()).then_some((context as usize, device))
}

/// Returns the context of the calling thread, or 0 if it has none.
pub(crate) fn current_context() -> usize {
    let mut context: CuContext = std::ptr::null_mut();
    // SAFETY: the query has a valid pointer for the answer.
    let asked = unsafe { driver().cuCtxGetCurrent(&raw mut context) };
    asked.map_or(0, |()| context as usize)
}

/// Waits for the work of a context; `None` for the calling thread's.
pub(crate) fn wait_for_context(context: Option<usize>) -> Result<(), CudaError> {
    let d = driver();
    let Some(context) = context else {
        // SAFETY: the call only waits, as the driver's own function does before it frees memory.
        return unsafe { d.cuCtxSynchronize() };
    };
    // SAFETY: as above.
    with_context(context, || unsafe { d.cuCtxSynchronize() })
}

/// Runs `work` with a context as the thread's current one.
pub(crate) fn with_context<T>(context: usize, work: impl FnOnce() -> Result<T, CudaError>) -> Result<T, CudaError> {
    let d = driver();
    let mut before: CuContext = std::ptr::null_mut();
    // SAFETY: the context is not destroyed, as far as is known.
    unsafe { d.cuCtxPushCurrent_v2(context as CuContext)? };
    let done = work();
    // SAFETY: this restores the thread's own context.
    let _ = unsafe { d.cuCtxPopCurrent_v2(&raw mut before) };
    done
}

/// Waits until a stream is done, for a limited time: a host function can wait for the program. Returns `false` if
/// the stream is not done.
pub(crate) fn wait_bounded(trace: &Trace, stream: CuStream) -> bool {
    static TIRED: AtomicBool = AtomicBool::new(false);
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(10));
    while !trace.is_capturing() && !TIRED.load(Ordering::Relaxed) {
        // SAFETY: the query is about a stream that the program has just used.
        match unsafe { driver().cuStreamQuery(stream) } {
            Ok(()) => return true,
            Err(e) if e.result() != Some(NOT_READY) => return false,
            Err(_) => {}
        }
        if begun.elapsed() > MAX_WAIT {
            TIRED.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
    false
}
