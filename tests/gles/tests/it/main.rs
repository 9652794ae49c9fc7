//! The integration tests of this crate, as one program that links only once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests fail by panics, and print why they skip"
)]

mod digits_replayed;
mod software;
