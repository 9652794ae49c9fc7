//! A client of NVIDIA's kernel driver: memory at chosen addresses, channels, submissions, faults. No library of NVIDIA.
//!
//! The client talks to the resource manager (RM) of the open kernel driver by ioctls alone. It needs no heap and no
//! standard library, so that a static executable of a few tens of KB can replay with it. Numbers of requests, classes
//! and structs come from the driver's MIT-licensed headers; `tests.rs` compares them with the tables of
//! `nvidia-channel`.
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]

mod argument;
mod branch;
mod calls;
mod channel;
mod client;
mod control;
mod device;
mod error;
mod fault;
mod kernel;
mod mapping;
mod memory;
mod notifier;
mod play_error;
mod player;
mod player_objects;
mod player_pages;
mod scheduler_pages;
pub mod steps;

pub use branch::{DriverBranch, find_module_version};
pub use channel::{Channel, ChannelGroup, ChannelLayout};
pub use client::Client;
pub use control::Control;
pub use device::{Classes, GpuInfo};
pub use error::{ClientError, Operation};
pub use fault::{MmuFault, SmError};
pub use kernel::{File, Kernel, SystemError};
pub use mapping::Mapping;
pub use memory::{Memory, Place};
pub use notifier::{ErrorNotifier, robust_channel_name};
pub use play_error::{PlayError, PlayFault};
pub use player::{Engine, Player};
pub use scheduler_pages::MAX_SCHEDULER_PAGES;

#[cfg(test)]
mod tests;
