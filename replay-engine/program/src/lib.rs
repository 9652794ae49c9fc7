//! Generator of stand-alone replays: source code of a recording's plan for a firmware or TEE application, as a Rust
//! crate without `std` and as a C library. Neither needs anything of this project at run time. A plan for the channels
//! of an NVIDIA GPU becomes a file for a static executable.

mod channel_file;
mod contents;
mod error;
mod input_layout;
mod names;
mod program;
mod write;

pub use channel_file::{ChannelFileError, ChannelFileSummary, MAX_WRITE_BYTES, write_channel_file};
pub use error::ProgramError;
pub use input_layout::{ImagePiece, Piece};
pub use program::{Options, Program, ProgramBuffer};
pub use write::{WriteError, WrittenFiles, write};
