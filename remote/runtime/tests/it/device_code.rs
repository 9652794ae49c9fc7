//! Device code that a test registers as a compiled program does: PTX texts with host addresses of their kernels and
//! variables.

use crate::runtime_library::{BinaryHandle, RuntimeLibrary};
use kinescope_remote_cudart::launch_configuration::Dim3;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null;

/// A PTX text, with what programs name in it.
pub struct DeviceText {
    /// The text, which ends in a zero.
    pub text: &'static str,
    kernels: &'static [&'static CStr],
    variables: &'static [(&'static CStr, usize)],
}

/// One kernel that adds vectors.
pub const VECTOR_ADD: DeviceText = DeviceText {
    text: concat!(include_str!("../../../../tests/cuda/clients/ptx/vector_add.ptx"), "\0"),
    kernels: &[c"vector_add"],
    variables: &[],
};

/// Kernels that use variables.
pub const GLOBALS: DeviceText = DeviceText {
    text: concat!(include_str!("../../../../tests/cuda/clients/ptx/globals.ptx"), "\0"),
    kernels: &[c"weigh_globals", c"count_up"],
    variables: &[(c"weights", 16), (c"counter", 4)],
};

/// The structure that compiled programs register.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const c_char,
    more: *const c_void,
}

/// Registered device code.
pub struct DeviceCode {
    library: RuntimeLibrary,
    binary: BinaryHandle,
    /// Bytes whose addresses are the host addresses of kernels and variables. They stay, since addresses are unique.
    functions: &'static [u8],
    variables: &'static [u8],
}

impl DeviceCode {
    /// Registers a text.
    pub fn register(library: RuntimeLibrary, text: &DeviceText) -> Self {
        let wrapper = Box::leak(Box::new(Wrapper {
            magic: 0x4662_43b1,
            version: 1,
            data: text.text.as_ptr().cast(),
            more: null(),
        }));
        let code = Self {
            library,
            binary: library.__cudaRegisterFatBinary((&raw const *wrapper).cast()),
            functions: vec![0; text.kernels.len()].leak(),
            variables: vec![0; text.variables.len()].leak(),
        };
        for (index, name) in text.kernels.iter().enumerate() {
            let (function, name) = (code.function(index), name.as_ptr());
            let none = null();
            library.__cudaRegisterFunction(code.binary, function, name, name, -1, none, none, none, none, none);
        }
        for (index, (name, bytes)) in text.variables.iter().enumerate() {
            let (variable, name) = (code.variable(index), name.as_ptr());
            library.__cudaRegisterVar(code.binary, variable, name, name, 0, *bytes, 0, 0);
        }
        library.__cudaRegisterFatBinaryEnd(code.binary);
        code
    }

    /// Returns the host address of a kernel.
    pub fn function(&self, index: usize) -> *const c_void {
        (&raw const self.functions[index]).cast()
    }

    /// Returns the host address of a variable.
    pub fn variable(&self, index: usize) -> *const c_void {
        (&raw const self.variables[index]).cast()
    }

    /// Removes the registration.
    pub fn unregister(&self) {
        self.library.__cudaUnregisterFatBinary(self.binary);
    }
}

/// Returns a size in the first dimension.
pub const fn dim(x: u32) -> Dim3 {
    Dim3 { x, y: 1, z: 1 }
}

/// Returns an address as the functions take it: host and device addresses are numbers of one kind.
pub fn address<T>(at: *const T) -> u64 {
    at.expose_provenance() as u64
}
