//! The IOMMU group of a device: the devices that an IOMMU cannot isolate from each other, according to the kernel's
//! files.

use crate::device::host::Host;

/// Drivers that leave a group's devices to programs, and the driver of bridges, which do no DMA of their own.
const HARMLESS: [&str; 3] = ["vfio-pci", "pci-stub", "pcieport"];
/// The kernel's name of groups without an IOMMU.
const NO_IOMMU: &str = "vfio-noiommu";

/// Another device of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDevice {
    /// Its name, `0000:00:1f.2`.
    pub name: String,
    /// The kernel driver that it is bound to.
    pub driver: Option<String>,
}

/// A group behind an IOMMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub number: u32,
    /// The kernel's IOMMU mode for the group's drivers: `DMA`, `identity`.
    pub kind: String,
    /// Its other devices.
    pub others: Vec<GroupDevice>,
}

impl Group {
    /// Finds the group of a device by its folder and its name. Returns `None` if there is no IOMMU.
    #[must_use]
    pub(in crate::device) fn find(host: &Host, folder: &str, name: &str) -> Option<Self> {
        let number = host.link(format!("{folder}/iommu_group"))?;
        let number: u32 = number.parse().ok()?;
        let files = format!("sys/kernel/iommu_groups/{number}");
        if host.text(format!("{files}/name")).is_ok_and(|n| n == NO_IOMMU) {
            return None;
        }
        let others = host.list(format!("{files}/devices"));
        let others = others.into_iter().filter(|n| n != name).map(|name| GroupDevice {
            driver: host.link(format!("{files}/devices/{name}/driver")),
            name,
        });
        Some(Self {
            number,
            kind: host.text(format!("{files}/type")).unwrap_or_default(),
            others: others.collect(),
        })
    }

    /// Returns the device whose driver prevents use of the group by a program.
    #[must_use]
    pub fn held_by(&self) -> Option<&GroupDevice> {
        let holds = |s: &&GroupDevice| s.driver.as_deref().is_some_and(|d| !HARMLESS.contains(&d));
        self.others.iter().find(holds)
    }

    /// Returns whether bus addresses equal memory addresses, as without an IOMMU.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.kind == "identity"
    }
}
