//! The integration tests of this crate, in one program: it links once.

mod journal;
mod workspace;
