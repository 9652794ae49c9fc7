//! Fuzz targets for text logs of register accesses: mmiotrace with its auxiliary log, ftrace with a device's BARs,
//! QEMU's traces as text and as files.

use crate::folder::in_folder;
use crate::recordings::check_storable;
use std::path::Path;
use trace_core::progress::Progress;
use trace_import::trace;

/// Separator between a log and the file in the same folder.
pub const SEPARATOR: &[u8] = b"\n=beside=\n";

/// Fuzzes a log and, after [`SEPARATOR`], the file in its folder: an auxiliary log for mmiotrace, otherwise a device's
/// BARs.
pub fn trace_log(data: &[u8]) -> bool {
    let at = data.windows(SEPARATOR.len()).position(|w| w == SEPARATOR);
    let (log, other) = match at {
        Some(at) => (data.get(..at + 1).unwrap_or_default(), data.get(at + SEPARATOR.len()..)),
        None => (data, None),
    };
    let mut accepted = false;
    in_folder(|folder| {
        let (path, aux, windows) = (
            folder.join("log.txt"),
            folder.join("log.aux.txt"),
            folder.join("log.resource.txt"),
        );
        put(&path, Some(log));
        let form = trace::form(&path);
        // A text that begins like an ftrace line goes to an mmiotrace log, any other gives windows.
        let is_auxiliary = form == Some(trace::Form::Mmiotrace) && other.is_some_and(|o| o.starts_with(b" "));
        put(&aux, other.filter(|_| is_auxiliary));
        put(&windows, other.filter(|_| !is_auxiliary));
        if let Ok(recording) = trace::import(&path, &trace::Options::default(), &Progress::new()) {
            check_storable(&recording);
            accepted = true;
        }
    });
    accepted
}

fn put(path: &Path, bytes: Option<&[u8]>) {
    let done = match bytes {
        Some(bytes) => std::fs::write(path, bytes),
        // It does not matter if the file does not exist.
        None => std::fs::remove_file(path).or(Ok(())),
    };
    done.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
