//! A flattened device tree as the kernel shows it: folders are nodes, files are properties. The parser reads bytes that
//! firmware wrote: sizes are bounded, and invalid data is skipped.
//!
//! Devicetree Specification 0.4, sections 2.2 and 2.3.

use crate::device::host::Host;
use std::collections::BTreeMap;
use trace_core::PhysAddr;

/// Maximum number of nodes, and maximum depth.
const MAX_NODES: usize = 1 << 14;
const DEEPEST: usize = 32;
/// Maximum size of a stored property, bytes.
const MAX_BYTES: usize = 1 << 16;
/// Properties that this crate uses.
const WANTED: [&str; 15] = [
    "compatible",
    "reg",
    "reg-names",
    "ranges",
    "#address-cells",
    "#size-cells",
    "#interrupt-cells",
    "interrupts",
    "interrupt-parent",
    "status",
    "iommus",
    "memory-region",
    "phandle",
    "no-map",
    "dma-coherent",
];

/// A node of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its path, `/pl031@9010000`.
    pub path: String,
    /// The parent node, as an index in [`Tree::nodes`]. The root has none.
    pub parent: Option<usize>,
    /// Its properties, as far as they are used here.
    pub properties: BTreeMap<String, Vec<u8>>,
}

/// A device tree; parents come before their children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The nodes.
    pub nodes: Vec<Node>,
}

/// Returns the 32-bit cells of a property.
fn cells(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|c| u32::from_be_bytes(*c))
}

/// Takes a number of `count` cells from the front. Returns `None` if there are fewer, or the number exceeds 64 bits.
fn take(list: &mut &[u32], count: usize) -> Option<u64> {
    let (now, rest) = list.split_at_checked(count)?;
    *list = rest;
    let (low, high) = now.split_at(now.len().saturating_sub(2));
    // With more than two cells the first must be zero. Only PCI addresses have flags there, and no device here is on
    // PCI.
    low.iter().all(|c| *c == 0).then_some(())?;
    Some(high.iter().fold(0, |n, c| n << 32 | u64::from(*c)))
}

/// Returns the zero-terminated strings of a property.
fn texts(bytes: &[u8]) -> Vec<String> {
    let all = bytes.split(|b| *b == 0).filter(|t| !t.is_empty());
    all.filter_map(|t| std::str::from_utf8(t).ok().map(str::to_owned))
        .collect()
}

impl Node {
    /// Returns the cells of a property.
    fn list(&self, name: &str) -> Vec<u32> {
        self.properties
            .get(name)
            .map(|b| cells(b).collect())
            .unwrap_or_default()
    }

    /// Returns the single cell of a property.
    fn cell(&self, name: &str) -> Option<u32> {
        self.list(name).first().copied()
    }

    /// Returns the strings of a property.
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.properties.get(name).map(|b| texts(b)).unwrap_or_default()
    }

    /// Returns whether the node has the property.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.properties.contains_key(name)
    }

    /// Returns the number of address cells and size cells of the child nodes.
    fn widths(&self) -> (usize, usize) {
        let width = |name, otherwise| self.cell(name).map_or(otherwise, |c| c.min(8) as usize);
        (width("#address-cells", 2), width("#size-cells", 1))
    }

    /// Returns its name without its address, `pl031`.
    #[must_use]
    pub fn name(&self) -> &str {
        let last = self.path.rsplit('/').next().unwrap_or_default();
        last.split('@').next().unwrap_or_default()
    }

    /// Returns whether the firmware enables the device.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.texts("status").first().is_none_or(|s| s == "okay" || s == "ok")
    }
}

impl Tree {
    /// Reads the tree of a machine. It has no nodes if the machine has no tree.
    #[must_use]
    pub fn read(host: &Host) -> Self {
        let mut tree = Self::default();
        if host.has("proc/device-tree") {
            tree.add(host, "", None, 0);
        }
        tree
    }

