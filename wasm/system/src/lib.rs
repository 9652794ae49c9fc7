//! System calls of a copy of a WebAssembly program: one module in text form, and the two ends of its memory.
//!
//! The module runs on every target as WebAssembly, so that CPU and GPU give the same answers. A host does three things
//! for it: it fills the module's memory ([`SystemLayout::encode`]), serves the three host functions ([`HostFunction`]),
//! and reads the results ([`SystemLayout::read_results`]). A host that links modules in order, without circles, divides the
//! program first ([`SharedProgram`]).

mod errors;
mod functions;
mod layout;
mod module;
mod results;
mod shared_program;

pub use errors::error_name;
pub use functions::{HostFunction, IMPORT_MODULES, SystemFunction, find_export};
pub use layout::{LayoutError, MemoryWrite, PAGE_BYTES, Stream, SystemInputs, SystemLayout};
pub use module::{ModuleError, PROGRAM_MEMORY, PROGRAM_MODULE, SYSTEM_MEMORY, assemble, text};
pub use results::{ResultError, ResultRanges, SystemCall, SystemResults};
pub use shared_program::{ShareError, SharedProgram};

#[cfg(test)]
mod tests;
