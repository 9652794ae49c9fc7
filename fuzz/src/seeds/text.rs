//! Seeds of the readers of text: filters, register maps, logs of register accesses, QEMU's answers.

use super::seed::Add;
use crate::trace_log::SEPARATOR;

/// Events of the recording: kind and direction, thread, offset, value.
const EVENTS: [(u8, u8, u16, u32); 10] = [
    (0x20, 1, 0x0, 0x6000_0000),
    (0x21, 1, 0x18d8, 0x8_7b00),
    (0x27, 2, 0x18e0, 0x1),
    (8, 0, 0, 2),
    (0x20, 2, 0x100c, 2),
    (9, 0, 0, 7),
    (10, 0, 0, 0x7000),
    (11, 1, 64, 0x1000),
    (0x8c, 1, 0x20, 0x2400_0000),
    (13, 1, 0x1000, 0x8000),
];

const FILTERS: [(&str, &str); 10] = [
    (
        "product",
        "reg =~ \"JS1_.*\" and write and value & 0x100 != 0 and job in 0..9",
    ),
    (
        "fields",
        "JS1_CONFIG_NEXT.start_flush = \"clean+invalidate\" or JS_COMMAND_NEXT = start",
    ),
    (
        "numbers",
        "value in {1, 0b10, 0o7, 0x8_7b00} and time in 1us..1.5ms and not event > 9",
    ),
    ("names", "space = bar1 || block != MMU && reg in {GPU_ID, AS_COMMAND}"),
    (
        "kinds",
        "interrupt or submit or poll or mark or host-write or undecoded or dma or unknown",
    ),
    (
        "reported",
        "irq.line = job or irq.status & 3 or address >= 0x1000 or bytes < 65 or text =~ '7$'",
    ),
    ("words", "!(read js1) write mmu offset width = 4"),
    ("kind", "kind not in {read, write} and kind != mark"),
    ("nothing", ""),
    (
        "references",
        "references JS1_CONFIG_NEXT or xref 0x1000 or references bar1+0x20",
    ),
];

/// Returns the input of events of every kind.
fn events() -> Vec<u8> {
    let mut head = vec![EVENTS.len() as u8];
    for (kind, thread, offset, value) in EVENTS {
        head.extend([kind, thread]);
        head.extend(offset.to_le_bytes());
        head.extend(value.to_le_bytes());
    }
    head
}

/// Adds the seeds of filters: events of every kind and a filter of each form.
pub fn add_filter(add: Add<'_>) {
    let head = events();
    for (file, text) in FILTERS {
        add("filter", file, [&head, text.as_bytes()].concat());
    }
}

/// Page-table entries that map 0x5000 and 0x6000 to the frames 5 and 6: frame from 1 on, index, entry.
const ENTRIES: [(u8, u16, u64); 5] = [
    (0, 0, 0x2003),
    (1, 0, 0x3003),
    (2, 0, 0x4003),
    (3, 5, 0x5443),
    (3, 6, 0x6443),
];

const TARGETS: [(&str, &str); 6] = [
    ("address", "0x5010"),
    ("buffer", "data"),
    ("buffer_offset", "data+0x40"),
    ("register", "JS1_COMMAND_NEXT"),
    ("register_field", "JS1_CONFIG_NEXT.start_flush"),
    ("framebuffer", "bar1+0x20"),
];

/// Adds the seeds of cross references: events of every kind, page tables, and a target of each form.
pub fn add_xref(add: Add<'_>) {
    let mut head = events();
    head.push(ENTRIES.len() as u8);
    for (frame, index, entry) in ENTRIES {
        head.push(frame);
        head.extend(index.to_le_bytes());
        head.extend(entry.to_le_bytes());
    }
    head.push(4);
    for (file, text) in TARGETS {
        add("xref", file, [&head, text.as_bytes()].concat());
    }
}

