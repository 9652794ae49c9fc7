//! Calls on devices, answered from the snapshot of the session's start.

use crate::errors::INVALID_DEVICE;
use crate::pointers::{put, put_bytes};
use crate::{CallResult, connection};
use cuda_driver::{CuDevice, INVALID_VALUE, Uuid};
use remote_calls::message::DeviceSnapshot;
use std::ffi::c_char;

/// `cuInit`: connects to the worker.
pub fn initialize(flags: u32) -> CallResult {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    let connection = connection::begin()?;
    match connection.snapshot()?.devices.is_empty() {
        true => Err(crate::errors::NO_DEVICE),
        false => Ok(()),
    }
}

/// `cuDriverGetVersion`, which programs call before `cuInit`.
pub fn driver_version(version: *mut i32) -> CallResult {
    if version.is_null() {
        return Err(INVALID_VALUE);
    }
    put(version, connection::begin()?.snapshot()?.driver_version)
}

fn device(device: CuDevice) -> CallResult<&'static DeviceSnapshot> {
    let devices = &connection::current()?.snapshot()?.devices;
    let index = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
    devices.get(index).ok_or(INVALID_DEVICE)
}

/// `cuDeviceGet`.
pub fn get(to: *mut CuDevice, ordinal: i32) -> CallResult {
    device(ordinal)?;
    put(to, ordinal)
}

/// `cuDeviceGetCount`.
pub fn count(to: *mut i32) -> CallResult {
    let count = connection::current()?.snapshot()?.devices.len();
    put(to, i32::try_from(count).unwrap_or(i32::MAX))
}

/// `cuDeviceGetName`: a longer name is cut.
pub fn name(to: *mut c_char, room: i32, number: CuDevice) -> CallResult {
    let name = device(number)?.name.as_bytes();
    let room = usize::try_from(room)
        .ok()
        .filter(|room| *room > 0)
        .ok_or(INVALID_VALUE)?;
    let mut text = name.get(..room - 1).unwrap_or(name).to_vec();
    text.push(0);
    put_bytes(to.cast(), &text)
}

/// `cuDeviceGetAttribute`.
pub fn attribute(to: *mut i32, attribute: i32, number: CuDevice) -> CallResult {
    let device = device(number)?;
    let index = usize::try_from(attribute).map_err(|_| INVALID_VALUE)?;
    let value = device.attributes.get(index).copied().flatten().ok_or(INVALID_VALUE)?;
    put(to, value)
}

/// `cuDeviceCanAccessPeer`: no device reaches another one's memory. `cuDeviceGetP2PAttribute` has the same answer.
pub fn can_access_peer(to: *mut i32, number: CuDevice, peer: CuDevice) -> CallResult {
    device(number)?;
    device(peer)?;
    put(to, 0)
}

/// `cuDeviceTotalMem`.
pub fn total_memory(to: *mut usize, number: CuDevice) -> CallResult {
    let bytes = device(number)?.total_bytes;
    put(to, usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// `cuDeviceGetUuid`.
pub fn uuid(to: *mut Uuid, number: CuDevice) -> CallResult {
    let bytes = device(number)?.uuid;
    put(to, Uuid { bytes })
}

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`, and the attribute after it.
const CAPABILITY: i32 = 75;
/// `CU_DEVICE_ATTRIBUTE_PCI_BUS_ID`, and the attribute after it, the device there.
const PCI_BUS: i32 = 33;
/// `CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID`.
const PCI_DOMAIN: i32 = 50;

fn known_attribute(number: CuDevice, attribute: i32) -> CallResult<i32> {
    let mut value = 0;
    self::attribute(&raw mut value, attribute, number)?;
    Ok(value)
}

/// `cuDeviceComputeCapability`.
pub fn compute_capability(major: *mut i32, minor: *mut i32, number: CuDevice) -> CallResult {
    put(major, known_attribute(number, CAPABILITY)?)?;
    put(minor, known_attribute(number, CAPABILITY + 1)?)
}

fn pci_text(number: CuDevice) -> CallResult<String> {
    let (domain, bus) = (known_attribute(number, PCI_DOMAIN)?, known_attribute(number, PCI_BUS)?);
    Ok(format!(
        "{domain:04X}:{bus:02X}:{:02X}.0",
        known_attribute(number, PCI_BUS + 1)?
    ))
}

/// `cuDeviceGetPCIBusId`: where the device is in the worker's machine.
pub fn pci_bus_id(to: *mut c_char, room: i32, number: CuDevice) -> CallResult {
    let mut text = pci_text(number)?.into_bytes();
    text.push(0);
    match usize::try_from(room).is_ok_and(|room| room >= text.len()) {
        true => put_bytes(to.cast(), &text),
        false => Err(INVALID_VALUE),
    }
}

/// `cuDeviceGetByPCIBusId`.
pub fn by_pci_bus_id(to: *mut CuDevice, id: *const c_char) -> CallResult {
    let wanted = crate::pointers::text(id)?.to_string_lossy();
    let count = connection::current()?.snapshot()?.devices.len();
    for number in 0..i32::try_from(count).unwrap_or(0) {
        if pci_text(number)?.eq_ignore_ascii_case(&wanted) {
            return put(to, number);
        }
    }
    Err(INVALID_DEVICE)
}
