//! Hardware of this machine that an agent replays on: device nodes, VFIO, IOMMU groups, and memory for DMA.

use super::machine::{Machine, Presence};
use super::report::{Area, Check};
use crate::cli::out::format_count;
use rustix::fs::Access;

/// Folder of the kernel's PCI functions.
const PCI: &str = "/sys/bus/pci/devices";
/// Folder of the machine's device tree.
const DEVICE_TREE: &str = "/proc/device-tree";
/// Folder of VFIO's nodes.
const VFIO: &str = "/dev/vfio";
/// Folder of the kernel's IOMMU groups.
const IOMMU_GROUPS: &str = "/sys/kernel/iommu_groups";
/// File with the number of reserved huge pages.
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
/// Node of the Mali driver of Arm.
const MALI: &str = "/dev/mali0";
/// Folder of the nodes of graphics cards.
const CARDS: &str = "/dev/dri";

/// Checks the access to hardware.
pub fn check(machine: &Machine) -> Area {
    let has_groups = !machine.list(IOMMU_GROUPS).is_empty();
    let mut checks = vec![check_user(machine), check_presence(machine), check_iommu(machine)];
    checks.extend(check_vfio(machine, has_groups));
    if !has_groups {
        checks.push(check_huge_pages(machine));
    }
    checks.push(check_memory_node(machine));
    checks.extend(check_lockdown(machine));
    checks.extend(check_graphics_nodes(machine));
    Area::new(
        "hardware",
        "`kinescope-agent serve` replays on devices of this machine",
        checks,
    )
}

/// Checks the user, because an agent owns hardware as root.
pub fn check_user(machine: &Machine) -> Check {
    match machine.is_root {
        true => Check::ok("user", "root"),
        false => Check::note("user", "not root; the agent needs root for hardware")
            .with_mend("run `sudo kinescope-agent`; `kinescope` itself needs no root"),
    }
}

/// Checks whether the machine shows devices.
fn check_presence(machine: &Machine) -> Check {
    let number = machine.list(PCI).len() as u64;
    let functions = format_count(number, "PCI function");
    match (number, machine.exists(DEVICE_TREE)) {
        (0, false) => Check::missing("devices", "no PCI functions and no device tree")
            .with_mend("run the agent outside of the container, or pass devices on to the virtual machine"),
        (0, true) => Check::ok("devices", "a device tree, no PCI functions"),
        (_, false) => Check::ok("devices", functions),
        (_, true) => Check::ok("devices", format!("{functions}, and a device tree")),
    }
}

/// Checks whether an IOMMU is on.
fn check_iommu(machine: &Machine) -> Check {
    match machine.list(IOMMU_GROUPS).len() {
        0 => Check::note("IOMMU groups", "none; nothing contains a PCI function").with_mend(
            "turn the IOMMU on in the firmware; for Intel's, add `intel_iommu=on` to the kernel's command line",
        ),
        n => Check::ok("IOMMU groups", n.to_string()),
    }
}

/// Checks VFIO, which needs an IOMMU, and the groups that are bound to it.
fn check_vfio(machine: &Machine, has_groups: bool) -> Vec<Check> {
    let access = Access::READ_OK | Access::WRITE_OK;
    let node = format!("{VFIO}/vfio");
    let mut checks = vec![match machine.presence(&node, access) {
        Presence::Usable => Check::ok(node, "usable"),
        Presence::Denied => Check::note(&node, "no access").with_mend(machine.describe_access_fix(&node)),
        Presence::Absent if has_groups => {
            Check::note(node, "absent").with_mend("run `sudo modprobe vfio-pci vfio_iommu_type1`")
        }
        Presence::Absent => Check::note(node, "absent; VFIO needs an IOMMU"),
    }];
    let names = machine.list(VFIO).into_iter();
    // Without an IOMMU, VFIO names its groups `noiommu-N`, which are not used.
    let groups = names.filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    checks.extend(groups.map(|number| {
        let path = format!("{VFIO}/{number}");
        match machine.presence(&path, access) {
            Presence::Usable => Check::ok(path, "usable"),
            _ => Check::note(&path, "no access").with_mend(machine.describe_access_fix(&path)),
        }
    }));
    checks
}

/// Checks the reserved huge pages, which hold a plan's memory without an IOMMU.
fn check_huge_pages(machine: &Machine) -> Check {
    let number = machine.read(HUGE_PAGES).and_then(|n| n.parse::<u64>().ok());
    match number {
        Some(n) if n > 0 => Check::ok("huge pages", format!("{n} reserved")),
        _ => Check::note("huge pages", "none reserved; plans with DMA need them without an IOMMU")
            .with_mend("run `sudo sysctl vm.nr_hugepages=32`, which reserves 64 MiB"),
    }
}

/// Checks the node of physical memory, which reaches devices of a device tree.
fn check_memory_node(machine: &Machine) -> Check {
    let path = "/dev/mem";
    match machine.presence(path, Access::READ_OK | Access::WRITE_OK) {
        Presence::Usable => Check::ok(path, "usable"),
        Presence::Denied => Check::note(path, "no access; device-tree devices without UIO need it")
            .with_mend("run `sudo kinescope-agent`"),
        Presence::Absent => Check::note(path, "absent; device-tree devices need UIO")
            .with_mend("load the kernel's UIO driver for the device, or use a kernel with CONFIG_DEVMEM"),
    }
}

