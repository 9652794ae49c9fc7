//! Seeds of the importers of text logs: a few lines of each format.

use super::Add;
use crate::trace_log::BESIDE;

const MMIOTRACE: &[u8] = b"VERSION 20070824
PCIDEV 0018 10025159 b fd000008 c001 febf0000 0 0 0 c0002 1000000 100 4000 0 0 0 20000 radeonfb
MARK 4.793477 start
MAP 4.863207 1 0xfebf0000 0xffffcc9ec05b0000 0x4000 0x0 0
R 4 4.867835 1 0xfebf0148 0x0 0x0 0
W 8 4.867836 1 0xfd000148 0x102030405060708 0x0 0
UNKNOWN 5.126301 3 0xc0000 f3,a5,f6 0x0 0
MARK 0.000000 Lost 3 events.
UNMAP 5.112185 2 0x0 0
";
const AUXILIARY: &[u8] = b"            sh-92      [000] d.h1.     4.86: irq_handler_entry: irq=11 name=radeonfb
            sh-92      [000] .....     4.9: cfgr: (pci_conf1_read+0x0/0xf0) seg=0 bus=0 devfn=0x18 reg=0x4 len=2
            sh-92      [000] .....     4.9: cfgw: (pci_conf1_write+0x0/0xf0) seg=0 bus=0 devfn=0x18 reg=0x4 len=2 val=0x7
            sh-92      [000] .....     5.0: req_irq: (request_threaded_irq+0x0/0x170) irq=11 handler=0xffffffffc0617af0
";
const FTRACE: &[u8] = b"# tracer: nop
        modprobe-49      [000] dN...     0.561222: ioremap: (ioremap_prot+0x0/0xe0) phys=0x11010000 size=0x4000
        modprobe-49      [000] .N...     0.561858: ioremap_ret: (f+0x198/0x1d70 [radeonfb] <- ioremap_prot) va=0xffffffc0088a4000
        modprobe-49      [000] .N...     0.562: rwmmio_write: f+0x1/0x2 -> g+0x1/0x2 [radeonfb] width=32 val=0x1 addr=0xffffffc0088a4010
        modprobe-49      [000] .N...     0.563: rwmmio_post_read: f+0x1/0x2 -> g+0x1/0x2 [radeonfb] width=16 val=0x1 addr=0xffffffc0088a4010
        modprobe-49      [000] .N...     0.563: rwmmio_post_read: f+0x1 -> pci_generic_config_read+0x1/0x2 width=8 val=0x1 addr=0xffffffc01001003d
        modprobe-49      [000] .....     0.564: m: (dma_map_page_attrs+0x0/0x1) dev=0xf page=0xf off=0 size=4096
        modprobe-49      [000] .....     0.565: m: (x+0x1/0x2 <- dma_map_page_attrs) dma=0x7fff000
CPU:0 [LOST 12 EVENTS]
        modprobe-49      [000] .....     3.968671: rd_e: (igb_rd32+0x0/0x60 [igb]) hw=0xffff8a7a827e0ed8 off=0x18
        modprobe-49      [000] .....     3.975149: rd_r: (igb_probe+0xa2/0xef0 [igb] <- igb_rd32) val=0x0
";
const WINDOWS: &[u8] = b"0x0000000010000000 0x0000000010ffffff 0x0000000000042208
0x0000000000001000 0x00000000000010ff 0x0000000000040101
0x0000000011010000 0x0000000011013fff 0x0000000000040200
";
const QEMU: &[u8] = b"memory_region_ops_write cpu 0 mr 0x1 addr 0xcf8 value 0x80001800 size 4 name 'pci-conf-idx'
memory_region_ops_read cpu 0 mr 0x1 addr 0xcfc value 0x51591002 size 4 name 'pci-conf-data'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcf8 value 0x80001818 size 4 name 'pci-conf-idx'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcfc value 0xffffffff size 4 name 'pci-conf-data'
memory_region_ops_read cpu 0 mr 0x1 addr 0xcfc value 0xffffc000 size 4 name 'pci-conf-data'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcfc value 0xfebf0000 size 4 name 'pci-conf-data'
memory_region_ops_read cpu 0 mr 0x2 addr 0xfebf00f8 value 0x1000000 size 4 name 'ati.mmregs'
memory_region_ops_write cpu -1 mr 0x3 addr 0xfee00000 value 0x0 size 4 name 'apic-msi'
1@2.000003:memory_region_ops_write cpu 0 mr 0x4 addr 0x70 value 0x8f size 1 name 'rtc-index'
";

pub(super) fn add(add: Add<'_>) {
    let beside = |log: &[u8], other: &[u8]| [log, &BESIDE[1..], other].concat();
    add("trace_log", "mmiotrace", MMIOTRACE.to_vec());
    add("trace_log", "mmiotrace-and-auxiliary", beside(MMIOTRACE, AUXILIARY));
    add("trace_log", "ftrace", FTRACE.to_vec());
    add("trace_log", "ftrace-and-windows", beside(FTRACE, WINDOWS));
    add("trace_log", "qemu", QEMU.to_vec());
}
