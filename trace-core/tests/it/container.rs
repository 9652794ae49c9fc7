//! The container, tested through its public face: round trips, damage, crashes, the frozen file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)] // These are tests.

mod crash;
mod damage;
mod generate;
mod golden;
mod round_trip;
mod used;
