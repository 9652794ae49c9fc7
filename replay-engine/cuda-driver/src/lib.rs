//! Bindings of the CUDA driver API as this project uses it: types, constants, one list of signatures, and the library
//! loaded at run time.
//!
//! No toolkit is needed to build the crate. Without a driver, loading returns an error. The crate also loads NVML,
//! which the driver installs and which reports a device's clocks, and NVRTC, the CUDA C++ compiler that toolkits
//! install.
//!
//! Values that the driver returns are plain integers and not Rust enumerations, because a later driver may return
//! values that are unknown today.

mod functions;
mod library;
mod nvml;
mod nvrtc;
mod results;
mod types;
mod versions;

pub use library::{CudaError, Driver, LIBRARY_VARIABLE, LoadError};
pub use nvml::{Nvml, NvmlDevice, NvmlState};
pub use nvrtc::{COMPILER_VARIABLE, CompileError, CompiledCode, Compiler};
pub use results::{format_result, result_name};
pub use types::*;
pub use versions::{name_and_version, symbol_in_version};
