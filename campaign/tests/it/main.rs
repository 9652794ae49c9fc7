//! Campaigns on simulators in this process, and queues whose process is killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod crashes;
mod farm;
mod kinds;
mod lossy_agent;
mod lost_connections;
mod program_errors;
mod simulators;
