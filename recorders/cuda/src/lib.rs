//! The recorder of CUDA programs: a library for `LD_PRELOAD` that stands between a program and NVIDIA's driver.
//!
//! Programs, and the copies of NVIDIA's runtime inside them, ask the loader for the driver's functions by name, or the
//! driver itself by `cuGetProcAddress`. Each pointer that they are given and that is one of [`hooks`] is replaced by a
//! function of ours, which calls the driver's and hands over what was done. Which version of a function a program gets
//! stays NVIDIA's choice; what is not known here is forwarded untouched. `docs/recording-cuda.md` tells how a program is
//! started with it.
//!
//! Whatever goes wrong in here ends the recording, says so in the file, and is never the reason why a program fails.
#![allow(
    unsafe_code,
    reason = "functions in the place of a driver's are foreign calls on both sides; why each is sound stands at it"
)]

mod allocations;
mod batches;
mod code;
mod content;
mod contexts;
mod copies;
mod deferred_frees;
mod graphs;
mod hashing;
mod hooks;
mod host_memory;
mod images;
mod kernels;
mod launches;
mod limits;
mod mappings;
mod memory;
mod pinned_access;
mod pointers;
mod pools;
mod process;
mod process_memory;
mod readbacks;
mod recorder;
mod resolve;
mod settings;
mod shared_memory;
mod signals;
mod snapshot;
mod stream_progress;
mod streams;
mod unsupported;
