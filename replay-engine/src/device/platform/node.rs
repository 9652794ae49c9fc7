//! A device as the device tree describes it: its windows, compatible strings, memory and IOMMU.

use super::error::PlatformError;
use super::name::Name;
use super::tree::{Node, Tree};
use super::tree_gpu::{KnownGpu, TreeGpus};
use crate::device::host::Host;
use crate::device::vfio::Group;
use trace_core::PhysAddr;
use trace_core::recording::{Hardware, PlatformDevice, PlatformWindow};
use trace_core::registers::RegisterMap;

/// A device that the device tree describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformNode {
    /// The device; its windows have processor addresses.
    pub device: PlatformDevice,
    /// The kernel's name: `9010000.pl031`.
    pub name: String,
    /// The kernel's bus of the device, and its driver there.
    pub bus: Option<(String, Option<String>)>,
    /// Memory that the machine reserves for it: physical address and length in bytes.
    pub memory: Option<(PhysAddr, u64)>,
    /// The IOMMU of the device, according to the tree.
    pub iommu: Option<Iommu>,
    /// The GPUs that it belongs to, or `None` if it is a device on a bus.
    pub(super) gpu: Option<KnownGpu>,
}

/// The IOMMU of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iommu {
    /// Its compatible string: `arm,smmu-v3`.
    pub what: String,
    /// The kernel's group of the device, if the kernel has set up the IOMMU for it.
    pub group: Option<Group>,
}

impl Iommu {
    /// Returns whether the kernel has set it up so that the device accesses only memory that drivers have mapped. A
    /// physical address then does not reach that memory.
    #[must_use]
    pub fn translates(&self) -> bool {
        self.group.as_ref().is_some_and(|g| !g.is_identity())
    }

    /// Returns a description for the user: what it is, and why it is not a containment.
    #[must_use]
    pub fn describe(&self) -> String {
        let set_up = match &self.group {
            Some(group) => format!("group {}, {}", group.number, group.kind),
            None => "not set up by this kernel".to_owned(),
        };
        format!(
            "it is behind an IOMMU ({}, {set_up}), which the agent uses for PCI functions only",
            self.what
        )
    }
}

/// Kernel buses that device-tree devices are on.
const BUSES: [&str; 2] = ["platform", "amba"];

fn describe(host: &Host, tree: &Tree, node: &Node, gpus: TreeGpus) -> Option<PlatformNode> {
    let compatible = node.texts("compatible");
    let windows = tree.windows(node);
    let (base, _) = *windows.first()?;
    if compatible.is_empty() || !node.is_enabled() {
        return None;
    }
    let names = node.texts("reg-names");
    let window = |(at, (base, bytes)): (usize, &(PhysAddr, u64))| PlatformWindow {
        name: names.get(at).cloned().unwrap_or_else(|| format!("reg{at}")),
        base: *base,
        bytes: *bytes,
    };
    let name = format!("{base:x}.{}", node.name());
    // Kernel names come from tree names, which can be any text. Only plain names are looked up as files.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_,.+".contains(c);
    let folder = |bus: &str| format!("sys/bus/{bus}/devices/{name}");
    let bus = BUSES
        .iter()
        .find(|bus| name.chars().all(plain) && host.has(folder(bus)));
    let memory = tree.find_linked(node, "memory-region");
    Some(PlatformNode {
        gpu: gpus.find(&compatible),
        device: PlatformDevice {
            node: node.path.clone(),
            compatible,
            windows: windows.iter().enumerate().map(window).collect(),
            irqs: tree.interrupts(node),
        },
        bus: bus.map(|bus| ((*bus).to_owned(), host.link(format!("{}/driver", folder(bus))))),
        memory: memory.and_then(|m| tree.windows(m).first().copied()),
        iommu: node.has("iommus").then(|| Iommu {
            what: tree
                .find_linked(node, "iommus")
                .and_then(|n| n.texts("compatible").into_iter().next())
                .unwrap_or_else(|| "of an unknown kind".to_owned()),
            group: bus.and_then(|bus| Group::find(host, &folder(bus), &name)),
        }),
        name,
    })
}

/// Returns the devices with registers in a machine's device tree, by address.
#[must_use]
pub fn list_devices(host: &Host, gpus: TreeGpus) -> Vec<PlatformNode> {
    let tree = Tree::read(host);
    let mut all: Vec<PlatformNode> = tree
        .nodes
        .iter()
        .filter_map(|n| describe(host, &tree, n, gpus))
        // Memory of the machine itself is not a device.
        .filter(|d| !d.device.node.starts_with("/reserved-memory/") && !d.device.node.starts_with("/memory"))
        .collect();
    all.sort_by_key(|d| d.device.windows.first().map(|w| w.base));
    all
}

impl PlatformNode {
    /// Finds the only device that a name matches.
    ///
    /// # Errors
    /// [`PlatformError`], with the existing devices.
    pub fn find(host: &Host, name: &Name, gpus: TreeGpus) -> Result<Self, PlatformError> {
        let all = list_devices(host, gpus);
        if all.is_empty() {
            return Err(PlatformError::NoTree);
        }
        let mut found = all.iter().filter(|d| match name {
            Name::At { .. } => d.name == name.to_string(),
            Name::Compatible(text) => d.device.compatible.contains(text),
        });
        let describe = |of: &mut dyn Iterator<Item = &Self>| {
            let messages: Vec<&str> = of.map(|d| d.name.as_str()).collect();
            messages.join(", ")
        };
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only.clone()),
            (None, _) => Err(PlatformError::Absent {
                name: name.to_string(),
                known: describe(&mut all.iter()),
            }),
            (Some(a), Some(b)) => Err(PlatformError::Ambiguous {
                name: name.to_string(),
                devices: describe(&mut [a, b].into_iter().chain(found)),
            }),
        }
    }

    /// Returns whether it is a GPU whose plans contain page tables.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        self.gpu.is_some()
    }

    /// Returns whether plans are possible for it: a register map exists, or its id register can identify it.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let hardware = Hardware::Platform(self.device.clone());
        self.is_gpu() || RegisterMap::for_hardware(&hardware).is_some()
    }

    /// Returns a description for the user: the device, its driver, and what a plan could use.
    #[must_use]
    pub fn describe(&self) -> String {
        let hardware = Hardware::Platform(self.device.clone());
        let map = RegisterMap::for_hardware(&hardware);
        let what = match map.and_then(|m| m.hardware_name(&hardware)) {
            Some(name) => format!("{name} ({})", hardware.id()),
            None => hardware.id(),
        };
        let driver = self.bus.as_ref().and_then(|(_, d)| d.as_deref()).unwrap_or("none");
        let (map, by) = match self.is_gpu() {
            true => ("by its id register", "page tables"),
            false => (map.map_or("none", RegisterMap::name), "nothing"),
        };
        let memory = match self.memory {
            Some((base, bytes)) => format!("{} MiB of memory reserved for it at {base:#x}", bytes >> 20),
            None => "no memory for DMA".to_owned(),
        };
        let iommu = self
            .iommu
            .as_ref()
            .map_or_else(String::new, |i| format!("; {}", i.describe()));
        format!("{what}, driver {driver}, register map {map}, contained by {by}, {memory}{iommu}")
    }
}
