//! Seeds of what hardware reads: page tables, job chains, register maps, steps of the simulator.

use super::recordings::{TABLES, VA, tables};
use super::seed::Add;
use trace_core::families::mali_jm::JobHeader;
use trace_core::recording::MmuFormat;
use trace_core::{GpuVa, mmu};

/// A map with a register of every kind, and a layout.
const MAP: &str = r#"[map]
name = "small"
window = 0x1000
doc = "A map with one of everything."
id_mask = 0xf00f
[[map.gpu]]
id = 0x6000
name = "Small"

[block]
name = "UNIT"
base = 0x100
stride = 0x80
count = 3
provenance = "Made up."

[enum.state]
0 = "idle"
0x1 = "busy"

[[register]]
name = "U{n}_STATE"
offset = 0x00
access = "ro"
doc = "What the unit does."
fields = [
    { name = "state", bits = "3:0", enum = "state" },
    { name = "on", bits = "4", kind = "bool" },
    { name = "count", bits = "15:8", kind = "number" },
]

[[register]]
name = "U{n}_HEAD"
offset = 0x08
wide = true
access = "rw"
replay = true
zero = "none"
doc = "Where the unit works."
fields = [{ name = "address", bits = "63:0", kind = "address" }]

[[layout]]
name = "entry"
bits = 64
provenance = "Made up."
doc = "An entry."
fields = [{ name = "address", bits = "47:12", kind = "address" }, { name = "valid", bits = "0", kind = "bool" }]
"#;

/// A map of a device on a bus, with registers of every width.
const DEVICE: &str = r#"[map]
name = "card"
window = 0x100
space = "bar2"
framebuffer = ["bar0"]
widths = [1, 2, 4, 8]
doc = "A card."
[[map.device]]
vendor = 0x1234
device = 0x5678
name = "Card"
[[map.device]]
compatible = "maker,card"
name = "Card on a board"

[block]
name = "CARD"
base = 0
provenance = "Made up."

[[register]]
name = "PART_{n}"
offset = 1
width = 1
count = 3
stride = 1
access = "ro"
doc = "A byte."

[[register]]
name = "DEPTH"
offset = 6
width = 2
access = "rw"
replay = true
doc = "Bits a pixel."
fields = [{ name = "code", bits = "2:0" }, { name = "on", bits = "8", kind = "bool", say = "on" }]
screen = [
    { what = "depth", field = "code", values = { 2 = 8, 0x6 = 32 } },
    { what = "pitch", add = 1, times = 8 },
]

[[register]]
name = "SOURCE"
offset = 8
width = 8
access = "rw"
replay = true
role = "bus-address"
local = [0x40000, 0x41000]
doc = "Where it reads."
fields = [{ name = "address", bits = "63:0", kind = "address" }]

[[register]]
name = "TARGET"
offset = 0x14
wide = true
access = "wo"
replay = false
reason = "Made up."
role = "bus-address"
doc = "Where it writes."
"#;

/// Arrays of arrays, levels that interleave, a pair in a repeating block, and values with descriptions.
const ARRAYS: &str = r#"[map]
name = "arrays"
window = 0x10000
doc = "Arrays."

[block]
name = "B"
base = 0x100
count = 4
stride = 0x1000
provenance = "Made up."
access = "rw"
replay = false
reason = "Made up."

[[register]]
name = "G{n}_T{n}_R{n}"
offset = 0
count = [8, 3]
stride = [0x80, 0x20]
first = [0, 5]
fields = [{ name = "mode", bits = "1:0", enum = "state", write-enum = "command" }]

[[register]]
name = "G{n}_W{n}"
offset = 0x400
wide = true
count = 4
stride = 8

[[register]]
name = "G{n}_X{n}_{n}"
offset = 0x600
width = 2
count = [2, 3]
stride = [6, 4]

[enum.state]
0 = { name = "idle", doc = "Nothing runs." }
1 = "busy"

[enum.command]
1 = "start"
"#;

/// Names that a user gives to a register and to memory.
const MEMORY: &str = r#"# Found out by hand.
[map]
name = "named"
window = 0x100
doc = "Names."

