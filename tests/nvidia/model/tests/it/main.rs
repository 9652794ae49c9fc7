//! Integration tests of this crate. They are one program, so that the crate links once.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    reason = "a test panics when it fails, and uses the driver with pointers as programs do"
)]

mod bring_up;
mod client;
mod errors;
mod launches;
mod log;
mod recorded;
mod requests;
mod uvm;