/// Checks lockdown, which closes the kernel's ways around drivers.
fn check_lockdown(machine: &Machine) -> Option<Check> {
    let mode = machine.lockdown()?;
    let found = format!("{mode}; it refuses /dev/mem, and registers of PCI functions in sysfs");
    Some(Check::note("kernel lockdown", found).with_mend("use VFIO behind an IOMMU, or turn Secure Boot off"))
}

/// Checks nodes of graphics drivers, if there are any: a device whose driver holds it cannot be replayed on.
fn check_graphics_nodes(machine: &Machine) -> Vec<Check> {
    let names = machine.list(CARDS);
    let cards = names.iter().filter(|n| {
        let number = n.strip_prefix("card").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    let mut checks: Vec<Check> = cards
        .map(|name| {
            let driver = machine.link_name(format!("/sys/class/drm/{name}/device/driver"));
            let driver = driver.unwrap_or_else(|| "a driver".to_owned());
            Check::note(
                format!("{CARDS}/{name}"),
                format!("{driver} holds the device; the agent refuses it"),
            )
            .with_mend("serve it with `kinescope-agent serve --device pci:… --take`, if the machine does not need it")
        })
        .collect();
    match machine.presence(MALI, Access::READ_OK | Access::WRITE_OK) {
        Presence::Absent => {}
        Presence::Usable => checks.push(Check::ok(MALI, "usable; Arm's driver holds the GPU")),
        Presence::Denied => {
            checks.push(
                Check::note(MALI, "no access; Arm's driver holds the GPU").with_mend(machine.describe_access_fix(MALI)),
            );
        }
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::super::report::State;
    use super::*;

    fn row<'a>(area: &'a Area, name: &str) -> &'a Check {
        area.checks.iter().find(|c| c.check == name).unwrap()
    }

    #[test]
    fn a_container_has_no_devices() {
        let area = check(&FakeMachine::empty().machine);
        assert!(!area.ready);
        assert_eq!(row(&area, "devices").state, State::Missing);
        assert_eq!(row(&area, "/dev/vfio/vfio").found, "absent; VFIO needs an IOMMU");
        assert_eq!(row(&area, "user").state, State::Note);
        assert_eq!(row(&area, "huge pages").state, State::Note);
    }

    #[test]
    fn a_machine_with_an_iommu_uses_vfio() {
        let mut fake = FakeMachine::empty();
        fake.machine.is_root = true;
        fake.create_folder("/sys/bus/pci/devices/0000:00:02.0");
        fake.create_folder("/sys/kernel/iommu_groups/0");
        let area = check(&fake.machine);
        assert!(area.ready);
        assert_eq!(row(&area, "user").state, State::Ok);
        assert!(row(&area, "/dev/vfio/vfio").mend.as_ref().unwrap().contains("modprobe"));
        assert!(area.checks.iter().all(|c| c.check != "huge pages"));
        fake.write("/dev/vfio/vfio", "", 0o666);
        fake.write("/dev/vfio/7", "", 0o600);
        fake.write("/dev/vfio/noiommu-1", "", 0o600);
        let area = check(&fake.machine);
        assert_eq!(row(&area, "/dev/vfio/vfio").state, State::Ok);
        assert_eq!(row(&area, "/dev/vfio/7").found, "no access");
        assert!(area.checks.iter().all(|c| !c.check.contains("noiommu")));
    }

    #[test]
    fn huge_pages_count_without_an_iommu() {
        let fake = FakeMachine::empty();
        fake.write(HUGE_PAGES, "0\n", 0o644);
        assert_eq!(check_huge_pages(&fake.machine).state, State::Note);
        fake.write(HUGE_PAGES, "32\n", 0o644);
        assert_eq!(check_huge_pages(&fake.machine).found, "32 reserved");
    }

    #[test]
    fn nodes_of_drivers_are_listed() {
        let fake = FakeMachine::empty();
        fake.write("/dev/dri/card0", "", 0o660);
        fake.write("/dev/dri/renderD128", "", 0o666);
        fake.link("/sys/class/drm/card0/device/driver", "/sys/bus/pci/drivers/amdgpu");
        fake.write(MALI, "", 0o600);
        fake.write("/dev/mem", "", 0o640);
        fake.write(
            "/sys/kernel/security/lockdown",
            "none [integrity] confidentiality",
            0o644,
        );
        let area = check(&fake.machine);
        assert!(row(&area, "/dev/dri/card0").found.starts_with("amdgpu holds"));
        assert_eq!(row(&area, MALI).state, State::Note);
        assert_eq!(row(&area, "/dev/mem").state, State::Note);
        assert!(row(&area, "kernel lockdown").found.starts_with("integrity"));
        assert!(area.checks.iter().all(|c| !c.check.contains("renderD")));
    }
}
