//! The integration tests of this crate, in one program: it links once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests fail so, and say what they skip"
)]

mod naming;
mod own_limits;
mod readers;
mod user_maps;
