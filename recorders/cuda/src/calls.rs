//! The recorded calls: each function here runs the driver's call and hands over what it did.

pub(crate) mod allocations;
pub(crate) mod code;
pub(crate) mod contexts;
pub(crate) mod copies;
mod feedback;
mod graph_nodes;
pub(crate) mod graphs;
pub(crate) mod host_memory;
pub(crate) mod launch_arguments;
pub(crate) mod launches;
pub(crate) mod mappings;
pub(crate) mod pointers;
pub(crate) mod pools;
mod selected_launches;
pub(crate) mod streams;
pub(crate) mod unsupported;

use cuda_driver::CuResult;

/// The driver's function with the program's arguments. It is called at most once.
pub(crate) type Call<'a> = &'a mut dyn FnMut() -> CuResult;
