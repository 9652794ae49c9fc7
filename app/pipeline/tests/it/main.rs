//! The integration tests of this crate, in one program: it links once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests fail by panicking and print what they skip"
)]

mod assignments;
mod checks;
mod folders;
mod loops;
mod runs;
mod samples;
mod support;
