//! Which driver of the kernel's has a device of the device tree: taken from it, and given back.

use super::error::PlatformError;
use super::node::PlatformNode;
use crate::device::guard::{DriverState, Guard};
use crate::device::host::Host;

/// The driver that carries a device's interrupt and windows to a program.
const UIO: &str = "uio_pdrv_genirq";

/// Takes a device from its driver where it may be taken; one that has none, or the driver for programs, is fine.
pub(super) fn take(host: &Host, of: &PlatformNode, take: bool, guard: Option<&Guard>) -> Result<(), PlatformError> {
    let Some((bus, Some(driver))) = &of.bus else {
        return Ok(());
    };
    if driver == UIO {
        return Ok(());
    }
    if !take {
        return Err(PlatformError::Driver {
            device: of.name.clone(),
            bus: bus.clone(),
            driver: driver.clone(),
        });
    }
    let taken = DriverState {
        from: Some(driver.clone()),
        ..DriverState::default()
    };
    // The guard knows before anything is changed.
    if let Some(guard) = guard {
        let watched = guard.watch(bus, of.name.clone(), &taken);
        watched.map_err(PlatformError::Guard)?;
    }
    let unbound = host.write(format!("sys/bus/{bus}/drivers/{driver}/unbind"), &of.name);
    unbound.map_err(|source| PlatformError::Host {
        device: of.name.clone(),
        source,
    })
}

/// Gives a device back to the driver that it was taken from. What fails is told, a sentence each.
pub(in crate::device) fn restore_driver(host: &Host, bus: &str, name: &str, taken: &DriverState) -> Vec<String> {
    let plain = |text: &str| !text.is_empty() && !text.starts_with('.') && !text.contains('/');
    let Some(driver) = &taken.from else { return Vec::new() };
    if ![bus, name, driver].into_iter().all(plain) {
        return vec![format!("`{name}` on `{bus}` is no device")];
    }
    let bound = host.write(format!("sys/bus/{bus}/drivers/{driver}/bind"), name);
    bound.err().map(|e| e.to_string()).into_iter().collect()
}
