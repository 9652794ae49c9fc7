//! Users of the device that is to be unbound from its driver: the text console, a network interface that is up, mounted
//! disks, programs with open nodes.

use crate::device::Device;
use crate::error::RecordError;
use crate::kernel::{Kernel, list_names, read_trimmed};

/// Bit of a network interface's flags: the interface is up.
const UP: u32 = 1;
/// Maximum number of processes that are listed.
const MAX_LISTED_PROCESSES: usize = 4;
/// PCI base class of storage controllers.
const STORAGE: u32 = 1;

/// Checks that the device is not in use.
///
/// # Errors
/// Returns an error if the device is in use, with the user and what to do.
pub(crate) fn check(kernel: &dyn Kernel, device: &Device) -> Result<(), RecordError> {
    let found = console(kernel, device)
        .or_else(|| network(kernel, device))
        .or_else(|| storage(kernel, device))
        .or_else(|| open_nodes(kernel, device));
    match found {
        None => Ok(()),
        Some(why) => Err(RecordError::Busy {
            device: device.name.clone(),
            why,
        }),
    }
}

/// Returns the frame buffers of the device: `fb0`.
pub(crate) fn frame_buffers(kernel: &dyn Kernel, device: &Device) -> Vec<String> {
    let mut all = list_names(kernel, "/sys/class/graphics");
    all.retain(|fb| {
        let of = crate::kernel::link_name(kernel, &format!("/sys/class/graphics/{fb}/device"));
        fb.starts_with("fb") && of.as_deref() == Some(device.name.as_str())
    });
    all
}

fn console(kernel: &dyn Kernel, device: &Device) -> Option<String> {
    let fb = frame_buffers(kernel, device).into_iter().next()?;
    let consoles = list_names(kernel, "/sys/class/vtconsole");
    let shows = consoles.iter().find(|c| {
        let file = |name| read_trimmed(kernel, &format!("/sys/class/vtconsole/{c}/{name}")).unwrap_or_default();
        file("name").contains("frame buffer") && file("bind") == "1"
    })?;
    Some(format!(
        "its framebuffer {fb} shows the text console, which would go dark; detach the console first (echo 0 > \
         /sys/class/vtconsole/{shows}/bind)"
    ))
}

fn network(kernel: &dyn Kernel, device: &Device) -> Option<String> {
    let interfaces = list_names(kernel, &format!("{}/net", device.folder()));
    let up = interfaces.iter().find(|i| {
        let flags = read_trimmed(kernel, &format!("/sys/class/net/{i}/flags")).unwrap_or_default();
        u32::from_str_radix(flags.trim_start_matches("0x"), 16).is_ok_and(|f| f & UP != 0)
    })?;
    Some(format!(
        "its network interface {up} is up; switch it off first (ip link set {up} down)"
    ))
}

fn storage(kernel: &dyn Kernel, device: &Device) -> Option<String> {
    let class = read_trimmed(kernel, &format!("{}/class", device.folder()))?;
    let class = u32::from_str_radix(class.trim_start_matches("0x"), 16).ok()?;
    let bound = kernel.exists(&format!("{}/driver", device.folder()));
    (class >> 16 == STORAGE && bound).then(|| {
        "it is a storage controller with a driver, and its disks would disappear; unmount them first".to_owned()
    })
}

/// Returns the programs that have a node of the device open.
fn open_nodes(kernel: &dyn Kernel, device: &Device) -> Option<String> {
    let mut nodes: Vec<String> = list_names(kernel, &format!("{}/drm", device.folder()))
        .iter()
        .map(|n| format!("/dev/dri/{n}"))
        .collect();
    nodes.extend(frame_buffers(kernel, device).iter().map(|n| format!("/dev/{n}")));
    if nodes.is_empty() {
        return None;
    }
    let mut users = Vec::new();
    for pid in list_names(kernel, "/proc") {
        if !pid.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let open = list_names(kernel, &format!("/proc/{pid}/fd")).iter().find_map(|fd| {
            let target = kernel.read_link(&format!("/proc/{pid}/fd/{fd}")).ok()?;
            nodes.contains(&target).then_some(target)
        });
        if let Some(node) = open {
            let name = read_trimmed(kernel, &format!("/proc/{pid}/comm")).unwrap_or_default();
            users.push(format!("{name} (process {pid}) has {node} open"));
        }
        if users.len() == MAX_LISTED_PROCESSES {
            break;
        }
    }
    (!users.is_empty()).then(|| format!("{}; end it first", users.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;

    fn check_message(kernel: &FakeKernel, name: &str) -> String {
        let device = Device::find(kernel, &name.parse().unwrap()).unwrap();
        check(kernel, &device).map_or_else(|e| e.to_string(), |()| "free".into())
    }

    #[test]
    fn users_of_a_busy_device_are_named() {
        let mut kernel = FakeKernel::pc();
        assert_eq!(check_message(&kernel, "pci:1002:5159"), "free");
        kernel.put_link("/sys/class/graphics/fb0/device", "../../../0000:00:03.0");
        kernel.put("/sys/class/vtconsole/vtcon0/name", "(S) dummy device\n");
        kernel.put("/sys/class/vtconsole/vtcon0/bind", "1\n");
        kernel.put("/proc/77/comm", "Xorg\n");
        kernel.put_link("/proc/77/fd/9", "/dev/fb0");
        assert!(check_message(&kernel, "pci:1002:5159").contains("Xorg (process 77) has /dev/fb0 open; end it first"));
        kernel.put("/sys/class/vtconsole/vtcon1/name", "(M) frame buffer device\n");
        kernel.put("/sys/class/vtconsole/vtcon1/bind", "1\n");
        assert!(check_message(&kernel, "pci:1002:5159").contains("echo 0 > /sys/class/vtconsole/vtcon1/bind"));
        kernel.put("/sys/bus/pci/devices/0000:00:04.0/net/eth0/x", "");
        kernel.put("/sys/class/net/eth0/flags", "0x1003\n");
        assert!(check_message(&kernel, "pci:0000:00:04.0").contains("eth0 is up"));
        kernel.put("/sys/class/net/eth0/flags", "0x1002\n");
        assert_eq!(check_message(&kernel, "pci:0000:00:04.0"), "free");
    }
}