    fn add(&mut self, host: &Host, path: &str, parent: Option<usize>, depth: usize) {
        if depth > DEEPEST || self.nodes.len() >= MAX_NODES {
            return;
        }
        let folder = format!("proc/device-tree{path}");
        let at = self.nodes.len();
        let mut properties = BTreeMap::new();
        for name in WANTED {
            let file = format!("{folder}/{name}");
            // A node may have the name of a property.
            if let Ok(mut bytes) = host.bytes(file) {
                bytes.truncate(MAX_BYTES);
                properties.insert(name.to_owned(), bytes);
            }
        }
        self.nodes.push(Node {
            path: if path.is_empty() {
                "/".to_owned()
            } else {
                path.to_owned()
            },
            parent,
            properties,
        });
        for name in host.list(&folder) {
            let child = format!("{path}/{name}");
            // Links in the tree lead back into it.
            let kind = std::fs::symlink_metadata(host.path(format!("proc/device-tree{child}")));
            if kind.is_ok_and(|k| k.is_dir()) {
                self.add(host, &child, Some(at), depth + 1);
            }
        }
    }

    /// Returns the node that a phandle refers to.
    #[must_use]
    pub fn find_by_handle(&self, handle: u32) -> Option<&Node> {
        self.nodes.iter().find(|n| n.cell("phandle") == Some(handle))
    }

    /// Returns the node that the first phandle of a property refers to.
    #[must_use]
    pub fn find_linked(&self, node: &Node, name: &str) -> Option<&Node> {
        self.find_by_handle(node.cell(name)?)
    }

    /// Returns the windows of a node in processor addresses, each as physical address and length in bytes. Returns none
    /// if one of them is not reachable from the processor.
    #[must_use]
    pub fn windows(&self, node: &Node) -> Vec<(PhysAddr, u64)> {
        self.reached(node).unwrap_or_default()
    }

    fn reached(&self, node: &Node) -> Option<Vec<(PhysAddr, u64)>> {
        let bus = self.nodes.get(node.parent?)?;
        let (address, size) = bus.widths();
        let list = node.list("reg");
        let mut rest = list.as_slice();
        let mut windows = Vec::new();
        while !rest.is_empty() {
            let (base, bytes) = (take(&mut rest, address)?, take(&mut rest, size)?);
            let base = self.translated(bus, base, bytes)?;
            base.checked_add(bytes).filter(|_| bytes > 0)?;
            windows.push((PhysAddr::new(base), bytes));
        }
        Some(windows)
    }

    /// Translates a bus address to a processor address.
    fn translated(&self, bus: &Node, address: u64, bytes: u64) -> Option<u64> {
        let (mut bus, mut address) = (bus, address);
        for _ in 0..=DEEPEST {
            // Addresses of the root are processor addresses.
            let Some(above) = bus.parent else { return Some(address) };
            let above = self.nodes.get(above)?;
            let ranges = bus.properties.get("ranges")?;
            if !ranges.is_empty() {
                let ((child, size), (parent, _)) = (bus.widths(), above.widths());
                let list: Vec<u32> = cells(ranges).collect();
                let mut rest = list.as_slice();
                address = loop {
                    let (from, to) = (take(&mut rest, child)?, take(&mut rest, parent)?);
                    let length = take(&mut rest, size)?;
                    let inside = address.checked_sub(from).filter(|o| {
                        let end = o.checked_add(bytes);
                        end.is_some_and(|end| end <= length)
                    });
                    if let Some(offset) = inside {
                        break to.checked_add(offset)?;
                    }
                    if rest.is_empty() {
                        return None;
                    }
                };
            }
            bus = above;
        }
        None
    }

    /// Returns the interrupts of a node, as its controller numbers them. Numbers of Arm's controller are global: shared
    /// interrupts start at 32.
    #[must_use]
    pub fn interrupts(&self, node: &Node) -> Vec<u32> {
        let mut at = Some(node);
        let mut controller = None;
        for _ in 0..=DEEPEST {
            let Some(n) = at else { break };
            if let Some(handle) = n.cell("interrupt-parent") {
                controller = self.find_by_handle(handle);
                break;
            }
            at = n.parent.and_then(|p| self.nodes.get(p));
        }
        let width = controller.and_then(|c| c.cell("#interrupt-cells")).unwrap_or(1);
        let width = width.clamp(1, 8) as usize;
        let list = node.list("interrupts");
        let number = |one: &[u32]| match one {
            [0, number, _, ..] => number.checked_add(32),
            [1, number, _, ..] => number.checked_add(16),
            [number, ..] => Some(*number),
            [] => None,
        };
        list.chunks_exact(width).take(64).filter_map(number).collect()
    }
}
