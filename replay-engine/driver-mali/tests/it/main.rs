//! One program holds all integration tests of this crate, so they link once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests fail so, and say what they skip"
)]

mod agreement;
mod chains;
mod changes;
mod edited_changes;
mod endless;
mod other_model_refusals;
mod other_models;
mod outcomes;
mod pictures;
mod programs;
mod recordings;
#[path = "../../examples/make_samples/samples.rs"]
mod sample_table;
mod samples;
mod table_formats;
