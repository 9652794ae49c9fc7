//! Seeds of what the Linux recorder reads: a list of changes, files of a machine, types, code.

use super::seed::Add;
use crate::recorder::FILES;

const CHANGES: &str = concat!(
    r#"{"line":"recording","version":1,"boot":"b","job":{"output":"/o.kine","folder":"/f","keep_log":false,"hardware":null,"#,
    r#""board":"","tool":"","when":"","capture":{},"traces":[["/t/trace_pipe","o.txt"]]}}"#,
    "\n",
    r#"{"line":"change","what":{"change":"unbound","bus":"/sys/bus/pci","driver":"igb","device":"0000:00:04.0"}}"#,
    "\n",
    r#"{"line":"change","what":{"change":"probe","list":"/t/kprobe_events","name":"kinescope/ioremap"}}"#,
    "\n",
    r#"{"line":"change","what":{"change":"written","path":"/t/current_tracer","before":"nop"}}"#,
    "\n",
    r#"{"line":"change","what":{"change":"module","name":"radeonfb"}}"#,
    "\n",
    r#"{"line":"change","what":{"change":"command","mark":"7-9"}}"#,
    "\n",
    r#"{"line":"ended","capture":{}}"#,
    "\n",
    r#"{"line":"undone","number":2}"#,
    "\n",
);

fn machine(tree: bool) -> Vec<u8> {
    let cells = |list: &[u32]| list.iter().flat_map(|c| c.to_be_bytes()).collect::<Vec<u8>>();
    let all: Vec<Vec<u8>> = FILES
        .iter()
        .map(|file| {
            let name = file.rsplit('/').next().unwrap_or_default();
            let of_tree = file.contains("device-tree") || file.starts_with('>');
            match name {
                _ if of_tree != tree && file.contains("/devices/") | of_tree => Vec::new(),
                "current_tracer" => b"nop\n".to_vec(),
                "available_tracers" => b"blk mmiotrace nop\n".to_vec(),
                "vendor" => b"0x1002\n".to_vec(),
                "device" => b"0x5159\n".to_vec(),
                "class" => b"0x030000\n".to_vec(),
                "irq" => b"11\n".to_vec(),
                "resource" => b"0x00000000fd000000 0x00000000fdffffff 0x0000000000042208\n".to_vec(),
                "modalias" => b"pci:v00001002d00005159\n".to_vec(),
                "modules.alias" => b"alias pci:v00001002d0000515[0-9]* radeonfb\n".to_vec(),
                "modules.dep" => b"kernel/radeonfb.ko.xz: kernel/fb-ddc.ko.xz\nkernel/fb-ddc.ko.xz:\n".to_vec(),
                "of_node" => b"../../../../firmware/devicetree/base/soc/pl031@9010000".to_vec(),
                "#address-cells" | "#size-cells" => cells(&[1]),
                "ranges" => cells(&[0x1000, 0x900_0000, 0x10_0000]),
                "reg" => cells(&[0x1_1000, 0x1000]),
                "compatible" => b"arm,pl031\0arm,primecell\0".to_vec(),
                "interrupts" => b" 17:  0  GIC-0  34 Level  rtc-pl031\n".to_vec(),
                "modules" => b"fb_ddc 16384 1 - Live 0x0\n".to_vec(),
                _ => Vec::new(),
            }
        })
        .collect();
    let mut bytes = vec![0];
    for file in all {
        bytes.extend((file.len() as u16).to_le_bytes());
        bytes.extend(file);
    }
    bytes
}

/// Returns types in the kernel's own format: a device whose object is at offset 8.
fn types() -> Vec<u8> {
    let strings = b"\0device\0kobj\0";
    let words: [u32; 10] = [0, 1 << 24, 4, 32, 1, 4 << 24 | 1, 16, 8, 1, 64];
    let mut all = vec![1, 0x9f, 0xeb, 1, 0];
    for n in [24, 0, 40, 40, strings.len() as u32].iter().chain(&words) {
        all.extend(n.to_le_bytes());
    }
    all.extend(strings);
    all
}

/// Returns a load with its barrier after it, and a store with its barrier before it.
fn code() -> Vec<u8> {
    let words: [u32; 5] = [0xb940_0000, 0xd503_31bf, 0xd503_32bf, 0x5280_0022, 0xb900_0002];
    let code = words.iter().flat_map(|w| w.to_le_bytes());
    [2].into_iter().chain(code).collect()
}

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    add("record_changes", "list", CHANGES.as_bytes().to_vec());
    for (file, bytes) in [
        ("pci", machine(false)),
        ("platform", machine(true)),
        ("types", types()),
        ("code", code()),
    ] {
        add("record_machine", file, bytes);
    }
}
