//! A model of NVIDIA's kernel driver interface and of a Hopper GPU, for tests without a device.
//!
//! [`Model`] serves `/dev/nvidiactl`, `/dev/nvidia0`, `/dev/nvidia-uvm` and the texts of `/proc/driver/nvidia` as the kernel
//! does: `open`, `close`, `ioctl` and `mmap`. It has the objects, memory and address spaces of the resource manager
//! (RM), and a device that fetches the entries of a channel, executes their methods and runs kernels as host functions.
//! The package `nvidia-model-preload` serves one model to an unchanged program by `LD_PRELOAD`.
//!
//! # Settings
//!
//! | variable | meaning |
//! |---|---|
//! | `NVIDIA_MODEL_VERSION` | version of the driver, such as `570.211.01`; `580.159.04` by default. A version of another branch than 570, 580 and 595 is only stated: its arguments are those of 580. |
//! | `NVIDIA_MODEL_MEMORY` | bytes of video memory; 80 GiB by default. Memory takes no space before its first use. |
//! | `NVIDIA_MODEL_FAIL` | failures, separated by commas |
//!
//! A failure is one of these. Numbers of classes, commands and requests are hexadecimal.
//!
//! | form | effect |
//! |---|---|
//! | `alloc:CLASS:STATUS` | an allocation of the class is refused with this status, such as `alloc:c86f:0x51` |
//! | `control:COMMAND:STATUS` | a control command is refused, such as `control:a06c0101:0x40` |
//! | `request:NUMBER:STATUS` | an ioctl of RM is refused, such as `request:57:0x51` |
//! | `launch:N:hang` | launch number N (from 1) never ends; `*` means each launch |
//! | `launch:N:mmu` | launch number N ends with an MMU fault at address 0x7f00000000 |
//! | `launch:N:misaligned` | launch number N ends with a misaligned access |
//!
//! The first three end with `@N` if only call number N (from 1) fails.
//!
//! # Kernels
//!
//! The kernels of `kernels/kernels.cu` and `kernels/schedule.ptx` run as host functions. The model finds a kernel by the
//! bytes of its code in the cubins of this folder. Code that begins with a branch to itself ([`ENDLESS_KERNEL`]) never ends. Other code causes
//! an MMU fault at its address.
//!
//! # Limits
//!
//! There is one GPU. A file descriptor that a program duplicates is unknown to the model. A child process after `fork`
//! has no device. Surfaces are linear. Page kinds, compression and caches do not exist.
//!
//! This crate uses a program's pointers like the kernel: see `caller.rs`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod caller;
mod card;
mod device_thread;
mod files;
mod gpu;
mod model;
mod objects;
mod record;
mod rm;
mod settings;
mod shared_memory;
mod status;
mod system;
mod uvm;

/// Folder with a folder for each GPU.
pub const GPU_FOLDER: &str = "/proc/driver/nvidia/gpus";
/// Names of the folders of the GPUs.
pub const GPU_NAMES: [&str; 1] = [card::BUS_LOCATION];

pub use gpu::kernels::ENDLESS_KERNEL;
pub use model::{Model, ModelUsage};
pub use settings::{Settings, SettingsError};
pub use system::Errno;

/// Takes a lock, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