const RNN: &str = "<database><enum name=\"chip\"><value name=\"A2\"/><value name=\"A3\"/></enum>\
<enum name=\"how\"><value name=\"FAST\" value=\"1\"/></enum>\
<bitset name=\"both\"><bitfield name=\"HOW\" low=\"0\" high=\"1\" type=\"how\"/><bitfield name=\"BASE\" low=\"4\" high=\"31\" shr=\"4\"/></bitset>\
<group name=\"g\"><reg32 offset=\"1\" name=\"LOW\" access=\"r\"/><reg64 offset=\"2\" name=\"WIDE\"/></group>\
<domain name=\"D\" width=\"32\" prefix=\"chip\"><reg32 offset=\"1\" name=\"ID\" variants=\"A3-\"/>\
<array offset=\"16\" name=\"MRT\" stride=\"8\" length=\"2\"><reg32 offset=\"0\" name=\"CTL\" type=\"both\"/><use-group name=\"g\"/></array>\
<reg32 offset=\"0x30\" name=\"X\" length=\"3\"/></domain></database>";

const GENXML: &str = "<genxml name=\"T\" gen=\"9\"><enum name=\"Mode\"><value name=\"ON\" value=\"1\"/></enum>\
<register name=\"CTL\" length=\"1\" num=\"0x2044\"><field name=\"Mode\" start=\"0\" end=\"1\" type=\"Mode\"/></register>\
<struct name=\"S\" length=\"2\"><group count=\"4\" start=\"0\" size=\"16\"><field name=\"P\" start=\"0\" end=\"15\" type=\"uint\"/></group></struct></genxml>";

const VCXML: &str = "<vcxml gen=\"2.1\"><packet code=\"71\" name=\"Cache\" shortname=\"cache\">\
<field name=\"count\" size=\"4\" start=\"4\" type=\"uint\" minus_one=\"true\"/><field name=\"address\" size=\"27\" start=\"13\" type=\"address\"/></packet></vcxml>";

const PANXML: &str = "<panxml><struct name=\"T\" size=\"2\"><field name=\"W\" size=\"16\" start=\"0:4\" type=\"uint\" modifier=\"minus(1)\"/>\
<field name=\"P\" size=\"32\" start=\"1:0\" type=\"address\" modifier=\"shr(4)\"/></struct></panxml>";

const SVD: &str = "<device><name>D</name><peripherals><peripheral><name>P</name><baseAddress>0x40000000</baseAddress><registers>\
<register><name>CTRL</name><addressOffset>0</addressOffset><fields><field><name>M</name><bitRange>[3:1]</bitRange>\
<enumeratedValues><enumeratedValue><name>A</name><value>#001</value></enumeratedValue></enumeratedValues></field></fields></register>\
<cluster><dim>2</dim><dimIncrement>16</dimIncrement><name>CH[%s]</name><addressOffset>0x10</addressOffset>\
<register derivedFrom=\"CTRL\"><name>V</name><addressOffset>0</addressOffset></register></cluster></registers></peripheral></peripherals></device>";

/// Arrays of arrays, a stripe, a list of offsets, an array that is placed at run time, and two mistakes.
const RNN_ARRAYS: &str = "<database><domain name=\"D\"><!-- a --><array offset=\"0x100\" name=\"G\" stride=\"0x100\" length=\"4\"><array offset=\"0x40\" name=\"T\" stride=\"0x20\" length=\"2\">\
<reg32 offset=\"0\" name=\"R\"/><reg32 offset=\"0\" name=\"S\" length=\"2\"/></array></array><stripe offset=\"0x800\" stride=\"8\" length=\"3\"><reg8 offset=\"1\" name=\"B\" length=\"2\"/></stripe>\
<array offsets=\"0x900,0x940,0x980\" name=\"L\"><reg64 offset=\"0\" name=\"W\"/></array><array doffsets=\"a,b\" length=\"2\" name=\"P\"><reg32 offset=\"0\" name=\"R\"/></array>\
<reg32 name=\"BAD\"/><reg32 offset=\"0x148\" name=\"X & Y\"/></domain></database>";

/// Today's form of Intel, with an address that contains a smaller field.
const GENXML_WORDS: &str = "<genxml name=\"T\" gen=\"21\"><import name=\"x.xml\"><exclude name=\"A\"/></import>\
<struct name=\"S\" length=\"4\"><field name=\"Base\" dword=\"0\" bits=\"63:0\" type=\"address\"/><field name=\"On\" dword=\"0\" bits=\"0\" type=\"bool\"/>\
<group count=\"2\" dword=\"2\" offset-bits=\"16\" size=\"32\"><field name=\"P\" dword=\"0\" bits=\"7:4\" type=\"uint\"/></group></struct></genxml>";

