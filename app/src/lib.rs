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
use bytes as _;
use curve25519_dalek as _;
use futures_sink as _;
use futures_util as _;
use getrandom as _;
use getrandom_02 as _;
use zeroize as _;
// Cargo.toml names syn as a build dependency for the same reason.
