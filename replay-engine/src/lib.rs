//! From recording to plan to device, client and agent protocol.
#![deny(unsafe_code)]

pub mod client;
pub mod device;
pub mod memory_trace;
pub mod plan;
pub mod question;
pub mod run;
pub mod serve;
pub mod tune;
pub mod verify;
pub mod wire;
