//! The crash report: a file that a user can attach, written when the program panics or when a mapped recording becomes
//! unreadable.

use crate::{bus, log};
use std::backtrace::Backtrace;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

static OPEN: Mutex<String> = Mutex::new(String::new());

/// Stores which recording is open, for the crash report.
pub fn set_open_recording(path: &Path) {
    if let Ok(mut o) = OPEN.lock() {
        *o = path.display().to_string();
    }
}

/// Returns the first line of every report.
fn head() -> String {
    format!(
        "kinescope {} on {} {}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

/// Formats the text of a report.
#[must_use]
pub fn format_report(what: &str, backtrace: &str) -> String {
    let open = OPEN.lock().map(|o| o.clone()).unwrap_or_default();
    format!(
        "{}recording: {}\n\n{what}\n\n{backtrace}\n\nlog:\n{}",
        head(),
        if open.is_empty() { "none" } else { &open },
        log::text()
    )
}

/// Writes a report into a folder and returns its path.
///
/// # Errors
/// When the folder or the file cannot be created.
pub fn write(folder: &Path, text: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|d| d.as_millis())
        .unwrap_or(0);
    let path = folder.join(format!("kinescope-crash-{now}.txt"));
    std::fs::write(&path, text)?;
    Ok(path)
}

/// Returns the newest report in a folder.
#[must_use]
pub fn find_newest(folder: &Path) -> Option<PathBuf> {
    let reports = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
    let named = |p: &PathBuf| {
        p.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("kinescope-crash-"))
    };
    reports.filter(named).max()
}

/// Installs handlers that write a report to `folder` and print its path. They run on every panic, and when an open
/// recording becomes shorter.
pub fn install(folder: PathBuf) {
    let ready = bus::report_to(&folder, &head()).and_then(|_| bus::install());
    if let Err(e) = ready {
        let text = format!("crash reports cannot be prepared in {}: {e}", folder.display());
        log::push(log::Level::Warning, text);
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        let text = format_report(&info.to_string(), &Backtrace::force_capture().to_string());
        match write(&folder, &text) {
            Ok(path) => {
                log::push(
                    log::Level::Error,
                    format!("an internal error occurred; the crash report is {}", path.display()),
                );
                eprintln!(
                    "kinescope: crash report: {} (attach it to a bug report)",
                    path.display()
                );
            }
            Err(e) => eprintln!(
                "kinescope: the crash report could not be written to {}: {e}",
                folder.display()
            ),
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_report_names_the_recording_and_the_panic() {
        let dir = tempfile::tempdir().unwrap();
        set_open_recording(Path::new("/x/alexnet.kine"));
        log::push(log::Level::Info, "something was done");
        let path = write(dir.path(), &format_report("panicked at 'why'", "frame 0")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for part in ["/x/alexnet.kine", "panicked at 'why'", "frame 0", "something was done"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(find_newest(dir.path()), Some(path));
        assert_eq!(find_newest(&dir.path().join("nowhere")), None);
    }
}
