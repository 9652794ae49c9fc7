//! The group of a device: those that an IOMMU cannot keep apart from each other, as the kernel's files tell it.

use crate::device::host::Host;

/// Drivers that leave a group's devices to programs, and that of bridges, which do no work of their own.
const HARMLESS: [&str; 3] = ["vfio-pci", "pci-stub", "pcieport"];
/// The kernel's name of groups that no IOMMU makes.
const NO_IOMMU: &str = "vfio-noiommu";

/// Another device of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDevice {
    /// Its name, `0000:00:1f.2`.
    pub name: String,
    /// The kernel's driver that has it.
    pub driver: Option<String>,
}

/// A group that an IOMMU stands in front of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub number: u32,
    /// How the kernel sets the IOMMU up for the group's drivers: `DMA`, `identity`.
    pub kind: String,
    /// The other devices of it.
    pub others: Vec<GroupDevice>,
}

impl Group {
    /// The group of a device by its folder and its name; `None` where no IOMMU stands in front of it.
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

    /// The device whose driver keeps the group from being given to a program.
    #[must_use]
    pub fn held_by(&self) -> Option<&GroupDevice> {
        let holds = |s: &&GroupDevice| s.driver.as_deref().is_some_and(|d| !HARMLESS.contains(&d));
        self.others.iter().find(holds)
    }

    /// Whether addresses of the bus are those of memory, as they are without an IOMMU.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.kind == "identity"
    }
}
