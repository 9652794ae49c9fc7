//! Binding of a PCI function to kernel drivers: unbinding it and returning it.

use super::config::Config;
use super::error::PciError;
use super::function::{Function, UIO, VFIO};
use super::name::Address;
use crate::device::guard::DriverState;
use crate::device::host::{Host, HostError};

fn failed(address: Address) -> impl Fn(HostError) -> PciError {
    move |source| PciError::Host { address, source }
}

/// Refuses a function that is bound to a driver, unless it may be unbound. A driver for programs is accepted. Returns
/// the driver to unbind from.
pub(super) fn may_take(function: &Function, take: bool) -> Result<Option<String>, PciError> {
    match &function.driver {
        Some(driver) if [UIO, VFIO].contains(&driver.as_str()) => Ok(None),
        Some(driver) if take => Ok(Some(driver.clone())),
        Some(driver) => Err(PciError::Driver {
            address: function.address,
            driver: driver.clone(),
        }),
        None => Ok(None),
    }
}

/// Unbinds a function from its driver.
pub(super) fn unbind(host: &Host, address: Address, driver: &str) -> Result<(), PciError> {
    let path = format!("sys/bus/pci/drivers/{driver}/unbind");
    host.write(path, &address.to_string()).map_err(failed(address))
}

/// Binds a function to a driver, whatever ids the driver has. Returns `false` if the kernel does not have the driver.
pub(super) fn bind(host: &Host, address: Address, driver: &str) -> Result<bool, PciError> {
    if !host.has(format!("sys/bus/pci/drivers/{driver}")) {
        return Ok(false);
    }
    let describe = |path: String, word: &str| host.write(path, word).map_err(failed(address));
    describe(format!("{}/driver_override", address.folder()), driver)?;
    describe(format!("sys/bus/pci/drivers/{driver}/bind"), &address.to_string())?;
    Ok(true)
}

/// Quiesces a function and undoes the changes to its driver binding. Continues after errors. Returns them, one sentence
/// each.
pub(in crate::device) fn restore_driver(host: &Host, address: Address, taken: &DriverState) -> Vec<String> {
    let mut wrong = Vec::new();
    let config = host.open(format!("{}/config", address.folder()), true);
    match config.map(|file| Config::new(address, file, 0).quiet()) {
        Ok(Ok(())) => {}
        Ok(Err(e)) => wrong.push(e.to_string()),
        Err(e) => wrong.push(e.to_string()),
    }
    let mut describe = |done: Result<(), HostError>| wrong.extend(done.err().map(|e| e.to_string()));
    if let Some(driver) = &taken.bound {
        if host.link(format!("{}/driver", address.folder())).as_ref() == Some(driver) {
            let path = format!("sys/bus/pci/drivers/{driver}/unbind");
            describe(host.write(path, &address.to_string()));
        }
        // A single newline clears the override.
        describe(host.write(format!("{}/driver_override", address.folder()), "\n"));
    }
    if taken.enabled {
        describe(host.write(format!("{}/enable", address.folder()), "0"));
    }
    if let Some(driver) = &taken.from {
        let path = format!("sys/bus/pci/drivers/{driver}/bind");
        describe(host.write(path, &address.to_string()));
    }
    wrong
}
