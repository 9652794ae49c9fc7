//! Seeds of QEMU's answers: a line of every kind, a listing of memory, a name.

use super::Add;

const LISTING: &[u8] = b"\x01FlatView #0\n AS \"memory\", root: system\n Root memory region: system\n  \
    0000000000000000-000000000009ffff (prio 0, ram): pc.ram\n  \
    00000000e0000000-00000000e0003fff (prio 1, i/o): regs\n\n";

/// Adds the seeds.
pub fn add(add: Add<'_>) {
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
