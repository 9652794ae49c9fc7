//! Byte addresses of the methods that this crate reads and writes, with the names of NVIDIA's headers.
#![allow(missing_docs, reason = "the headers' names are all there is to say")]

/// Methods of the channel itself.
pub mod host {
    pub const SEM_ADDR_LO: u16 = 0x5c;
    pub const SEM_ADDR_HI: u16 = 0x60;
    pub const SEM_PAYLOAD_LO: u16 = 0x64;
    pub const SEM_PAYLOAD_HI: u16 = 0x68;
    pub const SEM_EXECUTE: u16 = 0x6c;
    pub const WFI: u16 = 0x78;
}

/// Methods of the upload unit, which compute and graphics engines have.
pub mod upload {
    pub const LINE_LENGTH_IN: u16 = 0x180;
    pub const LINE_COUNT: u16 = 0x184;
    pub const OFFSET_OUT_UPPER: u16 = 0x188;
    pub const OFFSET_OUT: u16 = 0x18c;
    pub const PITCH_OUT: u16 = 0x190;
    pub const LAUNCH_DMA: u16 = 0x1b0;
    pub const LOAD_INLINE_DATA: u16 = 0x1b4;
    pub const SET_I2M_SEMAPHORE_A: u16 = 0x1dc;
    pub const SET_I2M_SEMAPHORE_B: u16 = 0x1e0;
    pub const SET_I2M_SEMAPHORE_C: u16 = 0x1e4;
}

/// Methods of a compute engine.
pub mod compute {
    pub const LOAD_MME_INSTRUCTION_RAM: u16 = 0x118;
    pub const WAIT_FOR_IDLE: u16 = 0x110;
    pub const REPORT_PAYLOAD_LOWER: u16 = 0x158;
    pub const REPORT_PAYLOAD_UPPER: u16 = 0x15c;
    pub const REPORT_ADDRESS_LOWER: u16 = 0x160;
    pub const REPORT_ADDRESS_UPPER: u16 = 0x164;
    pub const REPORT_SEMAPHORE_EXECUTE: u16 = 0x168;
    pub const INVALIDATE_SHADER_CACHES: u16 = 0x21c;
    pub const SET_QMD_VERSION: u16 = 0x288;
    pub const SET_SHADER_SHARED_MEMORY_WINDOW_A: u16 = 0x2a0;
    pub const SEND_PCAS_A: u16 = 0x2b4;
    pub const SEND_SIGNALING_PCAS_B: u16 = 0x2bc;
    pub const SEND_SIGNALING_PCAS2_B: u16 = 0x2c0;
    pub const SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A: u16 = 0x2e4;
    pub const SET_SPA_VERSION: u16 = 0x310;
    pub const SET_INLINE_QMD_ADDRESS_A: u16 = 0x318;
    pub const SET_INLINE_QMD_ADDRESS_B: u16 = 0x31c;
    pub const LOAD_INLINE_QMD_DATA: u16 = 0x320;
    pub const SET_SHADER_LOCAL_MEMORY_A: u16 = 0x790;
    pub const SET_SHADER_LOCAL_MEMORY_WINDOW_A: u16 = 0x7b0;
    pub const SET_SHADER_EXCEPTIONS: u16 = 0x1528;
    pub const INVALIDATE_SHADER_CACHES_NO_WFI: u16 = 0x1698;
    pub const SET_REPORT_SEMAPHORE_A: u16 = 0x1b00;
    pub const SET_REPORT_SEMAPHORE_B: u16 = 0x1b04;
    pub const SET_REPORT_SEMAPHORE_C: u16 = 0x1b08;
    pub const SET_REPORT_SEMAPHORE_D: u16 = 0x1b0c;

    /// Bit of `SET_INLINE_QMD_ADDRESS_A` that announces a descriptor of 384 bytes, since Hopper.
    pub const INLINE_384: u32 = 1 << 30;
}

/// Methods of a copy engine.
pub mod copy {
    pub const SET_SEMAPHORE_A: u16 = 0x240;
    pub const SET_SEMAPHORE_B: u16 = 0x244;
    pub const SET_SEMAPHORE_PAYLOAD: u16 = 0x248;
    pub const SET_SEMAPHORE_PAYLOAD_UPPER: u16 = 0x24c;
    pub const LAUNCH_DMA: u16 = 0x300;
    pub const OFFSET_IN_UPPER: u16 = 0x400;
    pub const OFFSET_IN_LOWER: u16 = 0x404;
    pub const OFFSET_OUT_UPPER: u16 = 0x408;
    pub const OFFSET_OUT_LOWER: u16 = 0x40c;
    pub const PITCH_IN: u16 = 0x410;
    pub const PITCH_OUT: u16 = 0x414;
    pub const LINE_LENGTH_IN: u16 = 0x418;
    pub const LINE_COUNT: u16 = 0x41c;
    pub const SET_REMAP_CONST_A: u16 = 0x700;
    pub const SET_REMAP_CONST_B: u16 = 0x704;
    pub const SET_REMAP_COMPONENTS: u16 = 0x708;
}
