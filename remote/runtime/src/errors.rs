//! Error codes of the runtime. A code of the driver has the same number in the runtime.

/// Error code of the runtime; 0 is success.
pub type ErrorCode = u32;

/// `cudaSuccess`.
pub const SUCCESS: ErrorCode = 0;
/// `cudaErrorInvalidValue`.
pub const INVALID_VALUE: ErrorCode = 1;
/// `cudaErrorInvalidConfiguration`: the grid or the block of a launch is not possible.
pub const INVALID_CONFIGURATION: ErrorCode = 9;
/// `cudaErrorInvalidPitchValue`.
pub const INVALID_PITCH: ErrorCode = 12;
/// `cudaErrorInvalidSymbol`: the address is no variable of device code.
pub const INVALID_SYMBOL: ErrorCode = 13;
/// `cudaErrorInvalidChannelDescriptor`.
pub const INVALID_CHANNEL_DESCRIPTOR: ErrorCode = 20;
/// `cudaErrorInvalidMemcpyDirection`.
pub const INVALID_COPY_DIRECTION: ErrorCode = 21;
/// `cudaErrorInsufficientDriver`: there is no driver.
pub const INSUFFICIENT_DRIVER: ErrorCode = 35;
/// `cudaErrorCallRequiresNewerDriver`: the driver lacks a function.
pub const CALL_REQUIRES_NEWER_DRIVER: ErrorCode = 36;
/// `cudaErrorMissingConfiguration`: no launch configuration was pushed.
pub const MISSING_CONFIGURATION: ErrorCode = 52;
/// `cudaErrorInvalidDeviceFunction`: the address is no kernel.
pub const INVALID_DEVICE_FUNCTION: ErrorCode = 98;
/// `cudaErrorNoDevice`.
pub const NO_DEVICE: ErrorCode = 100;
/// `cudaErrorInvalidDevice`.
pub const INVALID_DEVICE: ErrorCode = 101;
/// `cudaErrorInvalidKernelImage`.
pub const INVALID_KERNEL_IMAGE: ErrorCode = 200;
/// `cudaErrorPeerAccessUnsupported`.
pub const PEER_ACCESS_UNSUPPORTED: ErrorCode = 217;
/// `cudaErrorInvalidResourceHandle`.
pub const INVALID_RESOURCE_HANDLE: ErrorCode = 400;
/// `cudaErrorSymbolNotFound`.
pub const SYMBOL_NOT_FOUND: ErrorCode = 500;
/// `cudaErrorNotSupported`.
pub const NOT_SUPPORTED: ErrorCode = 801;

/// Returns whether a context that met this error returns nothing else from then on.
#[must_use]
pub const fn is_sticky(code: ErrorCode) -> bool {
    matches!(code, 46 | 700 | 702 | 703 | 710 | 714..=719 | 721 | 999)
}
