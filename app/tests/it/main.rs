//! The integration tests of this crate, in one program: it links once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests fail by panicking and print what they skip"
)]

mod bus;
mod command_line;
mod common;
mod following;
mod journals;
mod keys;
mod naming;
mod own_maps;
mod panels;
mod replay;
mod sheets;
mod timeline;
mod tutorial_commands;
mod tutorial_pictures;
mod window;
mod workspace;
