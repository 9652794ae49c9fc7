//! A device of QEMU's, without a guest: QEMU is started with the device alone, and driven over its qtest socket.
//!
//! The board's name is `qemu:DEVICE[,PROPERTY=VALUE…]` with what QEMU's `-device` takes: `qemu:ati-vga,model=rv100`.
//! The device is put on the PCI bus of a machine whose processor halts at its first instruction, so that nothing but
//! the board touches it. The machine's clock stands still, but for waits: see [`machine`].

pub mod answer;
mod board;
mod error;
mod lines;
mod machine;
mod models;
mod monitor;
mod name;
mod pci;
mod process;
mod qtest;

pub use board::{QemuBoard, check_installed};
pub use error::QemuError;
pub use models::{QEMU_MODELS, QemuModel};
pub use name::Name;

/// QEMU's program for machines of the PC kind.
pub const PROGRAM: &str = "qemu-system-x86_64";
/// The Debian package that has it.
pub const PACKAGE: &str = "qemu-system-x86";
/// The form of the names of boards in QEMU, for lists.
pub const FORM: &str = "qemu:DEVICE[,PROPERTY=VALUE…]";
