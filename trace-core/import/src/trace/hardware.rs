//! The device description of an imported log: its bus identity and its name.

use super::device::{DeviceName, SpaceRange};
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{EventKind, Hardware, PciFunction, PlatformDevice, PlatformWindow, Recording};
use trace_core::{PhysAddr, RegOffset};

/// Sets the device of a recording: a PCI function, or a device-tree device. The latter applies if the log has no
/// function and comes from a kernel that traces all register accesses; its windows are those that the driver mapped.
/// `ranges` are those of spaces without a function. Where the log does not say what was mapped, spaces stay named by
/// their address, unless the user names the device.
pub(super) fn describe(
    recording: &mut Recording,
    function: Option<PciFunction>,
    (named, ranges): (Option<&DeviceName>, &[SpaceRange]),
    findings: &mut Vec<Finding>,
) {
    match (function, named) {
        (Some(mut f), named) => {
            if (f.vendor, f.device) == (0, 0) {
                match named {
                    Some(DeviceName::Id(vendor, device)) => (f.vendor, f.device) = (*vendor, *device),
                    Some(DeviceName::Address(address)) => f.address.clone_from(address),
                    _ => {}
                }
            }
            if (f.vendor, f.device) == (0, 0) {
                let message = "the log does not state the PCI id of its device; --device VENDOR:DEVICE sets it";
                findings.push(Finding::new(FindingKind::Assumed, "device", message));
            }
            name(recording, f.vendor, f.device);
            recording.set_hardware(&Hardware::Pci(f));
        }
        (None, Some(DeviceName::Id(vendor, device))) => {
            name(recording, *vendor, *device);
            recording.set_hardware(&Hardware::Pci(PciFunction {
                vendor: *vendor,
                device: *device,
                ..PciFunction::default()
            }));
        }
        (None, Some(DeviceName::Address(address))) => {
            recording.set_hardware(&Hardware::Pci(PciFunction {
                address: address.clone(),
                ..PciFunction::default()
            }));
        }
        (None, Some(DeviceName::Compatible(_)) | None) => platform(recording, named, ranges),
    }
}

/// Sets the device's name from a register map.
fn name(recording: &mut Recording, vendor: u16, device: u16) {
    if let Some(known) = trace_core::registers::device_name(vendor, device) {
        known.clone_into(&mut recording.metadata.identity.gpu_name);
    }
}

/// Sets a device whose windows are only known by physical address.
fn platform(recording: &mut Recording, named: Option<&DeviceName>, ranges: &[SpaceRange]) {
    let mut windows = Vec::new();
    // Guessed ranges are the device's if there is no better one.
    let has_known = ranges.iter().any(|r| !r.is_guessed);
    for range in ranges.iter().filter(|r| !r.is_guessed || named.is_some() && !has_known) {
        let Some(space) = recording.metadata.spaces.get_mut(range.space) else {
            continue;
        };
        if range.is_named_by_address && (range.is_mapped || named.is_some()) {
            space.name = format!("reg{}", windows.len());
        }
        windows.push(PlatformWindow {
            name: space.name.clone(),
            base: PhysAddr::new(range.base),
            bytes: space.bytes,
        });
    }
    let compatible = match named {
        Some(DeviceName::Compatible(name)) => vec![name.clone()],
        _ => Vec::new(),
    };
    if windows.is_empty() && compatible.is_empty() {
        return;
    }
    recording.set_hardware(&Hardware::Platform(PlatformDevice {
        compatible,
        windows,
        ..PlatformDevice::default()
    }));
}

/// Drivers of Arm's Mali GPUs with a job manager, whose first register is the GPU's id.
const MALI_DRIVERS: [&str; 2] = ["panfrost", "mali_kbase"];

/// Sets the GPU id if the driver's GPUs have it in their first register, and the name if it is known.
pub(super) fn identify(recording: &mut Recording) {
    let identity = &recording.metadata.identity;
    if !MALI_DRIVERS.contains(&identity.driver.as_str()) {
        return;
    }
    let events = &recording.events;
    let first = events.accesses(0..events.len()).find(|(event, a)| {
        a.space == 0 && a.offset == RegOffset::ZERO && a.width == 4 && events.kind(*event) == Some(EventKind::Read)
    });
    let id = first.and_then(|(_, a)| u32::try_from(a.value).ok()).unwrap_or(0);
    recording.metadata.identity.gpu_id = id;
    if let Some(known) = trace_core::registers::gpu_name(id) {
        known.clone_into(&mut recording.metadata.identity.gpu_name);
    }
}