const ASAHI: &str = "<genxml><enum name=\"Wrap\"><value name=\"Clamp\" value=\"0\"/></enum><struct name=\"Sampler\" size=\"8\">\
<field name=\"Tag\" size=\"8\" start=\"0:0\" exact=\"0x1d\"/><field name=\"Wrap\" size=\"3\" start=\"29\" type=\"Wrap\"/><field name=\"A\" size=\"28\" start=\"1:4\" type=\"address\" modifier=\"shr(4)\"/></struct></genxml>";

const CSBGEN: &str = "<csbgen name=\"ROGUE\" prefix=\"CR\"><define name=\"ROWS\" value=\"0x10\"/><enum name=\"WAY\"><value name=\"UP\" value=\"1\"/></enum>\
<struct name=\"B\" length=\"2\"><field name=\"addr\" start=\"4\" end=\"39\" shift=\"4\" type=\"address\"/><condition type=\"if\" check=\"A &gt; 2 &amp;&amp; !B\"/>\
<field name=\"w\" start=\"62\" end=\"62\" type=\"bool\"><define name=\"UNIT_SIZE\" value=\"4\"/></field><condition type=\"else\" check=\"A\"/><field name=\"v\" start=\"60\" end=\"62\" type=\"WAY\"/>\
<condition type=\"endif\" check=\"A\"/></struct><stream name=\"C\" length=\"3\"><field name=\"a\" size=\"64\" type=\"uint\" feature=\"F\"/></stream></csbgen>";

/// Members of arrays as bases, lists of values for reads and writes, an array of letters, and a mistake.
const SVD_ARRAYS: &str = "<device><name>D</name><peripherals><peripheral><name>G%s</name><dim>2</dim><dimIncrement>0x400</dimIncrement><dimIndex>A,B</dimIndex><baseAddress>0</baseAddress><registers>\
<cluster><name>C[%s]</name><dim>3</dim><dimIncrement>32</dimIncrement><dimIndex>1-3</dimIndex><addressOffset>0x40</addressOffset><register><name>R%s</name><dim>4</dim><dimIncrement>4</dimIncrement><addressOffset>0x<!-- x -->0</addressOffset>\
<fields><field><name>M</name><lsb>0</lsb><msb>1</msb><enumeratedValues><usage>read</usage><enumeratedValue><name>busy</name><description>It runs.</description><value>1</value></enumeratedValue></enumeratedValues>\
<enumeratedValues><usage>write</usage><enumeratedValue><name>go</name><value>1</value></enumeratedValue></enumeratedValues></field></fields></register></cluster>\
<register derivedFrom=\"R2\"><name>S</name><addressOffset>0</addressOffset></register><register><name>T</name></register></registers></peripheral>\
<peripheral derivedFrom=\"GB\"><name>X</name><baseAddress>0x1000</baseAddress></peripheral></peripherals></device>";

/// Adds the seeds of register maps: small register descriptions in the four formats.
pub fn add_maps(add: Add<'_>) {
    add("map_svd", "device", SVD.into());
    add("map_rnn", "database", RNN.into());
    add("map_genxml", "genxml", GENXML.into());
    add("map_genxml", "vcxml", VCXML.into());
    add("map_genxml", "panxml", PANXML.into());
    add("map_genxml", "words", GENXML_WORDS.into());
    add("map_genxml", "asahi", ASAHI.into());
    add("map_csbgen", "csbgen", CSBGEN.into());
    add("map_rnn", "arrays", RNN_ARRAYS.into());
    add("map_svd", "arrays", SVD_ARRAYS.into());
    let described = SVD.replace(
        "<name>CTRL</name>",
        "<name>CTRL</name><description>1 \u{b5}s</description>",
    );
    let head = "<?xml version='1.0' encoding='ISO-8859-1'?>".chars();
    add(
        "map_svd",
        "latin",
        head.chain(described.chars()).map(|c| c as u8).collect(),
    );
    let utf16 = SVD.encode_utf16().flat_map(u16::to_le_bytes);
    add("map_svd", "utf16", utf16.collect());
}

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

