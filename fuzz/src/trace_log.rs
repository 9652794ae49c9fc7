//! Fuzz targets for text logs of register accesses: mmiotrace with its auxiliary log, ftrace with a device's BARs,
//! QEMU's traces as text and as files.

use crate::folder::in_folder;
use crate::recordings::check_storable;
use std::path::Path;
use trace_core::progress::Progress;
use trace_import::trace;

/// Separator between a log and the file in the same folder.
pub const SEPARATOR: &[u8] = b"\n=beside=\n";

/// Fuzzes a log and, after [`SEPARATOR`], the file in its folder: an auxiliary log for mmiotrace, the list of events for a
/// file of QEMU, a boot log, otherwise a device's BARs.
pub fn trace_log(data: &[u8]) -> bool {
    let at = data.windows(SEPARATOR.len()).position(|w| w == SEPARATOR);
    let (log, other) = match at {
        Some(at) => (data.get(..at + 1).unwrap_or_default(), data.get(at + SEPARATOR.len()..)),
        None => (data, None),
    };
    let mut accepted = false;
    in_folder(|folder| {
        let path = folder.join("log.txt");
        put(&path, Some(log));
        let form = trace::form(&path);
        // A text that begins like an ftrace line goes to an mmiotrace log, any other gives windows.
        let is_auxiliary = form == Some(trace::Form::Mmiotrace) && other.is_some_and(|o| o.starts_with(b" "));
        let name = match other {
            _ if is_auxiliary => "log.aux.txt",
            _ if form == Some(trace::Form::QemuSimple) => "trace-events-all",
            Some([b'[' | b'p', ..]) => "dmesg.txt",
            _ => "log.resource.txt",
        };
        for own in ["log.aux.txt", "trace-events-all", "dmesg.txt", "log.resource.txt"] {
            put(&folder.join(own), other.filter(|_| own == name));
        }
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
