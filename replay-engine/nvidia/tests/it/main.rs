//! Integration tests of this crate as one program, so that they link once: the client of the kernel driver on the model of
//! driver and GPU.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test panics when it fails"
)]

mod failures;
mod faults;
mod machine;
mod repeats;
mod replays;
mod scheduler;
#[path = "../../../../tests/nvidia/preload/client/work.rs"]
mod work;
