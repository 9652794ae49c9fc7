//! Work on a thread of its own: the interpreter goes on, sees progress, and stops the work on Ctrl-C.

use crate::errors;
use kinescope::cli::Failure;
use kinescope::cli::embedding::WorkWatch;
use pyo3::prelude::*;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Interval between two looks at signals and progress.
const TICK: Duration = Duration::from_millis(50);
/// Stack of the thread, bytes: that of the main thread of a program, twice.
const STACK_BYTES: usize = 16 << 20;

/// Runs work without the interpreter's lock. `observer` is called with the current step and its fraction, or `None`, about
/// twenty times a second. `path` is the recording that the work reads.
///
/// # Errors
/// The failure of the work; the exception of a signal handler, such as `KeyboardInterrupt`, or of the observer, after the
/// work stopped; `InternalError` if the work panicked.
pub fn run<T: Send>(
    py: Python<'_>,
    observer: Option<&Py<PyAny>>,
    path: Option<&Path>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let watch = Arc::new(WorkWatch::default());
    let (done, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    let mut exception = None;
    let joined = thread::scope(|scope| {
        let watched = watch.clone();
        let thread = thread::Builder::new().name("kinescope".into()).stack_size(STACK_BYTES);
        let handle = thread.spawn_scoped(scope, move || {
            // Dropped at the end in any way, which ends the wait below.
            let _done = done;
            watched.run(work)
        })?;
        let wait = || {
            let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            ended.recv_timeout(TICK)
        };
        while py.detach(wait) == Err(RecvTimeoutError::Timeout) {
            if exception.is_none()
                && let Err(e) = py.check_signals().and_then(|()| report(py, observer, &watch))
            {
                watch.cancel();
                exception = Some(e);
            }
        }
        std::io::Result::Ok(py.detach(|| handle.join()))
    });
    if let Some(exception) = exception {
        return Err(exception);
    }
    let result = joined?.map_err(|panic| errors::from_panic(py, &*panic, path))?;
    // A signal at the very end must not be lost.
    py.check_signals()?;
    errors::warn(py, &watch.take_messages())?;
    result.map_err(|failure| errors::from_failure(py, &failure, path))
}

/// Passes the current step to the observer.
fn report(py: Python<'_>, observer: Option<&Py<PyAny>>, watch: &WorkWatch) -> PyResult<()> {
    if let Some(observer) = observer
        && let Some(step) = watch.current_step()
    {
        observer.call1(py, step)?;
    }
    Ok(())
}
