//! Recording to plan to device; the protocol of clients and agents.
#![deny(unsafe_code)]

pub mod channel;
pub mod client;
pub mod compile;
pub mod device;
mod families;
pub mod lease_options;
pub mod live;
pub mod memory_trace;
pub mod metrics;
pub mod plan;
pub mod question;
mod rules;
pub mod run;
pub mod serve;
pub mod target;
pub mod tune;
pub mod verify;
pub mod wasm;
pub mod wire;
pub mod worker;

pub use families::tree_gpus;
