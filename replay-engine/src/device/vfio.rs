//! Devices that the kernel gives to this program behind an IOMMU (VFIO): their windows, interrupt, reset, and memory.
//!
//! This program chooses the memory's bus addresses, and the device can access nothing else. The container is of type 1,
//! version 2: every kernel with VFIO has it, also those with `iommufd`. The no-IOMMU mode of VFIO is never used,
//! because it contains nothing.

mod device;
pub mod dma_faults;
mod group;
mod kernel;

pub(super) use device::{DmaMapping, Vfio};
pub(super) use dma_faults::FaultLog;
pub use group::{Group, GroupDevice};
pub use kernel::{VfioError, ranges};