/// The head of a trace file, trace-cmd's report with ticks and lost events, and the latency format.
const HEADS: &[u8] = b"# tracer: nop
cpus=2
CPU 1 is empty
CPU:0 [12 EVENTS DROPPED]
   Web Content-1977 (   1977) [002] ..... 12.000001: rwmmio_write: f+0x1/0x2 width=32 val=0x1 addr=0xffff800008a04004
    kworker/0:1-23    [000]   27364598172635: rwmmio_post_read:     f+0x1/0x2 [msm] width=64 val=0x1 addr=0xffff800008a04008
  <idle>-0       2d.h1.    4us : rwmmio_write: f+0x1/0x2 width=8 val=0x1 addr=0xffff8000fa000000
kworker/0:1    23/24 [000]   123.456789: rwmmio:rwmmio_write: f+0x1/0x2 width=16 val=0x2 addr=0xf0a80030
 modprobe-9 [002] d..1. 41.2: r: (readl+0x0/0x20) arg1=0xffffc90000123190
 modprobe-9 [002] d..1. 41.3: rr: (f+0x8c/0x3b0 [wl] <- readl) arg1=-1
 modprobe-9 [002] d..1. 41.4: w: (iowrite16be+0x0/0x20) val=0x1 addr=0xffffc90000123190
";
/// Events of GPU drivers.
const DRIVERS: &[u8] = b" a-1 [001] ..... 1.1: i915_reg_rw: write reg=0x100030, len=8, val=(0xfca9001, 0xfce8007)
 a-1 [001] ..... 1.2: xe_reg_rw: dev=0000:03:00.0, read reg=0x44200, len=4, val=(0x1, 0x0)
 a-1 [001] ..... 1.3: amdgpu_device_wreg: 0x731f, 0x00001234, 0x0000000f
 a-1 [001] ..... 1.4: v3d_submit_cl: dev=1, BCL, seqno=41, 0x00158000..0x00158340
 a-1 [001] ..... 1.5: v3d_bcl_irq: dev=1, seqno=41
 a-1 [001] ..... 1.6: drm_sched_job_run: dev=x, fence=7:2, ring=pan_js, job count:0, hw job count:1, client_id:3
 a-1 [001] ..... 1.7: v3d_reset_begin: dev=1
 a-1 [001] ..... 1.8: drm_sched_job_done: fence=7:2 signaled
 a-1 [001] ..... 1.9: msm_gpu_submit_flush: id=3 pid=88 ring=0:17 ticks=99
 a-1 [001] ..... 2.0: gpu_job_irq: fb000000.gpu: events=0x80000001 duration_ns=900
";
/// Windows of QEMU that move, with decoding off meanwhile, and one of 64 bits in halves.
const MOVING: &[u8] = b"2026-03-14T09:26:53.589000Z memory_region_ops_write cpu 0 mr 0x1 addr 0xcf8 value 0x80001800 size 4 name 'pci-conf-idx'
2026-03-14T09:26:53.589001Z memory_region_ops_read cpu 0 mr 0x1 addr 0xcfc value 0x11111af4 size 4 name 'pci-conf-data'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcf8 value 0x80001810 size 4 name 'pci-conf-idx'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcfc value 0xffffffff size 4 name 'pci-conf-data'
memory_region_ops_read cpu 0 mr 0x1 addr 0xcfc value 0xffff0004 size 4 name 'pci-conf-data'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcfc value 0xfe000004 size 4 name 'pci-conf-data'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcf8 value 0x80001814 size 4 name 'pci-conf-idx'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcfc value 0x80 size 4 name 'pci-conf-data'
memory_region_ops_write cpu 0 mr 0x2 addr 0x80fe000010 value 0x1 size 4 name 'ivshmem-mmio'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcf8 value 0x80001804 size 4 name 'pci-conf-idx'
memory_region_ops_write cpu 0 mr 0x1 addr 0xcfc value 0x0 size 2 name 'pci-conf-data'
memory_region_ops_write cpu 0 mr 0x2 addr 0x80fe000010 value 0x1 size 4 name 'ivshmem-mmio'
";
const BOARD: &[u8] = b"memory_region_ops_write cpu 0 mr 0x1 addr 0x9000000 value 0x41 size 4 name 'pl011'
memory_region_ops_write cpu 0 mr 0x2 addr 0x9040000 value 0x41 size 4 name 'pl011'
memory_region_ops_read cpu -1 mr 0x9 addr 0x10013000 value 0x2 size 1
";
const VFIO: &[u8] =
    b"vfio_region_setup Device 0000:09:00.0, region 0 \"0000:09:00.0 BAR 0\", flags: 0x7, offset: 0x0, size: 0x10000
