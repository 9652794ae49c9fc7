//! Devices that the kernel gives to this program behind an IOMMU (VFIO): their windows, interrupt, reset, and memory at
//! addresses of this program's choice, which are all that the device can reach.
//!
//! The container is of type 1, version 2: every kernel that has VFIO has it, those with `iommufd` too. The mode of VFIO
//! without an IOMMU is never used: it keeps a device from nothing.

mod device;
pub mod dma_faults;
mod group;
mod kernel;

pub(super) use device::{DmaMapping, Vfio};
pub(super) use dma_faults::FaultLog;
pub use group::{Group, GroupDevice};
pub use kernel::{VfioError, ranges};
