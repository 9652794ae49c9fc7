//! Operations of packets of type 3: their names, and the first register of those that set registers.

/// Operation and name, in ascending order.
const NAMES: [(u32, &str); 79] = [
    (0x10, "NOP"),
    (0x11, "SET_BASE"),
    (0x12, "CLEAR_STATE"),
    (0x13, "INDEX_BUFFER_SIZE"),
    (0x15, "DISPATCH_DIRECT"),
    (0x16, "DISPATCH_INDIRECT"),
    (0x1d, "ATOMIC_GDS"),
    (0x1e, "ATOMIC_MEM"),
    (0x1f, "OCCLUSION_QUERY"),
    (0x20, "SET_PREDICATION"),
    (0x21, "REG_RMW"),
    (0x22, "COND_EXEC"),
    (0x23, "PRED_EXEC"),
    (0x24, "DRAW_INDIRECT"),
    (0x25, "DRAW_INDEX_INDIRECT"),
    (0x26, "INDEX_BASE"),
    (0x27, "DRAW_INDEX_2"),
    (0x28, "CONTEXT_CONTROL"),
    (0x2a, "INDEX_TYPE"),
    (0x2c, "DRAW_INDIRECT_MULTI"),
    (0x2d, "DRAW_INDEX_AUTO"),
    (0x2f, "NUM_INSTANCES"),
    (0x30, "DRAW_INDEX_MULTI_AUTO"),
    (0x33, "INDIRECT_BUFFER_CONST"),
    (0x34, "STRMOUT_BUFFER_UPDATE"),
    (0x35, "DRAW_INDEX_OFFSET_2"),
    (0x36, "DRAW_PREAMBLE"),
    (0x37, "WRITE_DATA"),
    (0x38, "DRAW_INDEX_INDIRECT_MULTI"),
    (0x39, "MEM_SEMAPHORE"),
    (0x3b, "COPY_DW"),
    (0x3c, "WAIT_REG_MEM"),
    (0x3f, "INDIRECT_BUFFER"),
    (0x40, "COPY_DATA"),
    (0x42, "PFP_SYNC_ME"),
    (0x43, "SURFACE_SYNC"),
    (0x45, "COND_WRITE"),
    (0x46, "EVENT_WRITE"),
    (0x47, "EVENT_WRITE_EOP"),
    (0x48, "EVENT_WRITE_EOS"),
    (0x49, "RELEASE_MEM"),
    (0x4a, "PREAMBLE_CNTL"),
    (0x50, "DMA_DATA"),
    (0x51, "CONTEXT_REG_RMW"),
    (0x58, "ACQUIRE_MEM"),
    (0x59, "REWIND"),
    (0x5e, "LOAD_UCONFIG_REG"),
    (0x5f, "LOAD_SH_REG"),
    (0x60, "LOAD_CONFIG_REG"),
    (0x61, "LOAD_CONTEXT_REG"),
    (0x68, "SET_CONFIG_REG"),
    (0x69, "SET_CONTEXT_REG"),
    (0x73, "SET_CONTEXT_REG_INDIRECT"),
    (0x76, "SET_SH_REG"),
    (0x77, "SET_SH_REG_OFFSET"),
    (0x78, "SET_QUEUE_REG"),
    (0x79, "SET_UCONFIG_REG"),
    (0x7a, "SET_UCONFIG_REG_INDEX"),
    (0x7d, "SCRATCH_RAM_WRITE"),
    (0x7e, "SCRATCH_RAM_READ"),
    (0x80, "LOAD_CONST_RAM"),
    (0x81, "WRITE_CONST_RAM"),
    (0x83, "DUMP_CONST_RAM"),
    (0x84, "INCREMENT_CE_COUNTER"),
    (0x85, "INCREMENT_DE_COUNTER"),
    (0x86, "WAIT_ON_CE_COUNTER"),
    (0x88, "WAIT_ON_DE_COUNTER_DIFF"),
    (0x8b, "SWITCH_BUFFER"),
    (0x90, "FRAME_CONTROL"),
    (0x98, "INVALIDATE_TLBS"),
    (0x9b, "SET_SH_REG_INDEX"),
    (0xa0, "SET_RESOURCES"),
    (0xa1, "MAP_PROCESS"),
    (0xa2, "MAP_QUEUES"),
    (0xa3, "UNMAP_QUEUES"),
    (0xa4, "QUERY_STATUS"),
    (0xa5, "RUN_LIST"),
    (0xb8, "SET_CONTEXT_REG_PAIRS"),
    (0xba, "SET_SH_REG_PAIRS"),
];

/// Returns the name of an operation, if it is known.
pub(super) fn packet_name(code: u32) -> Option<&'static str> {
    let at = NAMES.binary_search_by_key(&code, |n| n.0).ok()?;
    NAMES.get(at).map(|n| n.1)
}

/// Returns the number of the register that a packet counts from, if it sets consecutive registers.
pub(super) fn register_base(code: u32) -> Option<u64> {
    match code {
        0x68 => Some(0x2000),
        0x69 => Some(0xa000),
        0x76 | 0x9b => Some(0x2c00),
        0x79 | 0x7a => Some(0xc000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_in_order() {
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(packet_name(0x3f), Some("INDIRECT_BUFFER"));
        assert_eq!(packet_name(0xff), None);
    }
}
