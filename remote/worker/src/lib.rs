//! Worker process of CUDA API remoting: it has the device, and plays the driver calls of one program as they come.
//!
//! A request names a call of the table in `remote-calls`. Handles of the program are numbers, which the worker maps to
//! the driver's objects; addresses of the program's memory never reach the driver. A thread takes requests in their
//! order; one whose call can wait for the device leaves the next request to another thread.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod array_copies;
mod call_error;
mod code;
mod confinement;
mod contexts;
mod copies;
mod copy_tickets;
mod device_budget;
mod dispatch;
mod forms;
mod graphs;
mod handles;
mod host_copies;
mod host_function_lane;
mod host_functions;
mod host_memory;
mod jit_options;
mod launches;
mod libraries;
mod library_calls;
mod link_table;
mod links;
mod memory_copies;
mod memory_limit;
mod memory_queries;
mod message;
mod namespaces;
mod parent_watch;
mod printed_output;
mod private_folder;
mod process_end;
mod program_socket;
mod report;
mod serve;
mod served_program;
mod session;
mod staging;
mod texture_objects;
mod textures;
mod worker_process;

pub use confinement::{CONFINEMENT_VARIABLE, Confinement, ConfinementError, confine};
pub use device_budget::DEVICE_MEMORY_VARIABLE;
pub use host_copies::RELAY_VARIABLE;
pub use namespaces::{NAMESPACE_NOTICE_VARIABLE, enter_namespaces};
pub use parent_watch::PARENT_VARIABLE;
pub use private_folder::PrivateFolder;
pub use process_end::wait_for_process_end;
pub use program_socket::{LibraryLink, ProgramSocket, program_environment};
pub use report::{CallCount, WireBytes, WorkerReport};
pub use serve::{ServeOptions, WorkerError, serve, serve_standard_input};
pub use served_program::{ProgramResult, ProgramServer, ServedProgram};
pub use worker_process::{LocalWorkers, WorkerProcess, device_environment};

/// Argument that makes a program a worker process, see [`serve_standard_input`].
pub const SERVE_PROGRAM: &str = "serve-program";

/// Takes a lock, even if a thread panicked while it held the lock.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
