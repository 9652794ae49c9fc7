//! Choice of the device's driver, and binding to that driver only.

use crate::change::{Change, NO_OVERRIDE, find_bound_driver, find_start_time, is_loaded};
use crate::device::Device;
use crate::error::RecordError;
use crate::journal::Journal;
use crate::kernel::{Kernel, read_trimmed};
use crate::modules;

/// A driver that is registered, or that comes with a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DriverChoice {
    /// The kernel has the driver.
    Registered(String),
    /// The driver comes with this module, which is not loaded.
    Module(String),
}

impl DriverChoice {
    /// Returns the driver's name, or that of its module.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Registered(name) | Self::Module(name) => name,
        }
    }

    /// Returns the module that holds the driver, or `None` if it is built into the kernel.
    pub(crate) fn module(&self, kernel: &dyn Kernel, device: &Device) -> Option<String> {
        match self {
            Self::Module(name) => Some(modules::normalize_name(name)),
            Self::Registered(name) => {
                crate::kernel::link_name(kernel, &format!("{}/drivers/{name}/module", device.bus))
            }
        }
    }
}

fn driver_error(device: &Device, why: impl Into<String>) -> RecordError {
    RecordError::Driver {
        device: device.name.clone(),
        why: why.into(),
    }
}

/// Chooses the driver: the requested one, the bound one, or the only one that matches the device.
///
/// # Errors
/// Returns an error if there is none, or if there are several.
pub(crate) fn choose(kernel: &dyn Kernel, device: &Device, named: Option<&str>) -> Result<DriverChoice, RecordError> {
    let registered = |name: &str| kernel.exists(&format!("{}/drivers/{name}", device.bus));
    let of_module = |module: &str| match modules::list_drivers(kernel, module, &device.bus).as_slice() {
        [only] => Some(DriverChoice::Registered(only.clone())),
        _ => None,
    };
    if let Some(name) = named {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Err(driver_error(device, format!("`{name}` is not a driver name")));
        }
        return if registered(name) {
            Ok(DriverChoice::Registered(name.to_owned()))
        } else if let Some(loaded) = of_module(name) {
            Ok(loaded)
        } else if modules::is_installed(kernel, name) && !is_loaded(kernel, &modules::normalize_name(name)) {
            Ok(DriverChoice::Module(modules::normalize_name(name)))
        } else {
            let why = format!(
                "there is no driver `{name}` ({}/drivers), and no module of that name that could be loaded \
                 (/lib/modules/{})",
                device.bus,
                kernel.release().0
            );
            Err(driver_error(device, why))
        };
    }
    if let Some(bound) = find_bound_driver(kernel, &device.bus, &device.name) {
        return Ok(DriverChoice::Registered(bound));
    }
    let prescribed = read_trimmed(kernel, &format!("{}/driver_override", device.folder()));
    if let Some(name) = prescribed.filter(|n| !n.is_empty() && n != NO_OVERRIDE && registered(n)) {
        return Ok(DriverChoice::Registered(name));
    }
    let modalias = device.modalias(kernel);
    match modules::find_for_device(kernel, &modalias).as_slice() {
        [] => Err(driver_error(
            device,
            format!(
                "it has no driver, and no module of this kernel matches it ({}); name a driver with --driver NAME",
                if modalias.is_empty() {
                    "the device has no modalias"
                } else {
                    &modalias
                }
            ),
        )),
        [only] => of_module(only)
            .or_else(|| (!is_loaded(kernel, only)).then(|| DriverChoice::Module(only.clone())))
            .ok_or_else(|| {
                let why = format!(
                    "the module {only} is loaded, but has no driver or several; name a driver with --driver NAME"
                );
                driver_error(device, why)
            }),
        several => Err(driver_error(
            device,
            format!(
                "several drivers match it: {}; choose one with --driver NAME",
                several.join(", ")
            ),
        )),
    }
}

/// Unbinds the device from its driver, if it has one.
///
/// # Errors
/// Returns an error if the kernel refuses.
pub(crate) fn unbind(kernel: &dyn Kernel, journal: &mut Journal, device: &Device) -> Result<(), RecordError> {
    let Some(driver) = find_bound_driver(kernel, &device.bus, &device.name) else {
        return Ok(());
    };
    let change = Change::Unbound {
        bus: device.bus.clone(),
        driver: driver.clone(),
        device: device.name.clone(),
    };
    journal.apply(change, || {
        let path = format!("{}/drivers/{driver}/unbind", device.bus);
        kernel.write(&path, &device.name).map_err(|source| RecordError::Change {
            what: format!("unbinding {} from its driver {driver}", device.name),
            source,
            hint: String::new(),
        })
    })
}

