//! Last error of each thread.

use crate::CallResult;
use crate::errors::{ErrorCode, SUCCESS, is_sticky};
use std::cell::Cell;

thread_local! {
    static LAST_ERROR: Cell<ErrorCode> = const { Cell::new(SUCCESS) };
}

/// Returns a call's error code, and remembers it as the thread's last error.
pub fn record(result: CallResult) -> ErrorCode {
    match result {
        Ok(()) => SUCCESS,
        Err(code) => {
            LAST_ERROR.set(code);
            code
        }
    }
}

/// `cudaGetLastError`: returns the thread's last error and clears it, unless the context is lost.
pub fn take() -> ErrorCode {
    let code = LAST_ERROR.get();
    if !is_sticky(code) {
        clear();
    }
    code
}

/// `cudaPeekAtLastError`: returns the thread's last error.
pub fn peek() -> ErrorCode {
    LAST_ERROR.get()
}

/// Clears the thread's last error, even if it is that of a lost context.
pub fn clear() {
    LAST_ERROR.set(SUCCESS);
}
