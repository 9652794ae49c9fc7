//! Runner of translated WebAssembly programs: many copies on a device, an input after the other for each copy.
//!
//! The scheduler works over the trait [`Device`]. A GPU and the interpreter implement it:
//! [`InterpreterDevice`] interprets the translated text in this process.

mod answer_queue;
mod backend;
mod cache;
mod codec;
mod control;
mod copy_memory;
mod cuda_device;
mod device;
mod interpreter_backend;
mod interpreter_device;
mod protocol;
mod result_budget;
mod result_takers;
mod scheduler;
mod translation;
mod worker;
mod worker_process;

pub use backend::{GpuOptions, GpuRunReport, RUN_WASM, WorkerBackend};
pub use cache::{CacheKey, CachedCode, CodeCache};
pub use cuda_device::CudaDevice;
pub use device::{CompiledProgram, Device, DeviceAddress, DeviceError, QueueId, Rows};
pub use interpreter_backend::InterpreterBackend;
pub use interpreter_device::InterpreterDevice;
pub use protocol::{ProtocolError, WorkerTarget};
pub use scheduler::{MAX_COPIES, RunObserver, RunStatistics, Scheduler};
pub use translation::{
    SystemMemory, TranslatedProgram, TranslationError, TranslationOptions, choose_cell, max_input_bytes, translate,
};
pub use worker::{OpenCpu, serve_request, serve_request_with_cpu};

#[cfg(test)]
mod tests;
