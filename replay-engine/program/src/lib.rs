//! Generator of stand-alone replays: source code of a recording's plan for a firmware or TEE application, as a Rust
//! crate without `std` and as a C library. Neither needs anything of this project at run time.

mod contents;
mod error;
mod input_layout;
mod names;
mod program;
mod write;

pub use error::ProgramError;
pub use input_layout::{ImagePiece, Piece};
pub use program::{Options, Program, ProgramBuffer};
pub use write::{WriteError, WrittenFiles, write};
