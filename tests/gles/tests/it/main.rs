//! The integration tests of this crate, in one program: it links once.

mod digits_replayed;
mod software;
