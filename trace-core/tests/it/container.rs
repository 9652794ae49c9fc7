//! Tests of the container through its public interface: round trips, damage, crashes, golden files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod crash;
mod damage;
mod generate;
mod golden;
mod metadata;
mod packed;
mod round_trip;
mod used;
