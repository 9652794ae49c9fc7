//! Seeds of filters: events of every kind and a filter of each form.

use super::Add;

/// Kind and direction, thread, offset, value.
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

const FILTERS: [(&str, &str); 9] = [
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
];

pub(super) fn add(add: Add<'_>) {
    let mut head = vec![EVENTS.len() as u8];
    for (kind, thread, offset, value) in EVENTS {
        head.extend([kind, thread]);
        head.extend(offset.to_le_bytes());
        head.extend(value.to_le_bytes());
    }
    for (file, text) in FILTERS {
        add("filter", file, [&head, text.as_bytes()].concat());
    }
}
