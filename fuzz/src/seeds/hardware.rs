//! Seeds of kernel and firmware descriptions of devices: BARs, lines to the guard, names, a device tree.

use super::seed::Add;

const WINDOWS: &[u8] = b"\x000x00000000fd000000 0x00000000fdffffff 0x0000000000042208\n\
    0x000000000000c000 0x000000000000c0ff 0x0000000000040101\n";
const LINE: &[u8] = b"\x01{\"bus\":\"pci\",\"name\":\"0000:00:03.0\",\
    \"taken\":{\"enabled\":true,\"bound\":\"uio_pci_generic\",\"from\":null}}\n";

/// Returns a root of one cell each, a bus that translates, and a device in it.
fn tree() -> Vec<u8> {
    let cells = |list: &[u32]| list.iter().flat_map(|c| c.to_be_bytes()).collect::<Vec<u8>>();
    let one = cells(&[1]);
    let nothing: Vec<u8> = Vec::new();
    let ranges = cells(&[0x1000, 0x2000, 0x1000]);
    let nodes = [
        [&nothing, &nothing, &one, &one, &nothing, &nothing, &nothing],
        [&nothing, &ranges, &one, &one, &nothing, &one, &nothing],
        [
            &cells(&[0x1100, 0x100]),
            &nothing,
            &nothing,
            &nothing,
            &cells(&[3]),
            &nothing,
            &nothing,
        ],
    ];
    let mut bytes = vec![4];
    for property in nodes.iter().flatten() {
        bytes.push(property.len() as u8);
        bytes.extend_from_slice(property);
    }
    bytes
}

/// Returns VFIO's answer with two address ranges after another capability.
fn ranges() -> Vec<u8> {
    let words = [
        0,
        2,
        0x1000,
        0,
        24,
        0,
        0x0001_0007,
        36,
        0,
        0x0001_0001,
        0,
        2,
        0,
        0,
        0,
        0xfedf_ffff,
        0,
        0xfef0_0000,
        0,
        0xffff_ffff,
        0xff,
    ];
    let mut bytes = vec![5];
    bytes.extend(words.iter().flat_map(|w: &u32| w.to_le_bytes()));
    bytes
}

const LOG: &[u8] =
    b"\x063,402,3;DMAR: [DMA Write NO_PASID] Request device [00:02.0] fault addr 0x8000000 [fault reason \
    0x05] PTE Write access is not set\n\x003,405,6;arm-smmu-v3 9050000.smmuv3: event 0x10 received:\n\x00\
    3,406,7;arm-smmu-v3 9050000.smmuv3: \t0x0000001000000010\n";

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    for (file, bytes) in [
        ("windows", WINDOWS),
        ("line", LINE),
        ("address", b"\x020000:00:03.0"),
        ("ids", b"\x021002:5159"),
        ("node", b"\x039010000.pl031"),
        ("compatible", b"\x03arm,pl031"),
        ("tree", &tree()),
        ("ranges", &ranges()),
        ("log", LOG),
    ] {
        add("hardware", file, bytes.to_vec());
    }
}
