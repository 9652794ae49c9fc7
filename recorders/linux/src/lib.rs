//! The recorder for drivers of a Linux machine: it takes a device from its driver, starts one of the kernel's own
//! tracers, binds the driver, runs a command, and makes a recording of what was traced. The machine is then as it was,
//! also when the recorder is killed.
//!
//! | module | what it is |
//! |---|---|
//! | `kernel` | the files of `/proc`, `/sys` and tracefs, modules: all that is touched on the machine |
//! | `device`, `tree` | the device: its name, its place, its windows |
//! | `driver`, `modules` | which driver it gets, and where that comes from |
//! | `busy` | who else uses the device |
//! | `method`, `probes` | what sees the accesses |
//! | `code`, `instructions` | a driver's accesses in its own code, where no function is left to be probed |
//! | `btf` | where the fields of the kernel's structures lie |
//! | `frame`, `fbdev` | the picture that a display shows at the end |
//! | `change`, `journal` | what is changed, written down before it is, and undone |
//! | `guard` | the process that undoes it when the recorder is killed |
//! | `stream` | a trace on its way into a file |
//! | `command` | the command that is run |
//! | `plan` | what would be done, found out before anything is changed |
//! | `session` | one recording from its first change to its last |
//! | `finish` | the log as a recording |
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
pub use device::{Device, DeviceSelector};
pub use error::RecordError;
pub use guard::{Guard, keep_watch};
pub use instructions::{AccessInstruction, LoadAcquireError, find_accesses};
pub use journal::{Job, Journal, RUN_FOLDER, parse_changes};
pub use kernel::{FrameBuffer, Kernel, Machine};
pub use method::{Ability, Method};
pub use plan::{RecordRequest, StopRequest, check};
pub use probes::Accessor;
pub use session::{RecordSummary, record};
