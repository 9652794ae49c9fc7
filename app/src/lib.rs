//! The kinescope program: window and command line.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod bus;
pub mod cli;
pub mod commands;
pub mod log;
pub mod panels;
pub mod theme;
pub mod window;

// Named for its features: see Cargo.toml of the workspace.
use getrandom as _;
