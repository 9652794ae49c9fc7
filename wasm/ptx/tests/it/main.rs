//! Tests of the translator that need no interpreter: texts, refusals, layouts, linking.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail in these ways"
)]

mod golden;
mod layout;
mod linking;
mod refusals;
