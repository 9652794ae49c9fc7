//! The official test-suite: its scripts, the choices for each, and what does not hold with the extensions.

use wasm_ptx::{CellSize, Options};

/// A script of the test-suite.
#[derive(Clone, Copy, Debug)]
pub struct SuiteFile {
    /// Folder, such as `wasm-v1`: the version of the specification, or an extension.
    pub folder: &'static str,
    /// File name, such as `i32.wast`.
    pub name: &'static str,
    /// Text of the script.
    pub text: &'static str,
}

/// All scripts: WebAssembly 1.0, and the extensions that programs may use.
pub const SUITE_FILES: &[SuiteFile] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Reason of exceptions: values of reference types.
pub const REFERENCES: &str = "uses values of reference types, which programs may not";
/// Reason of exceptions: segments before bulk memory operations.
pub const SEGMENTS: &str = "expects that no segment is written if one does not fit: bulk memory operations changed it";

/// Directives that do not hold with the extensions that programs may use: file, line or message, and the reason.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// Folder and file, such as `wasm-v1/elem.wast`.
    pub file: &'static str,
    /// Line of the directive, or 0 for all directives with the message.
    pub line: usize,
    /// Message of the directive, or an empty text for every message.
    pub message: &'static str,
    /// Reason.
    pub reason: &'static str,
}

/// Directives that do not hold with the extensions that programs may use.
pub const EXCEPTIONS: &[Exception] = &[
    exception("bulk-memory/table_fill.wast", 0, REFERENCES),
    exception("bulk-memory/table-sub.wast", 1, REFERENCES),
    exception("bulk-memory/table_init.wast", 2272, REFERENCES),
    exception("bulk-memory/table_init.wast", 2286, REFERENCES),
    exception("mutable-global/linking.wast", 236, SEGMENTS),
    exception("mutable-global/linking.wast", 248, SEGMENTS),
    exception("mutable-global/linking.wast", 342, SEGMENTS),
    exception("mutable-global/linking.wast", 354, SEGMENTS),
];

const fn exception(file: &'static str, line: usize, reason: &'static str) -> Exception {
    Exception {
        file,
        line,
        message: "",
        reason,
    }
}

impl SuiteFile {
    /// Returns folder and file, such as `wasm-v1/i32.wast`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    /// Returns the options of the translation. Files of the bulk memory extension copy between tables.
    ///
    /// Few files grow a memory by hundreds of pages. The room for them costs 32 times its size on a device.
    #[must_use]
    pub fn options(&self, cell: CellSize) -> Options {
        let grows_far = self.name.starts_with("memory_grow") || self.name.starts_with("call");
        Options {
            cell,
            growth_pages: if grows_far { 1024 } else { 64 },
            several_tables: self.folder == "bulk-memory",
            ..Options::default()
        }
    }
}
