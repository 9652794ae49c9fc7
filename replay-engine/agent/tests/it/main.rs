//! The integration tests of this crate, in one program: it links once.

mod emulated;
mod process;
mod program;
mod recordings;
mod refusals;
