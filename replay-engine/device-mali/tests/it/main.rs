//! One program holds all integration tests of this crate, so they link once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests fail so, and say what they skip"
)]

mod chains;
mod common;
mod debug;
mod differential;
mod hostile;
mod modifiers;
mod oracle;
mod outcome;
mod own_model_plans;
mod own_reset;
mod placement;
mod recorded_reads;
mod refusals;
mod replay;
mod state_before;
mod textures;
mod trim;