vfio_pci_read_config  (0000:09:00.0, @0x0, len=0x4) 0x82061235
vfio_region_read  (0000:09:00.0:region0+0x8000, 4) = 0x4061973
vfio_region_write  (0000:09:00.0:region9+0x510, 0x8, 4)
vfio_msi_interrupt  (0000:09:00.0) vector 0 0xfee00000/0x4021
";
const LSPCI: &[u8] = b"01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [10de:2206] (rev a1)
\tFlags: bus master, fast devsel, latency 0, IRQ 125
\tMemory at fd000000 (64-bit, prefetchable) [size=16M]
\tRegion 3: Memory at febf0000 (32-bit, non-prefetchable) [size=16K]
\tExpansion ROM at fb000000 [disabled] [size=512K]
";

/// Returns a file of QEMU's backend `simple` with an access of each kind.
fn simple_trace() -> Vec<u8> {
    let words = |all: &[u64]| -> Vec<u8> { all.iter().flat_map(|w| w.to_le_bytes()).collect() };
    let text = |t: &str| [&(t.len() as u32).to_le_bytes()[..], t.as_bytes()].concat();
    let event = |id: u64, arguments: Vec<u8>| {
        let head = [
            words(&[1, id, 1000]),
            (24 + arguments.len() as u32).to_le_bytes().to_vec(),
        ]
        .concat();
        [head, 9u32.to_le_bytes().to_vec(), arguments].concat()
    };
    [
        words(&[u64::MAX, 0xf2b1_77cb_0aa4_29b4, 4, 0, 5]),
        text("memory_region_ops_write"),
        words(&[0, 6]),
        text("vfio_region_read"),
        event(5, [words(&[0, 1, 0x900_0000, 0x41, 4]), text("pl011")].concat()),
        event(u64::MAX - 1, words(&[12])),
        event(6, [text("0000:09:00.0"), words(&[0, 0x500, 4, 1])].concat()),
    ]
    .concat()
}

/// Adds the seeds of the importers of text logs: a few lines of each format.
pub fn add_trace_log(add: Add<'_>) {
    let with_other = |log: &[u8], other: &[u8]| [log, &SEPARATOR[1..], other].concat();
    add("trace_log", "mmiotrace", MMIOTRACE.to_vec());
    add("trace_log", "mmiotrace-and-auxiliary", with_other(MMIOTRACE, AUXILIARY));
    add("trace_log", "ftrace", FTRACE.to_vec());
    add("trace_log", "ftrace-and-windows", with_other(FTRACE, WINDOWS));
    add("trace_log", "qemu", QEMU.to_vec());
    let boot: &[u8] = b"[    0.3] pci 0000:01:00.0: reg 0x10: [mem 0xfa000000-0xfaffffff 64bit pref]\n";
    let middle: &[u8] = b"VERSION 20070824\nW 4 500.000001 3 0xfa000010 0x1 0x0 0\n";
    add("trace_log", "mmiotrace-and-boot-log", with_other(middle, boot));
    let words = |all: &[u64]| all.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let numbered = [
        words(&[u64::MAX, 0xf2b1_77cb_0aa4_29b4, 3, 0, 1000]),
        [56u32, 9].iter().flat_map(|w| w.to_le_bytes()).collect(),
        words(&[0x55, 0x900_0000, 0x41, 4]),
        b"\n".to_vec(),
    ];
    let list: &[u8] = b"memory_region_ops_write(void *mr, uint64_t addr, uint64_t value, unsigned size) \"x\"\n";
    add(
        "trace_log",
        "qemu-numbered-events",
        with_other(&numbered.concat(), list),
    );
    add("trace_log", "heads", HEADS.to_vec());
    add("trace_log", "drivers", DRIVERS.to_vec());
    add("trace_log", "moving-windows", MOVING.to_vec());
    add("trace_log", "board", BOARD.to_vec());
    add("trace_log", "vfio", VFIO.to_vec());
    add("trace_log", "simple", simple_trace());
    add(
        "trace_log",
        "heads-and-windows",
        with_other(HEADS, b"bar0 0xffff800008a00000 0x10000\n"),
    );
    add("trace_log", "mmiotrace-and-lspci", with_other(MMIOTRACE, LSPCI));
}

