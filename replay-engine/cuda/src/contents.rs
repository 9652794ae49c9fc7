//! The source of a replay's bytes: a recording, or a plan with its page images.

use trace_core::recording::{CallModule, CopyRow, Recording};

/// A source of copied data and of module code.
pub trait Contents {
    /// Returns the bytes that a copy moved, its rows one after another, or `None` if they are not available.
    fn copied(&self, row: &CopyRow) -> Option<Vec<u8>>;

    /// Returns the bytes of a module, or `None` if they are not available.
    fn code(&self, module: &CallModule) -> Option<Vec<u8>>;
}

impl Contents for Recording {
    fn copied(&self, row: &CopyRow) -> Option<Vec<u8>> {
        Recording::copy_content(self, row)
    }

    fn code(&self, module: &CallModule) -> Option<Vec<u8>> {
        self.module_code(module)
    }
}
