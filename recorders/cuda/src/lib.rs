//! Recorder of CUDA programs: an `LD_PRELOAD` library between a program and NVIDIA's driver.
//!
//! Programs, and the copies of NVIDIA's runtime inside them, look up the driver's functions by name through the loader,
//! or through the driver's `cuGetProcAddress`. Each returned pointer to one of the [`hooks`] is replaced by a function
//! of this library, which calls the driver's and hands over what was done. NVIDIA still chooses which version of a
//! function a program gets; unknown functions are forwarded untouched. `docs/recording-cuda.md` describes how to start
//! a program with this library.
//!
//! A call goes one way: a hook ([`hooks`]) runs its record ([`calls`]); the record tells the states of the [`recorder`],
//! each with tables of its own; rows and findings go into the [`trace`], which hands them to the session.
//!
//! A failure in this library ends the recording and is written to the file. It never makes the program fail.
#![allow(
    unsafe_code,
    reason = "functions in the place of a driver's are foreign calls on both sides; why each is sound stands at it"
)]

mod annotations;
mod calls;
mod code;
mod content;
mod contexts;
mod device;
mod driver;
mod graphs;
mod handles;
mod hooks;
mod images;
mod interface;
mod kernels;
mod memory;
mod message;
mod pinned_access;
mod process;
mod process_memory;
mod recorder;
mod resolve;
mod settings;
mod shared_memory;
mod signals;
mod snapshots;
mod stream_progress;
mod streams;
mod trace;