/// Loads a module with its dependencies. Drivers that come with it bind no device by themselves: only the chosen device
/// is bound, explicitly.
///
/// # Errors
/// Returns an error if it cannot be loaded.
pub(crate) fn load(kernel: &dyn Kernel, journal: &mut Journal, bus: &str, module: &str) -> Result<(), RecordError> {
    let quiet = journal.len();
    let autoprobe = format!("{bus}/drivers_autoprobe");
    if read_trimmed(kernel, &autoprobe).as_deref() == Some("1") {
        let change = Change::Written {
            path: autoprobe.clone(),
            before: "1".into(),
        };
        journal.apply(change, || {
            kernel.write(&autoprobe, "0").map_err(|source| RecordError::Change {
                what: format!("writing 0 to {autoprobe}"),
                source,
                hint: String::new(),
            })
        })?;
    }
    let undo_quiet = journal.len() > quiet;
    for name in modules::list_missing(kernel, module) {
        journal.apply(Change::Module { name }, || Ok(()))?;
    }
    let mut noted = Ok(());
    let mut runs = |pid| {
        if let Some(started) = find_start_time(kernel, pid) {
            noted = journal.apply(Change::Process { pid, started }, || Ok(()));
        }
    };
    let loaded = kernel.load(module, &mut runs).map_err(|source| RecordError::Change {
        what: format!("loading the module {module}"),
        source,
        hint: "; `dmesg | tail` may say more".into(),
    });
    if undo_quiet {
        journal.undo_one(kernel, quiet)?;
    }
    noted.and(loaded)
}

/// Binds the device to its driver and to no other. Returns the driver's name.
///
/// # Errors
/// Returns an error if the driver refuses the device.
pub(crate) fn bind(
    kernel: &dyn Kernel,
    journal: &mut Journal,
    device: &Device,
    choice: &DriverChoice,
) -> Result<String, RecordError> {
    let driver = match choice {
        DriverChoice::Registered(name) => name.clone(),
        DriverChoice::Module(module) => {
            load(kernel, journal, &device.bus, module)?;
            match modules::list_drivers(kernel, module, &device.bus).as_slice() {
                [only] => only.clone(),
                [] => {
                    return Err(driver_error(
                        device,
                        format!("the module {module} has no driver for {}", device.bus),
                    ));
                }
                several => {
                    let why = format!(
                        "the module {module} has several drivers: {}; choose one with --driver NAME",
                        several.join(", ")
                    );
                    return Err(driver_error(device, why));
                }
            }
        }
    };
    // An override for another driver can be set; the kernel would then refuse this one.
    let prescribed = format!("{}/driver_override", device.folder());
    if let Some(now) = read_trimmed(kernel, &prescribed).filter(|n| !n.is_empty() && n != NO_OVERRIDE && *n != driver) {
        let change = Change::Written {
            path: prescribed.clone(),
            before: now,
        };
        journal.apply(change, || {
            kernel
                .write(&prescribed, &driver)
                .map_err(|source| RecordError::Change {
                    what: format!("writing {driver} to {prescribed}"),
                    source,
                    hint: String::new(),
                })
        })?;
    }
    if find_bound_driver(kernel, &device.bus, &device.name).as_deref() == Some(driver.as_str()) {
        let why =
            format!("{driver} bound to it before the trace was on; check whether something else loads drivers (udev)");
        return Err(driver_error(device, why));
    }
    let change = Change::Bound {
        bus: device.bus.clone(),
        driver: driver.clone(),
        device: device.name.clone(),
    };
    let refused = |why: String| {
        let why = format!("the driver {driver} did not bind to it ({why}); `dmesg | tail` shows the reason");
        driver_error(device, why)
    };
    journal.apply(change, || {
        let path = format!("{}/drivers/{driver}/bind", device.bus);
        kernel.write(&path, &device.name).map_err(|e| refused(e.to_string()))
    })?;
    match find_bound_driver(kernel, &device.bus, &device.name) {
        Some(now) if now == driver => Ok(driver),
        Some(now) => Err(refused(format!("it is bound to {now}"))),
        None => Err(refused("it is bound to no driver".into())),
    }
}
