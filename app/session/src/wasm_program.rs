//! WebAssembly programs on targets: the file of a program, the names of targets, and whole runs.

mod file;
mod target;

pub use file::{ProgramFileError, open_file};
pub use target::{OpenTargetError, TargetNameError, WasmTarget, open_gpu, open_target, run_all};
