//! Recorder of NVIDIA's kernel driver: an `LD_PRELOAD` library between libcuda and the kernel.
//!
//! It logs each request to the kernel driver, and each submission before the GPU sees it. [`hooks`] replaces functions
//! of the C library and forwards every call. [`requests`] follows the requests into [`tables`]: mappings and channels.
//! Pages of doorbells are inaccessible; [`trap`] handles the access, and [`submissions`] logs what the doorbell
//! announces. [`channel`] reads rings, and [`descriptor_saver`] saves launch descriptors that no command wrote. [`log`] is
//! the file, [`process`] the lock of the recorder, and [`lifetime`] its start and end.
//!
//! A failure in this library ends the recording, with one line on standard error. It never makes the program fail.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![cfg_attr(
    test,
    allow(dead_code, reason = "tests do not contain the hooks, which use the rest")
)]

mod address;
mod channel;
mod copy_state;
mod descriptor;
mod descriptor_saver;
mod files;
mod guarded_copy;
#[cfg(not(test))]
mod hooks;
mod identity;
mod instruction;
mod launch_memory;
mod lifetime;
mod lock;
mod log;
mod message;
mod method_scanner;
mod next_function;
mod process;
mod recorder;
mod records;
mod requests;
mod settings;
mod signal_stack;
mod signals;
mod submission_writer;
mod submissions;
mod system;
mod tables;
mod trap;
mod trap_pages;
mod visible_memory;

#[cfg(test)]
mod tests;
