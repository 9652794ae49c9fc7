//! Errors of device-tree devices of this machine.

use crate::device::ReplayDeviceError;
use crate::device::host::HostError;
use std::io;
use trace_core::PhysAddr;

/// The reason why a device-tree device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// The text after `platform:` has no known form.
    #[error(
        "`platform:{text}` is not the name of a device; use the kernel's name (platform:9010000.pl031) or a \
         compatible string (platform:arm,pl031)"
    )]
    Name {
        /// The text as given.
        text: String,
    },
    /// This machine has no such device.
    #[error("the device tree of this machine has no device {name} with registers; it has: {known}")]
    Absent {
        /// The requested name.
        name: String,
        /// The existing devices.
        known: String,
    },
    /// Several devices are compatible with this.
    #[error("several devices are {name}: {devices}; name one by its address")]
    Ambiguous {
        /// The requested name.
        name: String,
        /// Names of the devices.
        devices: String,
    },
    /// This machine was not described by a device tree.
    #[error("this machine has no device tree (/proc/device-tree): its devices are not platform devices")]
    NoTree,
    /// The device is bound to a kernel driver.
    #[error(
        "the driver `{driver}` uses {device}: unbind it (echo {device} > /sys/bus/{bus}/drivers/{driver}/unbind), or \
         run the agent with --take, which binds the driver again when the agent ends"
    )]
    Driver {
        /// The device.
        device: String,
        /// Its bus.
        bus: String,
        /// The driver.
        driver: String,
    },
    /// A kernel file could not be used.
    #[error("{device}: {source}")]
    Host {
        /// The device.
        device: String,
        /// The error.
        source: HostError,
    },
    /// A window could not be mapped.
    #[error(
        "the MMIO region at {base:#x} of {device} could not be mapped from {file}: {source}{}", strict(.source)
    )]
    Map {
        /// The device.
        device: String,
        /// Its address.
        base: PhysAddr,
        /// The file.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The id register of a GPU holds no known GPU id.
    #[error(
        "{device} is a {family} according to the device tree, but its id register reads {id:#x}, which is not a known \
         GPU; check that it is powered"
    )]
    NoGpu {
        /// The device.
        device: String,
        /// Name of the family's GPUs.
        family: &'static str,
        /// The value that was read.
        id: u32,
    },
    /// No guard would return the device when the agent ends.
    #[error("the guard process of this agent's devices: {0}")]
    Guard(#[source] io::Error),
}

fn strict(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::PermissionDenied => "; the kernel uses this memory, or does not let programs map device memory",
        _ => "",
    }
}

impl From<PlatformError> for ReplayDeviceError {
    fn from(e: PlatformError) -> Self {
        Self::Failed(e.to_string())
    }
}
