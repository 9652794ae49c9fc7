//! A device as the device tree describes it: where its windows are, what it is compatible with, what it may use.

use super::error::PlatformError;
use super::name::Name;
use super::tree::{Node, Tree};
use crate::device::host::Host;
use crate::device::vfio::Group;
use trace_core::recording::{Hardware, PlatformDevice, PlatformWindow};
use trace_core::registers::RegisterMap;

/// A device that the device tree describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformNode {
    /// The device, its windows with processor addresses.
    pub device: PlatformDevice,
    /// As the kernel calls it: `9010000.pl031`.
    pub name: String,
    /// The bus that the kernel has it on, and its driver there.
    pub bus: Option<(String, Option<String>)>,
    /// Memory that the machine keeps for it: physical address and bytes.
    pub memory: Option<(u64, u64)>,
    /// The IOMMU that the tree says stands in front of it.
    pub iommu: Option<Iommu>,
}

/// An IOMMU in front of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iommu {
    /// What it is, in the tree's words: `arm,smmu-v3`.
    pub what: String,
    /// The kernel's group of the device, where the kernel has set the IOMMU up for it.
    pub group: Option<Group>,
}

impl Iommu {
    /// Whether the kernel has set it up so that the device reaches what drivers have mapped and nothing else: no address
    /// of memory means that memory there.
    #[must_use]
    pub fn translates(&self) -> bool {
        self.group.as_ref().is_some_and(|g| !g.is_identity())
    }

    /// In words for a person: what it is, and why it is no containment.
    #[must_use]
    pub fn describe(&self) -> String {
        let set_up = match &self.group {
            Some(group) => format!("group {}, {}", group.number, group.kind),
            None => "not set up by this kernel".to_owned(),
        };
        format!(
            "an IOMMU is in front of it ({}, {set_up}), which is used for PCI functions alone",
            self.what
        )
    }
}

/// Buses of the kernel's that devices of the device tree are on.
const BUSES: [&str; 2] = ["platform", "amba"];

fn describe(host: &Host, tree: &Tree, node: &Node) -> Option<PlatformNode> {
    let compatible = node.texts("compatible");
    let windows = tree.windows(node);
    let (base, _) = *windows.first()?;
    if compatible.is_empty() || !node.is_enabled() {
        return None;
    }
    let names = node.texts("reg-names");
    let window = |(at, (base, bytes)): (usize, &(u64, u64))| PlatformWindow {
        name: names.get(at).cloned().unwrap_or_else(|| format!("reg{at}")),
        base: *base,
        bytes: *bytes,
    };
    let name = format!("{base:x}.{}", node.name());
    // The kernel names are made of the tree's, which are anything: only plain ones are looked up as files.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_,.+".contains(c);
    let folder = |bus: &str| format!("sys/bus/{bus}/devices/{name}");
    let bus = BUSES
        .iter()
        .find(|bus| name.chars().all(plain) && host.has(folder(bus)));
    let memory = tree.find_linked(node, "memory-region");
    Some(PlatformNode {
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

/// The devices with registers that the device tree of a machine describes, by address.
#[must_use]
pub fn list_devices(host: &Host) -> Vec<PlatformNode> {
    let tree = Tree::read(host);
    let mut all: Vec<PlatformNode> = tree
        .nodes
        .iter()
        .filter_map(|n| describe(host, &tree, n))
        // Memory of the machine's own is no device.
        .filter(|d| !d.device.node.starts_with("/reserved-memory/") && !d.device.node.starts_with("/memory"))
        .collect();
    all.sort_by_key(|d| d.device.windows.first().map(|w| w.base));
    all
}

impl PlatformNode {
    /// The only device that a name means.
    ///
    /// # Errors
    /// [`PlatformError`], with the devices there are.
    pub fn find(host: &Host, name: &Name) -> Result<Self, PlatformError> {
        let all = list_devices(host);
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

    /// Whether it is a Mali GPU.
    #[must_use]
    pub fn is_mali(&self) -> bool {
        self.device.compatible.iter().any(|c| c.starts_with("arm,mali-"))
    }

    /// Whether plans can be made for it: a register map knows it, or its id register can tell.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let hardware = Hardware::Platform(self.device.clone());
        self.is_mali() || RegisterMap::for_hardware(&hardware).is_some()
    }

    /// In words for a person: what it is, who has it, what a plan would find.
    #[must_use]
    pub fn describe(&self) -> String {
        let hardware = Hardware::Platform(self.device.clone());
        let map = RegisterMap::for_hardware(&hardware);
        let what = match map.and_then(|m| m.hardware_name(&hardware)) {
            Some(name) => format!("{name} ({})", hardware.id()),
            None => hardware.id(),
        };
        let driver = self.bus.as_ref().and_then(|(_, d)| d.as_deref()).unwrap_or("none");
        let (map, by) = match self.is_mali() {
            true => ("by its id register", "page tables"),
            false => (map.map_or("none", RegisterMap::name), "nothing"),
        };
        let memory = match self.memory {
            Some((base, bytes)) => format!("{} MiB of memory kept for it at {base:#x}", bytes >> 20),
            None => "no memory for DMA".to_owned(),
        };
        let iommu = self
            .iommu
            .as_ref()
            .map_or_else(String::new, |i| format!("; {}", i.describe()));
        format!("{what}, driver {driver}, register map {map}, contained by {by}, {memory}{iommu}")
    }
}
