//! What kernels print: the driver writes it to the C library's standard output at waits.
#![allow(unsafe_code, reason = "a call of the C library")]

/// Writes out what the C library holds back, so that it is before what the program prints after its wait.
pub fn flush_output() {
    // SAFETY: a null stream stands for all output streams. A failure does not matter: nobody reads the output then.
    let _ = unsafe { libc::fflush(std::ptr::null_mut()) };
}
