//! Executor that decodes actions in place and runs them on a device, without heap, panics or operating system.
#![no_std]
#![forbid(unsafe_code)]

mod action;
mod device;
mod encoding;
mod execute;

pub use action::{Action, ReadClass, width_mask};
pub use device::{Device, DeviceError, MEMORY, WaitResult};
pub use encoding::{Actions, DecodeError, DecodeErrorKind, EncodeError, Encoder, MAX_ACTION_BYTES, SLOTS};
pub use execute::{
    Budget, Compared, Counts, Divergence, Failure, FailureKind, Flow, ObservedAccess, Observer, execute,
};
