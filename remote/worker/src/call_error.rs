//! Why a call has no results: the driver's result, or a message that the client cannot have meant.

use cuda_driver::{CuResult, CudaError, NOT_SUPPORTED};
use remote_calls::MessageError;

/// Reason why a call has no results.
#[derive(Debug)]
pub enum CallError {
    /// The driver refused it. The program gets the code.
    Result(CuResult),
    /// The request is invalid. The session ends.
    Message(MessageError),
}

impl From<CudaError> for CallError {
    fn from(error: CudaError) -> Self {
        Self::Result(error.result().unwrap_or(NOT_SUPPORTED))
    }
}

impl From<MessageError> for CallError {
    fn from(error: MessageError) -> Self {
        Self::Message(error)
    }
}

/// Result of a call in the worker.
pub type CallResult<T = ()> = Result<T, CallError>;
