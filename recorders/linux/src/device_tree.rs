//! Device tree devices: their compatible strings and the CPU addresses of their MMIO regions. From the Devicetree
//! Specification, release 0.4, chapter 2.

use crate::kernel::Kernel;
use trace_core::PhysAddr;
use trace_core::recording::{PlatformDevice, PlatformWindow};

/// Folder of the kernel's device tree.
const TREE: &str = "/proc/device-tree";
/// Maximum number of MMIO regions of a device.
const MAX_REGIONS: usize = 64;
/// Maximum number of levels of the tree.
const MAX_LEVELS: usize = 32;

fn property(kernel: &dyn Kernel, node: &str, name: &str) -> Option<Vec<u8>> {
    kernel.read_bytes(&format!("{TREE}{node}/{name}")).ok()
}

/// Returns the strings of a property, one after another, each with a zero at its end.
fn texts(bytes: &[u8]) -> Vec<String> {
    let all = bytes.split(|b| *b == 0).filter(|t| !t.is_empty());
    all.map(|t| String::from_utf8_lossy(t).into_owned()).collect()
}

/// Returns the cells of a property.
fn cells(bytes: &[u8]) -> Vec<u32> {
    let all = bytes.chunks_exact(4);
    all.map(|c| c.iter().fold(0, |n, b| n << 8 | u32::from(*b))).collect()
}

/// Returns the number in cells, at most two; higher cells must be zero.
fn number(cells: &[u32]) -> Option<u64> {
    let (high, low) = cells.split_at(cells.len().saturating_sub(2));
    let value = low.iter().fold(0, |n, c| n << 32 | u64::from(*c));
    high.iter().all(|c| *c == 0).then_some(value)
}

/// Returns the numbers of address and size cells below a node; 2 and 1 by default.
fn widths(kernel: &dyn Kernel, node: &str) -> (usize, usize) {
    let of = |name, default| {
        let report = property(kernel, node, name).map(|b| cells(&b));
        let reported = report
            .and_then(|c| usize::try_from(*c.first()?).ok())
            .filter(|n| *n <= 4);
        reported.unwrap_or(default)
    };
    (of("#address-cells", 2), of("#size-cells", 1))
}

fn parent(node: &str) -> Option<&str> {
    let (above, name) = node.rsplit_once('/')?;
    (!name.is_empty()).then_some(above)
}

/// Translates an address below `bus` to a CPU address through the ranges of every bus up to the root. Returns `None` if
/// a bus does not translate it.
fn translate(kernel: &dyn Kernel, bus: &str, mut address: u64) -> Option<PhysAddr> {
    let mut bus = bus;
    for _ in 0..MAX_LEVELS {
        let Some(above) = parent(bus) else {
            return Some(PhysAddr::new(address));
        };
        let ranges = cells(&property(kernel, bus, "ranges")?);
        let (own, size) = widths(kernel, bus);
        let (upper, _) = widths(kernel, above);
        // Without entries, addresses are the same on both sides.
        if !ranges.is_empty() {
            let row = own.checked_add(upper)?.checked_add(size).filter(|n| *n > 0)?;
            address = ranges.chunks_exact(row).find_map(|r| {
                let (first, rest) = r.split_at_checked(own)?;
                let (to, bytes) = rest.split_at_checked(upper)?;
                let inside = address.checked_sub(number(first)?)?;
                (inside < number(bytes)?).then(|| number(to)?.checked_add(inside))?
            })?;
        }
        bus = above;
    }
    None
}

/// Reads a node of the tree. MMIO regions that a bus above does not translate are left out.
pub(crate) fn read_device(kernel: &dyn Kernel, node: &str) -> PlatformDevice {
    let bus = parent(node).unwrap_or_default();
    let (address, size) = widths(kernel, bus);
    let reg = cells(&property(kernel, node, "reg").unwrap_or_default());
    let window_names = texts(&property(kernel, node, "reg-names").unwrap_or_default());
    let row = address.saturating_add(size).max(1);
    let windows = reg
        .chunks_exact(row)
        .take(MAX_REGIONS)
        .enumerate()
        .filter_map(|(at, r)| {
            let (first, bytes) = r.split_at_checked(address)?;
            Some(PlatformWindow {
                name: window_names.get(at).cloned().unwrap_or_else(|| format!("reg{at}")),
                base: translate(kernel, bus, number(first)?)?,
                bytes: number(bytes).filter(|n| *n > 0)?,
            })
        });
    PlatformDevice {
        node: node.to_owned(),
        compatible: texts(&property(kernel, node, "compatible").unwrap_or_default()),
        windows: windows.collect(),
        irqs: Vec::new(),
    }
}

/// Returns the interrupts whose handlers have the name of a device or of its driver, as drivers of device tree devices
/// name them.
pub(crate) fn find_irqs(kernel: &dyn Kernel, device: &str, driver: Option<&str>) -> Vec<u32> {
    let text = kernel.read("/proc/interrupts").unwrap_or_default();
    let stem = device.rsplit_once('.').map_or(device, |(_, name)| name);
    let of = text.lines().filter_map(|line| {
        let (irq, rest) = line.split_once(':')?;
        let named = rest
            .split([' ', ','])
            .any(|word| word == device || word.split('@').next() == Some(stem) || Some(word) == driver);
        irq.trim().parse().ok().filter(|_| named)
    });
    of.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_kernel::FakeKernel;
    use trace_core::PhysAddr;

    #[test]
    fn device_tree_addresses_are_translated_by_bus_ranges() {
        let mut kernel = FakeKernel::default();
        let be = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
        for (path, bytes) in [
            ("/#address-cells", be(&[2])),
            ("/#size-cells", be(&[2])),
            ("/soc/#address-cells", be(&[1])),
            ("/soc/#size-cells", be(&[1])),
            ("/soc/ranges", be(&[0x1000, 0, 0xfe00_0000, 0x100_0000])),
            ("/soc/gpu@2000/reg", be(&[0x2000, 0x400, 0x9999_0000, 0x10])),
            ("/soc/gpu@2000/reg-names", b"gpu\0other\0".to_vec()),
            ("/soc/gpu@2000/compatible", b"arm,mali-t860\0".to_vec()),
        ] {
            kernel.put_bytes(&format!("{TREE}{path}"), bytes);
        }
        let d = read_device(&kernel, "/soc/gpu@2000");
        assert_eq!(d.compatible, ["arm,mali-t860"]);
        // The second region has an address that the bus does not translate.
        let entries: Vec<_> = d
            .windows
            .iter()
            .map(|w| (w.name.as_str(), w.base.get(), w.bytes))
            .collect();
        assert_eq!(entries, [("gpu", 0xfe00_1000, 0x400)]);
        kernel.put_bytes(&format!("{TREE}/soc/ranges"), Vec::new());
        assert_eq!(
            read_device(&kernel, "/soc/gpu@2000").windows[0].base,
            PhysAddr::new(0x2000)
        );
        kernel.put_bytes(&format!("{TREE}/soc/gpu@2000/reg"), be(&[1]));
        assert!(read_device(&kernel, "/soc/gpu@2000").windows.is_empty());
    }
}
