//! Emission of PTX text: the program's functions, shared helpers, and the entry.

mod body;
mod branches;
pub(crate) mod bulk;
mod calls;
mod context;
mod control;
mod convert;
mod counters;
mod dispatch;
mod entry;
mod floats;
mod frame;
mod function;
mod helper_texts;
mod helpers;
mod ints;
pub(crate) mod memory;
mod region;
mod registers;
mod resume;
mod second_copy;
mod signature;
pub(crate) mod steps;
mod stops;
mod tables;
mod text;
mod unaligned;
mod value;

pub(crate) use context::Context;
pub(crate) use entry::emit_program;
