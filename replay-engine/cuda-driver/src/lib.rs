//! The CUDA driver's interface as this project uses it: forms, numbers, one list of signatures, and the library loaded at
//! run time. No toolkit is needed to build it, and where there is no driver, loading says so. Beside it stand what tells a
//! device's clocks (NVML, which the driver brings) and the compiler of CUDA C++ (NVRTC, which toolkits bring).
//!
//! Numbers that the driver gives are plain integers here and no Rust enumerations: a later driver may give one that
//! nobody knows today.

mod functions;
mod library;
mod nvml;
mod nvrtc;
mod results;
mod types;

pub use library::{CudaError, Driver, LIBRARY_VARIABLE, LoadError};
pub use nvml::{Nvml, NvmlDevice, NvmlState};
pub use nvrtc::{COMPILER_VARIABLE, CompileError, CompiledCode, Compiler};
pub use results::result_name;
pub use types::*;
