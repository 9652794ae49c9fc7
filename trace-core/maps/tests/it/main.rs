//! Integration tests of this crate. They are one program, so that the crate links once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

mod arrays;
mod field_cases;
mod mistakes;
mod naming;
mod own_limits;
mod packets;
mod readers;
mod user_maps;
