//! A QEMU device without a guest: QEMU is started with only the device, and controlled over its qtest socket.
//!
//! The target's name is `qemu:DEVICE[,PROPERTY=VALUE…]`, in the syntax of QEMU's `-device`: `qemu:ati-vga,model=rv100`.
//! The device is on the PCI bus of a machine whose processor halts at its first instruction, so only the target
//! accesses it. The machine's clock is stopped except during waits: see [`machine`].

pub mod answer;
mod error;
mod lines;
mod machine;
mod models;
mod monitor;
mod name;
mod pci;
mod process;
mod qtest;
mod replay_device;

pub use error::QemuError;
pub use models::{QEMU_MODELS, QemuModel};
pub use name::Name;
pub use replay_device::{QemuReplayDevice, check_installed};

/// The QEMU program for PC machines.
pub const PROGRAM: &str = "qemu-system-x86_64";
/// The Debian package that contains it.
pub const PACKAGE: &str = "qemu-system-x86";
/// The name form of QEMU targets, for lists.
pub const FORM: &str = "qemu:DEVICE[,PROPERTY=VALUE…]";
