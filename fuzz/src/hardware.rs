//! Fuzz target for the kernel's and firmware's descriptions of devices, and for device names.

use replay_engine::device::guard;
use replay_engine::device::host::Host;
use replay_engine::device::pci::{self, Resource};
use replay_engine::device::platform::{self, Node, Tree};
use replay_engine::device::vfio;

/// Properties of a made-up node, in the order of an input's parts.
const PROPERTIES: [&str; 7] = [
    "reg",
    "ranges",
    "#address-cells",
    "#size-cells",
    "interrupts",
    "#interrupt-cells",
    "memory-region",
];

/// Fuzzes one description. The first byte selects what the rest is. It is the BARs of a PCI function, lines to the
/// guard, or the text after `pci:` or after `platform:`. Otherwise it is device tree properties, VFIO's description of
/// an IOMMU, or lines of the kernel's log.
pub fn hardware(data: &[u8]) -> bool {
    let Some((kind, rest)) = data.split_first() else {
        return false;
    };
    let text = String::from_utf8_lossy(rest);
    match kind % 7 {
        0 => match Resource::parse(&text) {
            Some(list) => {
                assert!(list.len() <= 6, "{} BARs", list.len());
                !list.is_empty()
            }
            None => false,
        },
        // The machine has no files: every accepted device is reported as missing.
        1 => guard::run_guard(rest, &Host::with_root("/nonexistent"))
            .iter()
            .any(|message| message.contains("/nonexistent")),
        2 => match pci::Name::parse(&text) {
            Ok(name) => {
                assert!(!name.to_string().contains('/'), "{name}");
                true
            }
            Err(_) => false,
        },
        3 => match platform::Name::parse(&text) {
            Ok(name) => {
                assert!(!name.to_string().contains('/'), "{name}");
                true
            }
            Err(_) => false,
        },
        4 => tree(rest),
        5 => match vfio::ranges(rest) {
            Some(ranges) => {
                assert!(ranges.iter().all(|(first, last)| first <= last), "{ranges:x?}");
                assert!(ranges.len() <= 1 + rest.len() / 16, "{} ranges", ranges.len());
                true
            }
            None => false,
        },
        _ => {
            let records: Vec<String> = rest.split(|b| *b == 0).map(vfio::dma_faults::text).collect();
            let messages = vfio::dma_faults::filter_faults(&records, "0000:00:02.0");
            assert!(messages.len() <= records.len());
            !messages.is_empty()
        }
    }
}

/// Fuzzes a chain of nodes, each inside the one before. A node has one byte of length and the bytes of each property.
fn tree(mut rest: &[u8]) -> bool {
    let mut tree = Tree::default();
    while !rest.is_empty() && tree.nodes.len() < 8 {
        let mut node = Node {
            path: format!("/n@{}", tree.nodes.len()),
            parent: tree.nodes.len().checked_sub(1),
            ..Node::default()
        };
        for name in PROPERTIES {
            let Some((length, after)) = rest.split_first() else {
                break;
            };
            let (bytes, after) = after.split_at(usize::from(*length).min(after.len()));
            if !bytes.is_empty() {
                node.properties.insert(name.to_owned(), bytes.to_vec());
            }
            rest = after;
        }
        tree.nodes.push(node);
    }
    let mut found = false;
    for node in &tree.nodes {
        for (base, bytes) in tree.windows(node) {
            assert!(bytes > 0 && base.checked_add(bytes).is_some(), "{base:#x} {bytes:#x}");
            found = true;
        }
        assert!(tree.interrupts(node).len() <= 64, "more interrupts than the limit");
    }
    found
}
