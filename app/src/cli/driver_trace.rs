//! The requests to the kernel driver in a recording.

use super::source::SourceRecording;
use super::{Failure, progress_line};
use trace_core::driver_trace::{DriverObject, DriverTrace};

/// Loads the objects, channels and submissions of a recording.
///
/// # Errors
/// When the recording has no requests to a kernel driver.
pub fn load(opened: &SourceRecording) -> Result<DriverTrace, Failure> {
    let found = progress_line::run_with_progress("following objects", |progress, _| {
        DriverTrace::from_recording(&opened.recording, progress).map_err(|e| Failure::file(&opened.file, e))
    })?;
    found.ok_or_else(|| {
        Failure::file(
            &opened.file,
            "not a driver trace: it holds no requests to a kernel driver, such as those of a kernel log of nouveau",
        )
    })
}

/// Formats a number that the recording may not state: `0x40`.
#[must_use]
pub fn format_known(number: Option<u32>) -> Option<String> {
    number.map(|n| format!("{n:#x}"))
}

/// Names an object in a table: its handle, or its number if the source states no handle.
#[must_use]
pub fn name_object(object: &DriverObject, index: usize) -> String {
    format_known(object.handle).unwrap_or_else(|| format!("#{index}"))
}
