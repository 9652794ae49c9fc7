//! Tests of translated programs: the official test-suite.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail and report in these ways"
)]

mod assembler;
mod copies;
mod devices;
mod differential;
mod host;
mod mutations;
mod operations;
mod oracle;
mod random;
mod suite;
