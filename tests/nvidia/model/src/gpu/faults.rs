//! Errors of channels, and the faults that a debugger reads.

use super::address_space::UnmappedAccess;
use nvidia_channel::GpuVa;

/// Robust-channel code of an error, as the notifier has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// Exception of the graphics and compute engine.
    GraphicsException = 13,
    MmuFault = 31,
    /// Damaged entry or push buffer.
    PushBuffer = 32,
    /// Error of a copy engine.
    CopyEngine = 39,
    /// A class that the channel does not have.
    GraphicsClass = 69,
}

/// An access that the MMU refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MmuFault {
    /// Address of the page.
    pub address: GpuVa,
    /// Type of the fault: 0 is a missing page directory entry.
    pub kind: u32,
    /// Access: 0 read, 1 write.
    pub access: u32,
}

/// Error of a warp of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarpError {
    /// Value of the warp's error register.
    pub register: u32,
    /// Address that the warp accessed.
    pub address: GpuVa,
    /// Address of the program.
    pub program: GpuVa,
}

/// Error register of a warp after a misaligned access.
pub const MISALIGNED_ADDRESS: u32 = 0x0500_000f;

/// An error that ends a group of channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelError {
    pub code: ErrorCode,
    pub fault: Option<MmuFault>,
    pub warp: Option<WarpError>,
}

impl ChannelError {
    /// Returns an error without details.
    pub fn new(code: ErrorCode) -> Self {
        Self {
            code,
            fault: None,
            warp: None,
        }
    }

    /// Returns the error of a misaligned access of a kernel.
    pub fn misaligned(address: GpuVa, program: GpuVa) -> Self {
        Self {
            warp: Some(WarpError {
                register: MISALIGNED_ADDRESS,
                address,
                program,
            }),
            ..Self::new(ErrorCode::GraphicsException)
        }
    }
}

impl From<UnmappedAccess> for ChannelError {
    fn from(access: UnmappedAccess) -> Self {
        let fault = MmuFault {
            address: GpuVa(access.address.0 & !0xfff),
            kind: 0,
            access: u32::from(access.write),
        };
        Self {
            fault: Some(fault),
            ..Self::new(ErrorCode::MmuFault)
        }
    }
}
