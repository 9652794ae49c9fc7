//! Start and end of the recording: at the first device file, at the end of the process, and at forks.

use crate::message::print_line;
use crate::process::{begin, claim_start, decline, leave_child, lock};
use crate::recorder::{Recorder, create_recorder};
use crate::records::ScanReason;
use crate::settings::Settings;
use crate::signals::install_fault_handler;
use crate::submissions::log_all;

/// Starts the recording, once, if one is requested.
pub(crate) fn start() {
    if !claim_start() {
        return;
    }
    let Some(settings) = Settings::from_environment() else {
        return decline();
    };
    match create_recorder(&settings) {
        Ok(recorder) => start_with(recorder),
        Err(reason) => {
            print_line(&["NVIDIA's driver is not recorded: ", &reason]);
            decline();
        }
    }
}

/// Starts the recording with a recorder.
pub(crate) fn start_with(recorder: Recorder) {
    install_fault_handler();
    crate::process::install(recorder);
    register_process_hooks();
    begin();
}

/// Logs what the rings still hold, and cuts the log after its last record. Work that follows is still recorded.
pub(crate) fn finish() {
    let Some(mut guard) = lock() else { return };
    guard.run(|recorder, thread| {
        log_all(recorder, thread, ScanReason::Exit)?;
        recorder.log.trim();
        Ok(())
    });
}

extern "C" fn at_exit() {
    finish();
}

extern "C" fn in_child() {
    leave_child();
}

#[allow(unsafe_code, reason = "registration of functions at the C library")]
fn register_process_hooks() {
    // SAFETY: the functions are in this library, which stays loaded.
    unsafe {
        libc::atexit(at_exit);
        libc::pthread_atfork(None, None, Some(in_child));
    }
}
