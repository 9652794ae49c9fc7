//! A PCI function of the agent's Linux machine, through what the kernel shows of it in `/sys`.
//!
//! The device's name is `pci:ADDRESS` or `pci:VENDOR:DEVICE`: `pci:0000:00:03.0`, `pci:1002:5159`. Its windows are
//! mapped, so that an access is one load or store; nothing of the kernel's has the function meanwhile. Where an IOMMU
//! can keep it apart, it is had through VFIO ([`super::vfio`]) and reaches the memory of its plans alone. The function
//! masters no bus but while a plan runs that was proved, and [`super::guard`] sees to it that it stops when the agent ends,
//! however it ends.

mod board;
mod config;
mod driver;
mod error;
mod function;
mod interrupts;
mod name;
mod open_function;
mod region_access;
mod virtio;

pub use board::{Options, PciBoard};
pub(super) use driver::restore_driver;
pub use error::PciError;
pub use function::{Function, Resource, list_functions};
pub use name::{Address, Name};

/// The forms of the names of PCI functions, for lists.
pub const FORM: &str = "pci:ADDRESS, pci:VENDOR:DEVICE";
