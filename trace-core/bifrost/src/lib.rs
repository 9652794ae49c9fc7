//! The Bifrost instruction set of Mali GPUs of architecture 6 and 7: clauses, tuples, operations and their text.
//!
//! One table (`table/`) decodes operations, formats them and gives an executor their modifiers. A shader is a sequence
//! of clauses. A clause has up to eight tuples. A tuple has one operation for each of the units FMA and ADD, and a
//! register block. The block names the registers that the tuple reads, and the registers that receive the results of
//! the previous tuple.

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

/// Size of a clause word, bytes.
pub const WORD_BYTES: usize = 16;
/// Maximum number of tuples of a clause.
pub const MAX_TUPLES: usize = 8;
/// Maximum number of 16-byte words of a clause. One word more is an error, whatever it holds.
pub const MAX_WORDS: usize = 16;
