//! Offsets and bits of the registers that the model implements, in the order of the units.

/// Size of the MMIO region, bytes.
pub(crate) const WINDOW: u64 = 0x4000;

/// Registers of the GPU control block, by offset.
pub(crate) mod gpu {
    pub(crate) const GPU_ID: u32 = 0x000;
    pub(crate) const AS_PRESENT: u32 = 0x018;
    pub(crate) const JS_PRESENT: u32 = 0x01c;
    pub(crate) const IRQ_RAWSTAT: u32 = 0x020;
    pub(crate) const IRQ_CLEAR: u32 = 0x024;
    pub(crate) const IRQ_MASK: u32 = 0x028;
    pub(crate) const IRQ_STATUS: u32 = 0x02c;
    pub(crate) const COMMAND: u32 = 0x030;
    pub(crate) const STATUS: u32 = 0x034;
    pub(crate) const LATEST_FLUSH: u32 = 0x038;
    pub(crate) const FAULTSTATUS: u32 = 0x03c;
    pub(crate) const FAULTADDRESS_LO: u32 = 0x040;
    pub(crate) const FAULTADDRESS_HI: u32 = 0x044;
    pub(crate) const CYCLE_COUNT_LO: u32 = 0x090;
    pub(crate) const CYCLE_COUNT_HI: u32 = 0x094;
    pub(crate) const TIMESTAMP_LO: u32 = 0x098;
    pub(crate) const TIMESTAMP_HI: u32 = 0x09c;
    pub(crate) const JS_FEATURES: u32 = 0x0c0;
    pub(crate) const COHERENCY_FEATURES: u32 = 0x300;
    /// Registers that keep the written value and have no effect in this model: the power key and overrides, the L2
    /// configuration, the performance-counter setup, the coherency selection and the unit configurations.
    pub(crate) const KEPT: [u32; 15] = [
        0x048, 0x050, 0x054, 0x058, 0x060, 0x064, 0x068, 0x06c, 0x070, 0x074, 0x07c, 0x304, 0xf00, 0xf04, 0xf08,
    ];
    /// The last of the unit configurations.
    pub(crate) const L2_MMU_CONFIG: u32 = 0xf0c;

    pub(crate) const IRQ_FAULT: u32 = 1 << 0;
    pub(crate) const IRQ_MULTIPLE_FAULTS: u32 = 1 << 7;
    pub(crate) const IRQ_RESET_COMPLETED: u32 = 1 << 8;
    pub(crate) const IRQ_POWER_CHANGED_SINGLE: u32 = 1 << 9;
    pub(crate) const IRQ_POWER_CHANGED_ALL: u32 = 1 << 10;
    pub(crate) const IRQ_SAMPLE_COMPLETED: u32 = 1 << 16;
    pub(crate) const IRQ_CLEAN_COMPLETED: u32 = 1 << 17;
}

/// Registers of the job control block, by offset from its start.
pub(crate) mod job {
    pub(crate) const BASE: u32 = 0x1000;
    pub(crate) const JS_STATE: u32 = 0x010;
    pub(crate) const THROTTLE: u32 = 0x014;
    pub(crate) const SLOT_BASE: u32 = 0x1800;
    pub(crate) const SLOT_STRIDE: u32 = 0x80;
}

/// Registers of the MMU block, by offset from its start.
pub(crate) mod mmu {
    pub(crate) const BASE: u32 = 0x2000;
    pub(crate) const AS_BASE: u32 = 0x2400;
    pub(crate) const AS_STRIDE: u32 = 0x40;
}

/// Exception codes that jobs and address spaces report.
pub(crate) mod exception {
    pub(crate) const DONE: u8 = 0x01;
    pub(crate) const STOPPED: u8 = 0x03;
    pub(crate) const TERMINATED: u8 = 0x04;
    pub(crate) const ACTIVE: u8 = 0x08;
    pub(crate) const CONFIG: u8 = 0x40;
    pub(crate) const POWER: u8 = 0x41;
    pub(crate) const AFFINITY: u8 = 0x44;
    pub(crate) const BUS: u8 = 0x48;
    pub(crate) const INVALID_PC: u8 = 0x50;
    pub(crate) const INVALID_ENC: u8 = 0x51;
    pub(crate) const TYPE_MISMATCH: u8 = 0x52;
    pub(crate) const ALIGN: u8 = 0x56;
    pub(crate) const DATA_INVALID: u8 = 0x58;
    pub(crate) const DELAYED_BUS: u8 = 0x80;
    pub(crate) const TRANSLATION: u8 = 0xc0;
    pub(crate) const PERMISSION: u8 = 0xc8;
    pub(crate) const TRANSTAB_BUS: u8 = 0xd0;
    pub(crate) const ACCESS_FLAG: u8 = 0xd8;
    pub(crate) const ADDRESS_SIZE: u8 = 0xe0;
}