const GDEV: &[u8] = b"[    9.000001] gopen: opening minor device 1
[    9.000002] gopen: creating a new virtual address space object. size: 0x4000000
[    9.000003] gdev_drv_vspace_alloc: creating a new vspace. size: 0x4000000
[    9.000004] nouveau_fifo_channel_create_: channel addr: 0xe0001000, len: 0x1000.
gopen: creating a new GPU context. [1]
gdev_drv_chan_alloc: allocating a channel. push buffer addr: 0x20000, size: 0x8000. indirect buffer addr: 0x30000 (2)
gdev_raw_mem_alloc_dma: allocating memory at host for DMA. size: 0x3000
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x3000
[gdev] grid_x = 4
[gdev] Closed gdev1
";
const NOUVEAU: &[u8] = b"[    7.1] nouveau 0000:03:00.0: fifo: fault 00 [READ] at 0000000000abc000 engine 40 [gr] \
    client 11 [GPC3/GCC] reason 02 [PTE] on channel 5 [05fe930000 game[66]]
[   20.1] nouveau: app[88]:00000000:00000080: ioctl: new vers 0 handle 00000003 class 0000a06f route 00 token 0 object 0
[   20.2] nouveau: app[88]:00000000:00000000: ioctl: return 0
[   20.3] nouveau: DRM:00000000:8000900d: init completed in 3us
[   20.4] nouveau: app[88]:00000003:0000a06f: ioctl: delete size 0
[   27.7] NVRM: Xid (PCI:0000:65:00): 31, pid=9, name=a, channel 0x10, intr 0. MMU Fault: ENGINE COPY2 HUBCLIENT_CE0 \
    faulted @ 0x7a_12340000. Fault is of type FAULT_PTE ACCESS_TYPE_VIRT_READ
";

const PUSH_BUFFER: &[u8] = b"nouveau: kernel rejected pushbuf: Invalid argument
nouveau: ch2: krec 0 pushes 2 bufs 2 relocs 0
nouveau: ch2: buf 00000000 00000007 00000004 00000004 00000000 0x7f0000000000 0x400000 0x10000
nouveau: ch2: buf 00000001 00000008 00000002 00000002 00000002 (nil) 0x800000 0x20000
nouveau: ch2: psh 00000000 0000000ffc 0000001004
nouveau: \t0x20018000
nouveau: \t0x0000c3c0
nouveau: ch2: psh (unmapped) 00000001 0000000000 0000000010
";
const NVK: &[u8] = b"[0x00000000] HDR 20012000 subch 1 NINC
\tmthd 0000 NVC3C0_SET_OBJECT
\t\t.CLASS_ID = (0xc3c0)
\t\t.ENGINE_ID = (0x1)

