//! The device files of the program's descriptors.

use crate::records::{DeviceName, NAME_BYTES};
use crate::system::read_link;
use libc::c_int;
use nvidia_channel::rm::DeviceFile;
use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Start of the paths of NVIDIA's device files.
const PREFIX: &[u8] = b"/dev/nvidia";
/// Folder of device files.
const FOLDER: &[u8] = b"/dev/";
/// Number of descriptors whose file is remembered. Larger ones are looked up at each use.
const MAX_DESCRIPTORS: usize = 1 << 16;
/// Maximum number of device files.
const MAX_NAMES: usize = 64;
/// The file of a descriptor is unknown.
const UNKNOWN: u8 = 0;
/// The file of a descriptor is not one of NVIDIA's.
const OTHER: u8 = 1;
/// Value of the first device file.
const FIRST_NAME: u8 = 2;

static FILES: [AtomicU8; MAX_DESCRIPTORS] = [const { AtomicU8::new(UNKNOWN) }; MAX_DESCRIPTORS];
static NAMES: [OnceLock<DeviceName>; MAX_NAMES] = [const { OnceLock::new() }; MAX_NAMES];

/// Returns the name of a device file of NVIDIA's driver, without `/dev/`, or `None` for other paths.
pub(crate) fn device_name(path: &[u8]) -> Option<DeviceName> {
    if !path.starts_with(PREFIX) {
        return None;
    }
    let mut name = [0; NAME_BYTES];
    let text = path.get(FOLDER.len()..)?;
    let text = text.get(..text.len().min(NAME_BYTES - 1))?;
    name.get_mut(..text.len())?.copy_from_slice(text);
    text.iter().all(u8::is_ascii_graphic).then_some(name)
}

/// Returns the driver of a device file, or `None` for a file whose requests have no known form.
pub(crate) fn driver_of(name: &DeviceName) -> Option<DeviceFile> {
    let end = name.iter().position(|b| *b == 0).unwrap_or(NAME_BYTES);
    let name = std::str::from_utf8(name.get(..end)?).ok()?;
    DeviceFile::from_path(&format!("/dev/{name}"))
}

fn slot(fd: c_int) -> Option<&'static AtomicU8> {
    FILES.get(usize::try_from(fd).ok()?)
}

fn index_of(name: &DeviceName) -> u8 {
    for (index, known) in NAMES.iter().enumerate() {
        if known.get_or_init(|| *name) == name {
            return FIRST_NAME + index as u8;
        }
    }
    UNKNOWN
}

/// Remembers the file of a new descriptor.
pub(crate) fn remember(fd: c_int, name: Option<&DeviceName>) {
    if let Some(slot) = slot(fd) {
        slot.store(name.map_or(OTHER, index_of), Ordering::Relaxed);
    }
}

/// Forgets a descriptor that was closed.
pub(crate) fn forget(fd: c_int) {
    if let Some(slot) = slot(fd) {
        slot.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// Returns the device file of a descriptor, or `None` if it has another file.
pub(crate) fn find(fd: c_int) -> Option<DeviceName> {
    if fd < 0 {
        return None;
    }
    let known = slot(fd).map_or(UNKNOWN, |slot| slot.load(Ordering::Relaxed));
    match known {
        UNKNOWN => {
            let name = look_up(fd);
            remember(fd, name.as_ref());
            name
        }
        OTHER => None,
        name => NAMES.get(usize::from(name - FIRST_NAME))?.get().copied(),
    }
}

/// Returns the device file of a descriptor as the kernel states it.
fn look_up(fd: c_int) -> Option<DeviceName> {
    let link = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    let mut target = [0; 64];
    let length = read_link(&link, &mut target)?;
    device_name(target.get(..length)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn names_of_device_files() {
        let name = device_name(b"/dev/nvidia-uvm").unwrap();
        assert_eq!(&name[..11], b"nvidia-uvm\0");
        assert_eq!(driver_of(&name), Some(DeviceFile::Uvm));
        assert_eq!(driver_of(&device_name(b"/dev/nvidia-modeset").unwrap()), None);
        assert_eq!(device_name(b"/dev/null"), None);
        let long = device_name(b"/dev/nvidia-caps/nvidia-cap123456").unwrap();
        assert_eq!(long[NAME_BYTES - 1], 0);
    }

    #[test]
    fn descriptors_are_remembered_until_they_close() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let fd = file.as_raw_fd();
        assert_eq!(find(fd), None);
        let name = device_name(b"/dev/nvidiactl").unwrap();
        remember(fd, Some(&name));
        assert_eq!(find(fd), Some(name));
        forget(fd);
        assert_eq!(find(fd), None);
        assert_eq!(find(-1), None);
    }
}
