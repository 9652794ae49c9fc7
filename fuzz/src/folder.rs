//! The folder of a thread, for readers that need files.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

thread_local! {
    /// Folder of this thread for readers that need files, in memory if the system has a file system there.
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

/// Runs `run` in this thread's folder.
pub(crate) fn in_folder(run: impl FnOnce(&Path)) {
    FOLDER.with(|cell| {
        let made = cell.get_or_init(|| {
            let shm = PathBuf::from("/dev/shm");
            let dir = if shm.is_dir() {
                TempDir::new_in(shm)
            } else {
                TempDir::new()
            };
            dir.unwrap_or_else(|e| panic!("no temporary folder: {e}"))
        });
        run(made.path());
    });
}
