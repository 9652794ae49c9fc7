//! A device described by the firmware's device tree, on the agent's Linux machine.
//!
//! The device's name is `platform:ADDRESS.NODE` or `platform:COMPATIBLE`: `platform:9010000.pl031`,
//! `platform:arm,pl031`. Its registers are mapped through the kernel's UIO driver if the device is bound to it, and
//! otherwise through `/dev/mem`. A GPU whose family knows its reset becomes a target of that GPU, whose plans contain
//! page tables.

mod driver;
mod error;
mod interrupts;
mod name;
mod node;
mod replay_device;
mod tree;
mod tree_gpu;

pub(super) use driver::restore_driver;
pub use error::PlatformError;
pub use name::Name;
pub use node::{Iommu, PlatformNode, list_devices};
pub use replay_device::{Options, PlatformReplayDevice};
pub use tree::{Node, Tree};
pub(crate) use tree_gpu::TreeGpu;
pub use tree_gpu::TreeGpus;

/// The name forms of device-tree devices, for lists.
pub const FORM: &str = "platform:ADDRESS.NODE, platform:COMPATIBLE";
