//! The one function through which a library of this project sends its calls: it is exported by the `libcuda.so.1` of the
//! program, which has the connection.

use cuda_driver::CuResult;
use std::ffi::CStr;

/// Name of the function.
pub const LIBRARY_CALL_FUNCTION: &CStr = c"kinescope_remote_library_call";
/// Result of the function if the library has another table than the driver's stand-in.
pub const OTHER_TABLE: CuResult = 0xffff_0001;

/// Requests that a library sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LibraryRequestKind {
    /// [`OpenLibrary`](super::OpenLibrary).
    Open = 0,
    /// A call of a function. It waits only if the frame says so, or if the driver's stand-in is not sure that it works.
    Call = 1,
    /// A call of a function, which waits and can take as long as the device.
    BlockingCall = 2,
    /// [`ReadGenerated`](super::ReadGenerated).
    ReadGenerated = 3,
}

impl LibraryRequestKind {
    /// Returns the request with a number, or `None` for an unknown number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Open),
            1 => Some(Self::Call),
            2 => Some(Self::BlockingCall),
            3 => Some(Self::ReadGenerated),
            _ => None,
        }
    }
}

/// A request and the memory for its answer. The layout is the same in all versions up to `digest`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LibraryCallFrame {
    /// [`TABLE_DIGEST`](crate::TABLE_DIGEST) of the library.
    pub digest: u64,
    /// Number of a [`LibraryRequestKind`].
    pub request: u32,
    /// Not 0 if the call waits for its answer.
    pub waits: u32,
    /// The stream of the call, as the program passed it. A call on a stream that is captured or gone waits.
    pub stream: u64,
    /// The message.
    pub arguments: *const u8,
    /// Its size, bytes.
    pub argument_bytes: usize,
    /// Memory for the answer.
    pub results: *mut u8,
    /// Its size, bytes.
    pub result_capacity: usize,
    /// Set by the function: size of the answer, bytes; 0 if the call did not wait.
    pub result_bytes: usize,
}
