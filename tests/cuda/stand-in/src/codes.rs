//! Result codes, and which of them make a context unusable.

pub use cuda_driver::{
    ILLEGAL_ADDRESS, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, LAUNCH_TIMEOUT, NOT_FOUND, NOT_INITIALIZED,
    NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, STREAM_CAPTURE_UNSUPPORTED, SUCCESS,
};

use cuda_driver::CuResult;

pub const DEVICE_UNAVAILABLE: CuResult = 46;
pub const INVALID_DEVICE: CuResult = 101;
pub const INVALID_IMAGE: CuResult = 200;
pub const NO_BINARY: CuResult = 209;
pub const INVALID_PTX: CuResult = 218;
pub const FILE_NOT_FOUND: CuResult = 301;
pub const CONTEXT_IS_DESTROYED: CuResult = 709;
pub const ALREADY_REGISTERED: CuResult = 712;
pub const NOT_REGISTERED: CuResult = 713;
pub const MISALIGNED_ADDRESS: CuResult = 716;
pub const LAUNCH_FAILED: CuResult = 719;
pub const TOO_MANY_BLOCKS: CuResult = 720;
pub const NOT_PERMITTED: CuResult = 800;
pub const CAPTURE_INVALIDATED: CuResult = 901;
pub const CAPTURE_UNMATCHED: CuResult = 903;
pub const CAPTURE_UNJOINED: CuResult = 904;
pub const CAPTURE_ISOLATION: CuResult = 905;
pub const CAPTURE_IMPLICIT: CuResult = 906;
pub const CAPTURED_EVENT: CuResult = 907;
pub const GRAPH_UPDATE_FAILURE: CuResult = 910;
pub const INVALID_CLUSTER: CuResult = 912;
pub const UNKNOWN: CuResult = 999;

/// Returns whether a context that met this error returns nothing else from then on.
pub fn is_sticky(code: CuResult) -> bool {
    matches!(
        code,
        DEVICE_UNAVAILABLE | ILLEGAL_ADDRESS | LAUNCH_TIMEOUT | 703 | 710 | 714..=719 | 721 | UNKNOWN
    )
}
