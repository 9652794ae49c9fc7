//! Devices that the kernel gives to this program behind an IOMMU (VFIO): their windows, interrupt, reset, and memory at
//! addresses of this program's choice, which are all that the device can reach.
//!
//! The container is of type 1, version 2: every kernel that has VFIO has it, those with `iommufd` too. The mode of VFIO
//! without an IOMMU is never used: it keeps a device from nothing.

mod device;
mod group;
mod kernel;
pub mod refused;

pub(super) use device::{Reached, Vfio};
pub use group::{Group, Sharer};
pub use kernel::{VfioError, ranges};
pub(super) use refused::Log;
