//! The one GPU of the model as the driver describes it.

use crate::record::Record;

/// Number of the GPU in requests.
pub const GPU_ID: u32 = 6;
/// Name of the GPU.
pub const NAME: &str = "NVIDIA H100 80GB HBM3";
/// Bus location of the GPU: domain, bus, slot, function.
pub const BUS_LOCATION: &str = "0000:00:06.0";
/// PCI identity of the GPU: device and vendor.
pub const PCI_DEVICE: u32 = 0x2330_10de;
/// Identity of the GPU in requests to UVM.
pub const UUID: [u8; 16] = *b"nvidia-model-gpu";
/// Bytes of a block of system memory.
pub const MEMORY_BLOCK_BYTES: u64 = 0x4000_0000;
/// Bus address of the registers.
const REGISTERS_ADDRESS: u64 = 0x1020_0200_0000;
const REGISTERS_BYTES: u64 = 0x100_0000;
/// Bus address of video memory.
pub const VIDEO_MEMORY_ADDRESS: u64 = 0x1000_0000_0000;
const VIDEO_WINDOW_BYTES: u64 = 0x20_0000_0000;
/// Bus address of the user-mode page.
pub const USER_MODE_ADDRESS: u64 = REGISTERS_ADDRESS + 0xbb_0000;

/// Bus address of the user-mode page in the window of video memory.
pub const USER_MODE_WINDOW_ADDRESS: u64 = VIDEO_MEMORY_ADDRESS + 0xa_0000;

/// Describes the GPU in the first element, and no GPU in the others.
pub fn fill_card_info(cards: &mut Record) {
    if cards.count() == 0 {
        return;
    }
    for (name, value) in [
        ("valid", 1),
        ("pci_info.slot", 6),
        ("pci_info.vendor_id", u64::from(PCI_DEVICE & 0xffff)),
        ("pci_info.device_id", u64::from(PCI_DEVICE >> 16)),
        ("gpu_id", u64::from(GPU_ID)),
        ("interrupt_line", 0x29),
        ("reg_address", REGISTERS_ADDRESS),
        ("reg_size", REGISTERS_BYTES),
        ("fb_address", VIDEO_MEMORY_ADDRESS),
        ("fb_size", VIDEO_WINDOW_BYTES),
        ("minor_number", 0),
    ] {
        cards.set(name, value);
    }
}

/// Describes memory that is not a NUMA node.
pub fn fill_numa_info(info: &mut Record) {
    info.set("nid", u64::MAX);
    info.set("status", 0);
    info.set("memblock_size", MEMORY_BLOCK_BYTES);
}
