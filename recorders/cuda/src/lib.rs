//! Recorder of CUDA programs: an `LD_PRELOAD` library between a program and NVIDIA's driver.
//!
//! Programs, and the copies of NVIDIA's runtime inside them, look up the driver's functions by name through the loader,
//! or through the driver's `cuGetProcAddress`. Each returned pointer to one of the [`hooks`] is replaced by a function
//! of this library, which calls the driver's and hands over what was done. NVIDIA still chooses which version of a
//! function a program gets; unknown functions are forwarded untouched. `docs/recording-cuda.md` describes how to start
//! a program with this library.
//!
//! A failure in this library ends the recording and is written to the file. It never makes the program fail.
#![allow(
    unsafe_code,
    reason = "functions in the place of a driver's are foreign calls on both sides; why each is sound stands at it"
)]

mod allocations;
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
mod snapshot;
mod stream_progress;
mod streams;
mod unsupported;
