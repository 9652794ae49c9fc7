//! A PCI function of the agent's Linux machine, accessed through `/sys`.
//!
//! The device's name is `pci:ADDRESS` or `pci:VENDOR:DEVICE`: `pci:0000:00:03.0`, `pci:1002:5159`. Its windows are
//! mapped, so an access is one load or store. No kernel driver uses the function meanwhile. If an IOMMU can isolate it,
//! it is opened through VFIO ([`super::vfio`]) and accesses only the memory of its plans. Bus mastering is on only
//! while a proved plan runs. [`super::guard`] turns it off when the agent ends for any reason.

mod config;
mod driver;
mod error;
mod function;
mod interrupts;
mod name;
mod open_function;
mod region_access;
mod replay_device;

pub(super) use driver::restore_driver;
pub use error::PciError;
pub use function::{Function, Resource, list_functions};
pub use name::{Address, Name};
pub use open_function::Options;
pub use replay_device::PciReplayDevice;

/// The name forms of PCI functions, for lists.
pub const FORM: &str = "pci:ADDRESS, pci:VENDOR:DEVICE";
