//! Offsets of the registers that the driver uses, with the names of the register map.

macro_rules! offsets {
    ($($name:ident = $offset:literal),* $(,)?) => {
        $(pub(crate) const $name: u32 = $offset;)*
        /// All names and their offsets.
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, u32)] = &[$((stringify!($name), $offset)),*];
    };
}

offsets! {
    GPU_ID = 0x000,
    AS_PRESENT = 0x018,
    JS_PRESENT = 0x01c,
    GPU_IRQ_CLEAR = 0x024,
    GPU_IRQ_MASK = 0x028,
    GPU_IRQ_STATUS = 0x02c,
    GPU_COMMAND = 0x030,
    GPU_STATUS = 0x034,
    LATEST_FLUSH = 0x038,
    SHADER_PRESENT_LO = 0x100,
    SHADER_PRESENT_HI = 0x104,
    TILER_PRESENT_LO = 0x110,
    L2_PRESENT_LO = 0x120,
    SHADER_READY_LO = 0x140,
    TILER_READY_LO = 0x150,
    L2_READY_LO = 0x160,
    SHADER_PWRON_LO = 0x180,
    TILER_PWRON_LO = 0x190,
    SHADER_PWROFF_LO = 0x1c0,
    TILER_PWROFF_LO = 0x1d0,
    L2_PWROFF_LO = 0x1e0,
    SHADER_PWRTRANS_LO = 0x200,
    TILER_PWRTRANS_LO = 0x210,
    L2_PWRTRANS_LO = 0x220,
    COHERENCY_FEATURES = 0x300,
    COHERENCY_ENABLE = 0x304,
    JOB_IRQ_RAWSTAT = 0x1000,
    JOB_IRQ_CLEAR = 0x1004,
    JOB_IRQ_MASK = 0x1008,
    JOB_IRQ_STATUS = 0x100c,
    JOB_IRQ_JS_STATE = 0x1010,
    MMU_IRQ_CLEAR = 0x2004,
    MMU_IRQ_MASK = 0x2008,
    MMU_IRQ_STATUS = 0x200c,
}

/// Returns the first register of a job slot's block.
pub(crate) const fn slot(n: u8) -> u32 {
    0x1800 + 0x80 * n as u32
}

pub(crate) const fn space(n: u8) -> u32 {
    0x2400 + 0x40 * n as u32
}

/// Registers of a job slot, relative to [`slot`].
pub(crate) mod js {
    pub(crate) const HEAD_LO: u32 = 0x00;
    pub(crate) const TAIL_LO: u32 = 0x08;
    pub(crate) const COMMAND: u32 = 0x20;
    pub(crate) const STATUS: u32 = 0x24;
    pub(crate) const HEAD_NEXT_LO: u32 = 0x40;
    pub(crate) const AFFINITY_NEXT_LO: u32 = 0x50;
    pub(crate) const CONFIG_NEXT: u32 = 0x58;
    pub(crate) const COMMAND_NEXT: u32 = 0x60;
    pub(crate) const FLUSH_ID_NEXT: u32 = 0x70;
}

/// Registers of an address space, relative to [`space`].
pub(crate) mod mmu {
    pub(crate) const TRANSTAB_LO: u32 = 0x00;
    pub(crate) const MEMATTR_LO: u32 = 0x08;
    pub(crate) const LOCKADDR_LO: u32 = 0x10;
    pub(crate) const COMMAND: u32 = 0x18;
    pub(crate) const FAULTSTATUS: u32 = 0x1c;
    pub(crate) const FAULTADDRESS_LO: u32 = 0x20;
    pub(crate) const STATUS: u32 = 0x28;
    pub(crate) const TRANSCFG_LO: u32 = 0x30;
}

/// Identity and feature registers that a driver reads first, in this order.
pub(crate) const IDENTITY: &[u32] = &[
    0x000, 0x004, 0x00c, 0x010, 0x014, 0x018, 0x01c, 0x0c0, 0x0c4, 0x0c8, 0x0a0, 0x0a4, 0x0a8, 0x0ac, 0x100, 0x104,
    0x110, 0x114, 0x120, 0x124,
];

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::RegOffset;
    use trace_core::registers::RegisterMap;

    #[test]
    fn the_register_map_knows_every_register_by_the_same_name() {
        let map = RegisterMap::by_name("mali-jm").unwrap();
        for (name, offset) in ALL {
            let register = map
                .at(RegOffset::new(*offset))
                .unwrap_or_else(|| panic!("the register map lacks {name}"));
            assert_eq!(register.name, *name);
        }
        for (register, offset) in [
            ("JS1_HEAD_NEXT_LO", slot(1) + js::HEAD_NEXT_LO),
            ("JS1_AFFINITY_NEXT_LO", slot(1) + js::AFFINITY_NEXT_LO),
            ("JS1_CONFIG_NEXT", slot(1) + js::CONFIG_NEXT),
            ("JS1_COMMAND_NEXT", slot(1) + js::COMMAND_NEXT),
            ("JS1_FLUSH_ID_NEXT", slot(1) + js::FLUSH_ID_NEXT),
            ("JS1_COMMAND", slot(1) + js::COMMAND),
            ("JS1_STATUS", slot(1) + js::STATUS),
            ("AS2_TRANSTAB_LO", space(2) + mmu::TRANSTAB_LO),
            ("AS2_LOCKADDR_LO", space(2) + mmu::LOCKADDR_LO),
            ("AS2_COMMAND", space(2) + mmu::COMMAND),
            ("AS2_STATUS", space(2) + mmu::STATUS),
            ("AS2_TRANSCFG_LO", space(2) + mmu::TRANSCFG_LO),
        ] {
            assert_eq!(map.at(RegOffset::new(offset)).map(|r| r.name.as_str()), Some(register));
        }
    }
}
