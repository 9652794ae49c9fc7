//! What NVIDIA's drivers send to a GPU: ioctl arguments, ring entries, push buffers, launches, copies and semaphores.
//!
//! Readers and writers are next to each other. Every reader accepts any bytes; every writer refuses what does not fit. Names of methods, descriptor fields and ioctls are data in
//! `assets/registers/nvidia/`.
#![forbid(unsafe_code)]

mod address;
mod bindings;
mod class_table;
pub mod command;
pub mod constant_bank;
mod field;
pub mod gpfifo;
pub mod header;
pub mod launch;
pub mod memory;
pub mod methods;
pub mod push_buffer;
pub mod qmd;
mod reader;
pub mod rm;
mod table;
pub mod writer;

pub use address::GpuVa;
pub use bindings::{Bindings, FIRST_ENGINE_METHOD, SET_OBJECT};
pub use class_table::{ClassTable, NamedMethod};
pub use field::{Field, FieldValue};
pub use reader::CommandReader;
pub use table::MethodInfo;
pub use writer::{EncodeError, PushBufferWriter};
