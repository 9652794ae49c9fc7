//! An interpreter of the PTX subset that the translator of WebAssembly programs writes.
//!
//! [`Program::parse`] checks a text once and makes a compact program of it: registers have numbers, labels are resolved,
//! and types of operands are checked. [`Program::run_entry`] then runs a grid, one thread at a time. Memory is an
//! [`AddressSpace`]: a wrong address is a [`Fault`], as on a device.
//!
//! What PTX leaves unspecified is a fault as well, for example a division by zero: a translator must test before it.
//! Registers hold no zeros at the entry of a function, and NaNs of arithmetic have the bits that NVIDIA's hardware
//! gives them. Thus a translator that relies on more than PTX promises fails here.
//!
//! Threads run one after the other, so `activemask` is the mask of one lane, and `bar.warp.sync` does nothing.
#![forbid(unsafe_code)]

mod arithmetic;
mod error;
mod execute;
mod lexer;
mod memory;
mod parse;
mod program;
#[cfg(test)]
mod tests;
mod types;
mod variables;

pub use error::{Fault, FaultKind, ParseError, ParseErrorKind};
pub use execute::{LaunchRun, LaunchShape, Limits, Stats};
pub use memory::{AddressSpace, GlobalAddress, Region, Regions, Width};
pub use program::{EntryDescription, Program};