[block]
name = "NAMED"
base = 0
provenance = "By hand."

[[register]]
name = "STATUS" # polled
offset = 0x40
access = "ro"
doc = "Status."
fields = [{ name = "mode", bits = "1:0", enum = "modes" }]

[enum.modes]
0 = "off"

[[memory]]
name = "ring"
address = 0xffffb005c000
bytes = 0x1000
layout = "entry"

[[layout]]
name = "entry"
bits = 64
doc = "An entry."
provenance = "By hand."
"#;

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    add("register_map", "small", MAP.into());
    add("register_map", "device", DEVICE.into());
    add("register_map", "memory", MEMORY.into());
    add("register_map", "arrays", ARRAYS.into());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/registers");
    for (name, file) in [
        ("job_slot.toml", "mali-jm/job_slot.toml"),
        ("job-header.toml", "mali-jm/job-header.toml"),
        ("draw.toml", "mali-jm/draw.toml"),
        ("dispi.toml", "bochs-display/dispi.toml"),
        ("dma.toml", "edu/dma.toml"),
    ] {
        add(
            "register_map",
            name,
            std::fs::read(folder.join(file)).unwrap_or_default(),
        );
    }
    add("page_tables", "aarch64", page_tables(MmuFormat::Aarch64_4k));
    add("page_tables", "lpae", page_tables(MmuFormat::MaliLpae));
    for embedded in trace_core::page_table_format::embedded_formats() {
        add("page_table_format", embedded.name, embedded.text.into());
    }
    add("job_chain", "every-type", job_chain());
    add("device_mali", "write-value", device_mali());
}

/// Returns the tables of the other seeds, entry by entry.
fn page_tables(format: MmuFormat) -> Vec<u8> {
    let mut out = vec![u8::from(format == MmuFormat::MaliLpae)];
    out.extend(TABLES[0].to_le_bytes());
    out.extend(VA.to_le_bytes());
    for (at, entries) in tables(format) {
        for (index, entry) in entries.iter().enumerate().filter(|(_, e)| **e != mmu::INVALID) {
            out.extend(((at >> 12) as u16 - 1).to_le_bytes());
            out.extend((index as u16).to_le_bytes());
            out.extend(entry.to_le_bytes());
        }
    }
    out
}

/// Returns a job of each type, 256 bytes apart, with payloads full of valid memory addresses.
fn job_chain() -> Vec<u8> {
    let mut memory = vec![0u8; 256];
    let types = 1..=10u8;
    for job_type in types {
        let next = if job_type == 10 {
            0
        } else {
            (u64::from(job_type) + 1) * 256
        };
        memory.extend(header(job_type, next));
        for word in 0..28u64 {
            memory.extend((word * 64).to_le_bytes());
        }
    }
    [256u16.to_le_bytes().to_vec(), memory].concat()
}

fn header(job_type: u8, next: u64) -> [u8; 32] {
    let mut h = JobHeader::read(&[0; 32]);
    h.is_64bit = true;
    h.job_type = job_type;
    h.index = u16::from(job_type);
    h.next = GpuVa::new(next);
    h.encode()
}

/// Returns steps that boot, write a write-value job into memory, submit it and wait.
fn device_mali() -> Vec<u8> {
    let mut out = vec![2];
    let mut step = |op: u8, small: u8, at: u16, value: u64| {
        out.extend([op, small]);
        out.extend(at.to_le_bytes());
        out.extend(value.to_le_bytes());
    };
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|b| u64::from_le_bytes(*b))
            .collect()
    };
    let payload = [0x9000u64, 7, 0x1122_3344_5566_7788];
    for (n, word) in words(&header(2, 0)).iter().chain(&payload).enumerate() {
        step(3, 0, 0x1000 + n as u16, *word);
    }
    for (register, value) in [(0x1840, 0x8000), (0x1844, 0), (0x1850, 0xff), (0x1858, 0), (0x1860, 1)] {
        step(1, 0, register, value);
    }
    step(5, 1, 0, 1_000_000);
    step(0, 0, 0x1824, 0);
    out
}
