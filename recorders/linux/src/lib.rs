//! Recorder of drivers on a Linux machine: it unbinds a device, starts one of the kernel's own tracers, binds the
//! driver, runs a command, and makes a recording of the trace. It then restores the machine, even if the recorder is
//! killed.
//!
//! | module | content |
//! |---|---|
//! | `kernel` | files of `/proc`, `/sys` and tracefs, modules: all access to the machine |
//! | `device`, `device_tree` | the device: its name, its address, its MMIO regions |
//! | `driver`, `modules` | the choice of the driver, and its module |
//! | `busy` | other users of the device |
//! | `method`, `probes` | methods that trace the accesses |
//! | `kernel_code`, `instructions` | a driver's accesses in its own code, if no accessor is left to probe |
//! | `btf` | offsets of fields in the kernel's structures |
//! | `frame`, `fbdev` | the picture of a display at the end |
//! | `change`, `journal` | changes of the machine, written down in advance, and their undo |
//! | `guard` | the process that undoes the changes when the recorder is killed |
//! | `stream` | copy of a trace into a file |
//! | `command` | the command that runs during the trace |
//! | `plan` | checks of what a recording would do, before any change |
//! | `session` | one recording from its first change to its last |
//! | `finish` | import of the log into a recording |
//!
//! Methods: the kernel's mmiotrace (x86), its `rwmmio` events (a kernel built with `CONFIG_TRACE_MMIO_ACCESS`), or
//! probes of a driver's own accessors. No kernel is patched.
#![deny(unsafe_code)]

mod btf;
mod busy;
mod change;
mod command;
mod device;
mod device_tree;
mod driver;
mod error;
#[cfg(test)]
mod fake_kernel;
mod fbdev;
mod finish;
mod frame;
mod guard;
mod instructions;
mod journal;
mod kernel;
mod kernel_code;
mod method;
mod modules;
mod plan;
mod probes;
mod session;
mod stream;

pub use btf::find_member_offset;
pub use change::Change;
pub use command::StopRequest;
pub use device::{Device, DeviceSelector};
pub use error::RecordError;
pub use fbdev::FrameBuffer;
pub use guard::{Guard, keep_watch};
pub use instructions::{AccessInstruction, LoadAcquireError, find_accesses};
pub use journal::{Job, Journal, RUN_FOLDER, parse_changes};
pub use kernel::{Kernel, Machine};
pub use method::{Ability, Method};
pub use plan::{RecordRequest, check};
pub use probes::Accessor;
pub use session::{RecordSummary, record};
