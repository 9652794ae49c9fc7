//! The text form (WAT) of WebAssembly programs: lines, their byte offsets in the file, and the lines of functions.

mod print;
mod program_text;

#[cfg(test)]
mod tests;

pub use print::{MAX_LINE_BYTES, MAX_TEXT_BYTES, PrintError, print_program};
pub use program_text::{FunctionLines, ProgramText};
