//! Errors of machines.

use ptx_interpreter::{Fault, ParseError};
use thiserror::Error;
use wasm_gpu::DeviceError;

/// Why a machine cannot run a program: always a defect of the translator or of the machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The interpreter refuses the text.
    #[error("text: {0}")]
    Text(#[from] ParseError),
    /// The kernel faults.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The device fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The area does not hold what it must hold.
    #[error("area: {0}")]
    Area(&'static str),
}
