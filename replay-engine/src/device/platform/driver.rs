//! Binding of a device-tree device to kernel drivers: unbinding it and returning it.

use super::error::PlatformError;
use super::node::PlatformNode;
use crate::device::guard::{DriverState, Guard};
use crate::device::host::Host;

/// The driver that forwards a device's interrupt and windows to a program.
const UIO: &str = "uio_pdrv_genirq";

/// Unbinds a device from its driver, if that is allowed. A device without a driver or with the UIO driver is accepted.
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
    // The guard is informed before any change.
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

/// Returns a device to the driver that it was unbound from. Returns the errors, one sentence each.
pub(in crate::device) fn restore_driver(host: &Host, bus: &str, name: &str, taken: &DriverState) -> Vec<String> {
    let plain = |text: &str| !text.is_empty() && !text.starts_with('.') && !text.contains('/');
    let Some(driver) = &taken.from else { return Vec::new() };
    if ![bus, name, driver].into_iter().all(plain) {
        return vec![format!("`{name}` on `{bus}` is not a device")];
    }
    let bound = host.write(format!("sys/bus/{bus}/drivers/{driver}/bind"), name);
    bound.err().map(|e| e.to_string()).into_iter().collect()
}