[0x00000002] HDR 80052100 subch 1 IMMD
\tmthd 0400 NVC3C0_SOMETHING
\t\t.V = (0x5)
[0x00000003] HDR 20020100 subch 0 NINC
\tmthd 0400 NV9097_SOMETHING
\t\t.A = TRUE
";
const STRACE: &[u8] = b"[pid  20] 10:00:00.000100 openat(AT_FDCWD, \"/dev/nvidiactl\", O_RDWR) = 3 <0.000004>
[pid  21] 10:00:00.000500 ioctl(5, _IOC(_IOC_NONE, 0, 0x1, 0x3000), 0x7ffc00001000 <unfinished ...>
[pid  20] 10:00:00.000600 ioctl(3, _IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2a, 0x20), 0x7ffc00001000) = -1 EINVAL (x) <0.00003>
[pid  21] 10:00:00.000700 <... ioctl resumed>) = 0 <0.000200>
[pid  20] 10:00:00.000900 mmap(0x200000000, 8192, PROT_READ, MAP_SHARED|MAP_FIXED, 3, 0x200000000) = 0x200000000
[pid  20] 10:00:00.001100 munmap(0x200000000, 8192) = 0 <0.000002>
[pid  20] 10:00:00.001300 close(3</dev/nvidiactl>) = 0 <0.000002>
";
const GVISOR: &[u8] = b"D0102 03:04:05.000020    77 frontend.go:154] [   5:   6] nvproxy: frontend ioctl: nr = 0x2b, argSize = 0x30
D0102 03:04:05.000030    77 frontend.go:746] [   5:   6] nvproxy: allocation class 0x00000080
I0102 03:04:05.000040    77 strace.go:605] [   5:   6] a X ioctl(0x3 /dev/nvidiactl, 0xc030462b, 0x7f00) = 0 (0x0) (20.5ms)
D0102 03:04:05.000060    77 frontend.go:488] [   5:   6] nvproxy: control command 0x20800110
I0102 03:04:05.000080    77 strace.go:605] [   5:   6] a X mmap(0x0, 0x1000, 0x1, MAP_SHARED, 0x4 /dev/nvidia0, 0x0) = 4096 (0x1000) (2s)
I0102 03:04:05.000090    77 strace.go:605] [   5:   6] a X munmap(0x1000, 0x1000) = 0 (0x0) (2us)
W0102 03:04:05.000093    77 frontend.go:786] [   5:   6] nvproxy: unknown allocation class 0x0000c86f
";
const MMT_TEXT: &[u8] = b"--4711-- sys_open: /dev/nvidia0, flags: 0x2, mode: 0x0, ret: 7
--4711-- create gpu object 0xc1d00001:0xcaf00002 type 0x906f (GPFIFO)
--4711-- gpu map 0x00000001:0x00000002:0xcaf00004, addr 0x100000000, len 0x00010000
--4711-- got new mmap at 0x10000, len: 0x00001000, offset: 0x4000000, serial: 3, fd: 7
--4711-- w 3:0x008c, 0x00000002
--4711-- r 0x10010, 0x1234,0x5678
--4711-- post_ioctl: fd:7, id:0x2b (full:0xc020462b), data: 0xc1d00001
--4711-- changed mmap 0x0:0x0 from: (address: 0x1, len: 0x1), to: (address: 0x2, len: 0x1), offset 0x0, serial 3
--4711-- destroy object 0xc1d00001:0xcaf00002
";

/// Adds the seeds of the importers of logs of kernel drivers: a few lines of each format.
pub fn add_driver_logs(add: Add<'_>) {
    add("gdev", "small", GDEV.to_vec());
    add("nouveau", "small", NOUVEAU.to_vec());
    add("nouveau_pushbuf", "libdrm", PUSH_BUFFER.to_vec());
    add("nouveau_pushbuf", "nvk", NVK.to_vec());
    add("strace", "small", STRACE.to_vec());
    add("gvisor", "small", GVISOR.to_vec());
    add("mmt_text", "small", MMT_TEXT.to_vec());
}

const LISTING: &[u8] = b"\x01FlatView #0\n AS \"memory\", root: system\n Root memory region: system\n  \
    0000000000000000-000000000009ffff (prio 0, ram): pc.ram\n  \
    00000000e0000000-00000000e0003fff (prio 1, i/o): regs\n\n";

/// Adds the seeds of QEMU's answers: a line of every kind, a listing of memory, a name.
pub fn add_qemu(add: Add<'_>) {
    for (file, bytes) in [
        ("done", &b"\0OK"[..]),
        ("value", b"\0OK 0x00000000010000ed"),
        ("refused", b"\0FAIL Unknown command 'x'"),
        ("raised", b"\0IRQ raise 11"),
        ("lowered", b"\0IRQ lower 11"),
        ("listing", LISTING),
        ("name", b"\x02ati-vga,model=rv100"),
    ] {
        add("qemu", file, bytes.to_vec());
    }
}
