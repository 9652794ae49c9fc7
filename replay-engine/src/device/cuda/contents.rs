//! Where a replay takes bytes from: a recording, or a plan with its page images.

use trace_core::recording::{CallModule, CopyRow, Recording};

/// Holds what copies moved and what modules are.
pub trait Contents {
    /// The bytes that a copy moved, its rows one after another; `None` when they are not held.
    fn copied(&self, row: &CopyRow) -> Option<Vec<u8>>;

    /// The bytes of a module; `None` when they are not held.
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
