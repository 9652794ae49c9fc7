//! The Bifrost instruction set of Mali GPUs of architecture 6 and 7: clauses, tuples, operations, their text.
//!
//! One table (`table/`) decodes operations, gives them their text and tells an executor their modifiers. A shader is
//! a run of clauses; a clause has up to eight tuples; a tuple has an operation for each of the units FMA and ADD, and
//! a block that says which registers are read, and which registers the results of the tuple before are written to.

mod clause;
mod modifier;
mod op;
pub mod pack;
mod registers;
mod table;
mod text;

pub use clause::{Clause, ClauseError, Constant, Flow, Header, PcRelative, Tuple};
pub use modifier::{Modifier, Value};
pub use op::{Count, Message, Op, Staging};
pub use registers::{Port2, Port3, Registers, Uniform, WriteHalf, uniform};
pub use table::{Instruction, Source, Unit};
pub use text::{Shader, clause_text, disassemble, header_text};

/// Bytes of the words that a clause is made of.
pub const WORD_BYTES: usize = 16;
/// Maximum number of tuples of a clause.
pub const MAX_TUPLES: usize = 8;
/// Maximum number of 16-byte words of a clause: one beyond this many is an error, whatever they hold.
pub const MAX_WORDS: usize = 16;
