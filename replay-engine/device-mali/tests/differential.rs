//! What clauses compute, against a second implementation written from the descriptions of the operations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "oracle/mod.rs"]
mod oracle;
