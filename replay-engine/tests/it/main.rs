//! One program holds all integration tests of this crate, so they link once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "tests fail so, and say what they skip"
)]

mod bare;
mod checking;
mod containment;
mod dma;
mod hostile;
mod live;
mod pairing;
mod pci;
mod platform;
mod qemu;
mod replaying;
mod support;
mod wasm;
mod windows;
