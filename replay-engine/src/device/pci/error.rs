//! Errors of PCI functions of this machine.

use super::name::Address;
use crate::device::ReplayDeviceError;
use crate::device::host::HostError;
use crate::device::vfio::VfioError;
use std::io;

/// The reason why a PCI function cannot be opened, or is gone.
#[derive(Debug, thiserror::Error)]
pub enum PciError {
    /// The text after `pci:` has no known form.
    #[error(
        "`pci:{text}` is not the name of a PCI function; use its address (pci:0000:00:03.0) or its ids (pci:1002:5159)"
    )]
    Name {
        /// The text as given.
        text: String,
    },
    /// This machine has no such function.
    #[error("this machine has no PCI function {name}; it has: {known}")]
    Absent {
        /// The requested name.
        name: String,
        /// The existing functions.
        known: String,
    },
    /// Several functions have these ids.
    #[error("several PCI functions are {name}: {functions}; name one by its address")]
    Ambiguous {
        /// The ids.
        name: String,
        /// Addresses of the functions.
        functions: String,
    },
    /// The function is bound to a kernel driver.
    #[error(
        "the driver `{driver}` uses {address}: unbind it (echo {address} > /sys/bus/pci/drivers/{driver}/unbind), or \
         run the agent with --take, which binds the driver again when the agent ends"
    )]
    Driver {
        /// The function.
        address: Address,
        /// The driver.
        driver: String,
    },
    /// A bridge or similar, which no plan can be for.
    #[error("{address} is a bridge, which the machine itself needs")]
    Bridge {
        /// The function.
        address: Address,
    },
    /// A kernel file could not be used.
    #[error("{address}: {source}")]
    Host {
        /// The function.
        address: Address,
        /// The error.
        source: HostError,
    },
    /// The kernel's information about the function is invalid.
    #[error("{address}: {what}")]
    Odd {
        /// The function.
        address: Address,
        /// What is invalid.
        what: String,
    },
    /// The function has no window, or none with an address.
    #[error("{address} has no MMIO region with a bus address: firmware and kernel assigned none")]
    NoWindow {
        /// The function.
        address: Address,
    },
    /// A window could not be mapped.
    #[error("bar{bar} of {address} could not be mapped: {source}{}", strict(.source))]
    Map {
        /// The function.
        address: Address,
        /// The window.
        bar: u8,
        /// The error of the operating system.
        source: io::Error,
    },
    /// VFIO refuses access.
    #[error("{address} through VFIO: {source}")]
    Vfio {
        /// The function.
        address: Address,
        /// The error.
        source: VfioError,
    },
    /// The function was bound to the VFIO driver but cannot be operated through it.
    #[error(
        "{address} is bound to vfio-pci but cannot be used through it: {why}; unbind it (echo {address} > \
         /sys/bus/pci/drivers/vfio-pci/unbind) to use it without containment"
    )]
    Bound {
        /// The function.
        address: Address,
        /// The reason.
        why: String,
    },
    /// Configuration space cannot be reached.
    #[error("configuration space of {address} at {offset:#x}: {source}")]
    Config {
        /// The function.
        address: Address,
        /// The offset.
        offset: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The function does not respond.
    #[error("{address} does not answer: it was removed, or its bus is down")]
    Gone {
        /// The function.
        address: Address,
    },
    /// No guard would quiesce the function when the agent ends.
    #[error("the guard process of this agent's devices: {0}")]
    Guard(#[source] io::Error),
}

fn strict(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::InvalidInput => "; the kernel uses this memory (a driver, or the boot console)",
        io::ErrorKind::PermissionDenied => "; run the agent as root, on a kernel without lockdown",
        _ => "",
    }
}

impl From<PciError> for ReplayDeviceError {
    fn from(e: PciError) -> Self {
        Self::Failed(e.to_string())
    }
}
