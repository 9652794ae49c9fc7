//! Registers of engines: their offsets from the base of the engine, by the names in dumps, and the bases of engines.
//!
//! Facts: the kernel's `xe_engine_regs.h` and the table of engines in `xe_hw_engine.c`.

/// Name and offset from the base of the engine. Kernels write names with and without `RING_`.
const OFFSETS: [(&str, u32); 25] = [
    ("TAIL", 0x30),
    ("HEAD", 0x34),
    ("START", 0x38),
    ("CTL", 0x3c),
    ("ACTHD_UDW", 0x5c),
    ("DMA_FADD_UDW", 0x60),
    ("IPEIR", 0x64),
    ("IPEHR", 0x68),
    ("INSTDONE", 0x6c),
    ("INSTPS", 0x70),
    ("ACTHD", 0x74),
    ("DMA_FADD", 0x78),
    ("HWS_PGA", 0x80),
    ("HWSTAM", 0x98),
    ("MI_MODE", 0x9c),
    ("IMR", 0xa8),
    ("EIR", 0xb0),
    ("EMR", 0xb4),
    ("ESR", 0xb8),
    ("INSTPM", 0xc0),
    ("BBADDR", 0x140),
    ("BBADDR_UDW", 0x168),
    ("EXECLIST_STATUS_LO", 0x234),
    ("EXECLIST_STATUS_HI", 0x238),
    ("MODE", 0x29c),
];

/// Returns the offset of a register from the base of its engine.
pub(in crate::core_dumps) fn offset_of(name: &str) -> Option<u32> {
    let short = name.strip_prefix("RING_").unwrap_or(name);
    OFFSETS.iter().find(|o| o.0 == short).map(|o| o.1)
}

/// Returns the offset of the registers of an engine, `rcs0`, where it is the same on all GPUs of the driver.
pub(in crate::core_dumps) fn base_of(engine: &str) -> Option<u32> {
    let base = match engine {
        "rcs0" => 0x2000,
        "ccs0" => 0x1_a000,
        "ccs1" => 0x1_c000,
        "ccs2" => 0x1_e000,
        "ccs3" => 0x2_6000,
        "bcs0" => 0x2_2000,
        "bcs1" => 0x3e_0000,
        "vcs0" => 0x1c_0000,
        "vcs1" => 0x1c_4000,
        "vcs2" => 0x1d_0000,
        "vcs3" => 0x1d_4000,
        "vecs0" => 0x1c_8000,
        "vecs1" => 0x1d_8000,
        _ => return None,
    };
    Some(base)
}
